package gate

import (
	"math"
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
	rows := func(unreadable, unlabelled int, balanced, lower float64) *eval.Result {
		r := broken(0, 1000)
		r.Population.UnreadableRows, r.Population.UnlabelledRows = tally(unreadable, 1000), tally(unlabelled, 1000)
		r.Values["balanced_accuracy"] = eval.Estimate{
			Value: eval.Float(balanced), N: 1000, Lo: eval.Float(lower), Hi: eval.Float(balanced + 0.05),
		}.AsValue()
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
		"readable":         {rows(10, 10, 0.7, 0.65), Gate{}, Pass, ""},
		"unreadable":       {rows(11, 0, 0.7, 0.65), Gate{}, Inconclusive, "11 of 1000 (1.1 %); mend the data"},
		"unlabelled":       {rows(0, 11, 0.7, 0.65), Gate{}, Inconclusive, "11 of 1000 (1.1 %); add the outcomes"},
		"more are allowed": {rows(50, 50, 0.7, 0.65), Gate{MaxUnreadable: &five}, Pass, ""},
		"too many":         {rows(51, 50, 0.7, 0.65), Gate{MaxUnreadable: &five}, Inconclusive, "51 of 1000"},
		// A model of accuracy 80 % where 80 % have the favourable outcome, and one that decides by chance.
		"no better than the base rate": {rows(0, 0, 0.65, 0.61), Gate{}, Pass, ""},
		"by chance": {
			rows(0, 0, 0.52, 0.48), Gate{}, Inconclusive, "at least 48 % with confidence 95 %, below the limit of 50 %; " +
				"check data.label, data.favourable and target of the task, or allow it with --check 'balanced_accuracy>=0.48'",
		},
		"misread labels": {rows(0, 0, 0.3, 0.27), Gate{}, Inconclusive, "check data.label"},
		"one outcome": {
			rows(0, 0, math.NaN(), math.NaN()), Gate{}, Inconclusive, "undefined for 1000 people; check data.label",
		},
		"allowed": {
			rows(0, 0, 0.3, 0.27),
			Gate{Checks: []Check{{Metric: "balanced_accuracy", Min: ptr(0.2), Severity: Warns}}},
			Pass, "",
		},
	} {
		c.g.Checks = append(c.g.Checks, maxVD(0.02)...)
		if err := c.g.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		report := Judge(&c.g, c.r, nil)
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
