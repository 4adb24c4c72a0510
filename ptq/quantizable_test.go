package ptq

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func TestQuantizable(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	// behind puts a node between the input and what reads it.
	behind := func(n *graph.Node, inits ...*graph.Tensor) *graph.Model {
		c := m.Clone()
		in := c.Graph.Inputs[0].Name
		for _, node := range c.Graph.Nodes {
			for i := range node.Inputs {
				if node.Inputs[i] == in {
					node.Inputs[i] = "behind"
				}
			}
		}
		n.Name, n.Inputs, n.Outputs = "extra", append([]string{in}, n.Inputs...), []string{"behind"}
		c.Graph.Nodes = slices.Concat([]*graph.Node{n}, c.Graph.Nodes)
		c.Graph.Inits = append(c.Graph.Inits, inits...)
		c.SetOpset("ai.onnx.ml", 3)
		return c
	}
	yes := graph.FromFloats("yes", []float32{1})
	double := m.Clone()
	double.Graph.Inputs[0].DType, double.Graph.Outputs[0].DType = graph.Double, graph.Double
	for i, init := range double.Graph.Inits {
		v := must.Get(init.Numbers())(t)
		double.Graph.Inits[i] = graph.FromNumbers(init.Name, graph.Double, v, init.Dims...)
	}
	diverged := m.Clone()
	first := diverged.Graph.Inits[0]
	nan := slices.Repeat([]float32{float32(math.NaN())}, first.Len())
	diverged.Graph.Inits[0] = graph.FromFloats(first.Name, nan, first.Dims...)
	quantized := quantized(t, m, tk, few(people, 200), mustRecipe("ptq"))
	written := must.Get(codec.Read(quantized.Model, ""))(t)
	for name, c := range map[string]struct {
		m                 *graph.Model
		why, instead      string
		recourse, already bool
	}{
		"the loan model": {m: m},
		"a scaler": {
			m: behind(&graph.Node{Op: "Scaler", Domain: "ai.onnx.ml", Attrs: []graph.Attr{
				{Name: "offset", Kind: graph.AttrFloats, Floats: make([]float32, tk.Dim())},
				{Name: "scale", Kind: graph.AttrFloats, Floats: slices.Repeat([]float32{1}, tk.Dim())},
			}}),
		},
		"training mode": {
			m: func() *graph.Model {
				c := behind(&graph.Node{Op: "Dropout", Inputs: []string{"", "mode"}}, yes)
				c.Graph.Nodes = slices.Concat([]*graph.Node{{
					Op: "Cast", Name: "cast", Inputs: []string{"yes"}, Outputs: []string{"mode"},
					Attrs: []graph.Attr{graph.IntAttr("to", int64(graph.Bool))},
				}}, c.Graph.Nodes)
				return c
			}(),
			why: "training mode", instead: "model.eval()", recourse: true,
		},
		"doubles":                  {m: double},
		"a training that diverged": {m: diverged, why: `layer "/layers.0/Gemm" has weights that are no finite numbers`},
		"steps": {
			m: behind(&graph.Node{Op: "Floor"}), why: `scores move in steps (Floor node "extra")`, recourse: true,
		},
		"its own file": {
			m: written, why: "quantized already", already: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := Quantizable(context.Background(), loaded(t, c.m))
			if c.why == "" {
				must.Do(t, err)
				return
			}
			var o *Obstacle
			if !errors.As(err, &o) {
				t.Fatalf("%v is no obstacle", err)
			}
			if !strings.Contains(o.Error(), c.why) || !strings.Contains(o.Instead, c.instead) || o.Recourse != c.recourse ||
				o.Already != c.already {
				t.Errorf("%+v", o)
			}
		})
	}
}
