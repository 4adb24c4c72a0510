package autodiff

import (
	"math"
	"slices"

	"cfq/onnxio/graph"
)

func gathering() []Operator {
	return []Operator{
		{Name: "Gather", need: 2, infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axis := normal(c.Node.Int("axis", 0), len(s))
			return single(c.types[0].DType, slices.Concat(graph.Shape{}, s[:axis], c.types[1].Shape, s[axis+1:]))
			// g is added up along the axis, with the indices as a list. Its shape is then that of a Gather by the list. Constant
			// places that differ need no sums.
		}, grads: []Rule{func(c *Call, _ int) string {
			axis := normal(c.Node.Int("axis", 0), len(c.Type(c.x()).Shape))
			g, idx := c.Grad(), c.in(1)
			if len(c.Type(idx).Shape) != 1 {
				idx = c.op("Reshape", idx, c.b.vector(-1))
				g = c.reshapeLike(g, c.Op("Gather", []string{c.x(), idx}, graph.IntAttr("axis", axis)))
			}
			if e, known := c.b.ints(idx); known && e.constant {
				at, size := sizes(e.dims), c.Type(c.x()).Shape[axis].Size
				seen := map[int64]bool{}
				for i, k := range at {
					if k < 0 {
						at[i] = k + size
					}
					c.failIf(size >= 0 && (at[i] < 0 || at[i] >= size), "index %d into axis %d of %v", k, axis, c.Type(c.x()))
					seen[at[i]] = true
				}
				if len(seen) == len(at) && size > 0 && size <= largestConstant {
					return placed(c, g, axis, at, size)
				}
			}
			return addUp(c, c.b.filled(c.x(), 0), g, idx, axis)
		}}},
		unary("GatherElements", func(c *Call) string {
			return c.scatter(c.b.filled(c.x(), 0), c.in(1), c.Grad(), c.Node.Int("axis", 0))
		}).of(func(c *Call) []graph.Type { return single(c.types[0].DType, c.types[1].Shape) }).needing(2),
		{Name: "GatherND", need: 2, infer: func(c *Call) []graph.Type {
			s, idx, b := c.types[0].Shape, c.types[1].Shape, c.Node.Int("batch_dims", 0)
			c.failIf(len(idx) == 0 || b < 0 || b >= int64(len(idx)) || b >= int64(len(s)),
				"batch_dims %d, indices %v of %v", b, c.types[1], c.types[0])
			n := idx[len(idx)-1].Size
			c.failIf(n < 1 || n > int64(len(s))-b, "indices %v of %v", c.types[1], c.types[0])
			return single(c.types[0].DType, slices.Concat(graph.Shape{}, idx[:len(idx)-1], s[b+n:]))
		}, grads: []Rule{func(c *Call, _ int) string {
			c.failIf(c.Node.Int("batch_dims", 0) != 0, "batch_dims: use Gather or GatherElements")
			return c.Op("ScatterND", []string{c.b.filled(c.x(), 0), c.in(1), c.Grad()}, graph.StringAttr("reduction", "add"))
		}}},
	}
}

func scattering() []Operator {
	return []Operator{
		scatterOperator("ScatterElements", "GatherElements"), scatterOperator("ScatterND", "GatherND"),
		{Name: "TopK", need: 2, infer: func(c *Call) []graph.Type {
			axis := normal(c.Node.Int("axis", -1), len(c.types[0].Shape))
			k, _ := c.constInts(1, "k")
			c.failIf(len(k) != 1 || k[0] < 0, "k %v", k)
			s := replaced(c.types[0].Shape, axis, graph.Dim{Size: k[0]})
			return append(single(c.types[0].DType, s), single(graph.Int64, s)...)
		}, grads: []Rule{func(c *Call, _ int) string {
			at := ""
			if len(c.Node.Outputs) > 1 {
				at = c.Node.Outputs[1]
			}
			if at == "" {
				at = c.b.ops("TopK", []string{c.x(), c.in(1)}, 2, c.Node.Attrs...)[1]
			}
			return c.scatter(c.b.filled(c.x(), 0), at, c.Grad(), c.Node.Int("axis", -1))
		}}},
		unary("CumSum", func(c *Call) string {
			return c.Op("CumSum", []string{c.Grad(), c.in(1)}, graph.IntAttr("exclusive", c.Node.Int("exclusive", 0)),
				graph.IntAttr("reverse", 1-min(1, c.Node.Int("reverse", 0))))
		}).needing(2),
		unary("ReverseSequence", func(c *Call) string {
			return c.Op("ReverseSequence", []string{c.Grad(), c.in(1)}, c.Node.Attrs...)
		}).needing(2),
		unary("Trilu", func(c *Call) string {
			return c.Op("Trilu", append([]string{c.Grad()}, c.Node.Inputs[1:]...), c.Node.Attrs...)
		}),
		{Name: "OneHot", need: 3, infer: func(c *Call) []graph.Type {
			s := c.types[0].Shape
			axis := normal(c.Node.Int("axis", -1), len(s)+1)
			depth := graph.Dim{Size: -1}
			if v, ok := c.number(1); ok && v >= 0 && v < largest {
				depth.Size = int64(v)
			}
			return single(c.types[2].DType, slices.Insert(slices.Clone(s), int(axis), depth))
		}, grads: []Rule{nil, nil, func(c *Call, _ int) string {
			g := c.Grad()
			hot := c.Op("OneHot", []string{c.in(0), c.in(1), c.b.numbers(g, []float64{0, 1}, 2)}, c.Node.Attrs...)
			vector := func(a string) string { return c.op("Reshape", c.total(a), c.b.vector(1)) }
			on := vector(c.mul(g, hot))
			return c.Op("Concat", []string{c.sub(vector(g), on), on}, graph.IntAttr("axis", 0))
		}}},
		{Name: "Range", need: 3, infer: func(c *Call) []graph.Type {
			n := graph.Dim{Size: -1}
			start, ok1 := c.number(0)
			limit, ok2 := c.number(1)
			step, ok3 := c.number(2)
			if size := math.Ceil((limit - start) / step); ok1 && ok2 && ok3 && size < largest {
				n.Size = int64(max(0, size))
			}
			return single(c.types[0].DType, graph.Shape{n})
		}, grads: []Rule{
			func(c *Call, i int) string { return c.reshapeLike(c.total(c.Grad()), c.in(i)) }, nil,
			func(c *Call, i int) string {
				steps := c.div(c.sub(c.y(), c.in(0)), c.in(2))
				return c.reshapeLike(c.total(c.mul(c.Grad(), steps)), c.in(i))
			},
		}},
		{Name: "EyeLike", infer: func(c *Call) []graph.Type {
			t := c.types[0]
			if a := c.Node.Attr("dtype"); a != nil {
				t.DType = graph.DType(a.I)
			}
			return []graph.Type{t}
		}},
	}
}

func (c *Call) total(a string) string {
	return c.Op("ReduceSum", []string{a}, graph.IntAttr("keepdims", 0))
}

func scatterOperator(name, gather string) Operator {
	attrs := func(c *Call) []graph.Attr {
		if name == "ScatterND" {
			return nil
		}
		return []graph.Attr{graph.IntAttr("axis", c.Node.Int("axis", 0))}
	}
	return Operator{Name: name, need: 3, grads: []Rule{
		func(c *Call, _ int) string {
			if c.adds() {
				return c.Grad()
			}
			return c.Op(name, []string{c.Grad(), c.in(1), c.b.filled(c.in(2), 0)}, attrs(c)...)
		}, nil,
		func(c *Call, _ int) string {
			c.adds() // ends the rule where another reduction is meant
			return c.Op(gather, []string{c.Grad(), c.in(1)}, attrs(c)...)
		},
	}}
}

func (c *Call) adds() bool {
	r := c.Node.Text("reduction", "none")
	c.failIf(r != "none" && r != "add", "reduction %s: only none and add have a gradient", r)
	return r == "add"
}
