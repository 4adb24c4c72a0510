package qat

import (
	"context"
	"math/rand/v2"
	"testing"

	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
)

// BenchmarkStep times a step of the network and batch that bench/torch_step.py times in PyTorch: 104-64-32-2 and 256
// rows, weights in their own units (LSQ) and in units of their scale.
func BenchmarkStep(b *testing.B) {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	g := &graph.Graph{Inputs: []graph.Value{{
		Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 104}},
	}}}
	build := graph.NewBuilder(g, "")
	sizes := []int64{104, 64, 32, 2}
	h := "x"
	for k := range 3 {
		w := random(int(sizes[k] * sizes[k+1]))
		for i := range w {
			w[i] /= 10
		}
		h = build.Op("Gemm", []string{
			h, build.Const(graph.FromFloats("w", w, sizes[k+1], sizes[k])),
			build.Const(graph.FromFloats("b", make([]float32, sizes[k+1]), sizes[k+1])),
		}, graph.IntAttr("transB", 1))
		if k < 2 {
			h = build.Op("Relu", []string{h})
		}
	}
	g.Outputs = []graph.Value{{Name: h, DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}}
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
	c, err := classifier.Open(ctx, m, ort.Options{}, classifier.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	infos, err := quant.FindLayers(m)
	if err != nil {
		b.Fatal(err)
	}
	var layers []Layer
	for _, l := range infos {
		p := quant.Layer{Node: l.Node, Bits: 4, Scales: make([]float32, l.Out)}
		for i := range p.Scales {
			p.Scales[i] = 0.0183 // exp(-4)
		}
		layers = append(layers, Layer{Info: l, Plan: p})
	}
	for name, lsq := range map[string]bool{"lsq": true, "ratios": false} {
		b.Run(name, func(b *testing.B) {
			o, err := Options{LSQ: lsq}.resolve(c)
			if err != nil {
				b.Fatal(err)
			}
			s, err := compile(c, layers, &o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			columns := map[string][]float32{"qat.want": random(256), "qat.near": random(256)}
			batch := &batch{x: random(256 * 104), columns: columns}
			for i := range batch.columns["qat.near"] {
				batch.columns["qat.near"][i] = 1
			}
			for b.Loop() {
				if _, err := s.run(ctx, batch, 1e-3); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
