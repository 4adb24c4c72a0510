package calib

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// images makes a classifier x [N, 36] -> [4, 3, 3] -> Conv in groups -> Clip -> Conv -> Flatten -> Gemm.
func images(t *testing.T, groups int64) (*graph.Model, *classifier.Model, []quant.LayerInfo) {
	t.Helper()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 36}}}}
	b := graph.NewBuilder(m.Graph, "")
	rng := rand.New(rand.NewPCG(8, 8))
	random := func(dims ...int64) string {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return b.Const(graph.FromFloats("w", v, dims...))
	}
	h := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", []int64{-1, 4, 3, 3}, 4))})
	h = b.Op("Conv", []string{h, random(8, 4/groups, 2, 2), random(8)}, graph.IntAttr("group", groups),
		graph.IntsAttr("pads", 1, 0, 0, 1))
	h = b.Op("Clip", []string{
		h, b.Const(graph.FromFloats("lo", []float32{0})),
		b.Const(graph.FromFloats("hi", []float32{2})),
	})
	h = b.Op("Conv", []string{h, random(2, 8, 1, 1)})
	y := b.Op("Gemm", []string{b.Op("Flatten", []string{h}), random(2, 18)}, graph.IntAttr("transB", 1))
	m.Graph.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
	layers := must.Get(quant.FindLayers(m))(t)
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	c := must.Get(classifier.New(loaded, classifier.Options{Batch: 7}))(t)
	t.Cleanup(func() {
		must.Do(t, c.Close())
	})
	return m, c, layers
}

func imageSet(rows int) *Set {
	rng := rand.New(rand.NewPCG(2, 9))
	x := make([]float32, rows*36)
	for i := range x {
		x[i] = float32(rng.NormFloat64() + 0.3)
	}
	return FactualSet(x, 36)
}

// meansOf returns, for each output of the layer, the mean of value over the rows and the positions.
func meansOf(t *testing.T, m *graph.Model, value string, outs int, s *Set) []float64 {
	t.Helper()
	c := m.Clone()
	c.Graph.Outputs = []graph.Value{{Name: value}}
	v := must.Get(orttest.Run(t, c, orttest.Need(t), graph.FromFloats("x", s.X, int64(s.Rows()), 36))[0].Floats())(t)
	out := make([]float64, outs)
	places := len(v) / s.Rows() / outs
	for k, y := range v {
		out[k/places%outs] += float64(y) / float64(places*s.Rows())
	}
	return out
}

// TestConvBias: the bias takes up, exactly, what the codes do to the mean of each output over all positions and rows,
// as ONNX Runtime computes it: so the means of the patches are right, group by group, and so is their order in a row.
func TestConvBias(t *testing.T) {
	for _, groups := range []int64{1, 2, 4} {
		m, c, layers := images(t, groups)
		set := imageSet(50)
		stats := must.Get(Collect(context.Background(), c, layers, set, nil))(t)
		l := layers[0]
		want := meansOf(t, m, l.Output, l.Out, set)
		for _, o := range []WeightOptions{{Rounding: GPTQ}, {Rounding: GPTQ, PerTensor: true}} {
			fits := must.Get(FitWeights(context.Background(), l, &stats[0], quant.Formats(), o))(t)
			for _, fit := range fits {
				rounded := m.Clone()
				w := make([]float32, len(l.W))
				for i, q := range fit.Codes {
					w[i] = quant.Dequantize(q, fit.Scales[i/l.In%len(fit.Scales)])
				}
				for k, old := range rounded.Graph.Inits {
					switch old.Name {
					case l.Weight:
						rounded.Graph.Inits[k] = graph.FromFloats(old.Name, w, old.Dims...)
					case l.Bias:
						rounded.Graph.Inits[k] = graph.FromFloats(old.Name, fit.Bias, old.Dims...)
					}
				}
				for i, got := range meansOf(t, rounded, l.Output, l.Out, set) {
					if math.Abs(got-want[i]) > 1e-4 {
						t.Fatalf("%d groups, %+v, %d bits: output %d has the mean %v, want %v", groups, o, fit.Bits, i, got, want[i])
					}
				}
			}
		}
	}
}

// TestConvGroups: a convolution in groups is fitted as several convolutions, each
// on its channels alone; and its second moments are those of the patches.
func TestConvGroups(t *testing.T) {
	_, c, layers := images(t, 2)
	set := imageSet(40)
	stats := must.Get(Collect(context.Background(), c, layers, set, nil))(t)
	l := layers[0]
	formats := quant.Formats()
	whole := must.Get(FitWeights(context.Background(), l, &stats[0], formats, WeightOptions{Rounding: GPTQ}))(t)
	for g, part := range l.Groups() {
		alone := newStats(part)
		patch := make([]float64, l.In)
		for r := range set.Rows() {
			for p := range l.Positions {
				l.Conv.Patch(patch, set.X[r*36:(r+1)*36], g, p)
				for i, a := range patch {
					alone.Mean[i] += a
					for j, b := range patch {
						alone.Gram[i*l.In+j] += a * b
					}
				}
			}
		}
		alone.divide(set.Rows() * l.Positions)
		at := stats[0].group(g, 2)
		for i, v := range alone.Gram {
			must.Near(must.In(t, g, i), at.Gram[i], v, 1e-9)
		}
		fits := must.Get(FitWeights(context.Background(), part, &alone, formats, WeightOptions{Rounding: GPTQ}))(t)
		for i, f := range fits {
			from, to := g*part.Out, (g+1)*part.Out
			if !slices.Equal(f.Scales, whole[i].Scales[from:to]) || !slices.Equal(f.Codes, whole[i].Codes[from*l.In:to*l.In]) {
				t.Errorf("group %d at %d bits is fitted differently by itself", g, f.Bits)
			}
		}
	}
}

// TestPlaces: few positions stand for many without preferring any.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ in, groups, positions, want int }{
		{9, 1, 50, 50}, {9, 1, 784, 64}, {576, 1, 784, 4}, {576, 1, 3, 3}, {9, 64, 784, 64}, {100, 2, 784, 52},
	} {
		l := quant.LayerInfo{In: c.in, Conv: &quant.Conv{Group: c.groups, Axes: []autodiff.Axis{{Size: c.positions}}}}
		must.Same(t, c.want, places(l))
	}
	const n, all = 64, 784
	seen := make([]int, all)
	for row := range 1300 {
		var in []int
		for k := range n {
			p := place(k, n, all, row)
			seen[p]++
			in = append(in, p)
		}
		slices.Sort(in)
		must.Same(must.In(t, row), n, len(slices.Compact(in)))
	}
	if least, most := slices.Min(seen), slices.Max(seen); least < 90 || most > 210 {
		t.Errorf("positions are looked at %d to %d times", least, most)
	}
}

// TestFitOutputs: an output quantizer covers what stands behind the convolution,
// within its bounds, and what comes straight from it is not rounded again.
func TestFitOutputs(t *testing.T) {
	_, c, layers := images(t, 1)
	set := imageSet(60)
	outs := must.Get(FitOutputs(context.Background(), c, layers, set, 8))(t)
	first, second := outs.Result(layers[0].Node, Variation{}), outs.Result(layers[1].Node, Variation{})
	if first == nil || second == nil || outs.Result(layers[2].Node, Variation{}) != nil {
		t.Fatalf("quantizers %v %v", first, second)
	}
	if top := first.Apply(100); first.Zero != 0 || top > 2 {
		t.Errorf("behind a Clip from 0 to 2 stands %+v, up to %v", first, top)
	}
	if second.Zero == 0 {
		t.Errorf("%+v has no negative codes", second)
	}
	other := quant.Act{Bits: 8, Scale: 9}
	must.Same(t, *first, outs.Act(layers[1], Variation{}, other))
	must.Same(t, other, outs.Act(layers[0], Variation{}, other))
	// A jittered range may not leave the bounds, and both sides jitter alike.
	for seed := range uint64(8) {
		v := Variation{Seed: seed, Jitter: 0.3}
		r := outs.Result(layers[0].Node, v)
		if r.Apply(100) > 2 || outs.Act(layers[1], v, other) != *r {
			t.Errorf("jittered to %+v", r)
		}
	}
}
