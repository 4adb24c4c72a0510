// Package promise keeps promises in files: the action that each person was promised, in raw units.
//
// In: the actions of a solver, or a CSV file of this program or of another library (see Read, Stream). Out: such a file
// (see Writer), and promises matched to people and held against a task and a model (see Judge).
//
// The invariant: nothing is taken on trust and nothing is dropped in silence. A raw value that is written encodes
// to the very input that was judged; every row that is read is a promise, a person without one, or counted with its
// line and reason.
package promise

import (
	"context"
	"fmt"
	"slices"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// File is what a promises file says, matched to people.
type File struct {
	// People are those with promises: the ones that Read was given or, without any, the factual rows of the file itself.
	People   *task.People
	Promises []Promise // in the order of the file

	Rows       int                     // data rows: Factual, Unpromised, Failed and Missing ones, and those Made
	Made       int                     // promises to People, also when Promises does not hold them, see Stream
	Factual    int                     // of them, rows that say what people are and not what they were promised
	Unpromised map[recourse.Status]int // rows that say that there is no promise, and why

	Problems []task.Problem // rows that cannot be read, at most some thousand
	Failed   int            // all of them
	Lost     []task.Problem // promises whose person is not among the people, at most some thousand
	Missing  int            // all of them
	Notes    []string       // how the columns were understood
}

// Promise is one promise: the person and the point they were told to go to.
type Promise struct {
	Person int // position in People
	Line   int // of the promises file
	Point  []float32
	// What the file claims, NaN where it does not: the cost of the action, the margin it reaches and the margin before it.
	Cost, Margin, Before float64
}

const maxListed = 1000

// X returns the model inputs of the person of p before the action.
func (f *File) X(p *Promise) []float32 { return row(f.People, p.Person) }

// Verdict is what a task and a model say of one promise.
type Verdict struct {
	Before, Margin float64 // of the person as they are and after the action, under the model
	Cost           float64 // by what the task says of the person
	Broken         []*constraint.Violation
}

// Valid says whether the model approves the person after the action, by the required margin at least.
func (v *Verdict) Valid(required float64) bool {
	return v.Margin > 0 && float32(v.Margin) >= float32(required)
}

// Judge holds every promise of f against the action set of f.People and a model. The verdicts stand in the order of
// f.Promises.
func Judge(ctx context.Context, m recourse.Model, a *constraint.Set, f *File) (verdicts []Verdict, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("promises: %w", err)
		}
	}()
	if dim := f.People.Dim; m.Dim() != dim || a.Dim() != dim {
		return nil, fmt.Errorf("the people have %d inputs, the model %d and the action set %d", dim, m.Dim(), a.Dim())
	}
	var from, to []float32
	for i := range f.Promises {
		p := &f.Promises[i]
		from, to = append(from, f.X(p)...), append(to, p.Point...)
	}
	before, err := m.Margins(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := m.Margins(ctx, to)
	if err != nil {
		return nil, err
	}
	var distances []float32
	if d, ok := m.(recourse.Decoded); ok {
		if distances, err = d.Distances(ctx, to); err != nil {
			return nil, err
		}
	}
	delta := make([]float32, a.Dim())
	verdicts = make([]Verdict, len(f.Promises))
	for i := range verdicts {
		p := &f.Promises[i]
		x, own := f.X(p), a.Person(p.Person)
		constraint.Difference(delta, x, p.Point)
		v := &verdicts[i]
		v.Before, v.Margin = float64(before[i]), float64(after[i])
		v.Cost, v.Broken = own.Cost(x, delta), own.Violations(x, delta)
		if distances != nil && own.Changed(delta) > 0 {
			if far := own.TooFar(distances[i]); far != nil {
				v.Broken = append(v.Broken, far)
			}
		}
	}
	return verdicts, nil
}

// Keep leaves out all people but those in rows, which ascend, and the promises to the others. It returns how many
// promises these are.
func (f *File) Keep(rows []int) (lost int) {
	f.People = f.People.Subset(rows)
	kept := make([]Promise, 0, len(f.Promises))
	for _, p := range f.Promises {
		at, ok := slices.BinarySearch(rows, p.Person)
		if !ok {
			lost++
			continue
		}
		p.Person = at
		kept = append(kept, p)
	}
	f.Promises, f.Made = kept, len(kept)
	return lost
}

// Actions makes one action for each of f.People out of the promises: the cheapest, by the task's cost, of those
// that the model keeps, or of all when it keeps none. People without a promise have the status NoneFound.
// Further says how many promises that leaves out.
func (f *File) Actions(verdicts []Verdict) (actions []recourse.Action, further int) {
	chosen := map[int]int{} // the promise of a person
	for i := range f.Promises {
		person := f.Promises[i].Person
		k, has := chosen[person]
		if kept := verdicts[i].Valid(0); !has || kept && !verdicts[k].Valid(0) ||
			kept == verdicts[k].Valid(0) && verdicts[i].Cost < verdicts[k].Cost {
			chosen[person] = i
		}
	}
	actions = make([]recourse.Action, f.People.N)
	for i := range actions {
		x := row(f.People, i)
		a := recourse.Action{Status: recourse.NoneFound, Point: x, Delta: make([]float32, len(x))}
		if k, has := chosen[i]; has {
			v := &verdicts[k]
			a.Status, a.Point, a.Cost, a.Margin = recourse.Found, f.Promises[k].Point, v.Cost, v.Margin
			constraint.Difference(a.Delta, x, a.Point)
		}
		actions[i] = a
	}
	return actions, len(f.Promises) - len(chosen)
}
