package certify_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cfq/onnxio/graph"
)

// convolutional is a network of two convolutions, with a residual connection around the second.
func convolutional(rng *rand.Rand, attrs ...graph.Attr) *graph.Model {
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	g := &graph.Graph{
		Name:    "convolutional",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(50)}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(2)}},
	}
	draw := func(name string, size float64, dims ...int64) string {
		n := 1
		for _, d := range dims {
			n *= int(d)
		}
		g.Inits = append(g.Inits, graph.FromFloats(name, normal(rng, n, size), dims...))
		return name
	}
	add := func(op, out string, in []string, attrs ...graph.Attr) {
		g.Nodes = append(g.Nodes, &graph.Node{Name: "node " + out, Op: op, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	g.Inits = append(g.Inits, graph.FromInts("image", []int64{-1, 2, 5, 5}, 4))
	add("Reshape", "pixels", []string{"x", "image"})
	add("Conv", "c1", []string{"pixels", draw("w1", 0.3, 4, 2, 3, 3), draw("b1", 0.2, 4)}, attrs...)
	add("Relu", "a1", []string{"c1"})
	add("Conv", "c2", []string{"a1", draw("w2", 0.3, 4, 1, 3, 3), draw("b2", 0.2, 4)}, graph.IntAttr("group", 4),
		graph.IntsAttr("pads", 1, 1, 1, 1))
	add("Elu", "a2", []string{"c2"})
	add("Add", "both", []string{"a1", "a2"})
	add("GlobalAveragePool", "mean", []string{"both"})
	add("Flatten", "flat", []string{"mean"})
	add("Gemm", "y", []string{"flat", draw("w3", 1, 2, 4), draw("b3", 0.1, 2)}, graph.IntAttr("transB", 1))
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
}

// Convolutions of all kinds, in float and quantized, stand up to attack.
func TestConv(t *testing.T) {
	t.Parallel()
	for i, attrs := range [][]graph.Attr{
		nil,
		{graph.IntsAttr("pads", 1, 0, 2, 1)},
		{graph.IntsAttr("strides", 2, 1), graph.IntsAttr("pads", 1, 1, 1, 1)},
		{graph.IntsAttr("dilations", 2, 2), graph.IntsAttr("pads", 2, 2, 2, 2)},
		{graph.StringAttr("auto_pad", "SAME_UPPER"), graph.IntsAttr("strides", 2, 2)},
		{graph.StringAttr("auto_pad", "SAME_LOWER"), graph.IntsAttr("strides", 2, 2)},
	} {
		rng := rand.New(rand.NewPCG(5, uint64(i)))
		f := convolutional(rng, attrs...)
		for _, w := range []ways{{bits: 4, weightOnly: true}, {bits: 8, act: 8, channels: true}} {
			name := fmt.Sprintf("%d: %+v", i, w)
			p := opened(t, f, quantized(t, f, w), 1)
			if err := p.k.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			const n = 6
			points, half := normal(rng, n*50, 1), make([]float32, n*50)
			for i := range half {
				if i%50 < 4 {
					half[i] = 0.05
				}
			}
			proofs, err := p.k.Prove(t.Context(), points, half, n)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			attacked := p.attack(t, points, half, n, 40, rng)
			certified, loose, _ := holds(t, name, proofs, attacked)
			refused := 0
			for _, a := range attacked {
				if a.lower <= 0 {
					refused++
				}
			}
			t.Logf("%s: %d of %d certified, %d refused; %.4f below the least margin", name, certified, n, refused, loose)
			if certified+refused < n-2 {
				t.Errorf("%s: %d of %d certified, %d refused", name, certified, n, refused)
			}
		}
	}
}
