package command

import (
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func otherHeads() map[string]func(b *graph.Builder, z string) string {
	number := func(b *graph.Builder, v ...float32) string {
		return b.Const(graph.FromFloats("k", v, int64(len(v)), 1))
	}
	column := func(b *graph.Builder, z string, k int64) string {
		return b.Op("Gather", []string{z, b.Const(graph.FromInts("i", []int64{k}, 1))}, graph.IntAttr("axis", 1))
	}
	single := func(b *graph.Builder, z string) string {
		return b.Op("Sub", []string{column(b, z, 1), column(b, z, 0)})
	}
	half := func(b *graph.Builder, z string) string {
		t := b.Op("Tanh", []string{b.Op("Mul", []string{single(b, z), number(b, .5)})})
		return b.Op("Add", []string{b.Op("Mul", []string{t, number(b, .5)}), number(b, .5)})
	}
	return map[string]func(b *graph.Builder, z string) string{
		"pair": func(b *graph.Builder, z string) string {
			p := b.Op("Sigmoid", []string{single(b, z)})
			return b.Op("Concat", []string{b.Op("Sub", []string{number(b, 1), p}), p}, graph.IntAttr("axis", 1))
		},
		"tanh": half,
		"softmax": func(b *graph.Builder, z string) string {
			e := b.Op("Exp", []string{z})
			axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
			return b.Op("Div", []string{e, b.Op("ReduceSum", []string{e, axes})})
		},
		"exp": func(b *graph.Builder, z string) string { return b.Op("Exp", []string{single(b, z)}) },
	}
}

// TestHeads: the commands give a model with another head the same people, the same recourse and the same quantized
// weights, and refuse a head that they do not know.
func TestHeads(t *testing.T) {
	w := newWorkdir(t)
	call, test, task := w.call, "test.csv", loans("task.yaml")
	w.put(test, firstLoans(t, test, 60))
	w.put("train.csv", firstLoans(t, "train.csv", 60))
	counts := func(model, quantized string) (vd, rvd eval.Rate) {
		t.Helper()
		var report struct {
			Result struct {
				Margins []struct{ VD, RVD eval.Rate } `json:"margins"`
			} `json:"result"`
		}
		w.result(&report, "eval", model, quantized, "-d", test, "-t", task, "--other-original", "--margins",
			"0", "--noise", "0")
		return report.Result.Margins[0].VD, report.Result.Margins[0].RVD
	}
	original := loans("model.onnx")
	quantize := func(model, out string) {
		t.Helper()
		call(0, "quantize", model, "-d", "train.csv", "-t", task, "--budget", "3", "--set", "refine.rounds=0",
			"--set", "allocate.cost=bits", "--force", "-o", out) // a head has bytes of its own
	}
	quantize(original, "q.onnx")
	recourse := func(model string) string {
		t.Helper()
		out, _, _ := strings.Cut(call(0, "recourse", model, "-d", test, "-t", task), "time")
		return out
	}
	found := recourse(original)
	vd, rvd := counts(original, "q.onnx")
	if vd.Num == 0 {
		t.Fatal("no promise breaks: nothing can be compared")
	}
	for name, build := range otherHeads() {
		if (name == "tanh" || name == "softmax") && !long() {
			continue
		}
		g := must.Get(codec.ReadFile(original))(t)
		b := graph.NewBuilder(g.Graph, "head.")
		g.Graph.Outputs = []graph.Value{{Name: build(b, g.Graph.Outputs[0].Name), DType: graph.Float}}
		file := name + ".onnx"
		w.model(file, g)
		shown := call(0, "inspect", file)
		if name == "exp" {
			for _, args := range [][]string{
				{"recourse", file}, {"eval", file, file}, {"quantize", file, "-o", "x.onnx"},
			} {
				out := call(2, append(args, "-d", test, "-t", task)...)
				must.Has(must.In(t, args[0]), out, "target: {output: probabilities, threshold: 0.5}")
			}
			continue
		}
		must.Has(must.In(t, name), shown, "holds probabilities")
		quantize(file, name+".q.onnx")
		must.Has(t, call(0, "inspect", name+".q.onnx"), "holds probabilities")
		for _, pair := range [][2]string{{file, "q.onnx"}, {original, name + ".q.onnx"}} {
			a, b := counts(pair[0], pair[1])
			if a.Num != vd.Num || a.Den != vd.Den || b.Num != rvd.Num || b.Den != rvd.Den {
				t.Errorf("%s: %v has VD %+v and RVD %+v, the logits have %+v and %+v", name, pair, a, b, vd, rvd)
			}
		}
		must.Same(must.In(t, name), found, recourse(file))
		said := call(2, "gate", original, name+".q.onnx", "-d", test, "-t", task, "--max-vd", "0.9", "--other-original")
		must.Has(t, said, "it answers with probabilities")
	}
}

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
	w := newWorkdir(t, "CFQ_SET=refine.rounds=0")
	w.put("test.csv", firstLoans(t, "test.csv", 60))
	for name, c := range map[string]struct {
		training bool
		want     []string
	}{
		"linear.onnx":  {false, []string{"the original with its 20 weights has", "cfq: hint: serve the float file"}},
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
		out := w.call(2, "quantize", name, "-d", "test.csv", "-t", loans("task.yaml"), "-o", "q.onnx")
		for _, want := range c.want {
			must.Has(t, out, want)
		}
	}
}
