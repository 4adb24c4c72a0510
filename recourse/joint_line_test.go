package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

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
	tk.Cost.Norm = []task.Norm{task.L1, task.L2, task.Mixed}[rng.IntN(3)]
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

func TestProjectContraryRules(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		tk := ruledTask(rng)
		a := compile(t, tk)
		x := randomPeople(rng, tk, 1)
		d := make([]float32, a.Dim())
		for j := range d {
			d[j] = float32(rng.NormFloat64() * 2)
		}
		a.Project(x, d)
		if err := a.Check(x, d); err != nil {
			t.Fatalf("seed %d: the projection %v: %v", seed, d, err)
		}
		again := slices.Clone(d)
		if a.Project(x, again); !slices.Equal(d, again) {
			t.Fatalf("seed %d: projected again, %v becomes %v", seed, d, again)
		}
	}
}

func TestNotFiniteStays(t *testing.T) {
	t.Parallel()
	free, stepped, bounded := feature("free", "numeric"), feature("stepped", "numeric"),
		feature("bounded", "numeric")
	stepped.Step, bounded.Bounds = 1, [2]float64{0, 5}
	level := feature("level", "ordinal")
	level.Number().Levels = []float64{0, 1, 2}
	for _, f := range []task.Feature{free, stepped, bounded, level, feature("binary", "binary")} {
		a := compile(t, taskOf(0, f))
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			x, d := []float32{float32(v)}, []float32{1}
			if a.Project(x, d); d[0] != 0 {
				t.Errorf("%s %g: projected to the change %g", f.Name, v, d[0])
			}
			acts, err := Solve(context.Background(), &affine{w: []float64{1}, b: -1}, a, x, SolveOptions{})
			if err != nil || acts[0].Status == Found {
				t.Errorf("%s %g: %v, %v", f.Name, v, acts, err)
			}
		}
	}
}

func TestSolveLinkedDigits(t *testing.T) {
	t.Parallel()
	job, year := feature("job", "numeric"), feature("year", "numeric")
	job.Number().Mean, job.Number().Std = 5, 3
	year.Number().Mean, year.Number().Std, year.Actionable, year.Mutable = 20000, 3, false, true
	tk := taskOf(0, job, year)
	tk.Links = []task.Link{{From: "job", To: "year", Scale: 1.3}}
	a := compile(t, tk)
	var x []float32
	for i := range 30 {
		x = append(x, job.ToInput(float64(i)/4), year.ToInput(float64(20000+i%7)))
	}
	m := &affine{w: []float64{1, 0.1}, b: -5}
	acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{}))(t)
	checkActions(t, m, a, x, acts, 0)
	for i, act := range acts {
		if act.Status != Found {
			t.Errorf("person %d: %v", i, act.Status)
		}
	}
}

// Numbers that have to move together do so, by as much as it takes: here one may not pass the other, which the
// model holds against both.
func TestSolveAlongRule(t *testing.T) {
	t.Parallel()
	begin, end := feature("begin", "numeric"), feature("end", "numeric")
	begin.Number().Mean, begin.Number().Std, begin.Bounds = 2000, 3, [2]float64{1980, 2020}
	end.Number().Mean, end.Number().Std, end.Bounds = 2001, 3, [2]float64{1980, 2020}
	for _, strict := range []bool{false, true} {
		tk := taskOf(0, begin, end)
		terms := []task.Term{{Feature: "begin", Coef: 1}, {Feature: "end", Coef: -1}}
		tk.Rules = []task.Rule{{Text: "begin before end", Then: []task.Inequality{{Terms: terms, Strict: strict}}}}
		a := compile(t, tk)
		m := &affine{w: []float64{1, -0.5}, b: -3}
		var x []float32
		for i := range 60 {
			x = append(x, begin.ToInput(float64(1990+i%20)), end.ToInput(float64(1991+i%20+i%5)))
		}
		acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{}))(t)
		checkActions(t, m, a, x, acts, 0)
		for i, act := range acts {
			// (begin-2000) - (end-2001)/2 = 9 on begin = end is 2017; who need not go so far stops short of it.
			b, e := begin.FromInput(x[2*i]), end.FromInput(x[2*i+1])
			want := math.Max(2009+(e-2001)/2-b, 0) / 3 / 1.001
			if b+want*3 > e {
				want = (2017 - b + 2017 - e) / 3 / 1.001
			}
			if act.Status != Found || act.Cost > want*1.002 || act.Cost < want*0.999 {
				t.Errorf("strict %t, person %d: %v %v at cost %g, want %g", strict, i, act.Status,
					a.Changes(row(x, i, 2), act.Point), act.Cost, want)
			}
			if raw := rawOf(t, tk, act.Point); raw[0]-raw[1] > 5e-6 || strict && raw[0] >= raw[1] {
				t.Errorf("strict %t, person %d: begins in %v and ends in %v", strict, i, raw[0], raw[1])
			}
		}
	}
}

func rawOf(t *testing.T, tk *task.Task, point []float32) []float64 {
	t.Helper()
	raw := make([]float64, len(point))
	for j := range raw {
		s, err := tk.Features[j].Decode(point[j : j+1])
		if err == nil {
			raw[j], err = strconv.ParseFloat(s, 64)
		}
		must.Do(t, err)
	}
	return raw
}

// An equation between numbers without steps leaves room for cheapest actions, and rounding keeps it.
func TestSolveEquation(t *testing.T) {
	t.Parallel()
	var fs []task.Feature
	for _, name := range []string{"total", "part", "rest"} {
		f := feature(name, "numeric")
		f.Number().Mean, f.Number().Std, f.Bounds = 1000, 700, [2]float64{0, 9000}
		fs = append(fs, f)
	}
	tk := taskOf(0, fs...)
	var equation []task.Inequality
	for _, sign := range []float64{1, -1} {
		equation = append(equation, task.Inequality{Terms: []task.Term{
			{Feature: "total", Coef: sign}, {Feature: "part", Coef: -sign}, {Feature: "rest", Coef: -sign},
		}})
	}
	tk.Rules = []task.Rule{{Text: "total = part + rest", Then: equation}}
	a := compile(t, tk)
	rng := rand.New(rand.NewPCG(1, 2))
	var x []float32
	for range 50 {
		part, rest := float64(rng.IntN(100000))/100, float64(rng.IntN(100000))/100
		x = append(x, fs[0].ToInput(part+rest), fs[1].ToInput(part), fs[2].ToInput(rest))
	}
	m := &affine{w: []float64{1, 0.5, -0.2}, b: -2}
	acts := must.Get(Solve(context.Background(), m, a, x, SolveOptions{}))(t)
	checkActions(t, m, a, x, acts, 0)
	start, _ := m.Margins(context.Background(), x)
	for i, act := range acts {
		want := -float64(start[i]) / 1.5 * 2 / 1.001 // total and part alike
		if act.Status != Found || act.Cost > want*1.001 {
			t.Errorf("person %d: %v at cost %g, want %g", i, act.Status, act.Cost, want)
		}
		if raw := rawOf(t, tk, act.Point); math.Abs(raw[0]-raw[1]-raw[2]) > 1e-3 {
			t.Errorf("person %d: %v = %v + %v", i, raw[0], raw[1], raw[2])
		}
	}
}

func TestSolveNarrowBounds(t *testing.T) {
	t.Parallel()
	rate := feature("rate", "numeric")
	rate.Bounds = [2]float64{0, 8e-5}
	a := compile(t, taskOf(0, rate))
	acts, err := Solve(context.Background(), &affine{w: []float64{1e5}, b: -3}, a, []float32{1e-5}, SolveOptions{})
	if err != nil || acts[0].Status != Found || math.Abs(float64(acts[0].Delta[0])-2e-5) > 1e-8 {
		t.Errorf("%+v, %v; want a change by 2e-5", acts, err)
	}
}

func TestLinkKeepsToValues(t *testing.T) {
	t.Parallel()
	job, grade := feature("job", "numeric"), feature("grade", "ordinal")
	job.Step = 1
	grade.Number().Levels, grade.Number().Values = []float64{1, 2, 3}, []string{"1", "2", "3"}
	grade.Actionable, grade.Mutable = false, true
	tk := taskOf(0, job, grade)
	tk.Links = []task.Link{{From: "job", To: "grade", Scale: 0.5}}
	a := compile(t, tk)
	x := []float32{0, 1}
	if err := a.Check(x, []float32{1, 0.5}); err == nil {
		t.Error("grade 1.5 is accepted")
	}
	acts, err := Solve(context.Background(), &affine{w: []float64{1, 0}, b: -0.5}, a, x, SolveOptions{})
	if err != nil || acts[0].Status != Found || acts[0].Delta[0] != 2 || acts[0].Point[1] != 2 {
		t.Errorf("%+v, %v; want two steps and grade 2", acts, err)
	}
}

func TestOverrideKeepsRange(t *testing.T) {
	t.Parallel()
	f := feature("a", "numeric")
	f.Bounds = [2]float64{0, 10}
	tk := taskOf(0, f)
	tk.Cost.Weights = "inverse_range"
	own := tk.Features[0]
	own.Bounds[1], own.Weight = 5, 3
	a := must.Get(compile(t, tk).Override([]task.Override{{Row: 1, Feature: 0, With: own.Action}}))(t)
	x, d := []float32{0}, []float32{1}
	if all, one := a.Person(0).Cost(x, d), a.Person(1).Cost(x, d); math.Abs(one-3*all) > 1e-12 {
		t.Errorf("costs %g, with a weight of 3 %g", all, one)
	}
	acts, err := FirstValid(context.Background(), &affine{w: []float64{1}, b: -1}, a, []float32{0, 0}, FirstValidOptions{})
	if err != nil || math.Abs(acts[1].Cost-3*acts[0].Cost) > 1e-12 {
		t.Errorf("%+v, %v; want three times the cost", acts, err)
	}
}

func TestStrictRule(t *testing.T) {
	t.Parallel()
	low, high := feature("low", "numeric"), feature("high", "numeric")
	low.Step, high.Step = 1, 1
	tk := taskOf(0, low, high)
	tk.Rules = []task.Rule{{Text: "low < high", Then: []task.Inequality{
		{Terms: []task.Term{{Feature: "low", Coef: 1}, {Feature: "high", Coef: -1}}, Strict: true},
	}}}
	a := compile(t, tk)
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
}
