package certify_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// The damage of a layer is that of the same network with the layer's weights rounded by hand.
func TestLayerDamage(t *testing.T) {
	o := orttest.Need(t)
	for i, c := range []struct {
		net  shape
		ways ways
	}{
		{shape{widths: []int{4, 8, 6, 2}, act: "Relu"}, ways{bits: 4, act: 8, channels: true}},
		{shape{widths: []int{4, 8, 2}, act: "Relu"}, ways{bits: 3, weightOnly: true}},
		{shape{widths: []int{6, 8, 1}, act: "Relu", matmul: true}, ways{bits: 2, act: 8}},
		{shape{widths: []int{6, 8, 6, 2}, act: "Relu"}, ways{bits: 4, act: 8, grid: true}},
		{shape{widths: []int{6, 8, 6, 2}, act: "Relu", scaled: true}, ways{bits: 8, act: 8, grid: true, channels: true}},
	} {
		rng := rand.New(rand.NewPCG(21, uint64(i)))
		f := net(rng, c.net)
		p := opened(t, f, quantized(t, f, c.ways), 1, o)
		const n = 50
		points := normal(rng, n*c.net.widths[0], 1)
		damage, err := p.k.LayerDamage(t.Context(), points, n)
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		m, err := onnxio.Canonical(f)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := quant.FindLayers(m)
		if err != nil || len(layers) != len(damage) {
			t.Fatalf("%d: %d layers, damage of %d: %v", i, len(layers), len(damage), err)
		}
		before, err := p.f.Margins(t.Context(), points)
		if err != nil {
			t.Fatal(err)
		}
		for k, l := range layers {
			if damage[k].Node != l.Node {
				t.Fatalf("%d: damage of %q, want %q", i, damage[k].Node, l.Node)
			}
			after := rounded(t, m, l, c.ways, k == 0, points, 1)
			sum := 0.0
			for j := range after {
				d := float64(after[j]) - float64(before[j])
				sum += d * d
			}
			if want := math.Sqrt(sum / n); math.Abs(damage[k].RMS-want) > 1e-4+0.02*want || want < 1e-4 {
				t.Errorf("%d: layer %s: damage %v, want %v", i, l.Node, damage[k].RMS, want)
			}
		}
	}
}

// rounded returns the margins of m when the weights of l are rounded to the scales of the plan that quantized makes.
func rounded(t testing.TB, m *graph.Model, l quant.LayerInfo, w ways, first bool, points []float32, target int) []float32 {
	t.Helper()
	f, err := quant.FormatOf(w.bits, false)
	if err != nil {
		t.Fatal(err)
	}
	v, bias := make([]float32, len(l.W)), make([]float32, l.Out)
	for o := range l.Out {
		bias[o] = l.B[o]
		of := l.W
		if w.channels {
			of = l.Row(o)
		}
		scale := float64(1e-9)
		for _, x := range of {
			if x > 0 {
				scale = math.Max(scale, float64(x)/float64(f.QMax))
			} else {
				scale = math.Max(scale, float64(x)/float64(f.QMin))
			}
		}
		for j := range l.In {
			gain := 1.0
			if w.grid && first && j%3 == 1 {
				gain = 1.1
			}
			q := math.RoundToEven(float64(l.W[o*l.In+j]) / gain / scale)
			q = math.Max(float64(f.QMin), math.Min(q, float64(f.QMax)))
			v[o*l.In+j] = float32(q * scale * gain)
			if w.grid && first { // the grid begins elsewhere than at 0, for which the bias makes up with the weights as they were
				bias[o] += (l.W[o*l.In+j] - v[o*l.In+j]) * []float32{-3.6, -2, 0}[j%3]
			}
		}
	}
	c := m.Clone()
	for i, x := range c.Graph.Inits {
		if x.Name == l.Weight {
			c.Graph.Inits[i] = graph.FromFloats(x.Name, v, x.Dims...)
		}
		if x.Name == l.Bias {
			c.Graph.Inits[i] = graph.FromFloats(x.Name, bias, x.Dims...)
		}
	}
	k, err := classifier.New(t.Context(), c, classifier.Options{Target: &target, Engine: orttest.Need(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close() //nolint:errcheck // nothing was written
	out, err := k.Margins(t.Context(), points)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
