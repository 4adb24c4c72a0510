// Package gate decides whether an evaluation is good enough to release a model.
//
// In: checks (from flags or a gate file) and an eval.Result, for some checks an earlier one too. Out: a Report with
// a verdict for each check and for all of them. The invariant: PASS means that the bound of what was measured is within
// the limit; what could not be measured, or by too few people, is INCONCLUSIVE and never passes.
//
// How a verdict is come to, at the confidence 1-a:
//
//   - A share of people has the exact one-sided bounds of Clopper and Pearson, from its counts. It passes "at most" when the
//     upper bound is within the limit and fails when the lower one is beyond it; "at least" is the mirror image.
//   - A mean, median or other estimate has the interval of the Result, two-sided at Settings.Confidence c, so that each end is
//     one-sided at (1+c)/2. That has to be 1-a or more, for differences 1-a/2; and there must be MinPeople. An absolute value passes when both
//     ends are within the limits, of which only one can be wrong; it fails when one is beyond at a/2, as of a normal distribution.
//   - A size in bytes or bits is exact.
//   - By groups: every group has to pass, each at 1-a, so that no correction is due. To fail, a group must be beyond the limit at a
//     level corrected by Holm over the groups, since many are looked at.
//   - A gap is the largest difference of two groups. It passes when no two differ by more than the limit between bounds at 1-a/2: if the gap
//     is larger, one of two bounds of the two groups that make it is wrong. It fails when two groups are farther apart than the limit by bounds
//     at 1-a/(2m), for m groups (Bonferroni): those of all groups hold together.
//   - An increase is a difference of two results, with bounds at 1-a/2 each. So it holds however the two depend on each other, as they
//     do when the people are the same, and is wider than need be.
//   - Checks are not corrected for each other: a gate that passes passes all of them.
//
// The paper has no gate; its metrics are those of section "Metrics".
//
// References: Clopper and Pearson (1934); Holm (1979); Berger (1982), intersection-union tests.
package gate

import (
	"time"

	"cfq/eval"
)

// Verdict is what is said of a check, and of all of them.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "PASS"         // the bound on the safe side of the limit
	Fail         Verdict = "FAIL"         // the other bound beyond the limit
	Inconclusive Verdict = "INCONCLUSIVE" // too few people to say, or nothing was measured
)

// Severity says what a check that does not pass means.
type Severity string

// The severities.
const (
	Blocks Severity = "error"   // the gate does not pass
	Warns  Severity = "warning" // it is reported
)

// Gate is what a release must meet. The zero value has no checks.
type Gate struct {
	Confidence float64 // of each verdict; 0 = 0.95
	Margin     float64 // required logit margin of checks that name none; 0 = 0.1
	MinPeople  int     // people without whom nothing is said of a metric that is no share; 0 = 30
	Checks     []Check
	Waivers    []Waiver
}

// Check is limits on one metric: at least one of Max, Min, AbsMax, MaxIncrease and MaxGap is set.
type Check struct {
	Name     string   // "" = its text without the severity, see String
	Metric   string   // eval.Metric.ID, such as "vd"
	Margin   *float64 // required logit margin, nil = Gate.Margin
	Severity Severity // "" = Blocks
	// Max and Min bound the metric; AbsMax its absolute value.
	Max, Min, AbsMax *float64
	// MaxIncrease bounds by how much the metric may be above that of the earlier result.
	MaxIncrease *float64
	// By is a grouping ("sex", "sex*race"): Max, Min and AbsMax hold for each of its groups, MaxGap bounds the largest difference
	// between two of them.
	By     string
	MaxGap *float64
}

// Waiver lets a check not pass until the end of a day.
type Waiver struct {
	Check  string    // a check's name; with By, "name [group]" waives one group
	Until  time.Time // the last day, UTC
	Reason string
	Owner  string
}

// Report is what a gate says.
type Report struct {
	Verdict    Verdict   `json:"verdict"`
	Confidence float64   `json:"confidence"`
	Findings   []Finding `json:"findings"`           // in the order of the checks, their limits and their groups
	Excluded   int       `json:"excluded,omitempty"` // people left out because the model was calibrated on them
	Notes      []string  `json:"notes,omitempty"`
}

// Finding is what was found for one limit of a check, of each group if the check is by groups.
type Finding struct {
	Check    string     `json:"check"`
	Metric   string     `json:"metric"`
	Margin   *float64   `json:"margin,omitempty"`
	Group    string     `json:"group,omitempty"`
	Severity Severity   `json:"severity"`
	Verdict  Verdict    `json:"verdict"`
	Limit    string     `json:"limit"`         // "<= 0.02", ">= 0.9", "|value| <= 0.1", "increase <= 0.01", "gap <= 0.05"
	Value    eval.Float `json:"value"`         // of the metric, its increase or its gap
	Num      *int       `json:"num,omitempty"` // of a share: Num of N
	N        int        `json:"n"`
	Lower    eval.Float `json:"lower"` // bounds of Value at Report.Confidence or more, one-sided each; undefined where there are none
	Upper    eval.Float `json:"upper"`
	Need     int        `json:"need,omitempty"`   // of an inconclusive share: the people with whom it would pass if it stays, of an estimate about so many; 0 = no number would, or nobody can say
	Why      string     `json:"why"`              // one sentence
	Waived   string     `json:"waived,omitempty"` // reason, owner and last day of the waiver that holds
}

// OK says that the finding does not keep the gate from passing: it passes, only warns or is waived.
func (f *Finding) OK() bool { return f.Verdict == Pass || f.Severity == Warns || f.Waived != "" }

func (g *Gate) withDefaults() Gate {
	d := *g
	if d.Confidence == 0 {
		d.Confidence = 0.95
	}
	if d.Margin == 0 {
		d.Margin = 0.1
	}
	if d.MinPeople == 0 {
		d.MinPeople = 30
	}
	return d
}
