package calib

import (
	"context"
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
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
		if stats[i], err = Collect(context.Background(), c, layers, set, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range layers {
		a, b := stats[0][i], stats[1][i]
		agree(t, "second moments", a.Gram, b.Gram, 1e-9)
		agree(t, "means", a.Mean, b.Mean, 1e-9)
		agree(t, "histogram", a.Hist, b.Hist, 1e-9)
		agree(t, "histogram by outputs", a.OutputHist, b.OutputHist, 1e-9)
		for r := range layers[i].In {
			for k := range r {
				if a.Gram[r*layers[i].In+k] != a.Gram[k*layers[i].In+r] {
					t.Fatal("the second moments are not symmetric")
				}
			}
		}
	}
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
}
