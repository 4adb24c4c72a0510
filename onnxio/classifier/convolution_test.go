package classifier

import (
	"fmt"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// TestFoldTransposed compares a ConvTranspose with the convolution that it becomes, with groups, pads and kernels that
// are not square, and leaves those with strides alone.
func TestFoldTransposed(t *testing.T) {
	for _, c := range []struct {
		in, out, group, rows, columns int64
		pads                          []int64
		strides, ops                  int64 // ops: Conv nodes afterwards
	}{
		{3, 5, 1, 3, 3, []int64{1, 1, 1, 1}, 1, 1},
		{4, 4, 4, 3, 3, []int64{1, 1, 1, 1}, 1, 1},
		{4, 6, 2, 2, 3, []int64{0, 1, 1, 2}, 1, 1},
		{6, 3, 1, 1, 1, nil, 1, 1},
		{3, 3, 1, 3, 3, nil, 1, 1},
		{3, 3, 1, 3, 3, []int64{1, 1, 1, 1}, 2, 0},
	} {
		dims := []int64{c.in, c.out / c.group, c.rows, c.columns}
		attrs := []graph.Attr{graph.IntAttr("group", c.group), graph.IntsAttr("strides", c.strides, c.strides)}
		if c.pads != nil {
			attrs = append(attrs, graph.IntsAttr("pads", c.pads...))
		}
		x := graph.FromFloats("x", normals(7, 2*int(c.in)*7*6), 2, c.in, 7, 6)
		run := func(fold bool) ([]float32, int64) {
			m := build(graph.Fixed(2, c.in, 7, 6), 18, func(b *graph.Builder) string {
				w := floats32(b, "w", normals(8, graph.FromInts("", nil, dims...).Len()), dims...)
				return b.Op("ConvTranspose", []string{"x", w}, attrs...)
			})
			if fold {
				must.Do(t, foldTransposed(m.Graph))
			}
			convs := int64(0)
			for _, n := range m.Graph.Nodes {
				if n.Op == "Conv" {
					convs++
				}
			}
			return must.Get(orttest.Run(t, m, orttest.Need(t), x)[0].Floats())(t), convs
		}
		want, _ := run(false)
		got, convs := run(true)
		if convs != c.ops || len(got) != len(want) {
			t.Fatalf("%+v: %d convolutions, %d numbers instead of %d", c, convs, len(got), len(want))
		}
		for i, v := range want {
			near(t, fmt.Sprintf("%+v: number %d", c, i), float64(got[i]), float64(v), 1e-4)
		}
	}
}
