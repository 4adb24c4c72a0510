// Package gate decides whether an evaluation is good enough to release a model.
//
// In: checks (from flags or a gate file) and an eval.Result, for some checks an earlier one too. Out: a Report with
// a verdict for each check and for all of them. The invariant: PASS means that the exact bound of what was measured is within the limit; what
// could not be measured, or by too few people, is INCONCLUSIVE and never passes.
//
// The paper has no gate; its metrics are those of section "Metrics".
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

// Check is one limit on one metric. At least one of Max, Min, MaxIncrease and MaxGap is set.
type Check struct {
	Name     string   // "" makes one of the metric, margin and group
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
	Check  string    // a Check's name; with By, "name [group]" waives one group
	Until  time.Time // the last day, UTC
	Reason string
	Owner  string
}

// Needs is what an evaluation must have computed for a gate.
type Needs struct {
	Margins      []float64 // ascending
	Mirrored     bool      // the quantized model's own recourse, or PGD-first
	Noise        bool
	Certificates bool
	Perturbation bool
	Timing       bool
	By           []string
	Previous     bool // an earlier result
}

// Report is what a gate says.
type Report struct {
	Verdict    Verdict   `json:"verdict"`
	Confidence float64   `json:"confidence"`
	Findings   []Finding `json:"findings"`
	Excluded   int       `json:"excluded,omitempty"` // people left out because the model was calibrated on them
	Notes      []string  `json:"notes,omitempty"`
}

// Finding is what was found for one check, of each group if the check is by groups.
type Finding struct {
	Check    string     `json:"check"`
	Metric   string     `json:"metric"`
	Margin   *float64   `json:"margin,omitempty"`
	Group    string     `json:"group,omitempty"`
	Severity Severity   `json:"severity"`
	Verdict  Verdict    `json:"verdict"`
	Limit    string     `json:"limit"` // "<= 0.02"
	Value    eval.Float `json:"value"`
	Num      *int       `json:"num,omitempty"` // of a share: Num of N
	N        int        `json:"n"`
	Lower    eval.Float `json:"lower"` // bounds at Report.Confidence, one-sided each
	Upper    eval.Float `json:"upper"`
	Need     int        `json:"need,omitempty"`   // of an inconclusive share: the people with whom this share, if it stays, would pass; 0 = no number would
	Why      string     `json:"why"`              // one sentence
	Waived   string     `json:"waived,omitempty"` // the reason, when a waiver holds
}

// OK says that the finding does not keep the gate from passing: it passes, only warns or is waived.
func (f *Finding) OK() bool { return f.Verdict == Pass || f.Severity == Warns || f.Waived != "" }
