package qdq_test

import (
	"encoding/binary"
	"math"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

// unfolded returns m with every Expand and every Cast of float16 that reads a constant
// replaced by what it computes, as a constant of the same name.
func unfolded(t *testing.T, m *graph.Model) *graph.Model {
	t.Helper()
	c := m.Clone()
	var nodes []*graph.Node
	for _, n := range c.Graph.Nodes {
		in := c.Graph.Init(n.Input(0))
		switch {
		case in != nil && n.Op == "Expand":
			shape := must.Get(c.Graph.Init(n.Inputs[1]).Ints())(t)
			c.Graph.Inits = append(c.Graph.Inits,
				&graph.Tensor{Name: n.Outputs[0], DType: in.DType, Dims: shape, Raw: make([]byte, int(shape[0])*in.DType.Bits()/8)})
		case in != nil && n.Op == "Cast" && in.DType == graph.Float16:
			var v []float32
			for i := 0; i < len(in.Raw); i += 2 {
				h := binary.LittleEndian.Uint16(in.Raw[i:])
				v = append(v, float32(math.Ldexp(float64(h&0x3ff|0x400), int(h>>10)-25)))
			}
			c.Graph.Inits = append(c.Graph.Inits, graph.FromFloats(n.Outputs[0], v, in.Dims...))
		default:
			nodes = append(nodes, n)
		}
	}
	c.Graph.Nodes = nodes
	used := c.Graph.Consumers()
	var inits []*graph.Tensor
	for _, v := range c.Graph.Inits {
		if len(used[v.Name]) > 0 {
			inits = append(inits, v)
		}
	}
	c.Graph.Inits = inits
	return c
}

func TestCompact(t *testing.T) {
	const tolerance = 16 // of the estimates, for a whole model
	for out := 1; out <= 80; out++ {
		m := net(uint64(out), 6, out, 2)
		p := planFor(t, m, 4, true)
		for o, s := range p.Layers[0].Scales {
			p.Layers[0].Scales[o], _ = quant.Half(s)
		}
		q := write(t, m, p, qdq.Options{})
		n, plain := len(marshal(t, q)), len(marshal(t, unfolded(t, q)))
		if n > plain+tolerance {
			t.Errorf("%d outputs: %d bytes, %d with vectors", out, n, plain)
		}
		if saves := 2*out - 40 + 5*out - 130; n > plain-saves {
			t.Errorf("%d outputs: %d bytes, %d with vectors; %d less should do", out, n, plain, saves)
		}
	}
}

// TestSmallest tries all ways to store the rows of a layer of three widths: the writer's has the fewest bytes.
func TestSmallest(t *testing.T) {
	for _, c := range []struct{ in, out int }{{5, 12}, {40, 30}, {200, 60}} {
		m := net(9, c.in, c.out, 2)
		p := planFor(t, m, 8, true)
		l := &p.Layers[0]
		l.Bits = 0
		for o := range l.Scales {
			l.RowBits = append(l.RowBits, []int{2, 3, 4}[o%3])
		}
		best := len(marshal(t, write(t, m, p, qdq.Options{Size: size(t)})))
		// Wider rows of the same codes stand in the containers that merge them.
		enc := codesOf(t, m, p)
		l.Codes = enc
		for _, widths := range [][3]int{
			{2, 3, 4},
			{2, 4, 4},
			{3, 3, 4},
			{4, 4, 4},
			{8, 8, 8},
			{2, 3, 8},
			{3, 3, 8},
			{4, 4, 8},
			{2, 8, 8},
		} {
			for o := range l.RowBits {
				l.RowBits[o] = widths[o%3]
			}
			for name, sizes := range map[string]func(*graph.Model) int{
				"plain": nil, "planes": preferPlanes,
				"concat": preferConcats,
			} {
				if n := len(marshal(t, write(t, m, p, qdq.Options{Size: sizes}))); n < best {
					t.Errorf("%dx%d: %d bytes; widths %v and %s make %d", c.out, c.in, best, widths, name, n)
				}
			}
		}
		t.Logf("%dx%d: %d bytes", c.out, c.in, best)
	}
}

func codesOf(t *testing.T, m *graph.Model, p *quant.Plan) []int8 {
	t.Helper()
	layers := must.Get(quant.FindLayers(m))(t)
	e := must.Get(p.Layers[0].Encode(layers[0], p.Layers[0].Act.Scale))(t)
	return e.Codes
}
