package calib

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

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

func TestDescending(t *testing.T) {
	got := descending([]float64{2, 9, 9, 9, 9, 5, 9, 9, 9, 9, 2, 9, 9, 9, 9, 4}, 4)
	if !slices.Equal(got, []int{1, 3, 0, 2}) {
		t.Errorf("columns of 2, 5, 2 and 4 in the order %v", got)
	}
}

// After polishing no code can move by one to any good, and the error is what it says and not larger than before.
func TestPolish(t *testing.T) {
	l, s := layerOf(5, 16)
	c := must.Get(newCovariance(s.Moments))(t)
	moved := 0
	for _, f := range quant.Formats()[:3] {
		for r := range l.Out {
			w, scale := l.Row(r), float32(1)/float32(f.QMax)
			codes := make([]int8, l.In)
			nearest(s.Gram, l.In)(w, scale, f, codes, nil, unlimited)
			before := errorOf(c, w, scale, codes)
			got := c.polish(w, scale, f, codes)
			at := errorOf(c, w, scale, codes)
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
					if e := errorOf(c, w, scale, other); e < at*(1-1e-6) {
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

func errorOf(c *covariance, w []float32, scale float32, codes []int8) float64 {
	return floats.Dot(c.errors(w, scale, codes))
}
