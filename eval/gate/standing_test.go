package gate

import (
	"strings"
	"testing"

	"cfq/eval"
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
	rows := func(unreadable, unlabelled int, over float64) *eval.Result {
		r := broken(0, 1000)
		r.Population.UnreadableRows, r.Population.UnlabelledRows = tally(unreadable, 1000), tally(unlabelled, 1000)
		r.Decisions.AccuracyOverBase = eval.Estimate{Value: eval.Float(over), N: 1000}
		return r
	}
	five := 0.05
	for name, c := range map[string]struct {
		r    *eval.Result
		g    Gate
		want Verdict
		why  string
	}{
		"all are good": {issued(0, 0, 0), Gate{}, Pass, "issued promises that the original refuses: none of 1000"},
		"to nobody": {
			issued(1, 0, 0), Gate{}, Inconclusive, "1 of 1000 (0.1 %); find out why, or allow it with --check " +
				"'issued.unjudgeable<=0.001'",
		},
		"refused by the original": {issued(0, 7, 0), Gate{}, Inconclusive, "--check 'issued.invalid<=0.007'"},
		"forbidden":               {issued(0, 0, 1000), Gate{}, Inconclusive, "1000 of 1000 (100 %)"},
		"explicit": {
			issued(0, 7, 0),
			Gate{Checks: []Check{{Metric: "issued.invalid", Max: ptr(0.007)}}},
			Pass,
			"7 of 1000 (0.7 %); within the limit of 0.7 %",
		},
		"explicit, too many": {
			issued(0, 8, 0),
			Gate{Checks: []Check{{Metric: "issued.invalid", Max: ptr(0.007)}}},
			Fail,
			"8 of 1000 (0.8 %); outside the limit of 0.7 %",
		},
		"readable":         {rows(10, 10, 0), Gate{}, Pass, ""},
		"unreadable":       {rows(11, 0, 0), Gate{}, Inconclusive, "11 of 1000 (1.1 %); mend the data"},
		"unlabelled":       {rows(0, 11, 0), Gate{}, Inconclusive, "11 of 1000 (1.1 %); add the outcomes"},
		"more are allowed": {rows(50, 50, 0), Gate{MaxUnreadable: &five}, Pass, ""},
		"too many":         {rows(51, 50, 0), Gate{MaxUnreadable: &five}, Inconclusive, "51 of 1000"},
		"misread labels":   {rows(0, 0, -0.4), Gate{}, Inconclusive, "check data.label"},
		"allowed": {
			rows(0, 0, -0.4), Gate{Checks: []Check{{Metric: "accuracy_over_base", Min: ptr(-1), Severity: Warns}}}, Pass, "",
		},
	} {
		c.g.Checks = append(c.g.Checks, maxVD(0.02)...)
		if err := c.g.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		report := Judge(&c.g, c.r, nil, noon)
		var whys []string
		for _, f := range report.Findings {
			whys = append(whys, f.Why)
		}
		if text := strings.Join(whys, "\n"); report.Verdict != c.want || !strings.Contains(text, c.why) {
			t.Errorf("%s: %s, want %s with %q:\n%s", name, report.Verdict, c.want, c.why, text)
		}
	}
}

// Issued promises are judged whatever their margin, unless a check names one; recourse that is computed has the gate's.
func TestMarginOfIssuedPromises(t *testing.T) {
	t.Parallel()
	g := Gate{Checks: []Check{{Metric: "vd"}, {Metric: "rvd"}, {Metric: "vd", Margin: ptr(0.25)}}}
	if got := g.Needs(true).Margins; len(got) != 3 || got[0] != 0 || got[1] != 0.1 || got[2] != 0.25 {
		t.Errorf("margins %v", got)
	}
	if got := g.Needs(false).Margins; len(got) != 2 || got[0] != 0.1 {
		t.Errorf("margins %v", got)
	}
}
