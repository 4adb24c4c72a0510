package command

import (
	"os"
	"slices"
	"sync"
	"testing"

	"cfq/internal/must"
)

var written struct { //nolint:gochecknoglobals // the reports take as long as many tests
	sync.Once
	files map[string]string
}

// reports quantizes the loan example well and badly, and has every report written, with all that they can hold. It
// returns a folder with them: eval.json, gate.json, compare.json and the same as .html.
func reports(t *testing.T) *workdir {
	t.Helper()
	w := newWorkdir(t)
	written.Do(func() {
		w.writeReports()
		written.files = map[string]string{}
		for _, f := range must.Get(os.ReadDir(w.dir))(t) {
			written.files[f.Name()] = w.read(f.Name())
		}
	})
	for name, text := range written.files {
		w.put(name, []byte(text))
	}
	return w
}

func (w *workdir) writeReports() {
	for _, f := range []string{"model.onnx", "train.csv", "test.csv", "task.yaml"} {
		w.put(f, must.Get(os.ReadFile(loans(f)))(w))
	}
	w.call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "good.onnx", "-q")
	w.call(0, "quantize", "model.onnx", "-d", "train.csv", "-t", "task.yaml", "-o", "bad.onnx", "-q", "--method", "ptq")
	people := []string{"-d", "test.csv", "-t", "task.yaml", "-q", "--margins", "0.1", "--sample", "150"}
	w.call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people, []string{
		"--by", "sex", "--stress", "tightness", "--certify", "0.01", "--latency",
		"--records", "eval.parquet", "--report", "json:eval.json", "--report", "html:eval.html",
	})...)
	w.call(0, slices.Concat([]string{"eval", "model.onnx", "bad.onnx"}, people, []string{"--records", "eval.csv"})...)
	w.call(1, "gate", "model.onnx", "bad.onnx", "-d", "test.csv", "-t", "task.yaml", "-q", "--max-vd", "0.02",
		"--check", "vd[sex]<=0.05", "--report", "json:gate.json", "--report", "html:gate.html")
	w.call(0, slices.Concat([]string{"compare", "model.onnx", "bad=bad.onnx", "good=good.onnx"}, people, []string{
		"--report", "json:compare.json", "--report", "html:compare.html",
	})...)
}
