package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

func TestGap(t *testing.T) {
	s := NewRecourse(0.1, true)
	of := func(status recourse.Status, cost float64) recourse.Action {
		return recourse.Action{Status: status, Cost: cost}
	}
	for _, c := range []struct{ best, search recourse.Action }{
		{of(recourse.Found, 2), of(recourse.Found, 2.5)},
		{of(recourse.Found, 2), of(recourse.Found, 2*(1-1e-7))},
		{of(recourse.Found, 0), of(recourse.Found, 0)},
		{of(recourse.Found, 4), of(recourse.Found, 5)},
		{of(recourse.Found, 1), of(recourse.NoneFound, math.NaN())},
		{of(recourse.NoneExists, math.NaN()), of(recourse.NoneFound, math.NaN())},
	} {
		s.Add(&promise.Line{Action: c.best}, recourse.Exhaustive)
		s.Compare(c.best, c.search)
	}
	s.Finish(&task.People{}, time.Second)
	if want := (Gap{People: 4, Mean: 0.125, Largest: 0.25, Missed: 1}); *s.Gap != want {
		t.Errorf("%+v, want %+v", *s.Gap, want)
	}
	var out strings.Builder
	s.Write(&out, "")
	const line = "the search alone      12 % dearer on average, 25 % at most, without an action for 1\n"
	if !strings.Contains(out.String(), line) {
		t.Errorf("%s", out.String())
	}
	if s = NewRecourse(0.1, false); s.Gap != nil {
		t.Error("a gap without a proof")
	}
}

func TestMostUsed(t *testing.T) {
	list := []FeatureCount{{"income", 996, 0.996}, {"debt", 8, 0.008}, {"months", 4, 0.004}, {"savings", 1, 0.001}}
	if got, want := mostUsed(list), "income 100 %, debt 1 %, months <1 %, savings <1 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
