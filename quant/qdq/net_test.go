package qdq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/quant/qdq"
)

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func net(seed uint64, widths ...int) *graph.Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "net"}}
	g := m.Graph
	g.Inputs = []graph.Value{{
		Name: "x", DType: graph.Float,
		Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(widths[0])}},
	}}
	g.Outputs = []graph.Value{{
		Name: "y", DType: graph.Float,
		Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(widths[len(widths)-1])}},
	}}
	value := "x"
	for i := 1; i < len(widths); i++ {
		in, out := widths[i-1], widths[i]
		w, b := make([]float32, in*out), make([]float32, out)
		for k := range w {
			w[k] = float32(rng.NormFloat64() / 3)
		}
		for k := range b {
			b[k] = float32(rng.NormFloat64() / 5)
		}
		g.Inits = append(g.Inits, graph.FromFloats(fmt.Sprintf("w%d", i), w, int64(out), int64(in)),
			graph.FromFloats(fmt.Sprintf("b%d", i), b, int64(out)))
		result := fmt.Sprintf("h%d", i)
		if i == len(widths)-1 {
			result = "y"
		}
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: fmt.Sprintf("layer%d", i), Op: "Gemm", Outputs: []string{result},
			Inputs: []string{value, fmt.Sprintf("w%d", i), fmt.Sprintf("b%d", i)},
			Attrs:  []graph.Attr{graph.IntAttr("transB", 1)},
		})
		if value = result; result != "y" {
			value = fmt.Sprintf("r%d", i)
			g.Nodes = append(g.Nodes,
				&graph.Node{Name: "relu" + value, Op: "Relu", Inputs: []string{result}, Outputs: []string{value}})
		}
	}
	return m
}

func rows(seed uint64, n, width int) *graph.Tensor {
	rng := rand.New(rand.NewPCG(seed, 2))
	x := make([]float32, n*width)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 1.5)
	}
	return graph.FromFloats("x", x, int64(n), int64(width))
}

func planFor(t failer, m *graph.Model, bits int, perChannel bool) *quant.Plan {
	t.Helper()
	layers := must.Get(quant.FindLayers(m))(t)
	f := must.Get(quant.FormatOf(bits, true))(t)
	p := &quant.Plan{}
	for i, l := range layers {
		q := quant.Layer{Node: l.Node, Bits: bits, Reduced: true}
		if perChannel {
			for o := range l.Out {
				q.Scales = append(q.Scales, maxAbs(f, l.Row(o)))
			}
		} else {
			q.Scales = []float32{maxAbs(f, l.W)}
		}
		q.Act = &quant.Act{Bits: 8, Scale: 0.031}
		if i == 0 {
			a := quant.FitAct(8, -3.1, 3.7)
			q.Act = &a
		}
		p.Layers = append(p.Layers, q)
	}
	return p
}

func maxAbs(f quant.Format, w []float32) float32 {
	s := slices.Max(w) / float32(f.QMax)
	return max(s, slices.Min(w)/float32(f.QMin), 1e-9)
}

func weights(e *quant.Encoded) []float32 {
	w := make([]float32, len(e.Codes))
	for i, q := range e.Codes {
		w[i] = quant.Dequantize(q, e.Scale(i/e.In))
	}
	return w
}

func write(t failer, m *graph.Model, p *quant.Plan, o qdq.Options) *graph.Model {
	t.Helper()
	q := must.Get(qdq.Write(m, p, o))(t)
	must.Do(t, q.Graph.Check())
	return q
}

func marshal(t failer, m *graph.Model) []byte {
	t.Helper()
	return must.Get(codec.Marshal(m))(t)
}

func size(t failer) func(*graph.Model) int {
	return func(m *graph.Model) int { return len(marshal(t, m)) }
}

func run(t failer, m *graph.Model, o ort.Options, x *graph.Tensor) map[string]*graph.Tensor {
	t.Helper()
	s := must.Get(ort.Open(m, o))(t)
	defer s.Close() //nolint:errcheck // nothing was written
	out := must.Get(s.Run(context.Background(), []*graph.Tensor{x}))(t)
	named := map[string]*graph.Tensor{}
	for _, v := range out {
		named[v.Name] = v
	}
	return named
}

func expose(m *graph.Model, t graph.DType, names ...string) *graph.Model {
	c := m.Clone()
	for _, n := range names {
		c.Graph.Outputs = append(c.Graph.Outputs, graph.Value{Name: n, DType: t})
	}
	return c
}

func floats(t failer, v *graph.Tensor) []float32 {
	t.Helper()
	return must.Get(v.Floats())(t)
}

func node(t failer, m *graph.Model, name string) *graph.Node {
	t.Helper()
	for _, n := range m.Graph.Nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("no node %q", name)
	return nil
}

func wantFused(t failer, m *graph.Model, p *quant.Plan, o ort.Options) {
	t.Helper()
	opt := must.Get(ort.Optimized(marshal(t, m), o))(t)
	kernels := map[string]string{}
	for _, n := range opt.Graph.Nodes {
		kernels[n.Name] = n.Op
		if n.Op == "DequantizeLinear" || n.Op == "Cast" || n.Op == "Unpack" {
			t.Errorf("%s is left", n.Label())
		}
	}
	for _, l := range p.Layers {
		must.Same(t, "QGemm", kernels[l.Node])
	}
}
