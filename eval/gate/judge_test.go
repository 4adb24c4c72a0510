package gate

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/eval"

	"cfq/internal/must"
)

// drifted is a result whose median CRG at margin 0.1 is value, of n people, within [lo, hi] at the confidence.
func drifted(value, lo, hi float64, n int, confidence float64) *eval.Result {
	r := broken(0, n)
	r.Settings.Confidence = confidence
	e := eval.Estimate{Value: eval.Float(value), N: n, Lo: eval.Float(lo), Hi: eval.Float(hi)}
	r.Margins[0].Values["crg.median"] = e.AsValue()
	return r
}

func TestEstimates(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	const most, size, unknown = "crg.median<=0.1", "|crg.median|<=0.1", "too few people for a bound"
	for _, c := range []struct {
		check             string
		value, lo, hi     float64
		n                 int
		interval, verdict float64 // confidence
		want              Verdict
		why               string
	}{
		{most, 0.05, -0.01, 0.0999, 200, 0.95, 0, Pass, "5 % (200 people); at most 9.99 % with confidence 95 %, within the " +
			"limit of 10 %"},
		{most, 0.05, -0.01, 0.1001, 200, 0.95, 0, Inconclusive, "at most 10.1 % with confidence 95 %, above the limit of"},
		{most, 0.15, 0.11, 0.2, 200, 0.95, 0, Fail, "15 % (200 people); at least 11 % with confidence 95 %, above the limit"},
		{"crg.median>=0.1", 0.15, 0.11, 0.2, 200, 0.95, 0, Pass, "at least 11 % with confidence 95 %, within the limit of"},
		{"crg.median>=0.1", 0.05, 0.01, 0.09, 200, 0.95, 0, Fail, "at most 9 %"},
		{most, 0.01, 0, 0.02, 29, 0.95, 0, Inconclusive, "1 % (29 people); a verdict needs at least 30 people"},
		{most, 0.01, 0, 0.02, 30, 0.95, 0, Pass, ""},
		{most, 0.01, -inf, inf, 200, 0.95, 0, Inconclusive, "1 % (200 people); " + unknown},
		{most, 0.01, nan, nan, 200, 0.95, 0, Inconclusive, unknown},
		{size, 0.01, nan, 0.02, 200, 0.95, 0, Inconclusive, unknown},
		// Each end of an interval of 0.90 is a bound of 0.95.
		{most, 0.01, 0, 0.02, 200, 0.9, 0, Pass, ""},
		{size, 0.01, 0, 0.02, 200, 0.9, 0, Pass, ""},
		{most, 0.01, 0, 0.02, 200, 0.89, 0, Inconclusive, "its interval has confidence 89 %, too low for a verdict with " +
			"95 %: evaluate with confidence 90 % or more"},
		{size, 0.2, 0.11, 0.29, 200, 0.9, 0, Inconclusive, "outside the limits of ±10 %; not significantly beyond the limit"},
		{size, 0.2, 0.12, 0.28, 200, 0.9, 0, Fail, "outside the limits of ±10 %"},
		{most, 0.01, 0, 0.02, 200, 0.95, 0.99, Inconclusive, "with 99 %: evaluate with confidence 98 %"},
		{most, 0.01, 0, 0.02, 200, 0, 0, Inconclusive, "confidence 0 %"},
		{size, -0.05, -0.09, 0.01, 200, 0.95, 0, Pass, "-5 % (200 people); between -9 % and 1 % with confidence 95 %, " +
			"within the limits of ±10 %"},
		{size, -0.05, -0.11, 0.01, 200, 0.95, 0, Inconclusive, "partly outside the limits of ±10 %"},
		{size, -0.2, -0.3, -0.11, 200, 0.95, 0, Fail, "between -30 % and -11 % with confidence 95 %, outside the limits of"},
		{size, 0.2, 0.11, 0.3, 200, 0.95, 0, Fail, ""},
	} {
		g := gateOf(t, c.check)
		g.Confidence = c.verdict
		f := single(t, *g, drifted(c.value, c.lo, c.hi, c.n, c.interval))
		if f.Verdict != c.want || !strings.Contains(f.Why, c.why) {
			t.Errorf("%s: %s, %q; want %s, %q", c.check, f.Verdict, f.Why, c.want, c.why)
		}
	}
}

// grouped is a result with the groups by sex; of each, k of n promises break. Groups of fewer than 20 are small.
func grouped(ks, ns []int) *eval.Result {
	var groups []*eval.Result
	for i := range ks {
		groups = append(groups, broken(ks[i], ns[i]))
	}
	r := bySex(broken(0, 1000), groups...)
	for i := range groups {
		r.Groups[0].Groups[i].Small = ns[i] < 20
	}
	return r
}

// bySex adds the groups A, B, ... to a result.
func bySex(r *eval.Result, groups ...*eval.Result) *eval.Result {
	by := eval.Grouping{By: "sex"}
	for i, g := range groups {
		by.Groups = append(by.Groups, eval.Group{Name: string(rune('A' + i)), Result: g})
	}
	r.Groups = []eval.Grouping{by}
	return r
}

func TestGroups(t *testing.T) {
	check := Check{Metric: "vd", Max: ptr(0.1), By: "sex"}
	for _, c := range []struct {
		ks, ns []int
		want   []Verdict
		all    Verdict
	}{
		{[]int{2, 3, 4}, []int{100, 100, 200}, []Verdict{Pass, Pass, Pass}, Pass},
		// A small group is not skipped: by itself it says too little.
		{[]int{2, 3, 0}, []int{100, 100, 5}, []Verdict{Pass, Pass, Inconclusive}, Inconclusive},
		{[]int{2, 3, 0}, []int{100, 100, 0}, []Verdict{Pass, Pass, Inconclusive}, Inconclusive},
		// 17 of 100: as many or more have probability 0.0206 at 10 %, which is enough alone and not among three ...
		{[]int{17}, []int{100}, []Verdict{Fail}, Fail},
		{[]int{17, 5, 5}, []int{100, 100, 100}, []Verdict{Inconclusive, Inconclusive, Inconclusive}, Inconclusive},
		// ... and 19 of 100 have 0.0046.
		{[]int{19, 5, 5}, []int{100, 100, 100}, []Verdict{Fail, Inconclusive, Inconclusive}, Fail},
		// Holm goes on to the next: 19 (0.0046 * 3), then 18 (0.0100 * 2), then 16 (0.0399 * 1).
		{[]int{19, 18, 16}, []int{100, 100, 100}, []Verdict{Fail, Fail, Fail}, Fail},
	} {
		report := Judge(&Gate{Checks: []Check{check}}, grouped(c.ks, c.ns), nil)
		if report.Verdict != c.all || len(report.Findings) != len(c.want) {
			t.Fatalf("%v of %v: %s, want %s: %+v", c.ks, c.ns, report.Verdict, c.all, report.Findings)
		}
		for i, f := range report.Findings {
			if f.Verdict != c.want[i] || f.Group != string(rune('A'+i)) {
				t.Errorf("%v of %v, group %s: %s, want %s: %s", c.ks, c.ns, f.Group, f.Verdict, c.want[i], f.Why)
			}
		}
	}
	report := Judge(&Gate{Checks: []Check{check}}, grouped([]int{17, 5, 5}, []int{100, 100, 100}), nil)
	want := "promises that break: 17 of 100 (17 %); at least 11.1 % with confidence 95 %, above the limit of 10 %; not " +
		"significant among 3 groups"
	must.Same(t, want, report.Findings[0].Why)
	if report := Judge(&Gate{Checks: []Check{check}}, broken(0, 1000), nil); report.Verdict != Inconclusive ||
		report.Findings[0].Why != "promises that break: the groups by sex were not evaluated" {
		t.Errorf("%+v", report)
	}
}

func TestOneGroupOfEstimates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-0.3, 0.3).Draw(t, "value")
		lo, hi := v-rapid.Float64Range(0, 0.3).Draw(t, "below"), v+rapid.Float64Range(0, 0.3).Draw(t, "above")
		text := rapid.SampledFrom([]string{"crg.median%s<=0.1", "crg.median%s>=-0.1", "|crg.median%s|<=0.1"}).Draw(t, "check")
		one, _ := ParseCheck(strings.ReplaceAll(text, "%s", ""))
		by := must.Get(ParseCheck(strings.ReplaceAll(text, "%s", "[sex]")))(t)
		r := bySex(drifted(v, lo, hi, 100, 0.95), drifted(v, lo, hi, 100, 0.95))
		want, got := Judge(&Gate{Checks: []Check{one}}, r, nil), Judge(&Gate{Checks: []Check{by}}, r, nil)
		if want.Verdict != got.Verdict {
			t.Fatalf("%v in [%v, %v], %s: %s alone, %s as a group", v, lo, hi, text, want.Verdict, got.Verdict)
		}
	})
}

// Ten groups whose intervals just clear the limit: each would fail alone, one among ten does not.
func TestGroupsOfEstimates(t *testing.T) {
	for _, c := range []struct {
		first *eval.Result
		want  Verdict
	}{{drifted(0.16, 0.101, 0.22, 100, 0.95), Inconclusive}, {drifted(0.3, 0.24, 0.36, 100, 0.95), Fail}} {
		groups := slices.Repeat([]*eval.Result{drifted(0, -0.05, 0.05, 100, 0.95)}, 10)
		groups[0] = c.first
		r := bySex(broken(0, 1000), groups...)
		must.Same(t, c.want, Judge(gateOf(t, "crg.median[sex]<=0.1"), r, nil).Findings[0].Verdict)
	}
}

func TestGap(t *testing.T) {
	for _, c := range []struct {
		ks, ns []int
		want   Verdict
		why    string
	}{
		{[]int{10, 10}, []int{1000, 1000}, Pass, "promises that break: a difference of 0 pp; at most 1.4 pp with " +
			"confidence 95 %, within the limit of 5 pp; 10 of 1000 (1 %) in B, 10 of 1000 (1 %) in A"},
		{[]int{10, 30}, []int{100, 100}, Inconclusive, "a difference of 20 pp; at most 35.1 pp with confidence 95 %, above " +
			"the limit of 5 pp; 30 of 100 (30 %) in B, 10 of 100 (10 %) in A"},
		{[]int{100, 300}, []int{1000, 1000}, Fail, "at least 14.4 pp"},
		{[]int{10, 10, 0}, []int{1000, 1000, 19}, Pass, "; too small: C"},
		{[]int{10, 0}, []int{1000, 19}, Inconclusive, "two groups by sex are large enough to compare; too small: B"},
		{[]int{10, 10, 5}, []int{1000, 1000, 20}, Inconclusive, "(25 %) in C"},
	} {
		f := Judge(gateOf(t, "gap(vd[sex])<=0.05"), grouped(c.ks, c.ns), nil).Findings[0]
		if f.Verdict != c.want || !strings.Contains(f.Why, c.why) {
			t.Errorf("%v of %v: %s %q, want %s %q", c.ks, c.ns, f.Verdict, f.Why, c.want, c.why)
		}
	}
	// A group that counts and has no value keeps the gap from being known.
	r := bySex(broken(0, 1000), broken(10, 1000), broken(10, 1000), broken(0, 0))
	g := &Gate{Checks: []Check{{Metric: "vd", By: "sex", MaxGap: ptr(1)}}}
	if f := Judge(g, r, nil).Findings[0]; f.Verdict != Inconclusive || !strings.Contains(f.Why, "in C") {
		t.Errorf("%+v", f)
	}
}

func TestIncrease(t *testing.T) {
	given, median := broken(10, 1000), drifted(0.05, 0.03, 0.07, 100, 0.95)
	given.Settings.Issued = true
	for _, c := range []struct {
		now, before *eval.Result
		check       string
		want        Verdict
		why         string
	}{
		{broken(10, 1000), broken(10, 1000), "increase(vd)<=0.02", Pass, "promises that break: the difference is 0 pp; at " +
			"most 1.4 pp with confidence 95 %, within the limit of 2 pp; 10 of 1000 (1 %), before 10 of 1000 (1 %)"},
		{broken(10, 1000), broken(10, 1000), "increase(vd)<=0.01", Inconclusive, "at most 1.4 pp"},
		{broken(100, 1000), broken(10, 1000), "increase(vd)<=0.01", Fail, "the difference is 9 pp; at least 6"},
		{broken(0, 1000), broken(500, 1000), "increase(vd)<=0", Pass, "the difference is -50 pp"},
		{broken(10, 1000), nil, "increase(vd)<=0.01", Inconclusive, "no earlier report to compare with"},
		{broken(10, 1000), &eval.Result{}, "increase(vd)<=0.01", Inconclusive, "in the earlier report, margin 0.1 was not"},
		{broken(10, 1000), given, "increase(vd)<=0.9", Inconclusive, "the promises are issued, not computed"},
		{median, drifted(0.04, 0.03, 0.05, 100, 0.95), "increase(crg.median)<=0.05", Pass, "at most 4 pp with"},
		{median, drifted(0.04, 0.03, 0.05, 100, 0.95), "increase(crg.median)<=0.03", Inconclusive, ""},
		{median, drifted(0.04, 0.03, 0.05, 29, 0.95), "increase(crg.median)<=0.05", Inconclusive, "in the earlier report, " +
			"4 % (29 people); a verdict needs at least 30"},
		{median, drifted(0.04, 0.03, 0.05, 100, 0.9), "increase(crg.median)<=0.05", Inconclusive, "in the earlier report, " +
			"4 % (100 people); its interval has confidence 90 %"},
	} {
		f := Judge(gateOf(t, c.check), c.now, c.before).Findings[0]
		if f.Verdict != c.want || !strings.Contains(f.Why, c.why) {
			t.Errorf("%s: %s %q, want %s %q", c.check, f.Verdict, f.Why, c.want, c.why)
		}
	}
}

// tau01 is never below the smallest margin that was evaluated: an earlier one that was read off larger margins hides an
// increase.
func TestIncreaseOfTau(t *testing.T) {
	read := func(tau eval.Float, margins ...float64) *eval.Result {
		return &eval.Result{
			Settings: eval.Settings{Confidence: 0.95, Margins: margins}, Margins: make([]eval.AtMargin, len(margins)),
			Tau01: eval.Tau{Value: tau, Lo: tau, Hi: tau, N: 5000}, RTau01: eval.Tau{Value: tau, Lo: tau, Hi: tau, N: 5000},
		}
	}
	for _, metric := range []string{"tau01", "rtau01"} {
		g := &Gate{Checks: []Check{{Metric: metric, MaxIncrease: ptr(0.05)}}}
		now := read(0.4, 0, 0.1, 0.5)
		if f := Judge(g, now, read(0.5, 0.5)).Findings[0]; f.Verdict != Inconclusive ||
			!strings.Contains(f.Why, "the required margins are [0.5], not [0 0.1 0.5]") {
			t.Errorf("%+v", f)
		}
		must.Same(t, Fail, Judge(g, now, read(0.1, 0, 0.1, 0.5)).Findings[0].Verdict)
	}
}

// A report that went through JSON has null for infinity: what passed in memory must not depend on that.
func TestIncreaseOverJSON(t *testing.T) {
	before := drifted(0.04, math.Inf(-1), math.Inf(1), 100, 0.95)
	text := must.Get(json.Marshal(before))(t)
	var read eval.Result
	must.Do(t, json.Unmarshal(text, &read))
	g := &Gate{Checks: []Check{{Metric: "crg.median", MaxIncrease: ptr(1000)}}}
	for _, p := range []*eval.Result{before, &read} {
		must.Same(t, Inconclusive, Judge(g, drifted(0.05, 0.03, 0.07, 100, 0.95), p).Findings[0].Verdict)
	}
}

func TestRefuse(t *testing.T) {
	g := &Gate{Checks: []Check{{Metric: "vd", Max: ptr(0.5), Severity: Warns}}}
	r := summarize(t, nil, eval.Settings{Margins: []float64{0.1}, Confidence: 0.95}, eval.DataFile{})
	report := Refuse(g, r, &eval.UndefinedError{Model: "the quantized model", Where: "line 7"})
	f := &report.Findings[0]
	if report.Verdict != Fail || f.Verdict != Fail || f.OK() || !strings.Contains(f.Why, "line 7") {
		t.Errorf("%+v", report)
	}
	if len(report.Findings) != 2 || report.Findings[1].Verdict != Inconclusive {
		t.Errorf("%+v", report.Findings)
	}
}

func TestOverall(t *testing.T) {
	warn := func(c Check) Check { c.Severity = Warns; return c }
	pass, fail, doubt := maxVD(0.5)[0], maxVD(0.001)[0], maxVD(0.05)[0]
	for _, c := range []struct {
		checks []Check
		want   Verdict
		notes  int
	}{
		{[]Check{pass}, Pass, 0},
		{[]Check{pass, doubt}, Inconclusive, 0},
		{[]Check{doubt, fail, pass}, Fail, 0},
		{[]Check{pass, warn(fail), warn(doubt)}, Pass, 0},
		{[]Check{doubt, warn(fail)}, Inconclusive, 0},
		{[]Check{warn(fail)}, Pass, 1},
	} {
		report := Judge(&Gate{Checks: c.checks}, broken(5, 100), nil)
		if report.Verdict != c.want || len(report.Notes) != c.notes {
			t.Errorf("%v: %s, %q", c.checks, report.Verdict, report.Notes)
		}
	}
}

func TestMarginsAndOrder(t *testing.T) {
	r := broken(0, 1000)
	r.Margins[0].Margin = 0.1 + 1e-12
	if f := single(t, Gate{Checks: maxVD(0.01)}, r); f.Verdict != Pass || *f.Margin != 0.1 {
		t.Errorf("%+v", f)
	}
	f := single(t, Gate{Margin: 0.25, Checks: maxVD(0.01)}, r)
	if f.Verdict != Inconclusive || f.Why != "promises that break: margin 0.25 was not evaluated" {
		t.Errorf("%+v", f)
	}
	g := &Gate{Checks: everyCheck(t)}
	first, _ := json.Marshal(Judge(g, grouped([]int{1, 2}, []int{100, 200}), r))
	for range 3 {
		if again, _ := json.Marshal(Judge(g, grouped([]int{1, 2}, []int{100, 200}), r)); !bytes.Equal(first, again) {
			t.Fatal("another report")
		}
	}
}
