package calib

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// people makes rows of a standardised whole number, a one-hot pair, a wide skewed
// amount and a category that never occurs.
func people(n int) ([]float32, int) {
	r := rand.New(rand.NewPCG(5, 6))
	var x []float32
	for range n {
		years := float64(18 + r.IntN(60))
		amount := min(12, math.Exp(1.5*r.NormFloat64())/3)
		one := float32(r.IntN(2))
		x = append(x, float32((years-40)/13), one, 1-one, float32(amount), 0)
	}
	return x, 5
}

func TestFitInputIsExactOnLattices(t *testing.T) {
	x, dim := people(3000)
	set := FactualSet(x, dim)
	in := FitInput(x, dim, nil)
	must.Do(t, in.Check(dim))
	if most := dim + max(minExtra, dim/2); len(in.Columns) > most {
		t.Errorf("%d columns, at most %d are paid for", len(in.Columns), most)
	}
	shown := in.Round(x, dim)
	for i := range set.Rows() {
		got := shown[i*dim : (i+1)*dim]
		for j := range dim {
			tol := 1e-4 // a lattice: whole years, one-hots
			if j == 3 {
				tol = float64(in.Scale)*0.51 + 1e-4
			}
			if d := math.Abs(float64(got[j] - x[i*dim+j])); d > tol {
				t.Fatalf("row %d column %d: %v became %v", i, j, x[i*dim+j], got[j])
			}
		}
	}
}

// A column of which the set shows one value, and one whose lattice is finer than the grid: the first must have room for
// what the domain or chance may bring, the second must be off by at most half a grid step in spite of its segments.
func TestFitInputCorners(t *testing.T) {
	var x []float32
	for i := range 500 {
		x = append(x, 1, 7, float32(i)*0.011)
	}
	in := FitInput(x, 3, [][]float32{{0, 1}, nil, nil})
	must.Do(t, in.Check(3))
	rows := append([]float32{0, 6, 0, 0, 8, 0}, x...)
	shown := in.Round(rows, 3)
	for i := range len(rows) / 3 {
		for j, v := range shown[i*3 : (i+1)*3] {
			if d := math.Abs(float64(v - rows[i*3+j])); d > 0.502*float64(in.Scale)/float64(in.Columns[j].Gain) {
				t.Fatalf("row %d, column %d: %v became %v, off by %.2f steps", i, j, rows[i*3+j], v, d/float64(in.Scale))
			}
		}
	}
}

// net is in -> hidden (Relu) -> 2 with random weights.
func net(t *testing.T, dim, hidden int) (*classifier.Model, []quant.LayerInfo) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	gemm := func(in, w, b, out string) *graph.Node {
		return &graph.Node{
			Op: "Gemm", Name: out, Inputs: []string{in, w, b}, Outputs: []string{out},
			Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
		}
	}
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name: "net",
		Inputs: []graph.Value{{
			Name: "x", DType: graph.Float,
			Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(dim)}},
		}},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w1", draw(hidden*dim), int64(hidden), int64(dim)),
			graph.FromFloats("b1", draw(hidden), int64(hidden)),
			graph.FromFloats("w2", draw(2*hidden), 2, int64(hidden)), graph.FromFloats("b2", draw(2), 2),
		},
		Nodes: []*graph.Node{
			gemm("x", "w1", "b1", "h"),
			{Op: "Relu", Name: "r", Inputs: []string{"h"}, Outputs: []string{"a"}},
			gemm("a", "w2", "b2", "z"),
		},
	}}
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	c := must.Get(classifier.New(loaded, classifier.Options{Batch: 100}))(t)
	t.Cleanup(func() {
		must.Do(t, c.Close())
	})
	layers := must.Get(quant.FindLayers(m))(t)
	must.Same(t, 2, len(layers))
	return c, layers
}

// The statistics against sums over rows written out, with the hidden layer computed by hand.
func TestCollect(t *testing.T) {
	x, dim := people(250)
	c, layers := net(t, dim, 4)
	set := FactualSet(x, dim)
	stats := must.Get(Collect(context.Background(), c, layers, set, nil))(t)
	want := make([]float64, 16)
	var largest, n float64
	for i := range 250 {
		var h [4]float64
		for o := range h {
			h[o] = float64(layers[0].B[o])
			for j := range dim {
				h[o] += float64(layers[0].W[o*dim+j]) * float64(x[i*dim+j])
			}
			h[o] = max(0, h[o])
			largest = max(largest, h[o])
		}
		for a := range h {
			if h[a] == 0 { // in no bin
				n++
			}
			for b := range h {
				want[a*4+b] += h[a] * h[b] / 250
			}
		}
	}
	for i, w := range want {
		must.Near(must.In(t, i), w, stats[1].Gram[i], 1e-4*(1+math.Abs(w)))
	}
	if stats[1].Min != 0 || math.Abs(float64(stats[1].Max)-largest) > 1e-4 {
		t.Errorf("range [%v, %v], want [0, %v]", stats[1].Min, stats[1].Max, largest)
	}
	for _, v := range stats[1].Hist {
		n += v
	}
	must.Same(t, 250*4, n)
}

// The reconstruction error from the Gram matrix equals the mean squared difference of the layer's outputs over the
// rows, and the fitted scale is never worse than the one that clips nothing.
func TestFitWeightsNearest(t *testing.T) {
	x, dim := people(250)
	c, layers := net(t, dim, 4)
	stats := must.Get(Collect(context.Background(), c, layers, FactualSet(x, dim), nil))(t)
	l, s := layers[0], &stats[0]
	round := nearest(s.Gram, l.In)
	for _, f := range quant.Formats() {
		fit := fitOne(t, l, s, f, WeightOptions{Workers: 2})
		for o, scale := range fit.Scales {
			w := l.Row(o)
			codes := make([]int8, l.In)
			fitted := round(w, scale, f, codes, nil, unlimited)
			direct := outputError(x, dim, w, codes, scale, 0)
			must.Near(must.In(t, f.Bits, o), direct, fitted, 1e-4*(1e-3+direct))
			var largest float32
			for _, v := range w {
				largest = max(largest, float32(math.Abs(float64(v))))
			}
			if plain := round(w, largest/float32(f.QMax), f, nil, nil, unlimited); fitted > plain*(1+1e-9) {
				t.Errorf("%d bits, output %d: the fitted scale errs by %v, max-abs by %v", f.Bits, o, fitted, plain)
			}
		}
		must.Same(t, 1, len(fitOne(t, l, s, f, WeightOptions{PerTensor: true}).Scales))
	}
}

func fitOne(t *testing.T, l quant.LayerInfo, s *Stats, f quant.Format, o WeightOptions) quant.Layer {
	t.Helper()
	fits := must.Get(FitWeights(context.Background(), l, s, []quant.Format{f}, o))(t)
	return fits[0]
}

// outputError is the mean squared difference of one output over the rows, after the bias moved by shift.
func outputError(x []float32, dim int, w []float32, codes []int8, scale float32, shift float64) float64 {
	var sum float64
	rows := len(x) / dim
	for i := range rows {
		d := -shift
		for j, v := range w {
			d += float64(v-quant.Dequantize(codes[j], scale)) * float64(x[i*dim+j])
		}
		sum += d * d / float64(rows)
	}
	return sum
}

// Compensated rounding against every assignment of codes there is: never better than the best, on the whole much nearer
// to it than rounding to the nearest, and with no error left in the mean.
func TestGPTQ(t *testing.T) {
	x, dim := people(250)
	c, layers := net(t, dim, 12)
	stats := must.Get(Collect(context.Background(), c, layers, FactualSet(x, dim), nil))(t)
	l, s := layers[0], &stats[0]
	f := must.Get(quant.FormatOf(2, false))(t)
	fit := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ})
	plain := fitOne(t, l, s, f, WeightOptions{})
	mirrored := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Mirror: true})
	var best, ours, turned, rounded float64
	for o, scale := range fit.Scales {
		w := l.Row(o)
		got := outputError(x, dim, w, fit.Codes[o*dim:(o+1)*dim], scale, float64(fit.Bias[o]-l.B[o]))
		least := exhaustive(x, dim, w, scale, f, s.Mean)
		if got < least*(1-1e-4) {
			t.Errorf("output %d: error %v is below the least there is, %v", o, got, least)
		}
		best, ours = best+least, ours+got
		turned += outputError(x, dim, w, mirrored.Codes[o*dim:(o+1)*dim], mirrored.Scales[o],
			float64(mirrored.Bias[o]-l.B[o]))
		codes := make([]int8, dim)
		nearest(s.Gram, dim)(w, plain.Scales[o], f, codes, nil, unlimited)
		rounded += outputError(x, dim, w, codes, plain.Scales[o], 0)
		var mean float64
		for j, v := range w {
			mean += (float64(v) - float64(quant.Dequantize(fit.Codes[o*dim+j], scale))) * s.Mean[j]
		}
		near := math.Abs(mean-float64(fit.Bias[o]-l.B[o])) < 1e-5
		if !near {
			t.Errorf("output %d: the mean moves by %v, the bias by %v", o, mean, fit.Bias[o]-l.B[o])
		}
	}
	t.Logf("mean squared error: %v best, %v by GPTQ, %v with mirrored rows, %v to the nearest", best, ours, turned,
		rounded)
	if !(turned < ours) || slices.Min(mirrored.Scales) >= 0 {
		t.Errorf("scales of mirrored rows: %v", mirrored.Scales)
	}
	if ours > 2*best || ours > 0.6*rounded {
		t.Errorf("error %v: the best there is %v, to the nearest %v", ours, best, rounded)
	}
}

func exhaustive(x []float32, dim int, w []float32, scale float32, f quant.Format, mean []float64) float64 {
	codes := make([]int8, dim)
	for j := range codes {
		codes[j] = int8(f.QMin)
	}
	least := math.Inf(1)
	for {
		var shift float64
		for j, v := range w {
			shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * mean[j]
		}
		least = min(least, outputError(x, dim, w, codes, scale, shift))
		j := 0
		for ; j < dim && int(codes[j]) == f.QMax; j++ {
			codes[j] = int8(f.QMin)
		}
		if j == dim {
			return least
		}
		codes[j]++
	}
}

// binError sums the squared errors over the bins' centres, one by one.
func binError(s *Stats, a quant.Act) float64 {
	width := (float64(s.Max) - float64(s.Min)) / histBins
	var sum float64
	for b, n := range s.Hist {
		x := float64(s.Min) + (float64(b)+0.5)*width
		e := x - float64(a.Apply(float32(x)))
		sum += n * e * e
	}
	return sum
}

func TestActivation(t *testing.T) {
	s := &Stats{Min: 0, Max: 10, Hist: make([]float64, histBins)}
	for b := range histBins / 10 {
		s.Hist[b] = 100
	}
	s.Hist[histBins-1] = 1 // one far value
	a := Activation(s, 4)
	must.Same(t, 0, a.Zero)
	if wide := quant.FitAct(4, 0, 10); binError(s, a) >= binError(s, wide) {
		t.Errorf("clipping at %v does not beat the full range", a.Scale*float32(a.QMax()))
	}
	if a := Activation(&Stats{Hist: make([]float64, histBins)}, 8); a.Check() != nil {
		t.Error("a layer that is always zero has no usable quantizer")
	}
}

type half struct{}

func (half) Dim() int { return 2 }

func (half) Margins(_ context.Context, x []float32) ([]float32, error) {
	m := make([]float32, len(x)/2)
	for i := range m {
		m[i] = x[2*i] - 1
	}
	return m, nil
}

func (h half) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, err = h.Margins(ctx, x)
	g = make([]float32, len(x))
	for i := range m {
		g[2*i] = 1
	}
	return m, g, err
}

func (h half) LossGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, g, err = h.MarginGrads(ctx, x)
	for i, v := range m {
		g[2*i] = float32(-1 / (1 + math.Exp(float64(v))))
	}
	return m, g, err
}

func TestCounterfactual(t *testing.T) {
	parsed := must.Get(task.Parse("t.yaml", []byte("version: 1\ndata: {label: y, favourable: \"1\"}\nfeatures:\n"+
		"  - {name: a, kind: numeric, mean: 0, std: 1}\n  - {name: b, kind: numeric, mean: 0, std: 1}\n")))(t)
	a := must.Get(constraint.Compile(parsed))(t)
	x := []float32{2, 0, 0, 1, 3, 0, .5, -1}
	set := must.Get(Counterfactual(context.Background(), half{}, a, x, recourse.TeacherOptions{}))(t)
	if set.Factual != 4 || set.Recourse != 2 || set.Source[0] != 1 || set.Source[1] != 3 {
		t.Fatalf("%d facts, %d points of rows %v; rows 1 and 3 are refused", set.Factual, set.Recourse, set.Source)
	}
	for i, p := range set.Source {
		if !set.Reached[i] || set.Points()[2*i] <= 1 || set.Points()[2*i+1] != x[2*p+1] {
			t.Errorf("row %d moved to %v", p, set.Points()[2*i:2*i+2])
		}
	}
}
