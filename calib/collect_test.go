package calib

import (
	"context"
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
	"cfq/recourse"
)

func agree(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	must.Same(must.In(t, what), len(want), len(got))
	for i, w := range want {
		if !(math.Abs(got[i]-w) <= tol*(1+math.Abs(w))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], w)
		}
	}
}

func TestCollectWeights(t *testing.T) {
	x, dim := people(250)
	c, layers := net(t, dim, 4)
	weighted := FactualSet(x, dim)
	weighted.Weights = slices.Repeat([]float64{1, 2, 0, 3, 1}, 50)
	repeated := FactualSet(nil, dim)
	for r, w := range weighted.Weights {
		for range int(w) {
			repeated.X = append(repeated.X, x[r*dim:(r+1)*dim]...)
			repeated.Factual++
		}
	}
	// The ranges are those of all rows: a row of no weight must not widen the others'.
	for r := 2; r < 250; r += 5 {
		copy(weighted.X[r*dim:(r+1)*dim], weighted.X[:dim])
	}
	var stats [2][]Stats
	for i, set := range []*Set{weighted, repeated} {
		var err error
		if stats[i], err = Collect(context.Background(), c, layers, set, nil, true); err != nil {
			t.Fatal(err)
		}
	}
	for i := range layers {
		a, b := stats[0][i], stats[1][i]
		agree(t, "second moments", a.Gram, b.Gram, 1e-9)
		agree(t, "means", a.Mean, b.Mean, 1e-9)
		agree(t, "histogram", a.Hist, b.Hist, 1e-9)
		agree(t, "histogram by outputs", a.OutputHist, b.OutputHist, 1e-9)
		agree(t, "moments by logits", append(a.Logits.Gram, a.Logits.Mean...), append(b.Logits.Gram, b.Logits.Mean...), 1e-9)
		agree(t, "histogram by logits", a.LogitHist, b.LogitHist, 1e-9)
		for r := range layers[i].In {
			for k := range r {
				if a.Gram[r*layers[i].In+k] != a.Gram[k*layers[i].In+r] {
					t.Fatal("the second moments are not symmetric")
				}
			}
		}
	}
	weighted.Weights = weighted.Weights[1:]
	must.Fail(t, must.Err(Collect(context.Background(), c, layers, weighted, nil, false)), "")
}

// Statistics with gradients against the network differentiated by hand: the margin
// z1 - z0 depends on hidden unit o by v_o = w2_1o - w2_0o where that is positive.
func TestCollectLogits(t *testing.T) {
	x, dim := people(250)
	c, layers := net(t, dim, 4)
	set := FactualSet(x, dim)
	set.Weights = slices.Repeat([]float64{1, 2}, 125)
	stats := must.Get(Collect(context.Background(), c, layers, set, nil, true))(t)
	last := layers[1]
	gram, mean := make([]float64, dim*dim), make([]float64, dim)
	var total float64
	act := quant.FitAct(3, 0, stats[1].Max/2)
	var outputs, logits float64 // what act does to them, channel by channel
	for i := range 250 {
		h := make([]float64, 4)
		weight := 0.0
		for o := range h {
			h[o] = float64(layers[0].B[o])
			for j := range dim {
				h[o] += float64(layers[0].W[o*dim+j]) * float64(x[i*dim+j])
			}
			v := float64(last.W[4+o]) - float64(last.W[o])
			if h[o] > 0 {
				weight += v * v
			}
			h[o] = max(h[o], 0)
			e := h[o] - float64(act.Apply(float32(h[o])))
			a, b := float64(last.W[4+o]), float64(last.W[o])
			outputs += set.Weights[i] * (a*a + b*b) * e * e
			logits += set.Weights[i] * v * v * e * e
		}
		weight *= set.Weights[i]
		total += weight
		for a := range dim {
			mean[a] += weight * float64(x[i*dim+a])
			for b := range dim {
				gram[a*dim+b] += weight * float64(x[i*dim+a]) * float64(x[i*dim+b])
			}
		}
	}
	Moments{gram, mean}.divide(total)
	agree(t, "second moments", stats[0].Logits.Gram, gram, 1e-4)
	agree(t, "means", stats[0].Logits.Mean, mean, 1e-4)
	// The margin depends on both outputs of the last layer by 1 everywhere.
	agree(t, "moments of the last layer", stats[1].Logits.Gram, stats[1].Gram, 1e-6)
	sum := func(hist []float64) float64 {
		return newSpread(hist, float64(stats[1].Min), float64(stats[1].Max)).squaredError(act)
	}
	agree(t, "errors of activations", []float64{sum(stats[1].OutputHist), sum(stats[1].LogitHist)},
		[]float64{outputs, logits}, 2e-3)
	// The ranges of the kinds look at these.
	if a, b := Activation(&stats[1], 3, Output), Activation(&stats[1], 3, MSE); sum(stats[1].OutputHist) == 0 ||
		a == b && Activation(&stats[1], 3, Logits) == b {
		t.Error("all kinds give the same range")
	}
	for _, o := range []WeightOptions{{Range: Logits}, {Range: Logits, Rounding: GPTQ}} {
		f := quant.Formats()[0]
		fit := fitOne(t, layers[0], &stats[0], f, o)
		o.Range = Output
		plain := fitOne(t, layers[0], &stats[0], f, o)
		o.Range = Output
		swapped := stats[0]
		swapped.Gram, swapped.Mean = stats[0].Logits.Gram, stats[0].Logits.Mean
		want := fitOne(t, layers[0], &swapped, f, o)
		if !slices.Equal(fit.Scales, want.Scales) || !slices.Equal(fit.Codes, want.Codes) ||
			!slices.Equal(fit.Bias, want.Bias) {
			t.Error("the kind logits does not fit by the weighted moments")
		}
		if slices.Equal(fit.Scales, plain.Scales) && slices.Equal(fit.Codes, plain.Codes) {
			t.Error("weighting the moments makes no difference")
		}
	}
}

// A layer that the margin does not depend on counts its rows as without gradients.
func TestFinishWithoutGradients(t *testing.T) {
	s := newStats(quant.LayerInfo{In: 2}, true)
	copy(s.Gram, []float64{2, 4, 4, 8})
	copy(s.Mean, []float64{6, 8})
	s.OutputHist[3] = 5
	s.finish(2, 0)
	agree(t, "moments", append(s.Logits.Gram, s.Logits.Mean...), []float64{1, 2, 2, 4, 3, 4}, 0)
	must.Same(t, 5, s.LogitHist[3])
}

func TestWeigh(t *testing.T) {
	s := FactualSet(make([]float32, 4), 1)
	// 1/(0.5+|m|): 2, 1, 0.5 and nothing, mean 0.875.
	s.Weigh([]float32{0, -0.5, 1.5, float32(math.NaN())})
	agree(t, "weights", s.Weights, []float64{2 / 0.875, 1 / 0.875, 0.5 / 0.875, 0}, 1e-12)
	s.Weigh([]float32{float32(math.Inf(1)), 3, 3, float32(math.Inf(-1))})
	agree(t, "weights", s.Weights, []float64{0, 2, 2, 0}, 1e-12)
	nan := float32(math.NaN())
	if s.Weigh([]float32{nan, nan, nan, nan}); s.Weights != nil {
		t.Errorf("without margins the weights are %v", s.Weights)
	}
	s.X = []float32{0, 1, 2, 3}
	s.Weights = []float64{0, 10, 20, 30}
	for i, b := 0, s.Batch(4, 3); i < 4; i++ {
		must.Same(t, 10*float64(b.X[i]), b.Weights[i])
	}
}

// TestPromised: the points of those who were promised something, whether the model keeps it or not;
// a promise to change nothing adds none.
func TestPromised(t *testing.T) {
	x := []float32{2, 0, 0, 1, 3, 0, .5, -1}
	to := func(i int, a, b float32) recourse.Action {
		return recourse.Action{Status: recourse.Found, Point: []float32{a, b}, Delta: []float32{a - x[2*i], b - x[2*i+1]}}
	}
	none := recourse.Action{Status: recourse.NoneFound, Point: x[:2], Delta: make([]float32, 2)}
	set, err := Promised(t.Context(), half{}, x, []recourse.Action{to(0, 3, 0), none, to(2, 3, 0), to(3, .75, 0)})
	must.Do(t, err)
	if set.Factual != 4 || set.Recourse != 2 || !slices.Equal(set.Source, []int{0, 3}) ||
		!slices.Equal(set.Points(), []float32{3, 0, .75, 0}) {
		t.Errorf("%+v", set)
	}
	if !slices.Equal(set.Reached, []bool{true, false}) || !slices.Equal(set.Facts(), x) ||
		!slices.Equal(set.Moved(), []float32{3, 0, 0, 1, 3, 0, .75, 0}) {
		t.Errorf("reached %v, moved %v", set.Reached, set.Moved())
	}
	must.Fail(t, must.Err(Promised(t.Context(), half{}, x, nil)), "")
}
