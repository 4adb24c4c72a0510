package calib

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
)

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
