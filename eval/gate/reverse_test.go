package gate

import (
	"strings"
	"testing"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/must"
)

// lenient is a result in which k of n promises break and, of n promises of the quantized model, other; it approves
// gained of the n people that the original refuses.
func lenient(k, other, promises, gained, n int) *eval.Result {
	r := broken(k, n)
	values := r.Margins[0].Values
	values["vd_mismatch"] = values["vd"]
	values["rvd"] = eval.NewRate(other, promises, 0.95).AsValue()
	r.Values["gained"], r.Values["lost"] = eval.NewRate(gained, n, 0.95).AsValue(), eval.NewRate(0, n, 0.95).AsValue()
	return r
}

func tolerant(promises int) *eval.Result {
	r := lenient(0, 0, promises, 300, 379)
	r.Tau01, r.RTau01 = eval.Tau{Value: 0.1, Hi: 0.1, N: 379}, eval.Tau{Value: 0.1, Hi: 0.1, N: promises}
	if promises == 0 {
		r.RTau01 = eval.Tau{Value: undefined(), Hi: undefined()}
	}
	return r
}

func TestChecksTakeNoOthersPlace(t *testing.T) {
	size, share := 1e9, 0.03
	g := &Gate{Checks: []Check{{Metric: "vd", Max: &share}, {Name: "rvd<=0.03", Metric: "bytes", Max: &size}}}
	g.Reverse(false)
	if len(g.Checks) != 4 || g.Checks[2].Metric != "rvd" || g.Checks[3].Metric != "gained" || g.Check() != nil {
		t.Errorf("%+v, %v", g.Checks, g.Check())
	}
	r := lenient(0, 0, 373, 0, 379)
	r.Population.UnreadableRows = eval.Tally{Value: 0.1, Num: 100, Den: 1000}
	r.Batches = &eval.Batches{Difference: 0.5, Points: 256, Differ: 200}
	g = &Gate{Checks: []Check{
		{Metric: "vd", Max: &share},
		{Metric: "unreadable_rows", MaxIncrease: &share},
		{Metric: "batches.difference", MaxIncrease: &size},
	}}
	verdicts := map[string]Verdict{}
	report := Judge(g, r, r)
	for _, f := range report.Findings {
		verdicts[f.Limit+" "+f.Metric] = f.Verdict
	}
	if verdicts["<= 0.01 unreadable_rows"] != Inconclusive || verdicts["<= 0 batches.difference"] != Fail {
		t.Errorf("%v", verdicts)
	}
}

func TestIncreaseOverCopies(t *testing.T) {
	g := gateOf(t, "increase(vd)<=0.05")
	now, before := lenient(200, 0, 2000, 0, 2000), lenient(200, 0, 2000, 0, 2000)
	must.Same(t, Pass, Judge(g, now, before).Findings[0].Verdict)
	before.SensitivityToCopies = []eval.Scenario{{Name: "distinct rows", Result: lenient(10, 0, 100, 0, 100)}}
	must.Same(t, Inconclusive, Judge(g, now, before).Findings[0].Verdict)
}

func TestGroupWithNobodyLeft(t *testing.T) {
	r := &Report{Findings: []Finding{
		{Check: "vd[sex]<=0.05", Group: "female", Verdict: Pass}, {Check: "vd<=0.05", Verdict: Pass},
	}}
	r.stricter(&eval.Scenario{Name: "without calibration rows"}, nil)
	if r.Findings[0].Verdict != Inconclusive || r.Findings[1].Verdict != Pass {
		t.Errorf("%+v", r.Findings)
	}
}

func TestReverse(t *testing.T) {
	for _, c := range []struct {
		checks string // separated by blanks; "one-sided" and "issued" are of the gate and of the promises
		r      *eval.Result
		want   string // findings: check=verdict by metric
		all    Verdict
	}{
		{"vd<=0.02", lenient(0, 0, 373, 0, 379), "vd<=0.02=PASS rvd<=0.02=PASS gained<=0.02=PASS", Pass},
		{"vd<=0.02", lenient(0, 90, 373, 0, 379), "vd<=0.02=PASS rvd<=0.02=FAIL gained<=0.02=PASS", Fail},
		// It approves everybody: there is no RVD.
		{"vd<=0.02", lenient(0, 0, 0, 379, 379), "vd<=0.02=PASS gained<=0.02=FAIL", Fail},
		{"one-sided vd<=0.02", lenient(0, 0, 0, 379, 379), "vd<=0.02=PASS", Pass},
		// It approves everybody of one group: all promises of its own are to the other one.
		{"vd<=0.02", lenient(0, 0, 168, 206, 379), "vd<=0.02=PASS rvd<=0.02=PASS gained<=0.02=FAIL", Fail},
		// Of issued promises there is no reverse.
		{"issued vd<=0.02", lenient(0, 0, 0, 100, 379), "vd<=0.02=PASS gained<=0.02=FAIL", Fail},
		{"issued vd<=0.02 rvd<=0.5", lenient(0, 0, 300, 79, 379), "vd<=0.02=PASS rvd<=0.5=PASS gained<=0.02=FAIL", Fail},
		{"vd<=0.02 rvd<=0.5 gained<=0.5", lenient(0, 0, 300, 79, 379), "vd<=0.02=PASS rvd<=0.5=PASS gained<=0.5=PASS", Pass},
		{"vd@0.1<=0.02 rvd<=0.5", lenient(0, 0, 300, 0, 379), "vd@0.1<=0.02=PASS rvd<=0.5=PASS gained<=0.02=PASS", Pass},
		{"vd<=0.02:warning", lenient(0, 90, 300, 79, 379), "vd<=0.02=PASS rvd<=0.02=FAIL gained<=0.02=FAIL", Pass},
		// A warning is no limit: the other one has a reverse of its own.
		{"vd<=0.01:warning vd@0.1<=0.03", lenient(0, 0, 0, 379, 379), "vd<=0.01=PASS vd@0.1<=0.03=PASS gained<=0.01=FAIL " +
			"gained<=0.03=FAIL", Fail},
		{"vd_mismatch<=0.02", lenient(0, 0, 0, 379, 379), "vd_mismatch<=0.02=PASS gained<=0.02=FAIL", Fail},
		// Two limits on VD, and none on it from above.
		{"vd<=0.02 vd@0.1<=0.05", lenient(0, 0, 373, 0, 379), "vd<=0.02=PASS vd@0.1<=0.05=PASS rvd<=0.02=PASS " +
			"gained<=0.02=PASS", Pass},
		// Other numbers of one direction. A reverse check that has nobody stays open unless approvals are limited.
		{"tau01<=0.5", tolerant(0), "tau01<=0.5=PASS rtau01<=0.5=INCONCLUSIVE", Inconclusive},
		{"tau01<=0.5", tolerant(373), "tau01<=0.5=PASS rtau01<=0.5=PASS", Pass},
		{"one-sided tau01<=0.5", tolerant(0), "tau01<=0.5=PASS", Pass},
		{"lost<=0.02", lenient(0, 0, 168, 206, 379), "lost<=0.02=PASS gained<=0.02=FAIL", Fail},
		{"increase(vd)<=0.05", lenient(0, 0, 168, 206, 379), "increase(vd)<=0.05=PASS increase(rvd)<=0.05=PASS " +
			"increase(gained)<=0.05=FAIL", Fail},
	} {
		text, oneSided := strings.CutPrefix(c.checks, "one-sided ")
		text, issued := strings.CutPrefix(text, "issued ")
		g := gateOf(t, strings.Fields(text)...)
		g.OneSided = oneSided
		own := len(g.Checks)
		g.Reverse(issued)
		must.Do(t, g.Check())
		report := Judge(g, c.r, lenient(0, 0, 373, 0, 379))
		var got []string
		for i := range report.Findings {
			f := &report.Findings[i]
			must.Has(must.In(t, c.checks), f.Check, f.Metric)
			got = append(got, f.Check+"="+string(f.Verdict))
		}
		if have := strings.Join(got, " "); report.Verdict != c.all || have != c.want {
			t.Errorf("%s: %s, %s; want %s, %s", c.checks, report.Verdict, have, c.all, c.want)
		}
		said := strings.Join(report.Notes, "\n")
		if strings.Contains(said, "--one-sided") != (len(g.Checks) > own) ||
			oneSided && !strings.Contains(said, "approves everybody") {
			t.Errorf("%s: notes %q", c.checks, said)
		}
	}
}

func TestReverseOfGroups(t *testing.T) {
	g := must.Get(Parse("gate.yaml", []byte("version: 1\nchecks:\n"+
		"  - {name: fair, metric: vd, margin: 0.25, by: sex, max: 0.1}\n")))(t)
	if g.Needs(false).Requires[metrics.Mirrored] {
		t.Error("VD alone needs no recourse of the quantized model")
	}
	g.Reverse(false)
	if n := g.Needs(false); !n.Requires[metrics.Mirrored] || len(n.By) != 1 {
		t.Errorf("needs %+v", n)
	}
	a, b := lenient(0, 0, 0, 200, 200), lenient(0, 0, 190, 10, 200)
	a.Margins[0].Margin, b.Margins[0].Margin = 0.25, 0.25
	report := Judge(g, bySex(broken(0, 400), a, b), nil)
	if len(report.Findings) != 5 || report.Verdict != Fail {
		t.Fatalf("%s: %+v", report.Verdict, report.Findings)
	}
	if f := report.Findings[3]; f.Verdict != Fail || f.Metric != "gained" || f.Group != "A" {
		t.Errorf("%+v", f)
	}
	if f := report.Findings[2]; f.Verdict != Pass || f.Metric != "rvd" || f.Group != "B" {
		t.Errorf("%+v", f)
	}
}

func TestStricter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every, others *eval.Result
		want          Verdict
		people        string
	}{
		{broken(0, 720), broken(0, 36), Inconclusive, "distinct rows"},
		{broken(0, 720), broken(30, 100), Fail, "distinct rows"},
		{broken(0, 36), broken(0, 720), Inconclusive, ""},
		{broken(0, 720), broken(0, 700), Pass, ""},
		{broken(0, 720), broken(0, 0), Inconclusive, "distinct rows"},
	} {
		c.every.SensitivityToCopies = []eval.Scenario{
			{Name: "distinct rows", About: "684 rows are equal", Result: c.others},
		}
		report := Judge(&Gate{Checks: maxVD(0.02)}, c.every, nil)
		f := report.Findings[0]
		if report.Verdict != c.want || f.People != c.people || strings.Contains(f.Why, "distinct") != (c.people != "") ||
			!strings.Contains(strings.Join(report.Notes, "\n"), "684 rows are equal; checks are judged again (distinct rows)") {
			t.Errorf("%+v, %q", f, report.Notes)
		}
	}
}
