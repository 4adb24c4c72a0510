package verify_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant/verify"
)

func deep(activation, end string, widths ...int) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "deep"}}
	m.Graph.Inputs = []graph.Value{{
		Name: "x", DType: graph.Float,
		Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(widths[0])}},
	}}
	b := graph.NewBuilder(m.Graph, "")
	rng := rand.New(rand.NewPCG(3, 8))
	random := func(name string, dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() / 2)
		}
		return b.Const(graph.FromFloats(name, v, dims...))
	}
	value := "x"
	for i := 1; i < len(widths); i++ {
		in, out := int64(widths[i-1]), int64(widths[i])
		made := fmt.Sprintf("h%d", i)
		b.Append(&graph.Node{
			Name: fmt.Sprintf("layer%d", i), Op: "Gemm", Inputs: []string{value, random("w", out, in), random("b", out)},
			Outputs: []string{made},
			Attrs:   []graph.Attr{graph.IntAttr("transB", 1)},
		})
		op := activation
		if i == len(widths)-1 {
			op = end
		}
		switch value = made; op {
		case "":
		case "Clip":
			value = b.Op("Clip", []string{
				made, b.Const(graph.FromFloats("lo", []float32{0})),
				b.Const(graph.FromFloats("hi", []float32{1})),
			})
		default:
			value = b.Op(op, []string{made})
		}
	}
	m.Graph.Outputs = []graph.Value{{Name: value, DType: graph.Float}}
	return m
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
	if !r.OK() || r.Layers[1].Kernel == "QGemm" || r.Layers[2].Kernel != "QGemm" {
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
	if got := advice(); len(got) != 0 {
		t.Errorf("codes within 64: %q", got)
	}
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
