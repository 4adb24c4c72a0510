package eval

import (
	"context"
	"math"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

func TestIdenticalModels(t *testing.T) {
	t.Parallel()
	r := compare(t, original, original, crowd(150, 1), Options{})
	for _, a := range r.Margins {
		for id, want := range map[string]float64{
			"vd": 0, "rvd": 0, "frr": 1, "crg.mean": 0, "crg.median": 0, "crg.ratio_of_sums": 0, "margin_error.max": 0,
		} {
			near(t, id, float64(a.Of(id).Value), want, 0)
		}
		if n := r.Population.Evaluated; a.Rate("vd").Den != n || a.Rate("rvd").Den != n || a.Of("crg.free").N != 0 {
			t.Errorf("margin %v: %+v", a.Margin, a.Values)
		}
		near(t, "DirSim", float64(a.Estimate("dir_sim").Value), 1, 1e-3)
		near(t, "ActOverlap", float64(a.Estimate("act_overlap").Value), 1, 1e-6)
	}
	if r.Rate("disagreement").Num != 0 || r.Rate("lost").Num != 0 || r.Rate("gained").Num != 0 ||
		r.Rate("accuracy_full") != r.Rate("accuracy_quant") {
		t.Errorf("%+v", r.Values)
	}
	if r.Tau01.Value != 0 || r.RTau01.Value != 0 || r.Rate("pgd_first.vd").Num != 0 || r.Rate("pgd_first.vd").Den == 0 {
		t.Errorf("tau01 %+v, mirrored %+v, first %+v", r.Tau01, r.RTau01, r.Values)
	}
	must.Same(t, 0, len(r.Warnings))
}

// A boundary moved towards approval keeps every promise of f, and that is not faithful.
func TestConstantShift(t *testing.T) {
	t.Parallel()
	people := crowd(200, 2)
	lenient := original
	lenient.b += 0.2
	r := compare(t, original, lenient, people, Options{})
	strict := compare(t, lenient, original, people, Options{}) // the same pair the other way round

	var refused, both, gained, free int
	m, _ := original.Margins(t.Context(), people.X)
	var crg, crgBoth []float64
	for _, m := range m {
		if m > 0 {
			continue
		}
		refused++
		full := 0.1 - float64(m)
		quant := full - 0.2
		if m > -0.2 {
			gained++
		} else {
			both++
		}
		// Whom g approves by less than 0.1 must still reach it.
		if m >= -0.1 {
			free++
			quant = 0
		} else {
			crgBoth = append(crgBoth, -0.2/full)
		}
		crg = append(crg, (quant-full)/full)
	}
	a := r.Margins[r.Headline()]
	if vd, rvd := a.Rate("vd"), a.Rate("rvd"); a.Margin != 0.1 || vd.Num != 0 || vd.Den != refused || rvd.Num != both ||
		rvd.Den != both {
		t.Errorf("margin %v: VD %+v, RVD %+v; %d refused, %d by both", a.Margin, vd, rvd, refused, both)
	}
	if x := r.Rate("gained"); x.Num != gained || x.Den != refused || r.Rate("lost").Num != 0 ||
		r.Rate("disagreement").Num != gained {
		t.Errorf("%+v, want %d gained", r.Values, gained)
	}
	if free == gained || a.Of("crg.free").N != free || a.Of("crg.n").N != refused || a.Of("crg_both.n").N != refused-free {
		t.Errorf("%+v", a.Values)
	}
	near(t, "CRG", float64(a.Estimate("crg.mean").Value), sum(crg)/float64(refused), 2e-3)
	near(t, "CRG both", float64(a.Estimate("crg_both.mean").Value), sum(crgBoth)/float64(len(crgBoth)), 2e-3)
	near(t, "mean error", float64(a.Estimate("margin_error.mean").Value), 0.2, 1e-5)
	near(t, "rms error", float64(a.Estimate("margin_error.rms").Value), 0.2, 1e-5)
	near(t, "tau01", float64(r.Tau01.Value), 0, 0)
	near(t, "Rtau01", float64(r.RTau01.Value), 0.2, 1e-4)
	if above := r.Margins[2]; above.Margin != 0.25 || above.Rate("rvd").Num != 0 {
		t.Errorf("margin %v: RVD %+v", above.Margin, above.Rate("rvd"))
	}
	s := strict.Margins[1]
	if vd := s.Rate("vd"); vd.Num != vd.Den || vd.Den == 0 || s.Rate("rvd").Num != 0 || s.Estimate("crg.mean").Value <= 0 {
		t.Errorf("the other way round: %+v", s)
	}
	near(t, "tau01, other way", float64(strict.Tau01.Value), 0.2, 1e-4)
}

// By hand: at t = 0.25, f asks four people for 0.5, 0.375, 0.25 and 1.25 units of a, and g, whose margin is
// 0.25 larger, for 0.25 less each. It approves the second and the third, of whom only the third has margin
// 0.25; at t = 0 both cost nothing.
func TestApprovedByLessThanTheMargin(t *testing.T) {
	t.Parallel()
	f := analytic{w: []float64{1, 0.5, 0.25}, gain: 1}
	g := f
	g.b = 0.25
	people := &task.People{Dim: 3, N: 4, Reading: task.Reading{Total: 4}}
	people.X = []float32{-0.25, 0, 0, -0.125, 0, 0, 0, 0, 0, -1, 0, 0}
	r := compare(t, f, g, people, Options{Margins: []float64{0, 0.25}})
	for i, want := range []struct {
		free, both, reverse int
		sums, mean          float64
	}{
		// c_f = 0.25, 0.125, 0, 1 and c_g = 0, 0, 0, 0.75. The first person has margin 0 under g, a refusal.
		{2, 2, 2, -0.625 / 1.375, math.NaN()},
		{1, 3, 2, -1. / 2.375, (-0.25/0.5 - 0.25/0.375 - 1 - 0.25/1.25) / 4},
	} {
		a := r.Margins[i]
		if a.Of("crg.n").N != 4 || a.Of("crg.free").N != want.free || a.Of("crg_both.n").N != want.both ||
			a.Estimate("dir_sim").N != want.both || a.Rate("rvd").Den != want.reverse || a.Rate("rfrr").Den != want.reverse {
			t.Errorf("margin %v: %+v", a.Margin, a.Values)
		}
		near(t, "CRG sums", float64(a.Estimate("crg.ratio_of_sums").Value), want.sums, 1e-3)
		if !math.IsNaN(want.mean) { // at t = 0 one cost is nearly none
			near(t, "CRG", float64(a.Estimate("crg.mean").Value), want.mean, 1e-3)
		}
	}
}

func TestRotated(t *testing.T) {
	t.Parallel()
	people := crowd(300, 4)
	turned := original
	turned.w = []float64{0.5, 1, 0.25}
	r := compare(t, original, turned, people, Options{Margins: []float64{0.25}})
	mf, _ := original.Margins(t.Context(), people.X)
	mg, _ := turned.Margins(t.Context(), people.X)
	var broken, rbroken, promises, rpromises, both int
	for i := range mf {
		if mf[i] > 0 {
			continue
		}
		promises++
		broken += count(float64(mg[i])+0.5*(0.25-float64(mf[i])) <= 0)
		both += count(mg[i] < 0.25)
		if mg[i] <= 0 {
			rpromises++
			rbroken += count(float64(mf[i])+0.5*(0.25-float64(mg[i])) <= 0)
		}
	}
	a := r.Margins[0]
	got := []int{a.Rate("vd").Num, a.Rate("vd").Den, a.Rate("rvd").Num, a.Rate("rvd").Den, a.Estimate("dir_sim").N}
	must.Same(t, []int{broken, promises, rbroken, rpromises, both}, got)
	near(t, "DirSim", float64(a.Estimate("dir_sim").Value), 0, 1e-6)
	near(t, "ActOverlap", float64(a.Estimate("act_overlap").Value), 0, 1e-6)
}

// Solving at tau01 keeps 99 % of the promises, and a little below it does not. The error
// depends on what people cannot change, which is what tau01 assumes, and then also a little on what they can.
func TestTauKeepsItsWord(t *testing.T) {
	t.Parallel()
	people := crowd(200, 5)
	for _, c := range []struct {
		name string
		bend func(x []float32) float64
		tol  float64
	}{
		{"exact", func(x []float32) float64 { return 0.15 * float64(x[2]) }, 0},
		{"error that moves", func(x []float32) float64 { return 0.15*float64(x[2]) + 0.05*math.Sin(4*float64(x[0])) }, 0.004},
	} {
		g := original
		g.bend = c.bend
		tau := compare(t, original, g, people, Options{OneSided: true}).Tau01
		if tau.Extrapolated || tau.Value < 0.2 {
			t.Fatalf("%s: %+v", c.name, tau)
		}
		at := compare(t, original, g, people, Options{
			OneSided: true,
			Margins:  []float64{float64(tau.Value) * 0.97, float64(tau.Value) + 1e-4},
		})
		if vd := at.Margins[1].Rate("vd"); float64(vd.Value) > tauShare+c.tol {
			t.Errorf("%s: at tau01 = %v VD is %v (%d of %d)", c.name, tau.Value, vd.Value, vd.Num, vd.Den)
		}
		if vd := at.Margins[0].Rate("vd"); float64(vd.Value) <= tauShare-c.tol {
			t.Errorf("%s: below tau01 = %v VD is already %v", c.name, tau.Value, vd.Value)
		}
	}
}

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
		p, of := r.Margins[0], "perturbation."+kind+"."
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

type counting struct {
	analytic
	rows *atomic.Int64
}

func (m counting) MarginGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	m.rows.Add(int64(len(x) / m.Dim()))
	return m.analytic.MarginGrads(ctx, x)
}

func (m counting) LossGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	m.rows.Add(int64(len(x) / m.Dim()))
	return m.analytic.LossGrads(ctx, x)
}

func TestOriginalIsSolvedOnce(t *testing.T) {
	t.Parallel()
	people := crowd(20, 21)
	shifted, turned := original, original
	shifted.b += 0.15
	turned.w = []float64{0.9, 0.6, 0.2}
	var rows atomic.Int64
	f := counting{original, &rows}
	same := cmp.Options{sameFloat, cmp.Transformer("list", func(r *Records) []Record { return all(t, r) })}
	for name, o := range map[string]Options{
		"everyone": {},
		"sample":   {Sample: 10, Seed: 3, Margins: []float64{0.25, 0.1}},
		"promises": {},
	} {
		b := &Batch{People: people, Set: threeInputs(t)}
		if name == "promises" {
			b.Promises = given(people.N, people.X, 5)
		}
		solved := must.Get(Solve(t.Context(), f, b, o))(t)
		for _, g := range []analytic{shifted, turned, original} {
			want := compareBatch(t, original, g, b, o)
			rows.Store(0)
			got := must.Get(Compare(t.Context(), f, g, solved, Options{}))(t)
			must.Same(t, want, got, same)
			must.Same(must.In(t, name), 0, rows.Load())
		}
	}
}
