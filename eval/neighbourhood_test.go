package eval

import (
	"math"
	"testing"

	"cfq/recourse"
)

// Points are safe where m_f(u) > 2 eps. One for which eps is not known to be finite is not safe; one without
// any does not count.
func TestSafe(t *testing.T) {
	t.Parallel()
	inf, nan := Float(math.Inf(1)), undefined()
	var records []Record
	for _, c := range []struct{ own, other, eps Float }{
		{1, 0.5, 0.4}, // safe
		{1, -1, 0.4},  // safe, and broken: no bound could say so
		{1, 0.5, 0.5}, // just not safe
		{1, -1, inf},  // not safe, and broken
		{1, 0.5, nan},
	} {
		p := Promise{Status: recourse.Found, Own: c.own, Other: c.other}
		records = append(records, Record{Evaluated: true, Steps: []Step{{Full: p, Perturbed: []Float{c.eps, c.eps, c.eps}}}})
	}
	r := summarize(t, records, Settings{Margins: []float64{0.1}, Confidence: 0.95}, DataFile{})
	for kind, p := range r.Margins[0].Perturbed {
		if p.N != 4 || p.Safe.Num != 2 || p.Safe.Den != 4 || p.BrokenInside.Num != 1 || p.BrokenInside.Den != 2 ||
			p.BrokenOutside.Num != 1 || p.BrokenOutside.Den != 2 {
			t.Errorf("%s: %+v", kind, p)
		}
		if p.Mean.Value.Defined() {
			t.Errorf("%s: a mean with an infinite number is %v", kind, p.Mean.Value)
		}
	}
}
