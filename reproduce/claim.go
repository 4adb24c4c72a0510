package reproduce

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

const confidence = 0.95

// What became of a claim in one place.
const (
	holds    = "holds"
	reversed = "reversed"
	unclear  = "not shown"
)

// judge tests the differences of a claim: a one-sided t test in both directions.
func (r *Result) judge() string {
	if r.Networks < 2 {
		return unclear
	}
	n, mean := float64(r.Networks), float64(r.Mean)
	reach := float64(r.SD) / math.Sqrt(n) * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(confidence)
	switch {
	case mean < -reach:
		return holds
	case mean > reach:
		return reversed
	}
	return unclear
}

func (t *Table) verdicts(results []Result) []string {
	var bad, good []string
	for _, c := range t.Claims {
		places := map[string][]string{}
		for i := range results {
			if r := &results[i]; r.Method == c.Lower && r.Against == c.Upper && r.Metric == c.Metric {
				verdict := r.judge()
				places[verdict] = append(places[verdict], fmt.Sprintf("%s (%s)", place(r.Data, r.Part), r.cell("%+.3f")))
			}
		}
		var parts []string
		for _, verdict := range []string{reversed, unclear, holds} {
			if p := places[verdict]; p != nil {
				parts = append(parts, verdict+" on "+strings.Join(p, ", "))
			}
		}
		text := fmt.Sprintf("%s: %s.", c.Says, strings.Join(parts, "; "))
		switch {
		case len(parts) == 1 && places[holds] != nil:
			good = append(good, text)
		case len(parts) > 0:
			bad = append(bad, text)
		}
	}
	return append(bad, good...)
}
