package autodiff

import (
	"slices"

	"cfq/onnxio/graph"
)

func linear() []Operator {
	return []Operator{
		{Name: "Gemm", need: 2, infer: func(c *Call) []graph.Type {
			a, b := c.types[0].Shape, c.types[1].Shape
			c.failIf(len(a) != 2 || len(b) != 2, "factors %v and %v are not matrices", c.types[0], c.types[1])
			rows, cols := a[0], b[1]
			if c.Node.Int("transA", 0) != 0 {
				rows = a[1]
			}
			if c.Node.Int("transB", 0) != 0 {
				cols = b[0]
			}
			return single(c.types[0].DType, graph.Shape{rows, cols})
		}, grads: []Rule{
			func(c *Call, _ int) string {
				transB := c.Node.Int("transB", 0)
				if c.Node.Int("transA", 0) != 0 {
					return c.gemm(c.in(1), c.Grad(), transB, 1)
				}
				return c.gemm(c.Grad(), c.in(1), 0, 1-min(transB, 1))
			}, func(c *Call, _ int) string {
				transA := c.Node.Int("transA", 0)
				if c.Node.Int("transB", 0) != 0 {
					return c.gemm(c.Grad(), c.in(0), 1, transA)
				}
				return c.gemm(c.in(0), c.Grad(), 1-min(transA, 1), 0)
			},
			func(c *Call, _ int) string { return c.scale(c.Grad(), c.float("beta", 1)) },
		}},
		{Name: "MatMul", need: 2, infer: productOf, grads: []Rule{func(c *Call, _ int) string {
			ra, rb := c.ranks()
			switch {
			case ra == 1 && rb == 1:
				return c.mul(c.Grad(), c.in(1))
			case ra == 2 && rb == 2:
				return c.gemm(c.Grad(), c.in(1), 0, 1)
			}
			_, b, g := c.matrices()
			da := c.op("MatMul", g, c.transposed(b))
			if ra == 1 {
				da = c.op("Squeeze", da, c.b.vector(-2))
			}
			return da
		}, func(c *Call, _ int) string {
			ra, rb := c.ranks()
			switch {
			case ra == 1 && rb == 1:
				return c.mul(c.Grad(), c.in(0))
			case ra == 2 && rb == 2:
				return c.gemm(c.in(0), c.Grad(), 1, 0)
			case ra > 2 && rb == 2: // one product over all batch axes instead of a batch of them and a sum
				k, m := c.Type(c.in(1)).Shape[0].Size, c.Type(c.in(1)).Shape[1].Size
				if k > 0 && m > 0 {
					rows := func(v string, n int64) string { return c.op("Reshape", v, c.b.vector(-1, n)) }
					return c.gemm(rows(c.in(0), k), rows(c.Grad(), m), 1, 0)
				}
			}
			a, _, g := c.matrices()
			db := c.op("MatMul", c.transposed(a), g)
			if rb == 1 {
				db = c.op("Squeeze", db, c.b.vector(-1))
			}
			return db
		}}},
	}
}

func productOf(c *Call) []graph.Type {
	a, b := slices.Clone(c.types[0].Shape), slices.Clone(c.types[1].Shape)
	c.failIf(len(a) == 0 || len(b) == 0, "factors %v and %v: a scalar is no matrix", c.types[0], c.types[1])
	ra, rb := len(a), len(b)
	if ra == 1 {
		a = graph.Shape{one(), a[0]}
	}
	if rb == 1 {
		b = graph.Shape{b[0], one()}
	}
	out := broadcast(a[:len(a)-2], b[:len(b)-2])
	if ra > 1 {
		out = append(out, a[len(a)-2])
	}
	if rb > 1 {
		out = append(out, b[len(b)-1])
	}
	return single(c.types[0].DType, out)
}

func (c *Call) gemm(a, b string, transA, transB int64) string {
	return c.Op("Gemm", []string{a, b}, graph.FloatAttr("alpha", c.Node.Float("alpha", 1)),
		graph.IntAttr("transA", transA), graph.IntAttr("transB", transB))
}

func (c *Call) ranks() (a, b int) {
	return len(c.Type(c.in(0)).Shape), len(c.Type(c.in(1)).Shape)
}

func (c *Call) matrices() (a, b, g string) {
	a, b, g = c.in(0), c.in(1), c.Grad()
	ra, rb := c.ranks()
	if ra == 1 {
		a = c.op("Unsqueeze", a, c.b.vector(0))
		g = c.op("Unsqueeze", g, c.b.vector(-2))
	}
	if rb == 1 {
		b = c.op("Unsqueeze", b, c.b.vector(1))
		g = c.op("Unsqueeze", g, c.b.vector(-1))
	}
	return a, b, g
}

func (c *Call) swapped(a string, i, j int64) string {
	perm := axesFrom(0, c.Type(a))
	c.failIf(min(i, j) < 0 || max(i, j) >= int64(len(perm)), "%v has no axes %d and %d", c.Type(a), i, j)
	perm[i], perm[j] = perm[j], perm[i]
	return c.transpose(a, perm...)
}

func (c *Call) transposed(a string) string {
	r := int64(len(c.Type(a).Shape))
	return c.swapped(a, r-2, r-1)
}
