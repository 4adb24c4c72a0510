package gate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/recourse/constraint"
	"cfq/task"
)

type adder = func(op, out string, in []string, attrs ...graph.Attr)

func scorer(of func(add adder, constant func(*graph.Tensor))) *graph.Model {
	g := &graph.Graph{Name: "scorer"}
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(3)}}
	g.Outputs = []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(1)}}
	g.Inits = []*graph.Tensor{
		graph.FromFloats("w", []float32{1, 0.5, 0.25}, 3, 1), graph.FromFloats("b", []float32{-0.5}, 1),
	}
	add := func(op, out string, in []string, attrs ...graph.Attr) {
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: "to " + out, Op: op, Inputs: in, Outputs: strings.Fields(out),
			Attrs: attrs,
		})
	}
	of(add, func(t *graph.Tensor) { g.Inits = append(g.Inits, t) })
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
}

func TestBatchDependence(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	product := func(add adder, out string) {
		add("MatMul", "p", []string{"x", "w"})
		add("Add", out, []string{"p", "b"})
	}
	models := map[string]*graph.Model{}
	models["original"] = scorer(func(add adder, _ func(*graph.Tensor)) { product(add, "y") })
	models["refuses who comes alone"] = scorer(func(add adder, constant func(*graph.Tensor)) {
		constant(graph.FromInts("0", []int64{0}))
		constant(graph.FromInts("1", []int64{1}))
		constant(graph.FromFloats("no", []float32{-9}, 1))
		product(add, "z")
		add("Shape", "shape", []string{"x"})
		add("Gather", "rows", []string{"shape", "0"})
		add("Equal", "alone", []string{"rows", "1"})
		add("Where", "y", []string{"alone", "no", "z"})
	})
	models["dynamic quantization"] = scorer(func(add adder, constant func(*graph.Tensor)) {
		constant(&graph.Tensor{Name: "w8", DType: graph.Int8, Dims: []int64{3, 1}, Raw: []byte{60, 30, 15}})
		constant(graph.FromFloats("s", []float32{1. / 60}, 1))
		add("DynamicQuantizeLinear", "code scale zero", []string{"x"})
		add("MatMulInteger", "sum", []string{"code", "w8", "zero"})
		add("Cast", "float", []string{"sum"}, graph.IntAttr("to", int64(graph.Float)))
		add("Mul", "unit", []string{"scale", "s"})
		add("Mul", "p", []string{"float", "unit"})
		add("Add", "y", []string{"p", "b"})
	})
	models["static quantization"] = scorer(func(add adder, constant func(*graph.Tensor)) {
		constant(graph.FromFloats("s", []float32{0.004}))
		constant(&graph.Tensor{Name: "zero", DType: graph.Int8, Raw: []byte{0}})
		product(add, "z")
		add("QuantizeLinear", "code", []string{"z", "s", "zero"})
		add("DequantizeLinear", "y", []string{"code", "s", "zero"})
	})
	rng := rand.New(rand.NewPCG(1, 2))
	people := &task.People{Dim: 3, N: 400, Reading: task.Reading{Total: 400}}
	for range people.N * 3 {
		people.X = append(people.X, float32(rng.NormFloat64()))
	}
	set := must.Get(constraint.Compile(threeNumbers()))(t)
	open := func(name string) *classifier.Model {
		loaded := must.Get(onnxio.FromGraph(t.Context(), models[name], o))(t)
		c := must.Get(classifier.New(loaded, classifier.Options{}))(must.In(t, name))
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // nothing was written
		return c
	}
	f := open("original")
	for name, want := range map[string]struct {
		verdict Verdict
		why     string
	}{
		"original":                {Pass, ""},
		"static quantization":     {Pass, ""},
		"refuses who comes alone": {Fail, `Shape node "to shape" of the quantized model`},
		"dynamic quantization":    {Fail, "with its batch: 0.0306 logits; outside the limit of 0 logits; 256 of 256 points"},
	} {
		g := open(name)
		if err := g.Differentiable(); (err != nil) != (name == "dynamic quantization") {
			t.Errorf("%s: gradients: %v", name, err)
		}
		r, err := eval.Compare(t.Context(), f, g, &eval.Batch{People: people, Set: set},
			eval.Options{Margins: []float64{0.1}, OneSided: true})
		must.Do(must.In(t, name), err)
		if r.Batches, err = eval.Rerun(t.Context(), f, g, r); err != nil {
			t.Fatal(name, err)
		}
		report := Judge(&Gate{Checks: maxVD(0.05), NoLabels: true}, r, nil)
		if name == "dynamic quantization" && !slices.Equal(r.Batches.Nodes,
			[]string{`DynamicQuantizeLinear node "to code scale zero" of the quantized model`}) {
			t.Errorf("nodes %q", r.Batches.Nodes)
		}
		at := slices.IndexFunc(report.Findings, func(f Finding) bool { return f.Metric == "batches.difference" })
		if report.Verdict != want.verdict || at < 0 || !strings.Contains(report.Findings[at].Why, want.why) {
			t.Errorf("%s: %+v\n%s", name, report, r.Batches)
		}
	}
}

func threeNumbers() *task.Task {
	tk := &task.Task{
		Version: 1, Target: task.Target{Class: "favourable", Index: 1}, Cost: task.Cost{Norm: "l1", Weights: "uniform"},
	}
	for i, name := range []string{"a", "b", "c"} {
		tk.Features = append(tk.Features, task.Feature{
			Name: name, Column: name, Encoding: &task.Standardized{Std: 1}, Action: task.Free(), Offset: i, Width: 1,
		})
	}
	return tk
}
