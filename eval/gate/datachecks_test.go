package gate

import (
	"math"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/must"
)

// Promises were dropped in silence: those made below the gate's margin, those that the original refuses, those that
// the task forbids and those to nobody. Rows that cannot be read or have no outcome, and labels that are misread, were
// a warning at most.
func TestStanding(t *testing.T) {
	t.Parallel()
	tally := func(num, den int) eval.Tally {
		return eval.Tally{Value: eval.Float(num) / eval.Float(den), Num: num, Den: den}
	}
	issued := func(unjudgeable, invalid, infeasible int) *eval.Result {
		r := broken(0, 1000)
		r.Settings.Issued = true
		r.Margins[0].Margin = 0
		r.Issued = &eval.Issued{
			Promises: 1000, Unjudgeable: tally(unjudgeable, 1000), Invalid: tally(invalid, 1000),
			Infeasible: tally(infeasible, 1000),
		}
		return r
	}
	others := func(broken, needless int) *eval.Result { // promises to people who are approved
		r := issued(0, 0, 0)
		r.Issued.Approved, r.Issued.Needless = tally(broken, 500), tally(needless, 1000)
		return r
	}
	rows := func(unreadable, unlabelled int, balanced, lower float64) *eval.Result {
		r := broken(0, 1000)
		r.Population.UnreadableRows, r.Population.UnlabelledRows = tally(unreadable, 1000), tally(unlabelled, 1000)
		r.Values["balanced_accuracy"] = eval.Estimate{
			Value: eval.Float(balanced), N: 1000, Lo: eval.Float(lower), Hi: eval.Float(balanced + 0.05),
		}.AsValue()
		return r
	}
	unlike := func(beyond int, below float64) *eval.Result {
		r := rows(0, 0, 0.7, 0.65)
		r.Population.UnlikeRows = tally(beyond, 1000)
		r.Values["below_base_rate"] = eval.Value{
			Estimate: eval.Estimate{Value: eval.Float(below), N: 1, Lo: eval.Float(below), Hi: eval.Float(below)},
			Kind:     metrics.Exact,
		}
		return r
	}
	for name, c := range map[string]struct {
		r      *eval.Result
		check  string // besides that of VD
		most   *float64
		want   Verdict
		reason string
	}{
		"all are good": {issued(0, 0, 0), "", nil, Pass, "issued promises that the original refuses: none of 1000"},
		"to nobody": {issued(1, 0, 0), "", nil, Inconclusive, "1 of 1000 (0.1 %); find out why, or allow it with --check " +
			"'issued.unjudgeable<=0.001'"},
		"refused":          {issued(0, 7, 0), "", nil, Inconclusive, "--check 'issued.invalid<=0.007'"},
		"forbidden":        {issued(0, 0, 1000), "", nil, Inconclusive, "1000 of 1000 (100 %)"},
		"explicit":         {issued(0, 7, 0), "issued.invalid<=0.007", nil, Pass, "(0.7 %); within the limit of 0.7 %"},
		"too many refused": {issued(0, 8, 0), "issued.invalid<=0.007", nil, Fail, "(0.8 %); outside the limit of 0.7 %"},
		"kept by others":   {others(10, 0), "", nil, Pass, "promises to approved people that break: 10 of 500 (2 %)"},
		"by some others":   {others(11, 0), "", nil, Pass, "11 of 500 (2.2 %); not significantly beyond the limit"},
		"broken to others": {others(20, 0), "", nil, Inconclusive, "or allow it with --check 'issued.approved<=0.04'"},
		"stricter VD":      {others(10, 0), "vd@0<=0.01", nil, Inconclusive, "10 of 500 (2 %); find out why"},
		"needless":         {others(0, 500), "", nil, Inconclusive, "500 of 1000 (50 %); leave them out"},
		"readable":         {rows(10, 10, 0.7, 0.65), "", nil, Pass, ""},
		"unreadable":       {rows(11, 0, 0.7, 0.65), "", nil, Inconclusive, "11 of 1000 (1.1 %); mend the data"},
		"unlabelled":       {rows(0, 11, 0.7, 0.65), "", nil, Inconclusive, "11 of 1000 (1.1 %); add the outcomes"},
		"alike":            {unlike(50, 0), "", nil, Pass, ""},
		"unlike":           {unlike(51, 0), "", nil, Inconclusive, "51 of 1000 (5.1 %); check the units"},
		"as agreed":        {unlike(51, 0), "unlike_rows<=0.06", nil, Pass, "within the limit of 6 %"},
		"below base rate":  {unlike(0, 0.002), "", nil, Inconclusive, "allow it with --check 'below_base_rate<=0.002'"},
		"more are allowed": {rows(50, 50, 0.7, 0.65), "", ptr(0.05), Pass, ""},
		"too many":         {rows(51, 50, 0.7, 0.65), "", ptr(0.05), Inconclusive, "51 of 1000"},
		// A model of accuracy 80 % where 80 % have the favourable outcome, and one that decides by chance.
		"no better than the base rate": {rows(0, 0, 0.65, 0.61), "", nil, Pass, ""},
		"by chance": {rows(0, 0, 0.52, 0.48), "", nil, Inconclusive, "at least 48 % with confidence 95 %, below the limit " +
			"of 50 %; check data.label, data.favourable and target of the task, or allow it with --check " +
			"'balanced_accuracy>=0.48'"},
		"misread labels": {rows(0, 0, 0.3, 0.27), "", nil, Inconclusive, "check data.label"},
		"one outcome": {rows(0, 0, math.NaN(), math.NaN()), "", nil, Inconclusive, "undefined for 1000 people; check " +
			"data.label"},
		"allowed": {rows(0, 0, 0.3, 0.27), "balanced_accuracy>=0.2:warning", nil, Pass, ""},
	} {
		g := gateOf(t, strings.Fields(c.check+" vd<=0.02")...)
		g.MaxUnreadable = c.most
		report := Judge(g, c.r, nil)
		var whys []string
		for _, f := range report.Findings {
			whys = append(whys, f.Why)
		}
		if text := strings.Join(whys, "\n"); report.Verdict != c.want || !strings.Contains(text, c.reason) {
			t.Errorf("%s: %s, want %s with %q:\n%s", name, report.Verdict, c.want, c.reason, text)
		}
	}
}

// Issued promises are judged whatever their margin, unless a check names one; recourse that is computed has the gate's.
func TestMarginOfIssuedPromises(t *testing.T) {
	t.Parallel()
	g := Gate{Checks: []Check{{Metric: "vd"}, {Metric: "rvd"}, {Metric: "vd", Margin: ptr(0.25)}}}
	for issued, want := range map[bool][]float64{true: {0, 0.1, 0.25}, false: {0.1, 0.25}} {
		must.Same(t, want, g.Needs(issued).Margins)
	}
}

// Without outcomes the direction cannot be checked: a swapped class passed.
func TestNoOutcomes(t *testing.T) {
	t.Parallel()
	r := broken(0, 1000)
	r.Population.Read, r.Population.UnlabelledRows = 1000, eval.Tally{Value: 1, Num: 1000, Den: 1000}
	for labels, want := range map[string]Verdict{"": Inconclusive, "labels: none\n": Pass} {
		g := must.Get(Parse("gate.yaml", []byte("version: 1\n"+labels+"checks: [{metric: vd, max: 0.02}]\n")))(t)
		report := Judge(g, r, nil)
		must.Same(must.In(t, labels), want, report.Verdict)
		must.Has(t, strings.Join(report.Notes, "\n"), "no outcome is known")
	}
	_, err := Parse("gate.yaml", []byte("version: 1\nlabels: some\nchecks: [{metric: vd, max: 0.02}]\n"))
	must.Fail(t, err, `invalid value "some": want none`)
}

// An encoding that nothing verifies passes only where the gate accepts it, and one that is contradicted nowhere.
func TestUnverifiedEncoding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state, key string
		want       Verdict
		accepted   string
	}{
		{"", "", Pass, ""},
		{"verified", "", Pass, ""},
		{"verified", "encoding: unverified\n", Pass, ""},
		{"unverified", "", Inconclusive, ""},
		{"unverified", "encoding: unverified\n", Pass, "an unverified encoding"},
		{"contradicted", "encoding: unverified\n", Inconclusive, ""},
	} {
		r := broken(0, 1000)
		r.Population.Encoding = c.state
		g := must.Get(Parse("gate.yaml", []byte("version: 1\n"+c.key+"checks: [{metric: vd, max: 0.02}]\n")))(t)
		report := Judge(g, r, nil)
		must.Same(must.In(t, c.state+c.key), c.want, report.Verdict)
		must.Same(t, c.accepted, report.Accepted)
		must.Same(t, c.want == Pass, len(report.Next) == 0)
		must.Same(t, false, report.Looked(g)) // the same people may be looked at again
	}
	r := broken(900, 1000)
	r.Population.Encoding = "unverified"
	must.Same(t, Fail, Judge(gateOf(t, "vd<=0.02"), r, nil).Verdict)
}
