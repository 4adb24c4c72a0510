package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
)

// confidence is that of a claim on one data set.
const confidence = 0.95

// Verdict says what became of a claim in one place.
type Verdict struct {
	Where      string     `json:"where"`
	Verdict    string     `json:"verdict"`
	Difference eval.Float `json:"difference"` // of Lower to Upper, mean over the seeds
	SD         eval.Float `json:"sd"`         // of the same; NaN with one seed
	Networks   int        `json:"networks"`
	// Missing is the number of further networks of which one of the two values is not known.
	Missing int `json:"missing,omitempty"`
}

// Judge checks a claim in every place that has both of its rows.
func (c *Claim) Judge(rows []Measured) (all []Verdict) {
	for i := range rows {
		lower := &rows[i]
		k := slices.IndexFunc(rows, func(r Measured) bool { return r.Name == c.Upper && r.Where() == lower.Where() })
		if lower.Name == c.Lower && k >= 0 {
			v := c.judge(lower, &rows[k])
			v.Where = lower.Where()
			all = append(all, v)
		}
	}
	return all
}

// text is what became of a claim as a sentence, and whether it holds everywhere.
func (c *Claim) text(verdicts []Verdict) (text string, everywhere bool) {
	places := map[string][]string{}
	for _, v := range verdicts {
		by := ""
		switch d := float64(v.Difference); {
		case v.Networks == 1:
			by = fmt.Sprintf(" (%+.3f, one network)", d)
		case v.Networks > 1:
			by = " (" + spread("%+.3f", d, float64(v.SD))
			if v.Missing > 0 {
				by += fmt.Sprintf(", %d of %d networks", v.Networks, v.Networks+v.Missing)
			}
			by += ")"
		}
		places[v.Verdict] = append(places[v.Verdict], v.Where+by)
	}
	var parts []string
	for _, verdict := range []string{reversed, unclear, holds, unmeasured} {
		if p := places[verdict]; p != nil {
			parts = append(parts, verdict+" on "+strings.Join(p, ", "))
		}
	}
	return fmt.Sprintf("The paper: %s. Here that %s.", c.Says, strings.Join(parts, "; ")),
		len(places[holds]) == len(verdicts)
}

// claims says of each claim where it holds; those that do not hold everywhere come first.
func (t *Table) claims(rows []Measured) string {
	var bad, good []string
	for _, c := range t.Claims {
		if text, everywhere := c.text(c.Judge(rows)); everywhere {
			good = append(good, text)
		} else {
			bad = append(bad, "**"+text+"**")
		}
	}
	return strings.Join(append(bad, good...), "\n\n")
}

// What became of a claim.
const (
	holds      = "holds"
	reversed   = "does not hold, it is the other way round,"
	unclear    = "is not shown"
	unmeasured = "was not measured"
)

// judge compares two rows by the differences of their seeds: a one-sided t test either way.
func (c *Claim) judge(lower, upper *Measured) Verdict {
	var d []float64
	for seed := range lower.Outcomes {
		if x := lower.of(c.Metric, seed) - upper.of(c.Metric, seed); !math.IsNaN(x) {
			d = append(d, x)
		}
	}
	n := len(d)
	if n == 0 {
		return Verdict{Verdict: unmeasured, Difference: eval.Float(math.NaN()), SD: eval.Float(math.NaN())}
	}
	mean, sd := stat.MeanStdDev(d, nil)
	v := Verdict{
		Verdict: unclear, Difference: eval.Float(mean), SD: eval.Float(sd), Networks: n, Missing: len(lower.Outcomes) - n,
	}
	if n == 1 {
		return v
	}
	reach := sd / math.Sqrt(float64(n)) * distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(confidence)
	switch {
	case mean < -reach:
		v.Verdict = holds
	case mean > reach:
		v.Verdict = reversed
	}
	return v
}
