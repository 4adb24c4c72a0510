package verify_test

import (
	"context"
	"strings"
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/verify"
)

func TestBroken(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	x := probe(m, 400)
	p := planFor(t, m, eng, x, 4)
	good := write(t, m, p)
	o := verify.Options{Engine: eng, Plan: p, FloatBytes: 1 << 20, Probes: []*graph.Tensor{x}}
	r := check(t, good, o)
	if !r.OK() || r.Err() != nil || r.Levels.Rows != 400 || r.Levels.Step <= 0 {
		t.Fatalf("the good file: %+v", r)
	}
	for _, c := range []struct {
		name, want string
		change     func(m *graph.Model, o *verify.Options)
	}{
		{"larger than the float file", "saves nothing", func(_ *graph.Model, o *verify.Options) { o.FloatBytes = 1000 }},
		{"native INT4", `layer "layer2" runs as`, func(m *graph.Model, _ *verify.Options) {
			by := m.Graph.Producers()
			d := by[by["h2"].Inputs[1]]
			d.Inputs[0] = by[d.Inputs[0]].Inputs[0]
			z := m.Graph.Init(d.Inputs[2])
			m.Graph.Inits = append(m.Graph.Inits,
				&graph.Tensor{Name: "z4", DType: graph.Int4, Dims: z.Dims, Raw: make([]byte, 8)})
			d.Inputs[2] = "z4"
		}},
		{"a bias in other units", "between optimization levels", func(m *graph.Model, _ *verify.Options) {
			by := m.Graph.Producers()
			d := by[by["h3"].Inputs[2]]
			m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("wrong", []float32{1, 1}, 2))
			d.Inputs[1] = "wrong"
		}},
		{"a bias in much larger units", "rounding explains at most", func(m *graph.Model, _ *verify.Options) {
			d := m.Graph.Producers()[m.Graph.Producers()["h3"].Inputs[2]]
			m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("wrong", []float32{1000, 1000}, 2))
			d.Inputs[1] = "wrong"
			m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: "h3", DType: graph.Float})
		}},
		{"a layer that is not there", `layer "third" is not in the graph`, func(_ *graph.Model, o *verify.Options) {
			o.Plan = &quant.Plan{Layers: []quant.Layer{{Node: "third"}}}
		}},
		{"float bias without fusion", `layer "layer3" runs as Gemm`, func(m *graph.Model, _ *verify.Options) {
			m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("fb", []float32{1, 2}, 2))
			m.Graph.Producers()["h3"].Inputs[2] = "fb"
		}},
	} {
		bad, opts := good.Clone(), o
		c.change(bad, &opts)
		r := check(t, bad, opts)
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the problems are %q; one should say %q", c.name, r.Problems, c.want)
		}
	}
}

func TestCannotCheck(t *testing.T) {
	t.Parallel()
	if _, err := verify.Check(context.Background(), []byte("no model"), verify.Options{}); err == nil {
		t.Error("no plan is accepted")
	}
	eng := orttest.Need(t)
	x := probe(deep("Relu", "Softmax", 8, 16, 16, 2), 1)
	o := verify.Options{Engine: eng, Plan: &quant.Plan{}, Probes: []*graph.Tensor{x}}
	if _, err := verify.Check(context.Background(), []byte("no model"), o); err == nil {
		t.Error("no model is accepted")
	}
}
