package recourse

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

// ruledTask draws a task whose rules contradict each other more often than not.
func ruledTask(rng *rand.Rand) *task.Task {
	n := 3 + rng.IntN(4)
	var fs []task.Feature
	for i := range n {
		f := feature(string(rune('a'+i)), "numeric")
		f.Bounds = [2]float64{-3, 3}
		switch rng.IntN(4) {
		case 0:
			f.Encoding = &task.Binary{One: "1", Zero: "0"}
		case 1:
			f = oneHot(f.Name, "p", "q", "r")
		case 2:
			f.Step = 1
		}
		fs = append(fs, f)
	}
	tk := taskOf(rng.IntN(n+1), fs...)
	tk.Cost.Norm = []string{task.L1, task.L2, task.Mixed}[rng.IntN(3)]
	condition := func() task.Inequality {
		q := task.Inequality{Bound: float64(rng.IntN(5)-2) / 2, Strict: rng.IntN(2) == 0}
		for range 1 + rng.IntN(3) {
			f := &tk.Features[rng.IntN(n)]
			t := task.Term{Feature: f.Name, Coef: float64(rng.IntN(5)) - 1.5}
			switch f.Encoding.Kind() {
			case "onehot":
				t.Value = f.Values()[rng.IntN(3)]
			case "binary":
				t.Value = "1"
			}
			q.Terms = append(q.Terms, t)
		}
		return q
	}
	for range 1 + rng.IntN(5) {
		r := task.Rule{Text: "rule"}
		if rng.IntN(4) == 0 {
			r.AtMost, r.Of = 1, []string{tk.Features[rng.IntN(n-1)].Name, tk.Features[n-1].Name}
			tk.Rules = append(tk.Rules, r)
			continue
		}
		for range rng.IntN(2) {
			r.If = append(r.If, condition())
		}
		for range 1 + rng.IntN(2) {
			r.Then = append(r.Then, condition())
		}
		r.Must = rng.IntN(3) == 0
		tk.Rules = append(tk.Rules, r)
	}
	return tk
}

// Projections end, are feasible and final, even where what mends one rule breaks another.
func TestProjectRules(t *testing.T) {
	t.Parallel()
	for seed := range repetitions(3000, 8000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		tk := ruledTask(rng)
		x := randomPeople(rng, tk, 1)
		if seed%50 == 0 {
			tk = jointTask(rng, task.L1, 1+rng.IntN(6))
			x = jointPeople(rng, tk, 1)
			if rng.IntN(2) == 0 {
				tk.Latent = &task.Latent{Radius: 0.5 + 4*rng.Float64()}
			}
		}
		a := compile(t, tk)
		holdProjection(t, a, a.Project, x, normals(rng, a.Dim(), 2))
	}
}

func TestNotFiniteStays(t *testing.T) {
	t.Parallel()
	for i, f := range parsed(`features:
- {name: free, kind: numeric}
- {name: stepped, kind: numeric, step: 1}
- {name: bounded, kind: numeric, bounds: [0, 5]}
- {name: level, kind: ordinal, values: [0, 1, 2]}
- {name: binary, kind: binary, one: "1"}
`).Features {
		a := compile(t, taskOf(0, f))
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x, d := []float32{float32(v)}, []float32{1}
			if a.Project(x, d); d[0] != 0 {
				t.Errorf("feature %d at %g: projected to the change %g", i, v, d[0])
			}
			acts := must.Get(Solve(t.Context(), &affine{w: []float64{1}, b: -1}, a, x, SolveOptions{}))(t)
			if acts[0].Status == Found {
				t.Errorf("feature %d at %g: %v", i, v, acts)
			}
		}
	}
}

func TestSolveLinkedDigits(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: job, kind: numeric, mean: 5, std: 3}
- {name: year, kind: numeric, mean: 20000, std: 3, actionable: false}
links: [{from: job, to: year, scale: 1.3}]
`)
	var x []float32
	for i := range 30 {
		x = append(x, inputs(tk, float64(i)/4, float64(20000+i%7))...)
	}
	for i, act := range solved(t, &affine{w: []float64{1, 0.1}, b: -5}, compile(t, tk), x, 0) {
		must.Same(must.In(t, i), Found, act.Status)
	}
}

// Numbers that have to move together do so, by as much as it takes: here one may not pass the other, which the
// model holds against both.
func TestSolveAlongRule(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{"begin <= end", "begin < end"} {
		tk := parsed(`features:
- {name: begin, kind: numeric, mean: 2000, std: 3, bounds: [1980, 2020]}
- {name: end, kind: numeric, mean: 2001, std: 3, bounds: [1980, 2020]}
constraints: [` + rule + `]
`)
		a := compile(t, tk)
		var x []float32
		for i := range 60 {
			x = append(x, inputs(tk, float64(1990+i%20), float64(1991+i%20+i%5))...)
		}
		for i, act := range solved(t, &affine{w: []float64{1, -0.5}, b: -3}, a, x, 0) {
			// (begin-2000) - (end-2001)/2 = 9 on begin = end is 2017; who need not go so far stops short of it.
			b, e := tk.Features[0].FromInput(x[2*i]), tk.Features[1].FromInput(x[2*i+1])
			want := math.Max(2009+(e-2001)/2-b, 0) / 3 / 1.001
			if b+want*3 > e {
				want = (2017 - b + 2017 - e) / 3 / 1.001
			}
			if act.Status != Found || act.Cost > want*1.002 || act.Cost < want*0.999 {
				t.Errorf("%s, person %d: %v %v at cost %g, want %g", rule, i, act.Status,
					a.Changes(row(x, i, 2), act.Point), act.Cost, want)
			}
			if raw := rawOf(t, tk, act.Point); raw[0]-raw[1] > 5e-6 || rule == "begin < end" && raw[0] >= raw[1] {
				t.Errorf("%s, person %d: begins in %v and ends in %v", rule, i, raw[0], raw[1])
			}
		}
	}
}

func rawOf(t *testing.T, tk *task.Task, point []float32) (raw []float64) {
	t.Helper()
	for j := range point {
		s := must.Get(tk.Features[j].Decode(point[j : j+1]))(t)
		raw = append(raw, must.Get(strconv.ParseFloat(s, 64))(t))
	}
	return raw
}

// An equation between numbers without steps leaves room for cheapest actions, and rounding keeps it.
func TestSolveEquation(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: total, kind: numeric, mean: 1000, std: 700, bounds: [0, 9000]}
- {name: part, kind: numeric, mean: 1000, std: 700, bounds: [0, 9000]}
- {name: rest, kind: numeric, mean: 1000, std: 700, bounds: [0, 9000]}
constraints: [total = part + rest]
`)
	rng := rand.New(rand.NewPCG(1, 2))
	var x []float32
	for range 50 {
		part, rest := float64(rng.IntN(100000))/100, float64(rng.IntN(100000))/100
		x = append(x, inputs(tk, part+rest, part, rest)...)
	}
	m := &affine{w: []float64{1, 0.5, -0.2}, b: -2}
	a := compile(t, tk)
	for i, act := range append(solved(t, m, a, x, 0), solved(t, plain{m}, a, x, 0)...) {
		i %= 50
		want := -marginOf(t, m, row(x, i, 3)) / 1.5 * 2 / 1.001 // total and part alike
		if act.Status != Found || act.Cost > want*1.001 {
			t.Errorf("person %d: %v at cost %g, want %g", i, act.Status, act.Cost, want)
		}
		if raw := rawOf(t, tk, act.Point); math.Abs(raw[0]-raw[1]-raw[2]) > 1e-3 {
			t.Errorf("person %d: %v = %v + %v", i, raw[0], raw[1], raw[2])
		}
	}
}

// Bounds that are closer together than the rounding by the standard deviation still leave values between them.
func TestSolveNarrowBounds(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed("features: [{name: rate, kind: numeric, bounds: [0, 8.0e-5]}]"))
	act := solved(t, &affine{w: []float64{1e5}, b: -3}, a, []float32{1e-5}, 0)[0]
	if act.Status != Found || math.Abs(float64(act.Delta[0])-2e-5) > 1e-8 {
		t.Errorf("%+v; want a change by 2e-5", act)
	}
}

// A change that would move a number off its list of values is none that a person can make.
func TestLinkKeepsToValues(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: job, kind: numeric, step: 1}
- {name: grade, kind: ordinal, values: [1, 2, 3], actionable: false}
links: [{from: job, to: grade, scale: 0.5}]
`))
	x := []float32{0, 1}
	must.Fail(t, a.Check(x, []float32{1, 0.5}), "")
	act := solved(t, &affine{w: []float64{1, 0}, b: -0.5}, a, x, 0)[0]
	if act.Status != Found || act.Delta[0] != 2 || act.Point[1] != 2 {
		t.Errorf("%+v; want two steps and grade 2", act)
	}
}

// A person's own bounds are no other range to weigh changes by, a person's own weight counts.
func TestOverrideKeepsRange(t *testing.T) {
	t.Parallel()
	tk := parsed("features: [{name: a, kind: numeric, bounds: [0, 10]}]\ncost: {weights: inverse_range}")
	own := tk.Features[0].Action
	own.Bounds[1], own.Weight = 5, 3
	a := must.Get(compile(t, tk).Override([]task.Override{{Row: 1, Feature: 0, With: own}}))(t)
	m := &affine{w: []float64{1}, b: -1}
	acts := must.Get(FirstValid(t.Context(), m, a, []float32{0, 0}, SolveOptions{}))(t)
	must.Near(t, 3*acts[0].Cost, acts[1].Cost, 1e-12)
}

// Who fulfils a strict inequality may not go to where it only just fails; who does not may stay there.
func TestStrictRule(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: low, kind: numeric, step: 1, bounds: [0, 9]}
- {name: high, kind: numeric, step: 1, bounds: [0, 9]}
constraints: [low < high]
`))
	for _, c := range []struct {
		x, delta []float32
		ok       bool
	}{
		{[]float32{0, 2}, []float32{1, 0}, true},
		{[]float32{0, 2}, []float32{2, 0}, false},
		{[]float32{2, 2}, []float32{1, 1}, true},
		{[]float32{2, 2}, []float32{1, 0}, false},
		{[]float32{4, 2}, []float32{-1, 0}, true},
	} {
		if err := a.Check(c.x, c.delta); (err == nil) != c.ok {
			t.Errorf("%v + %v: %v", c.x, c.delta, err)
		}
	}
	// Between low = 0 and high = 2 there is room for one step of low, and two need one of high.
	acts, _ := proved(t, &affine{w: []float64{1, 0}, b: -1.5}, a, []float32{0, 2}, ExactOptions{})
	if acts[0].Status != Found || !slices.Equal(acts[0].Point, []float32{2, 3}) {
		t.Errorf("%+v, want low 2 and high 3", acts[0])
	}
}
