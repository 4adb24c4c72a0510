package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
)

// What searches compute is the error of rounding to the nearest, or, beyond the
// limit, something above the limit that is not above the error.
func TestSearcher(t *testing.T) {
	l, s := layerOf(4, 12)
	f := quant.Formats()[1]
	search, direct := searcher(s.Gram, l.In), nearest(s.Gram, l.In)
	for r := range l.Out {
		scale := 0.4 + 0.1*float32(r)
		want := direct(l.Row(r), scale, f, nil, nil, unlimited)
		must.Near(t, want, search(l.Row(r), scale, f, nil, nil, unlimited), 1e-6*want)
		if got := search(l.Row(r), scale, f, nil, nil, want/3); got <= want/3 || got > want*(1+1e-6) {
			t.Errorf("error %v of %v with the limit %v", got, want, want/3)
		}
	}
	// Moments of a single row, and of nothing: no Cholesky factor without damping.
	flat := &Stats{Moments: Moments{[]float64{1, 2, 2, 4}, []float64{1, 2}}}
	for _, gram := range [][]float64{flat.Gram, make([]float64, 4)} {
		got := searcher(gram, 2)([]float32{.3, .4}, 1, f, nil, nil, unlimited)
		must.Near(t, nearest(gram, 2)([]float32{.3, .4}, 1, f, nil, nil, unlimited), got, 1e-6)
	}
}

// AdaRound and GPTQ against every assignment of codes there is:
// never below the best, AdaRound never behind GPTQ, both much nearer to the best than
// rounding to the nearest, with no error left in the mean.
func TestAdaRound(t *testing.T) {
	const dim, outputs, rows = 6, 8, 150
	r := rand.New(rand.NewPCG(6, 6))
	x := make([]float32, 0, rows*dim)
	for range rows {
		common := r.NormFloat64()
		for range dim {
			x = append(x, float32(common+r.NormFloat64()/2+1))
		}
	}
	l := quant.LayerInfo{Node: "n", In: dim, Out: outputs, W: make([]float32, dim*outputs), B: make([]float32, outputs)}
	for k := range l.W {
		l.W[k] = float32(r.NormFloat64())
	}
	s := unit(dim)
	clear(s.Gram)
	for i := range rows {
		for a := range dim {
			s.Mean[a] += float64(x[i*dim+a]) / rows
			for b := range dim {
				s.Gram[a*dim+b] += float64(x[i*dim+a]) * float64(x[i*dim+b]) / rows
			}
		}
	}
	f := quant.Formats()[0]
	fit := fitOne(t, l, s, f, WeightOptions{Rounding: AdaRound, Range: MSE})
	gptq := fitOne(t, l, s, f, WeightOptions{Rounding: GPTQ, Range: MSE})
	var best, ours, theirs, rounded float64
	for o, scale := range fit.Scales {
		w := l.Row(o)
		// The error with the bias that suits the codes, and with the one that was fitted.
		free := func(codes []int8) float64 {
			shift := 0.0
			for j, v := range w {
				shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * s.Mean[j]
			}
			return outputError(x, dim, w, codes, scale, shift)
		}
		codes := fit.Codes[o*dim : (o+1)*dim]
		got := outputError(x, dim, w, codes, scale, float64(fit.Bias[o]-l.B[o]))
		if d := math.Abs(got - free(codes)); d > 1e-5*got {
			t.Errorf("output %d: the bias leaves %v of the mean's error", o, d)
		}
		least := exhaustive(x, dim, w, scale, f, s.Mean)
		if got < least*(1-1e-4) {
			t.Errorf("output %d: error %v is below the least there is, %v", o, got, least)
		}
		nearby := make([]int8, dim)
		nearest(s.Gram, dim)(w, scale, f, nearby, nil, unlimited)
		best, ours, theirs, rounded = best+least, ours+got, theirs+free(gptq.Codes[o*dim:(o+1)*dim]), rounded+free(nearby)
	}
	t.Logf("mean squared error: %v best, %v by AdaRound, %v by GPTQ, %v to the nearest with the bias corrected", best,
		ours, theirs, rounded)
	if ours > 1.1*best || ours > theirs*1.01 || ours > 0.6*rounded {
		t.Error("AdaRound errs too much")
	}
}

// What is learned alone, before anything is polished or compared, is better than
// rounding to the nearest.
func TestAdaptationLearns(t *testing.T) {
	l, s := layerOf(6, 24)
	c := must.Get(newCovariance(s.Moments))(t)
	for _, f := range quant.Formats()[:3] {
		var learned, rounded float64
		for r := range l.Out {
			w := l.Row(r)
			scale := (slices.Max(w) - slices.Min(w)) / float32(f.QMax-f.QMin)
			a := newAdaptation(c, w, scale, f, nil)
			codes := make([]int8, l.In)
			for j, v := range w {
				codes[j] = f.Quantize(v, scale)
			}
			rounded += c.error(w, scale, codes)
			for step := range adaptSteps {
				a.step(c, step)
			}
			undecided := 0
			for j, h := range a.h {
				if codes[j] = int8(a.floor[j] + math.Round(h)); int(codes[j]) < f.QMin || int(codes[j]) > f.QMax {
					t.Fatalf("code %d", codes[j])
				}
				if h > 0.05 && h < 0.95 {
					undecided++
				}
			}
			if undecided > l.In/4 {
				t.Errorf("%d bits, row %d: %d of %d weights are between two codes in the end", f.Bits, r, undecided, l.In)
			}
			learned += c.error(w, scale, codes)
		}
		t.Logf("%d bits: error %v learned, %v to the nearest", f.Bits, learned, rounded)
		if learned > 0.7*rounded {
			t.Errorf("%d bits: error %v learned, %v to the nearest", f.Bits, learned, rounded)
		}
	}
}

func TestAdaptationGradient(t *testing.T) {
	l, s := layerOf(1, 7)
	c := must.Get(newCovariance(s.Moments))(t)
	a := newAdaptation(c, l.W, 0.5, quant.Formats()[2], nil)
	r := rand.New(rand.NewPCG(1, 1))
	for j := range a.v {
		a.v[j] = 2 * r.NormFloat64()
	}
	loss := func(pull, beta float64) float64 {
		a.rectify()
		sum := 0.0
		for i, d := range a.d {
			for j, e := range a.d {
				sum += d * e * c.matrix[i*c.n+j] / a.unit
			}
			sum += pull * (1 - math.Pow(math.Abs(2*a.h[i]-1), beta))
		}
		return sum
	}
	for _, tt := range [][2]float64{{0, 20}, {0.3, 2}, {0.3, 5.5}} {
		for j := range a.v {
			const step = 1e-6
			at := a.v[j]
			a.v[j] = at + step
			up := loss(tt[0], tt[1])
			a.v[j] = at - step
			down := loss(tt[0], tt[1])
			a.v[j] = at
			loss(tt[0], tt[1])
			a.gradient(c, tt[0], tt[1])
			if want := (up - down) / (2 * step); math.Abs(a.grad[j]-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("pull %v, beta %v: gradient %v, want %v", tt[0], tt[1], a.grad[j], want)
			}
		}
	}
}

// After polishing no code can move by one to any good, and the error is what it
// says and not larger than before.
func TestPolish(t *testing.T) {
	l, s := layerOf(5, 16)
	c := must.Get(newCovariance(s.Moments))(t)
	moved := 0
	for _, f := range quant.Formats()[:3] {
		for r := range l.Out {
			w, scale := l.Row(r), float32(1)/float32(f.QMax)
			codes := make([]int8, l.In)
			nearest(s.Gram, l.In)(w, scale, f, codes, nil, unlimited)
			before := c.error(w, scale, codes)
			got := c.polish(w, scale, f, codes)
			at := c.error(w, scale, codes)
			if math.Abs(got-at) > 1e-6*(1+at) || at > before*(1+1e-9) {
				t.Errorf("error %v, said to be %v, %v before", at, got, before)
			}
			if at < before {
				moved++
			}
			for j := range codes {
				for _, step := range []int{-1, 1} {
					to := int(codes[j]) + step
					if to < f.QMin || to > f.QMax {
						continue
					}
					other := slices.Clone(codes)
					other[j] = int8(to)
					if e := c.error(w, scale, other); e < at*(1-1e-6) {
						t.Errorf("moving code %d by %d makes %v of %v", j, step, e, at)
					}
				}
			}
		}
	}
	if moved == 0 {
		t.Error("nothing was polished")
	}
}
