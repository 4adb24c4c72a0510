package qdq_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
)

type convNet struct {
	name  string
	width int
	build func(b *netBuilder) string
}

type netBuilder struct {
	*graph.Builder
	rng *rand.Rand
}

func (b *netBuilder) random(name string, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(b.rng.NormFloat64() / math.Sqrt(float64(n/dims[0]+1)))
	}
	return b.Const(graph.FromFloats(name, v, dims...))
}

func (b *netBuilder) shaped(x string, dims ...int64) string {
	return b.Op("Reshape", []string{x, b.Const(graph.FromInts("shape", dims, int64(len(dims))))})
}

func (b *netBuilder) conv(x string, dims []int64, attrs ...graph.Attr) string {
	return b.Op("Conv", []string{x, b.random("w", dims...), b.random("b", dims[0])}, attrs...)
}

func (b *netBuilder) gemm(x string, in, out int64) string {
	return b.Op("Gemm", []string{x, b.random("w", out, in), b.random("b", out)}, graph.IntAttr("transB", 1))
}

func (b *netBuilder) clip(x string, lo, hi float32) string {
	return b.Op("Clip", []string{
		x, b.Const(graph.FromFloats("lo", []float32{lo})),
		b.Const(graph.FromFloats("hi", []float32{hi})),
	})
}

func convNets() []convNet {
	pads := graph.IntsAttr("pads", 1, 1, 1, 1)
	two := graph.IntsAttr("strides", 2, 2)
	kernel := graph.IntsAttr("kernel_shape", 2, 2)
	return []convNet{
		{"sequence", 20, func(b *netBuilder) string {
			h := b.Op("Relu", []string{b.conv(b.shaped("x", -1, 1, 20), []int64{4, 1, 5}, graph.IntsAttr("strides", 2))})
			return b.gemm(b.Op("Flatten", []string{h}), 32, 2)
		}},
		{"two on a sequence", 24, func(b *netBuilder) string {
			h := b.Op("Relu", []string{b.conv(b.shaped("x", -1, 2, 12), []int64{6, 2, 3}, graph.IntsAttr("pads", 1, 1))})
			h = b.Op("MaxPool", []string{h}, graph.IntsAttr("kernel_shape", 2), graph.IntsAttr("strides", 2))
			h = b.conv(h, []int64{4, 3, 3}, graph.IntAttr("group", 2), graph.IntsAttr("dilations", 2))
			return b.gemm(b.Op("Flatten", []string{b.Op("Tanh", []string{h})}), 8, 3)
		}},
		{"image", 128, func(b *netBuilder) string {
			h := b.Op("Relu", []string{b.conv(b.shaped("x", -1, 2, 8, 8), []int64{8, 2, 3, 3}, pads)})
			h = b.Op("MaxPool", []string{h}, kernel, two)
			h = b.Op("Relu", []string{b.conv(h, []int64{8, 8, 3, 3}, graph.StringAttr("auto_pad", "SAME_UPPER"))})
			h = b.gemm(b.Op("Flatten", []string{h}), 128, 16)
			return b.gemm(b.Op("Relu", []string{h}), 16, 2)
		}},
		{"depthwise, clipped, means", 128, func(b *netBuilder) string {
			h := b.clip(b.conv(b.shaped("x", -1, 2, 8, 8), []int64{6, 2, 3, 3}, pads, two), 0, 1)
			h = b.clip(b.conv(h, []int64{6, 1, 3, 3}, pads, graph.IntAttr("group", 6)), -1, 1)
			h = b.Op("Relu", []string{b.conv(h, []int64{5, 6, 1, 1})})
			h = b.Op("GlobalAveragePool", []string{h})
			return b.gemm(b.shaped(h, 0, -1), 5, 2)
		}},
		{"residual", 64, func(b *netBuilder) string {
			h := b.Op("Relu", []string{b.conv(b.shaped("x", -1, 4, 4, 4), []int64{4, 4, 3, 3}, pads)})
			k := b.Op("Relu", []string{b.Op("Add", []string{h, b.conv(h, []int64{4, 4, 3, 3}, pads)})})
			k = b.Op("AveragePool", []string{k}, kernel)
			return b.gemm(b.Op("Flatten", []string{k}), 36, 2)
		}},
		{"convolutions alone", 18, func(b *netBuilder) string {
			h := b.conv(b.shaped("x", -1, 2, 3, 3), []int64{4, 2, 3, 3})
			return b.shaped(b.conv(h, []int64{2, 4, 1, 1}), 0, 2)
		}},
	}
}

func (n convNet) model(t testing.TB) *graph.Model {
	t.Helper()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "net"}}
	m.Graph.Inputs = []graph.Value{{
		Name: "x", DType: graph.Float,
		Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(n.width)}},
	}}
	b := &netBuilder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(5, uint64(n.width)))}
	m.Graph.Outputs = []graph.Value{{Name: n.build(b), DType: graph.Float}}
	c, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	return c
}
