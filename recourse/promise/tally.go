package promise

import (
	"cmp"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// Tally sums up verdicts, of a file or of one batch of it after another. The zero value has none.
type Tally struct {
	Promises   int
	Invalid    int // the model does not keep them
	Infeasible int // the task does not allow them

	claimed    bool
	difference float64
	broken     map[constraint.Constraint]int
}

// Add adds the verdicts on the promises of f.
func (t *Tally) Add(f *File, verdicts []Verdict) {
	if t.broken == nil {
		t.broken = map[constraint.Constraint]int{}
	}
	t.Promises += len(verdicts)
	for i := range verdicts {
		p, v := &f.Promises[i], &verdicts[i]
		if !v.Valid(0) {
			t.Invalid++
		}
		if len(v.Broken) > 0 {
			t.Infeasible++
		}
		for k, b := range v.Broken {
			again := func(o *constraint.Violation) bool { return o.Constraint == b.Constraint }
			if !slices.ContainsFunc(v.Broken[:k], again) {
				t.broken[b.Constraint]++
			}
		}
		for _, d := range []float64{p.Margin - v.Margin, p.Before - v.Before} {
			if d = math.Abs(d); !math.IsNaN(d) {
				t.claimed, t.difference = true, max(t.difference, d)
			}
		}
	}
}

// Difference is how far claims are from verdicts: the largest of |claimed - found| of the margins after and before the
// action; NaN when nothing is claimed. More than rounding means that the file was made for another model, task or data.
func (t *Tally) Difference() float64 {
	if !t.claimed {
		return math.NaN()
	}
	return t.difference
}

// Count is how many promises break a constraint.
type Count struct {
	Constraint constraint.Constraint `json:"constraint"`
	Promises   int                   `json:"promises"`
}

// Broken counts the promises that break each constraint, the most frequent first.
func (t *Tally) Broken() []Count {
	counts := []Count{}
	for c, k := range t.broken {
		counts = append(counts, Count{c, k})
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(b.Promises-a.Promises, cmp.Compare(a.Constraint, b.Constraint))
	})
	return counts
}
