package eval

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/eval/metrics"
	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

func TestSampleAndWorkers(t *testing.T) {
	t.Parallel()
	people := crowd(500, 6)
	g := original
	g.w = []float64{0.97, 0.55, 0.2}
	o := Options{Sample: 60, Seed: 7, Solver: recourse.SolveOptions{Workers: 1}}
	one := compare(t, original, g, people, o)
	o.Solver.Workers = 4
	four := compare(t, original, g, people, o)
	must.Same(t, asJSON(t, one), asJSON(t, four))
	if one.Population.Evaluated != 60 || one.Population.Refused <= 60 {
		t.Errorf("%+v", one.Population)
	}
	o.Seed = 8
	if d := cmp.Diff(evaluatedRows(t, one), evaluatedRows(t, compare(t, original, g, people, o))); d == "" {
		t.Error("another seed draws the same people")
	}
	for _, r := range listed(t, one) {
		if r.Evaluated != (len(r.Steps) == 4) || r.Line != r.Row+2 || r.Evaluated && r.Full > 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestOverridesOfSampledPeople(t *testing.T) {
	t.Parallel()
	people := crowd(200, 3)
	var stuck []task.Override // every third person can change b only, which achieves half as much
	for i := range people.N {
		people.Rows[i] = people.N - 1 - i
		if i%3 == 0 {
			stuck = append(stuck, task.Override{Row: i, With: task.Action{}})
		}
	}
	set := must.Get(threeInputs(t).Override(stuck))(t)
	r := must.Get(Compare(t.Context(), original, original, &Batch{People: people, Set: set},
		Options{Margins: []float64{0}, Sample: 40, Seed: 1}))(t)
	for i, rec := range listed(t, r) {
		if !rec.Evaluated {
			continue
		}
		want := -float64(rec.Full)
		if i%3 == 0 {
			want *= 2
		}
		must.Near(must.In(t, i), want, float64(rec.Steps[0].Full.Cost), 1e-3*(1+want))
	}
}

func evaluatedRows(t testing.TB, r *Result) (rows []int) {
	t.Helper()
	for _, x := range listed(t, r) {
		if x.Evaluated {
			rows = append(rows, x.Row)
		}
	}
	return rows
}

func asJSON(t testing.TB, r *Result) string {
	t.Helper()
	a := must.Get(json.Marshal(r))(t)
	b := must.Get(json.Marshal(listed(t, r)))(t)
	return string(a) + string(b)
}

func TestNobodyToEvaluate(t *testing.T) {
	t.Parallel()
	generous := original
	generous.b = 100
	for _, c := range []struct {
		name   string
		f      analytic
		people *task.People
		want   string
	}{
		{"nobody", original, &task.People{Dim: 3}, "the data have no people"},
		{"nobody refused", generous, crowd(40, 1), "refuses none of 40"},
		{"few", original, crowd(10, 1), "people are evaluated"},
	} {
		r := compare(t, c.f, original, c.people, Options{})
		must.Has(t, strings.Join(r.Warnings, "\n"), c.want)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	broken, short, nan := original, analytic{w: []float64{1}, gain: 1}, original
	broken.fail = boom
	nan.bend = func([]float32) float64 { return math.NaN() }
	nanAtPoints := original
	nanAtPoints.bend = func(x []float32) float64 {
		if m, _ := original.Margins(t.Context(), x); math.Abs(float64(m[0])-0.1) < 0.01 {
			return math.NaN()
		}
		return 0
	}
	for _, c := range []struct {
		name string
		g    recourse.Model
		o    Options
		want string
	}{
		{"model fails", broken, Options{}, "boom"},
		{"dimension", short, Options{}, "takes 3 inputs, the quantized model 1"},
		{"NaN", nan, Options{}, "line 2: the margin of the quantized model is NaN"},
		{
			"NaN at recourse points", nanAtPoints,
			Options{Margins: []float64{0.1}, OneSided: true},
			"a recourse point of the original: the margin of the quantized model is NaN",
		},
		{"options", original, Options{Margins: []float64{-1, math.NaN()}, Sample: -3, Confidence: 2}, "required margin -1"},
		{"no margins", original, Options{Margins: []float64{}}, "no required margin"},
	} {
		_, err := Compare(t.Context(), original, c.g, &Batch{People: crowd(20, 1), Set: threeInputs(t)}, c.o)
		must.Fail(t, err, c.want)
		var undefined *UndefinedError
		if isNaN := strings.HasPrefix(c.name, "NaN"); errors.As(err, &undefined) != isNaN || isNaN && !undefined.Quantized() {
			t.Errorf("%s: %#v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &Batch{People: crowd(200, 1), Set: threeInputs(t)}
	if _, err := Compare(ctx, original, original, b, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func everything(t *testing.T, progress func(Event)) *Result {
	t.Helper()
	g := original
	g.b -= 0.06
	r := compare(t, original, g, crowd(200, 1), Options{
		Progress: progress, Noise: 20,
		Perturb: func(_ context.Context, points []float32, n int) ([][]Float, error) {
			must.Same(t, 3*n, len(points))
			return slices.Repeat([][]Float{{0.01, 0.02, 0.03}}, n), nil
		},
	})
	for i := range r.Margins {
		v := Estimate{Value: 2, N: 3, Lo: 1, Hi: 3}.AsValue() // the model has no decoder
		r.Margins[i].Values["pixel_distance"], r.Margins[i].Values["pixel_distance_p95"] = v, v
		for _, m := range metrics.All() {
			if m.Requires == metrics.Transfer {
				r.Margins[i].Values[m.ID] = v
			}
		}
	}
	r.Batches = &Batches{Points: 1}
	r.Footprint = &Footprint{Full: Weight{4000, 32, 1e6}, Quant: Weight{1000, 4.5, 1e5}}
	times := []float64{0.004, 0.002, 0.001, 0.003, 0.002, 0.002, 0.002}
	r.Timing = &Timing{Threads: 1}
	r.Timing.One.Set(1, times, times, 0.95)
	r.Timing.Many.Set(256, times, times, 0.95)
	return r
}

func step(tree any, name string) any {
	name, list := strings.CutSuffix(name, "[]")
	obj, _ := tree.(map[string]any)
	if !list {
		return obj[name]
	}
	if l, ok := obj[name].([]any); ok && len(l) > 0 {
		return l[0]
	}
	return nil
}

func TestMetricKeysAreInTheResult(t *testing.T) {
	t.Parallel()
	last := map[string]Event{}
	r := everything(t, func(e Event) { last[e.Stage] = e })
	for _, e := range last {
		must.Same(t, e.Total, e.Done)
	}
	must.Same(t, 1+1+4*4, len(last))
	third := NewTally(1, 3)
	r.Population.UnlikeRows = third
	r.Issued = &Issued{Unjudgeable: third, Invalid: third, Infeasible: third, Approved: third, Needless: third}
	data := must.Get(json.Marshal(r))(t)
	var tree any
	must.Do(t, json.Unmarshal(data, &tree))
	for _, c := range computedMetrics() {
		if c.sample != nil {
			nobody := newAccumulator(c.statistic.keeps, newLists(usualLimits()))
			must.Same(must.In(t, c.ID), c.Kind, c.statistic.of(nobody, 0.9).Kind)
		}
	}
	for _, m := range metrics.All() {
		at := tree
		for name := range strings.SplitSeq(m.Key(), ".") {
			at = step(at, name)
		}
		value := at
		if obj, ok := at.(map[string]any); ok {
			value = obj["value"]
		}
		got := r.Metric(&m, 0)
		if x, ok := value.(float64); !ok || Float(x) != got.Value || got.N == 0 ||
			!(got.Lo <= got.Value && got.Value <= got.Hi) {
			// Nobody is safe inside a ball at margin 0.
			if m.ID != "perturbation.ball.broken_inside" || at == nil {
				t.Errorf("metric %s: %v is in the result, the getter gives %+v", m.Key(), at, got)
			}
		}
		if _, ok := metrics.By(m.ID); !ok {
			t.Errorf("metric %s is not found by its name %s", m.Key(), m.ID)
		}
		if m.Name == "" || m.Unit == "" || m.Better == "" || m.Definition == "" || m.Source == "" {
			t.Errorf("metric %s is not documented: %+v", m.Key(), m)
		}
	}
}

// Among people that both models refuse, RVD of (f, g) is VD of (g, f), CRG changes sign with the roles,
// and what the actions have in common stays the same.
func TestRolesReversed(t *testing.T) {
	t.Parallel()
	everyone := crowd(150, 9)
	g := analytic{w: []float64{0.9, 0.7, 0.1}, b: -0.6, gain: 1.1}
	mf, _ := original.Margins(t.Context(), everyone.X)
	mg, _ := g.Margins(t.Context(), everyone.X)
	var rows []int
	for i := range mf {
		if mf[i] <= 0 && mg[i] <= 0 {
			rows = append(rows, i)
		}
	}
	people := everyone.Subset(rows)
	fg, gf := compare(t, original, g, people, Options{}), compare(t, g, original, people, Options{})
	for i, a := range fg.Margins {
		b := gf.Margins[i]
		for here, there := range map[string]string{
			"vd": "rvd", "rvd": "vd", "frr": "rfrr", "rfrr": "frr", "dir_sim": "dir_sim", "act_overlap": "act_overlap",
		} {
			must.Same(t, b.Of(there), a.Of(here))
		}
		const sums = "crg.ratio_of_sums"
		near(t, "product of cost ratios", float64((1+a.Estimate(sums).Value)*(1+b.Estimate(sums).Value)), 1, 1e-9)
		for id, v := range a.Values {
			if form, ok := strings.CutPrefix(id, "crg."); ok && v != a.Of("crg_both."+form) {
				t.Errorf("margin %v: %s %+v, %+v", a.Margin, id, v, a.Of("crg_both."+form))
			}
		}
	}
	if fg.Tau01 != gf.RTau01 || fg.RTau01 != gf.Tau01 {
		t.Errorf("%+v %+v, %+v %+v", fg.Tau01, fg.RTau01, gf.Tau01, gf.RTau01)
	}
}

// With changes of at most 0.4, f gains at most 0.4 + 0.2: who needs more cannot be helped, and is counted.
func TestInfeasiblePeopleAreCounted(t *testing.T) {
	t.Parallel()
	people := crowd(150, 10)
	const reach = 0.6
	r := must.Get(Compare(t.Context(), original, original, &Batch{People: people, Set: within(t, 0.4)}, Options{}))(t)
	m, _ := original.Margins(t.Context(), people.X)
	for _, a := range r.Margins {
		var refused, helped int
		for _, m := range m {
			refused += count(m <= 0)
			helped += count(m <= 0 && a.Margin-float64(m) <= reach)
		}
		if frr := a.Rate("frr"); frr.Num != helped || frr.Den != refused || a.Rate("vd").Den != helped ||
			a.Of("crg.n").N != helped {
			t.Errorf("margin %v: %+v; want %d of %d", a.Margin, a.Values, helped, refused)
		}
	}
	must.Has(t, strings.Join(r.Warnings, "\n"), "margin 0.5: no recourse was found for")
}

// A solver's promise is held to what the model says at the very point: a model that
// gives another margin the second time is noticed.
func TestFickleModelIsNoticed(t *testing.T) {
	t.Parallel()
	f := &fickle{analytic: original}
	s := &solution{name: "the original", model: f, set: threeInputs(t), x: []float32{0, 0, 0}}
	action := recourse.Action{
		Status: recourse.Found, Point: []float32{0.75, 0, 0.5}, Delta: []float32{0.75, 0, 0.5},
		Cost: 0.75, Margin: 0.05,
	}
	points := must.Get(s.validate(t.Context(), []int{0}, []recourse.Action{action}))(t)
	record := Record{Full: -1, Quant: 1, Evaluated: true, First: none(recourse.NoneFound)}
	record.Steps = []Step{{Full: points[0].Promise, Quant: none(recourse.AlreadyFavourable)}}
	r := summarize(t, []Record{record}, Settings{Margins: []float64{0.05}, Confidence: 0.95}, DataFile{})
	notes := strings.Join(r.Warnings, "\n")
	if !strings.Contains(notes, "fall short") || !strings.Contains(notes, "not feasible") {
		t.Errorf("notes: %s", notes)
	}
}

type fickle struct{ analytic }

func (f *fickle) Margins(ctx context.Context, x []float32) ([]float32, error) {
	m, err := f.analytic.Margins(ctx, x)
	for i := range m {
		m[i]--
	}
	return m, err
}

func TestSummarizeForeignRecords(t *testing.T) {
	t.Parallel()
	good := Settings{Margins: []float64{0, 0.1}, Confidence: 0.95}
	of := func(margins int, list ...Record) *Records {
		records := NewRecords(make([]float64, margins), nil)
		for i := range list {
			must.Do(t, records.Add(&list[i]))
		}
		return records
	}
	for _, c := range []struct {
		records *Records
		s       Settings
		want    string
	}{
		{of(1, Record{Row: 3, Evaluated: true, Steps: make([]Step, 1)}), good, "records of 1 required margins, and 2 in"},
		{of(0, Record{Row: 3, Evaluated: true}), good, "records of 0 required margins"},
		{of(0, Record{}), Settings{Confidence: 0.95}, "no required margins"},
		{of(1, Record{}), Settings{Margins: []float64{0}}, "invalid confidence 0"},
	} {
		by := &GroupBy{Specs: []string{CalibrationGroup}}
		must.Fail(t, must.Err(Summarize(c.records, c.s, DataFile{}, by)), c.want)
	}
	perturbed := Record{Row: 3, Evaluated: true, Steps: []Step{{}, {Perturbed: make([]Float, 2)}}}
	must.Fail(t, of(2).Add(&perturbed), "row 3: 2 perturbations, want 3")
	fit := of(2, Record{}, Record{Evaluated: true, Steps: make([]Step, 2)})
	must.Same(t, 2, must.Get(Summarize(fit, good, DataFile{}, nil))(t).Population.Read)
	// A record that has not one step for each margin of the others cannot be told from one that has.
	for _, steps := range []int{0, 1, 3} {
		must.Fail(t, of(2).Add(&Record{Row: 3, Evaluated: true, Steps: make([]Step, steps)}), "record of row 3")
	}
}

func TestVisitEnds(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	list := make([]Record, 100)
	for i := range list {
		list[i] = Record{Row: i, RowData: RowData{X: []float32{float32(i)}}}
	}
	r := gathered(t, [][]Record{list}, []float64{0}, nil, limits{bytes: 1 << 20, records: 80})
	seen, parts := 0, 0
	err := r.Visit(func(some []*Record, _ [][]*Record) error {
		seen += len(some)
		return nil
	}, func([]*Record, [][]*Record) error {
		if parts++; parts == 3 {
			return failed
		}
		return nil
	})
	if !errors.Is(err, failed) || seen != 30 {
		t.Errorf("%d records seen, want 30 of 3 parts: %v", seen, err)
	}
	must.Do(t, r.Visit())
	var none *Records
	must.Do(t, none.Visit(func([]*Record, [][]*Record) error { return failed }))
}

// A search that finds nothing is no loss where the promise is kept with the margin.
func TestKeptPromisesAreNotLost(t *testing.T) {
	t.Parallel()
	o, people := Options{Margins: []float64{0, 0.1}}, crowd(60, 6)
	promised := map[[3]float32]bool{}
	for _, r := range listed(t, compare(t, original, original, people, o)) {
		for i := range r.Steps {
			if p := &r.Steps[i].Full; p.Exists() {
				promised[[3]float32(p.Point)] = true
			}
		}
	}
	g := original
	g.bend = func(x []float32) float64 {
		if promised[[3]float32(x)] {
			return 0
		}
		return -9 - (float64(x[0]) + 0.5*float64(x[1]) + 0.25*float64(x[2]))
	}
	kept := 0
	for _, r := range listed(t, compare(t, original, g, people, o)) {
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Full.Exists() {
				kept++
				if !s.Quant.Exists() || s.Quant.Own != s.Full.Other || s.Quant.Other != s.Full.Own || s.DirSim < 0.999 {
					t.Errorf("%+v", s)
				}
			}
		}
	}
	if kept < 20 {
		t.Error(kept)
	}
}
