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
	for _, kind := range Perturbations() {
		p, of := r.Margins[0], "perturbation."+string(kind)+"."
		safe, inside, outside := p.Rate(of+"safe"), p.Rate(of+"broken_inside"), p.Rate(of+"broken_outside")
		if p.Of(of+"n").N != 4 || safe.Num != 2 || safe.Den != 4 || inside.Num != 1 || inside.Den != 2 ||
			outside.Num != 1 || outside.Den != 2 {
			t.Errorf("%s: %+v", kind, p.Values)
		}
		if x := p.Estimate(of + "mean").Value; x.Defined() {
			t.Errorf("%s: a mean with an infinite number is %v", kind, x)
		}
	}
}
