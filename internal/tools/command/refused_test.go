package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// TestRefused: a model of a kind that cannot be quantized is named by every command that is handed one, in one line,
// with what to export instead.
func TestRefused(t *testing.T) {
	orttest.Need(t)
	loans, dir := filepath.Join(abs(t), "testdata", "loans"), t.TempDir()
	rows := graph.Shape{{Size: -1, Param: "N"}, {Size: 14}}
	forest := &graph.Model{
		IRVersion: 8, Opsets: []graph.Opset{{Version: 17}, {Domain: "ai.onnx.ml", Version: 1}},
		Graph: &graph.Graph{
			Name: "forest", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows}},
			Outputs: []graph.Value{{Name: "p", DType: graph.Float}},
			Nodes: []*graph.Node{{
				Op: "TreeEnsembleClassifier", Domain: "ai.onnx.ml", Name: "trees", Inputs: []string{"x"},
				Outputs: []string{"", "p"},
			}},
		},
	}
	onnx, err := codec.Marshal(forest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "forest.onnx"), onnx, 0o600); err != nil {
		t.Fatal(err)
	}
	data, task := filepath.Join(loans, "test.csv"), filepath.Join(loans, "task.yaml")
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"inspect", "forest.onnx"}},
		{2, []string{"task", "init", "-d", data, "forest.onnx", "-o", "t.yaml"}},
		{2, []string{"task", "check", task, "-d", data, "forest.onnx"}},
		{2, []string{"quantize", "forest.onnx", "-d", data, "-t", task, "-o", "q.onnx"}},
		{2, []string{"recourse", "forest.onnx", "-d", data, "-t", task}},
	} {
		run := exec.Command(filepath.Join(program, "cfq"), c.args...)
		run.Dir = dir
		out, _ := run.CombinedOutput()
		if code := run.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.args, code, c.code, out)
		}
		told := 0
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, `it is an ensemble of decision trees (TreeEnsembleClassifier node "trees"), which this `+
				"method cannot quantize: ") && strings.Contains(line, "; instead, train a network") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%s: told %d times\n%s", c.args, told, out)
		}
	}
}

// TestNothingToSave: of a logistic regression, quantize says that its few weights are no reason for another file; of
// one behind a dropout layer that still trains, what to export instead.
func TestNothingToSave(t *testing.T) {
	orttest.Need(t)
	loans, dir := filepath.Join(abs(t), "testdata", "loans"), t.TempDir()
	for name, c := range map[string]struct {
		training bool
		want     []string
	}{
		"linear.onnx":  {false, []string{"of which 20 weights take 80", "cfq: hint: serve the float file"}},
		"dropout.onnx": {true, []string{"; export the network for inference", "cfq: hint: export what the message says"}},
	} {
		b := graph.NewBuilder(&graph.Graph{Name: "g"}, "")
		b.G.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 20}}}}
		w := make([]float32, 20)
		for i := range w {
			w[i] = 0.1 * float32(i%5) * float32(1-i%2*2)
		}
		x := "x"
		if c.training {
			yes := b.Const(graph.FromFloats("yes", []float32{1}))
			x = b.Op("Dropout", []string{x, "", b.Op("Cast", []string{yes}, graph.IntAttr("to", int64(graph.Bool)))})
		}
		z := b.Op("Gemm", []string{x, b.Const(graph.FromFloats("w", w, 20, 1))})
		b.G.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
		onnx, err := codec.Marshal(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: b.G})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), onnx, 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.Command(filepath.Join(program, "cfq"), "quantize", name, "-d", filepath.Join(loans, "test.csv"),
			"-t", filepath.Join(loans, "task.yaml"), "-o", "q.onnx")
		run.Dir = dir
		out, _ := run.CombinedOutput()
		for _, want := range c.want {
			if !strings.Contains(string(out), want) || run.ProcessState.ExitCode() != 2 {
				t.Errorf("exit code %d, no %q in\n%s", run.ProcessState.ExitCode(), want, out)
			}
		}
	}
}
