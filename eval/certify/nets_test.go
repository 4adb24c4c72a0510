package certify_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"cfq/quant"
	"cfq/quant/qdq"
)

// shape is a random network: widths of its input, layers and logits, and what stands between the layers.
type shape struct {
	widths []int
	act    string // operator
	matmul bool   // MatMul and Add in place of Gemm
	scaled bool   // the input is scaled first
}

// net makes a network with random weights.
func net(rng *rand.Rand, s shape) *graph.Model {
	last := len(s.widths) - 1
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "net"}}
	g := m.Graph
	rows := func(n int) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: int64(n)}} }
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(s.widths[0])}}
	g.Outputs = []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(s.widths[last])}}
	draw := func(name string, size float64, dims ...int64) string {
		n := 1
		for _, d := range dims {
			n *= int(d)
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * size)
		}
		g.Inits = append(g.Inits, graph.FromFloats(name, v, dims...))
		return name
	}
	add := func(op, name string, in []string, attrs ...graph.Attr) string {
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: "node " + name, Op: op, Inputs: in, Outputs: []string{name},
			Attrs: attrs,
		})
		return name
	}
	scalar := func(name string, v float32) string {
		g.Inits = append(g.Inits, graph.FromFloats(name, []float32{v}))
		return name
	}
	value := "x"
	if s.scaled {
		value = add("Sub", "shifted", []string{value, draw("mean", 1, int64(s.widths[0]))})
		value = add("Mul", "scaled", []string{value, scalar("std", 1.25)})
	}
	for i := 1; i <= last; i++ {
		in, out := int64(s.widths[i-1]), int64(s.widths[i])
		name := fmt.Sprintf("h%d", i)
		if i == last {
			name = "y"
		}
		if s.matmul {
			p := add("MatMul", name+" product", []string{value, draw(fmt.Sprintf("w%d", i), 0.6, in, out)})
			value = add("Add", name, []string{p, draw(fmt.Sprintf("b%d", i), 0.3, out)})
		} else {
			value = add("Gemm", name, []string{
				value, draw(fmt.Sprintf("w%d", i), 0.6, out, in),
				draw(fmt.Sprintf("b%d", i), 0.3, out),
			}, graph.IntAttr("transB", 1))
		}
		switch {
		case i == last:
		case s.act == "Clip":
			value = add("Clip", fmt.Sprintf("a%d", i),
				[]string{value, scalar(fmt.Sprintf("lo%d", i), 0), scalar(fmt.Sprintf("hi%d", i), 1.5)})
		case s.act == "Silu":
			gate := add("Sigmoid", fmt.Sprintf("gate%d", i), []string{value})
			value = add("Mul", fmt.Sprintf("a%d", i), []string{value, gate})
		case s.act == "Gelu, written out":
			at := fmt.Sprintf(" of %d", i)
			f := add("Erf", "erf"+at, []string{add("Div", "scaled"+at, []string{value, scalar("root"+at, 1.4142135)})})
			f = add("Mul", "product"+at, []string{value, add("Add", "sum"+at, []string{f, scalar("one"+at, 1)})})
			value = add("Mul", fmt.Sprintf("a%d", i), []string{f, scalar("half"+at, 0.5)})
		default:
			value = add(s.act, fmt.Sprintf("a%d", i), []string{value})
		}
	}
	return m
}

// ways is how a network is quantized.
type ways struct {
	bits, act  int
	channels   bool
	weightOnly bool
	grid       bool // the input is cut into columns
	sums       bool // what activation functions read is quantized, too
	full       bool // 8-bit weights up to 127
}

// quantized writes a network by a plan of scales that cover all weights.
func quantized(t testing.TB, m *graph.Model, w ways) *graph.Model {
	t.Helper()
	m, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(m))(t)
	f := must.Get(quant.FormatOf(w.bits, !w.full))(t)
	most := func(v []float32) float32 {
		return max(slices.Max(v)/float32(f.QMax), slices.Min(v)/float32(f.QMin), 1e-9)
	}
	p := &quant.Plan{}
	for i, l := range layers {
		q := quant.Layer{Node: l.Node, Bits: w.bits, Reduced: !w.full}
		q.Scales = []float32{most(l.W)}
		if w.channels {
			q.Scales = nil
			for o := range l.Out {
				q.Scales = append(q.Scales, most(l.Row(o)))
			}
		}
		switch {
		case w.weightOnly:
		case i > 0:
			a := quant.FitAct(w.act, 0, 4)
			q.Act = &a
		case w.grid:
			p.Input = &quant.Input{Scale: 0.02}
			if l.Input != "x" {
				p.Input.Value = l.Input
			}
			for j := range l.In {
				// Two segments for some, which meet at 0.4; a shift and a gain for others.
				switch j % 3 {
				case 0:
					p.Input.Columns = append(p.Input.Columns, quant.InputColumn{Source: j, Lo: -3.6, Hi: 0.4, Gain: 1},
						quant.InputColumn{Source: j, Lo: 0.4, Hi: 4, Gain: 1})
				case 1:
					p.Input.Columns = append(p.Input.Columns, quant.InputColumn{Source: j, Lo: -2, Hi: 2, Gain: 1.1})
				default:
					p.Input.Columns = append(p.Input.Columns, quant.InputColumn{Source: j, Lo: 0, Hi: 3, Gain: 1})
				}
			}
		default:
			a := quant.FitAct(8, -4, 4)
			q.Act = &a
		}
		if l.Conv != nil && !w.weightOnly {
			low := float32(-4)
			if i == 0 { // a Relu follows
				low = 0
			}
			a := quant.FitAct(8, low, 4)
			q.Result = &a
		}
		p.Layers = append(p.Layers, q)
	}
	out := must.Get(qdq.Write(m, p, qdq.Options{}))(t)
	if w.sums {
		quantizeSums(out)
	}
	return out
}

// quantizeSums puts a quantizer behind each Gemm but the last, as tools do that quantize each value.
func quantizeSums(m *graph.Model) {
	g := m.Graph
	scale, zero := graph.FromFloats("sums.scale", []float32{0.05}), &graph.Tensor{DType: graph.Uint8, Raw: []byte{128}}
	zero.Name = "sums.zero"
	g.Inits = append(g.Inits, scale, zero)
	for _, n := range slices.Clone(g.Nodes) {
		sum := n.Outputs[0]
		if n.Op != "Gemm" || sum == g.Outputs[0].Name {
			continue
		}
		q, dq := sum+".q", sum+".dq"
		for _, c := range g.Nodes {
			c.Inputs = slices.Clone(c.Inputs)
			for i := range c.Inputs {
				if c.Inputs[i] == sum {
					c.Inputs[i] = dq
				}
			}
		}
		at := slices.Index(g.Nodes, n) + 1
		g.Nodes = slices.Insert(g.Nodes, at,
			&graph.Node{Name: q, Op: "QuantizeLinear", Inputs: []string{sum, scale.Name, zero.Name}, Outputs: []string{q}},
			&graph.Node{Name: dq, Op: "DequantizeLinear", Inputs: []string{q, scale.Name, zero.Name}, Outputs: []string{dq}})
	}
}

// normal draws n numbers.
func normal(rng *rand.Rand, n int, size float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * size)
	}
	return v
}
