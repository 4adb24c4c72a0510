package command

import (
	"strings"
	"testing"

	"cfq/onnxio/graph"
)

func TestRefused(t *testing.T) {
	w := newWorkdir(t)
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
	w.model("forest.onnx", forest)
	data, task := loans("test.csv"), loans("task.yaml")
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
		out := w.call(c.code, c.args...)
		told := 0
		for line := range strings.Lines(out) {
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
	w := newWorkdir(t)
	for name, c := range map[string]struct {
		training bool
		want     []string
	}{
		"linear.onnx":  {false, []string{"of which 20 weights take 80", "cfq: hint: serve the float file"}},
		"dropout.onnx": {true, []string{"; export the network for inference", "cfq: hint: export what the message says"}},
	} {
		b := graph.NewBuilder(&graph.Graph{Name: "g"}, "")
		b.G.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 20}}}}
		weights := make([]float32, 20)
		for i := range weights {
			weights[i] = 0.1 * float32(i%5) * float32(1-i%2*2)
		}
		v := "x"
		if c.training {
			yes := b.Const(graph.FromFloats("yes", []float32{1}))
			v = b.Op("Dropout", []string{v, "", b.Op("Cast", []string{yes}, graph.IntAttr("to", int64(graph.Bool)))})
		}
		z := b.Op("Gemm", []string{v, b.Const(graph.FromFloats("w", weights, 20, 1))})
		b.G.Outputs = []graph.Value{{Name: z, DType: graph.Float}}
		w.model(name, &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: b.G})
		out := w.call(2, "quantize", name, "-d", loans("test.csv"), "-t", loans("task.yaml"), "-o", "q.onnx")
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
}
