package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/verify"
)

type netBuilder struct {
	*graph.Builder
	rng *rand.Rand
	m   *graph.Model
}

func newNet(width int64) *netBuilder {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "net"}}
	shape := graph.Shape{{Size: -1, Param: "N"}, {Size: width}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}
	return &netBuilder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(3, 8)), m}
}

func (b *netBuilder) random(dims ...int64) string {
	v := make([]float32, (&graph.Tensor{Dims: dims}).Len())
	for i := range v {
		v[i] = float32(b.rng.NormFloat64() / 2)
	}
	return b.Const(graph.FromFloats("w", v, dims...))
}

func (b *netBuilder) model(output string) *graph.Model {
	b.m.Graph.Outputs = []graph.Value{{Name: output, DType: graph.Float}}
	return b.m
}

func deep(activation, end string, widths ...int64) *graph.Model {
	b, value := newNet(widths[0]), "x"
	for i := 1; i < len(widths); i++ {
		made := fmt.Sprintf("h%d", i)
		b.Append(&graph.Node{
			Name: fmt.Sprintf("layer%d", i), Op: "Gemm", Outputs: []string{made},
			Attrs:  []graph.Attr{graph.IntAttr("transB", 1)},
			Inputs: []string{value, b.random(widths[i], widths[i-1]), b.random(widths[i])},
		})
		op := activation
		if i == len(widths)-1 {
			op = end
		}
		if value = made; op != "" {
			value = b.Op(op, []string{made})
		}
	}
	return b.model(value)
}

// TestNotKept: a layer that is to stay in float and that ONNX Runtime quantizes, since it stands
// between quantizers, is a problem, whether the plan names it or not.
func TestNotKept(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "", 10, 16, 12, 2)
	x := probe(m, 100)
	p := planFor(t, m, eng, x, 8)
	p.Layers[1].Float = true
	q := write(t, m, p)
	r := check(t, q, verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
	if r.Err() != nil || r.Layers[1].Kernel == "QGemm" || r.Layers[2].Kernel != "QGemm" {
		t.Errorf("as written: %+v, %v", r.Layers, r.Err())
	}
	// A quantizer in front of it makes it one between two.
	var last *graph.Node
	for i, n := range q.Graph.Nodes {
		if n.Name == "layer2" {
			last = n
			b := &graph.Node{Op: "QuantizeLinear", Inputs: []string{n.Inputs[0], "half", "zero"}, Outputs: []string{"hq"}}
			d := &graph.Node{Op: "DequantizeLinear", Inputs: []string{"hq", "half", "zero"}, Outputs: []string{"hd"}}
			q.Graph.Nodes = append(q.Graph.Nodes[:i:i], append([]*graph.Node{b, d}, q.Graph.Nodes[i:]...)...)
			break
		}
	}
	last.Inputs[0] = "hd"
	q.Graph.Inits = append(q.Graph.Inits, graph.FromFloats("half", []float32{0.05}),
		&graph.Tensor{Name: "zero", DType: graph.Uint8, Raw: []byte{0}})
	for _, listed := range []bool{true, false} {
		if !listed {
			p.Layers = append(p.Layers[:1:1], p.Layers[2:]...)
		}
		r := check(t, q, verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
		found := false
		for _, s := range r.Problems {
			found = found || strings.Contains(s, `"layer2"`) && strings.Contains(s, "QGemm")
		}
		if !found {
			t.Errorf("in the plan: %v: %q", listed, r.Problems)
		}
	}
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "", 10, 16, 12, 8, 8, 2)
	x := probe(m, 50)
	p := planFor(t, m, eng, x, 8)
	advice := func() (of []string) {
		r := check(t, write(t, m, p), verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
		for _, a := range r.Advice {
			if strings.HasPrefix(a, "saturation: ") {
				of = append(of, a)
			}
		}
		return of
	}
	must.Same(t, 0, len(advice()))
	for i := range p.Layers {
		p.Layers[i].Reduced = false
		for o := range p.Layers[i].Scales {
			p.Layers[i].Scales[o] /= 1.9
		}
	}
	got := advice()
	if len(got) != 1 || !strings.Contains(got[0], `"layer1"`) || !strings.Contains(got[0], `"layer3"`) ||
		strings.Contains(got[0], `"layer4"`) || !strings.HasSuffix(got[0], ", 2 more)") {
		t.Errorf("five layers beyond 64: %q", got)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := deep("Relu", "Softmax", 8, 16, 16, 2)
	x := probe(m, 400)
	p := planFor(t, m, eng, x, 4)
	good := write(t, m, p)
	o := verify.Options{Engine: eng, Plan: p, FloatBytes: 1 << 20, Probes: []*graph.Tensor{x}}
	r := check(t, good, o)
	if r.Err() != nil || r.Levels.Rows != 400 || r.Levels.Step <= 0 {
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
		must.Fail(t, r.Err(), c.want)
	}
}

func TestCannotCheck(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	x := probe(deep("Relu", "Softmax", 8, 16, 16, 2), 1)
	o := verify.Options{Engine: eng, Plan: &quant.Plan{}, Probes: []*graph.Tensor{x}}
	must.Fail(t, must.Err(verify.Check(context.Background(), []byte("no model"), o)), "")
}
