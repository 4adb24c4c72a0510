package promise

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Solver finds actions that can be promised.
type Solver struct {
	Model   recourse.Model         // that must accept
	Stated  recourse.Model         // whose margins promises state; nil: Model
	Options recourse.SolveOptions  // of the search; Progress is not used
	Exact   *recourse.ExactOptions // proves actions, with the Margin and Workers of Options; nil: the search is enough
}

// Answer is what one person is told.
type Answer struct {
	Line
	Tried  recourse.Proof   // of the line, or the reason why there is none
	Search *recourse.Action // what the search alone says, where the line has a proof
}

// NoNumber is why the person in a line of the data has no answer: the model gives no number, and so no decision.
type NoNumber struct{ Line int }

func (n *NoNumber) Error() string {
	return fmt.Sprintf("the model gives no number (NaN) for the person in line %d, and so no decision: export it after a "+
		"training that did not diverge, or leave such rows out", n.Line)
}

// Solve answers people, who can change what set says; progress is told how many are done. Proofs begin with the action
// of the search, so nobody is worse off with Exact than without.
func (s *Solver) Solve(ctx context.Context, set *constraint.Set, people *task.People, progress func(done, total int),
) ([]Answer, error) {
	stated := s.Stated
	if stated == nil {
		stated = s.Model
	}
	before, err := stated.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	for i, m := range before {
		if math.IsNaN(float64(m)) {
			return nil, &NoNumber{people.Line(i)}
		}
	}
	o := s.Options
	if o.Progress = progress; s.Exact != nil {
		o.Progress = nil // the proofs count people
	}
	found, err := recourse.Solve(ctx, s.Model, set, people.X, o)
	if err != nil {
		return nil, err
	}
	proved, proofs := found, make([]recourse.Proof, people.N)
	if s.Exact != nil {
		e := *s.Exact
		e.Margin, e.Workers, e.Progress = o.Margin, o.Workers, progress
		if proved, proofs, err = recourse.Exact(ctx, s.Model, set, people.X, found, e); err != nil {
			return nil, err
		}
	}
	answers := make([]Answer, people.N)
	var points []float32
	for i := range answers {
		a := &answers[i]
		a.Line = lineOf(people, i)
		a.Before, a.Action, a.Tried = float64(before[i]), proved[i], proofs[i]
		if s.Exact == nil && a.Action.Status != recourse.AlreadyFavourable {
			a.Tried.Method = recourse.Search
		}
		if a.Method = a.Tried.Method; !a.Method.Proved() {
			a.Method = recourse.Search
		} else if a.Method != recourse.NotNeeded {
			a.Search = &found[i]
		}
		if a.Action.Status == recourse.Found {
			a.Changes = set.Person(i).Changes(a.X, a.Action.Point)
		}
		points = append(points, a.Action.Point...)
	}
	if s.Stated == nil {
		return answers, nil
	}
	margins, err := s.Stated.Margins(ctx, points)
	if err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].Action.Margin = float64(margins[i])
	}
	return answers, nil
}

func lineOf(people *task.People, i int) Line {
	return Line{Row: people.Rows[i], Line: people.Line(i), X: row(people, i), Imputed: people.ImputedOf(i)}
}

// Write writes the promises of f in the form of this program, with the costs and margins of verdicts on them. The set
// is that of f.People.
func (f *File) Write(w *Writer, set *constraint.Set, verdicts []Verdict) error {
	for i := range f.Promises {
		p, v := &f.Promises[i], &verdicts[i]
		l := lineOf(f.People, p.Person)
		l.Before, l.Changes = v.Before, set.Person(p.Person).Changes(l.X, p.Point)
		l.Action = recourse.Action{Status: recourse.Found, Point: p.Point, Cost: v.Cost, Margin: v.Margin}
		if err := w.Write(l); err != nil {
			return fmt.Errorf("promise of line %d: %w", p.Line, err)
		}
	}
	return nil
}

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
