package command

import (
	"encoding/json"
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
	w := newWorkdir(t, "CFQ_SET=refine.rounds=0")
	call, test, task := w.call, loans("test.csv"), loans("task.yaml")
	first := make([]int, 60)
	for i := range first {
		first[i] = i
	}
	w.put("rows.json", must.Get(json.Marshal(first))(t))
	counts := func(model, quantized string) (vd, rvd eval.Rate) {
		t.Helper()
		var report struct {
			Result struct {
				Margins []struct{ VD, RVD eval.Rate } `json:"margins"`
			} `json:"result"`
		}
		w.result(&report, "eval", model, quantized, "-d", test, "-t", task, "--rows", "rows.json", "--other-original")
		return report.Result.Margins[0].VD, report.Result.Margins[0].RVD
	}
	original := loans("model.onnx")
	quantize := func(model, out string) {
		t.Helper()
		call(0, "quantize", model, "-d", loans("train.csv"), "--set", "calibrate.rows=300", "-t", task, "--budget", "3", "-o", out)
	}
	quantize(original, "q.onnx")
	recourse := func(model string) string {
		t.Helper()
		out, _, _ := strings.Cut(call(0, "recourse", model, "-d", test, "-t", task, "--rows", "rows.json"), "time")
		return out
	}
	found := recourse(original)
	vd, rvd := counts(original, "q.onnx")
	if vd.Num == 0 {
		t.Fatal("no promise breaks: nothing can be compared")
	}
	for name, build := range otherHeads() {
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
				if !strings.Contains(out, "target: {output: probabilities, threshold: 0.5}") {
					t.Errorf("%s: %s", args[0], out)
				}
			}
			continue
		}
		if !strings.Contains(shown, "holds probabilities") {
			t.Errorf("%s: %s", name, shown)
		}
		quantize(file, name+".q.onnx")
		if got := call(0, "inspect", name+".q.onnx"); !strings.Contains(got, "holds probabilities") {
			t.Errorf("%s, quantized: %s", name, got)
		}
		for _, pair := range [][2]string{{file, "q.onnx"}, {original, name + ".q.onnx"}} {
			a, b := counts(pair[0], pair[1])
			if a.Num != vd.Num || a.Den != vd.Den || b.Num != rvd.Num || b.Den != rvd.Den {
				t.Errorf("%s: %v has VD %+v and RVD %+v, the logits have %+v and %+v", name, pair, a, b, vd, rvd)
			}
		}
		if got := recourse(file); got != found {
			t.Errorf("%s: recourse says\n%swant\n%s", name, got, found)
		}
	}
}
