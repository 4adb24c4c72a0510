package certify

import (
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// coded is a network of one number between quantizers.
type coded struct {
	*graph.Graph
}

func newCoded() *coded {
	rows := graph.Shape{{Size: -1, Param: "N"}, {Size: 1}}
	scalar := func(name string, t graph.DType, v byte) *graph.Tensor {
		return &graph.Tensor{Name: name, DType: t, Raw: []byte{v}}
	}
	return &coded{&graph.Graph{
		Name: "coded", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows}},
		Inits: []*graph.Tensor{
			graph.FromFloats("half", []float32{0.5}), graph.FromFloats("fine", []float32{0.04}),
			graph.FromFloats("bias", []float32{0.11}, 1), graph.FromFloats("float", []float32{1.3}, 1, 1),
			scalar("zero", graph.Uint8, 128), scalar("none", graph.Int8, 0),
			{Name: "codes", DType: graph.Int8, Dims: []int64{1, 1}, Raw: []byte{3}},
		},
	}}
}

func (c *coded) add(op string, in ...string) string {
	out := fmt.Sprintf("v%d", len(c.Nodes))
	c.Nodes = append(c.Nodes, &graph.Node{Name: "node " + out, Op: op, Inputs: in, Outputs: []string{out}})
	return out
}

// rounded is the value behind a quantizer.
func (c *coded) rounded(value, scale string) string {
	return c.add("DequantizeLinear", c.add("QuantizeLinear", value, scale, "zero"), scale, "zero")
}

func (c *coded) model(last string) *graph.Model {
	for _, n := range c.Nodes {
		if n.Outputs[0] == last {
			n.Outputs[0] = "y"
		}
	}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: c.Graph}
}

// What ONNX Runtime rounds although the file does not say so is allowed for, or refused.
func TestRewritten(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	weights := func(c *coded) string { return c.add("DequantizeLinear", "codes", "half", "none") }
	for _, c := range []struct {
		name   string
		make   func(c *coded) string
		refuse string // "" = what is proved must hold
	}{
		{"a bias behind a MatMul, to units of 0.25", func(c *coded) string {
			return c.rounded(c.add("Add", c.add("MatMul", c.rounded("x", "half"), weights(c)), "bias"), "fine")
		}, ""},
		{"a bias of a Gemm", func(c *coded) string {
			return c.rounded(c.add("Gemm", c.rounded("x", "half"), weights(c), "bias"), "fine")
		}, ""},
		{"float weights of a MatMul", func(c *coded) string {
			return c.rounded(c.add("Add", c.add("MatMul", c.rounded("x", "half"), "float"), "bias"), "fine")
		}, "remove one"},
		{
			"two quantizers in a row",
			func(c *coded) string { return c.add("Gemm", c.rounded(c.rounded("x", "half"), "fine"), "float") },
			"one quantizer of the two",
		},
		{"two quantizers around a move", func(c *coded) string {
			return c.add("Gemm", c.rounded(c.add("Flatten", c.rounded("x", "half")), "fine"), "float")
		}, "one quantizer of the two"},
		{
			"the same quantizer twice",
			func(c *coded) string { return c.add("Gemm", c.rounded(c.rounded("x", "half"), "half"), "float") }, "",
		},
	} {
		for _, level := range []ort.Level{ort.All, ort.Disabled} {
			o := o
			o.Level = level
			g := newCoded()
			m := g.model(c.make(g))
			k := must.Get(Open(t.Context(), loaded(t, tiny("Gemm"), o), loaded(t, m, o), 1))(t)
			if err := k.Check(); c.refuse != "" && level == ort.All {
				if err == nil || !strings.Contains(err.Error(), c.refuse) {
					t.Errorf("%s: not refused: %v", c.name, err)
				}
			} else if err != nil {
				t.Errorf("%s, level %v: %v", c.name, level, err)
			} else {
				var points []float32
				for x := float32(-3); x < 3; x += 0.07 {
					points = append(points, x)
				}
				// Prove compares its bounds with the models.
				if _, err := k.Prove(t.Context(), points, make([]float32, len(points)), len(points)); err != nil {
					t.Errorf("%s, level %v: %v", c.name, level, err)
				}
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
