package gate

import (
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/must"
	"cfq/recourse"
)

// everyCheck returns, for each metric, checks that nearly any value would pass: of every limit that a check of it can
// have.
func everyCheck(t *testing.T) []Check {
	t.Helper()
	var all []Check
	for _, m := range metrics.All() {
		lowest, highest := valuesOf(&m)
		low, high := max(-1e300, math.Nextafter(lowest, 2)), min(1e300, math.Nextafter(highest, -2))
		for _, c := range []Check{
			{Max: &high},
			{Min: &low},
			{AbsMax: &high},
			{MaxIncrease: &high},
			{Max: &high, By: "sex"},
			{Min: &low, By: "sex"},
			{AbsMax: &high, By: "sex"},
			{MaxGap: &high, By: "sex"},
		} {
			c.Metric = m.ID
			if c.problems(0) == nil {
				all = append(all, c)
			}
		}
	}
	if len(all) < 3*len(metrics.All()) {
		t.Fatalf("only %d checks", len(all))
	}
	return all
}

// fill sets all numbers of v to NaN and all counts to 100, lists and objects that may be missing to what is filled
// alike. Groups are left out.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(math.NaN())
	case reflect.Int, reflect.Int64:
		v.SetInt(100)
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Settings" && name != "Groups" && name != "Scenarios" &&
				name != "SensitivityToCopies" && name != "Records" {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for _, m := range metrics.All() {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e)
			e.FieldByName("Kind").SetInt(int64(m.Kind))
			v.SetMapIndex(reflect.ValueOf(m.ID), e)
		}
	}
}

func TestNothingPassesUnmeasured(t *testing.T) {
	t.Parallel()
	settings := eval.Settings{Margins: []float64{0.1}, Confidence: 0.95}
	var undefined eval.Result
	fill(reflect.ValueOf(&undefined).Elem())
	undefined.Settings, undefined.Margins[0].Margin = settings, 0.1
	undefined.Footprint.Quant.Bytes = 0
	zero := &eval.Result{
		Settings: settings,
		Margins:  []eval.AtMargin{{Margin: 0.1}},
		Added:    eval.Added{Footprint: &eval.Footprint{}, Timing: &eval.Timing{}},
	}
	results := map[string]*eval.Result{
		"no result": nil, "empty": {}, "zero": zero, "nobody": summarize(t, nil, settings, eval.DataFile{}),
		"another margin": summarize(t, nil, eval.Settings{Margins: []float64{0.2}, Confidence: 0.95}, eval.DataFile{}),
		"undefined":      &undefined,
	}
	all := everyCheck(t)
	for name, r := range results {
		for _, groups := range []string{"no groups", "empty groups", "groups"} {
			if r != nil {
				r.Groups = map[string][]eval.Grouping{
					"empty groups": {{By: "sex"}},
					"groups":       {{By: "sex", Groups: []eval.Group{{Name: "f", Result: r}, {Name: "m", Result: r}, {Name: "x"}}}},
				}[groups]
			}
			for _, previous := range []*eval.Result{nil, r} {
				for _, c := range all {
					if previous != nil && c.MaxIncrease == nil {
						continue
					}
					g := &Gate{Checks: []Check{c}, MinPeople: 1}
					report := Judge(g, r, previous)
					if report.Verdict != Inconclusive {
						t.Errorf("%s, %s: %s: %s", name, groups, c.text(), report.Verdict)
					}
					for _, f := range report.Findings {
						if f.Verdict != Inconclusive || f.Why == "" || f.Value.Defined() {
							t.Errorf("%s, %s: %s: %+v", name, groups, c.text(), f)
						}
					}
				}
			}
		}
	}
}

func TestMeasuredPasses(t *testing.T) {
	r := broken(0, 1000)
	r.Footprint = &eval.Footprint{Quant: eval.Weight{Bytes: 4000, StoredBits: 4.1, BOPs: 1e6}}
	g := &Gate{Checks: []Check{
		{Metric: "vd", Max: ptr(0.01)},
		{Metric: "bytes", Max: ptr(4000)},
		{Metric: "stored_bits_per_weight", Max: ptr(4.1)},
	}}
	must.Same(t, Pass, Judge(g, r, nil).Verdict)
	g.Checks[1].Max = ptr(3999)
	report := Judge(g, r, nil)
	if report.Verdict != Fail ||
		report.Findings[1].Why != "size of the file: 4000 bytes; outside the limit of 3999 bytes" {
		t.Errorf("%+v", report.Findings[1])
	}
}

func TestGateWithoutChecks(t *testing.T) {
	g := &Gate{}
	if g.Check() == nil {
		t.Error("no mistake")
	}
	if r := Judge(g, broken(0, 1000), nil); r.Verdict != Inconclusive || len(r.Notes) == 0 {
		t.Errorf("%+v", r)
	}
}

// What an evaluation leaves out is what Needs says: the metrics that are undefined when only f's promises are looked at
// are those that need both models' recourse, and so on for the other parts.
func TestParts(t *testing.T) {
	made := func(other float64) eval.Promise {
		return eval.Promise{Status: recourse.Found, Cost: 1, Own: 0.2, Other: eval.Float(other), Point: []float32{0}}
	}
	records := func(both bool) []eval.Record {
		nan := eval.Float(math.NaN())
		var rs []eval.Record
		for i := range 200 {
			r := eval.Record{Row: i, Label: int8(i % 2), Full: 1, Quant: eval.Float(1 - 2*(i/3%2))} //nolint:gosec // 0 or 1
			r.Person = i
			if i%3 > 0 {
				r.Full, r.Quant, r.Evaluated = -1, eval.Float(-1+2*(i%2)*(i/7%2)), true
				// The mirrored half is as eval.Compare leaves it: nothing found for g, and no first iterate.
				none := eval.Promise{Status: recourse.NoneFound, Cost: nan, Own: nan, Other: nan}
				r.First = none
				s := eval.Step{
					Full: made(float64(i%2) - 0.5), Quant: none, DirSim: nan, Overlap: nan,
					Perturbed: []eval.Float{0.01, 0.05 + eval.Float(i%2), 0.3},
					Transfer:  &eval.Transfer{Upper: 0.1}, Back: &eval.Transfer{Upper: 0.1},
				}
				if both {
					r.First, s.Quant, s.DirSim, s.Overlap, s.Pixels = made(1), made(1), 1, 1, 1
				}
				r.Steps = []eval.Step{s}
			}
			rs = append(rs, r)
		}
		return rs
	}
	settings := eval.Settings{Margins: []float64{0.1}, Confidence: 0.95}
	full := summarize(t, records(true), settings, eval.DataFile{Rows: 200})
	none := eval.Tally{Den: 9}
	full.Population.UnlikeRows = none
	full.Issued = &eval.Issued{
		Promises: 9, Unjudgeable: none, Invalid: none, Infeasible: none, Approved: none, Needless: none,
	}
	full.Footprint = &eval.Footprint{Quant: eval.Weight{Bytes: 1, StoredBits: 1, BOPs: 1}}
	var pace eval.Pace
	pace.Set(1, []float64{1, 2, 3, 4, 5, 6, 7, 8}, []float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.95)
	full.Timing = &eval.Timing{One: pace, Many: pace}
	full.Batches = &eval.Batches{Points: 1}
	settings.OneSided = true
	oneSided := summarize(t, records(false), settings, eval.DataFile{})
	oneSided.CopyNoise(full) // it is of the original alone
	for _, m := range metrics.All() {
		if _, missing := measured(&m, 0.1, full); missing != "" {
			t.Errorf("%s: %s", m.ID, missing)
		}
		v, missing := measured(&m, 0.1, oneSided)
		if (missing != "") != (m.Requires == metrics.Mirrored || m.Requires >= metrics.Timing) {
			t.Errorf("%s: one-sided %v (%s)", m.ID, v, missing)
		}
	}
	for i := range oneSided.Margins {
		maps.DeleteFunc(oneSided.Margins[i].Values, func(id string, _ eval.Value) bool {
			of, _, _ := strings.Cut(id, ".")
			return of == "crg_noise" || of == "perturbation" || strings.Contains(of, "transfer")
		})
	}
	for _, m := range metrics.All() {
		_, missing := measured(&m, 0.1, oneSided)
		p := m.Requires
		bare := p == metrics.Nothing || p == metrics.File
		if bare != (missing == "") {
			t.Errorf("%s of part %d: %q", m.ID, p, missing)
		}
	}
}

func TestNeeds(t *testing.T) {
	g := &Gate{Margin: 0.3, Checks: []Check{
		{Metric: "vd", Max: ptr(1)},
		{Metric: "vd", Margin: ptr(0.1), Max: ptr(1), By: "sex * race"},
		{Metric: "frr", Margin: ptr(0.1), MaxGap: ptr(1), By: "sex*race"},
		{Metric: "accuracy_drop", MaxIncrease: ptr(1)},
		{Metric: "tau01", Max: ptr(1)},
	}}
	want := Needs{Margins: []float64{0.1, 0.3}, Curve: true, Confidence: 0.95, By: []string{"sex*race"}, Previous: true}
	got := g.Needs(false)
	if got.Requires[metrics.Mirrored] || got.Requires[metrics.Noise] {
		t.Errorf("%+v", got.Requires)
	}
	if got.Requires = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// The increase of a share has its own bounds; that of an estimate needs an interval of the gate's confidence.
	for text, want := range map[string]float64{
		"vd<=0.1": 0.9, "increase(vd)<=0.1": 0.9, "gap(vd[sex])<=0.1": 0.9,
		"crg.median<=0.1": 0.9, "|crg.median|<=0.1": 0.9, "increase(crg.median)<=0.1": 0.95,
		"gap(crg.median[sex])<=0.1": 0.95,
	} {
		g := gateOf(t, text)
		n := g.Needs(false)
		must.Near(must.In(t, text), want, n.Confidence, 1e-12)
		// What the gate asks for is what its verdicts take.
		r, small := drifted(0.01, 0.01, 0.01, 100, n.Confidence), drifted(0.01, 0.01, 0.01, 100, n.Confidence)
		for _, x := range []*eval.Result{r, small} {
			x.Margins[0].Values["crg.mean"] = x.Margins[0].Values["crg.median"]
		}
		must.Same(must.In(t, text), Pass, Judge(g, bySex(r, small, small), small).Findings[0].Verdict)
	}
}

func summarize(t testing.TB, records []eval.Record, s eval.Settings, file eval.DataFile) *eval.Result {
	t.Helper()
	all := eval.NewRecords(s.Margins, nil)
	for i := range records {
		must.Do(t, all.Add(&records[i]))
	}
	r := must.Get(eval.Summarize(all, s, file, nil))(t)
	for i := range r.Margins { // of a solver that finds as good a point as the quantized model's the second time
		values := r.Margins[i].Values
		for id, v := range maps.Clone(values) {
			if form, ok := strings.CutPrefix(id, "crg."); ok {
				values["crg_noise."+form] = v
			}
		}
	}
	return r
}

func TestNothingPassesUnchecked(t *testing.T) {
	t.Parallel()
	r := broken(0, 1000)
	for name, c := range map[string]Check{
		"unknown metric":   {Metric: "vdd", Max: ptr(0.01)},
		"no limit":         {Metric: "vd"},
		"unknown severity": {Metric: "vd", Min: ptr(0.5), Severity: "fatal"},
	} {
		report := Judge(&Gate{Checks: []Check{c}}, r, r)
		if report.Verdict == Pass || len(report.Findings) != 1 || report.Findings[0].Why == "" || len(report.Notes) != 0 {
			t.Errorf("%s: %+v", name, report)
		}
	}
}
