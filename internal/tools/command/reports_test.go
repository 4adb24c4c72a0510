package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"cfq/onnxio/ort/orttest"
)

// reports quantizes the loan example well and badly, and has every report written, with all that they can hold. It
// returns
// their directory: eval.json, gate.json, compare.json and the same as .html.
func reports(t *testing.T) string {
	t.Helper()
	orttest.Need(t)
	dir := t.TempDir()
	loans := filepath.Join(abs(t), "testdata", "loans")
	call := func(code int, args ...string) {
		t.Helper()
		c := exec.Command(filepath.Join(program, "cfq"), args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != code {
			t.Fatalf("%s: %v, want exit code %d\n%s", c, err, code, out)
		}
	}
	for _, f := range []string{"model.onnx", "train.csv", "test.csv", "task.yaml"} {
		data, err := os.ReadFile(filepath.Join(loans, f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "good.onnx", "-q")
	call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "bad.onnx", "-q", "--method", "ptq")
	people := []string{"-d", "test.csv", "-t", "task.yaml", "-q", "--margins", "0.1"}
	call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people, []string{
		"--by", "sex", "--stress", "tightness", "--certify", "0.01", "--latency",
		"--records", "eval.parquet", "--report", "json:eval.json", "--report", "html:eval.html",
	})...)
	call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people, []string{"--records", "eval.csv"})...)
	call(1, "gate", "model.onnx", "bad.onnx", "-d", "test.csv", "-t", "task.yaml", "-q", "--max-vd", "0.02",
		"--check", "vd[sex]<=0.05", "--report", "json:gate.json", "--report", "html:gate.html")
	call(0, slices.Concat([]string{"compare", "model.onnx", "bad=bad.onnx", "good=good.onnx"}, people, []string{
		"--report", "json:compare.json", "--report", "html:compare.html",
	})...)
	return dir
}
