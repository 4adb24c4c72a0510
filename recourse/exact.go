package recourse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/recourse/constraint"
)

// ExactOptions are the settings of Exact; the zero value is the default.
type ExactOptions struct {
	// Margin is the logit margin that an action must reach; 0 = any favourable one.
	Margin float64
	// MaxPoints bounds the actions of one person that an exhaustive search looks at; 0 = 2 million.
	MaxPoints int
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

// Method says how a person's answer was come to.
type Method string

// The methods. Exact has all but Search. With the last ones, and others that start with "none: ", it has no answer:
// the status is NoneFound.
const (
	NotNeeded  Method = ""           // the person is favourable as they are
	Affine     Method = "affine"     // branch and bound over an affine model
	Exhaustive Method = "exhaustive" // all feasible actions, cheapest first
	Search     Method = "search"     // Solve: nothing says that there is no cheaper action, or none
	TooMany    Method = "none: more actions than the limit"
	TooHard    Method = "none: branch and bound found no end"
	Refused    Method = "none: the model refuses what its weights promise, for rounding"
)

// Proved says whether the answer is exact: the optimum, or the proof that there is no action.
func (m Method) Proved() bool { return m != Search && !strings.HasPrefix(string(m), "none") }

// exactChunk is the number of people searched together: few, for one alone may take seconds.
const exactChunk = 16

// affineModel is a Model that may be affine: its margin is then w x + b.
type affineModel interface {
	Affine(ctx context.Context) (w []float32, b float64, ok bool, err error)
}

// ErrNotExact says that no exact method applies. The error around it names the features that are the reason.
var ErrNotExact = errors.New("no exact method applies")

// Exact finds for every person the cheapest feasible action that reaches the required margin, or proves that there
// is none. It aims at the same margin as Solve, a little above the required one, so the two compare.
//
//   - An affine model, one with a method Affine() (w, b, ok, err) that says so: branch and bound over steps,
//     switches, the limit and rules, its bound the Lagrangian dual. The cost is least to a relative 1e-7, as far as
//     float32 goes.
//   - Any model, when all features that people can change are discrete: all feasible actions in the order of their
//     cost, until the first one that the model accepts.
//
// What is found is judged by the model itself. When no method comes to an end for a person, they have the status
// NoneFound, and the Method says why. When no method applies to the model and the task at all, the error wraps
// ErrNotExact.
//
// References: app:eq:recourse_general.
func Exact(ctx context.Context, m Model, a *constraint.Set, x []float32, o ExactOptions) ([]Action, []Method, error) {
	n, err := people(m, a, x, o.Margin)
	if err != nil {
		return nil, nil, err
	}
	o.MaxPoints = defaulted(o.MaxPoints, 2_000_000)
	var w []float32
	if f, ok := m.(affineModel); ok {
		v, _, ok, err := f.Affine(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("recourse: %w", err)
		}
		if ok {
			w = v
		}
	}
	if why := noMethod(a, w != nil); why != "" && !a.HasOverrides() {
		return nil, nil, fmt.Errorf("recourse: %w: %s; give steps to make the actions countable, or use the solver",
			ErrNotExact, why)
	}
	actions, methods := make([]Action, n), make([]Method, n)
	err = chunks(ctx, n, exactChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		e := &exactSearch{ctx: ctx, m: m, a: a, o: o, w: w, slack: slackAbove(o.Margin)}
		return e.run(x[lo*a.Dim():hi*a.Dim()], lo, actions[lo:hi], methods[lo:hi])
	})
	if err != nil {
		return nil, nil, err
	}
	return actions, methods, nil
}

// noMethod says why there is no exact method for the action set, "" when there is one.
func noMethod(a *constraint.Set, affine bool) string {
	var names []string
	for _, u := range a.Free() {
		if u.Numeric() && u.Step == 0 {
			names = append(names, fmt.Sprintf("%q", u.Name))
		}
	}
	why := "the model is not affine"
	if affine {
		why = a.Separable()
	}
	switch {
	case len(names) == 0 || why == "":
		return ""
	case len(names) == 1:
		return why + ", and the feature " + names[0] + " changes without steps"
	}
	return why + ", and the features " + strings.Join(names, ", ") + " change without steps"
}

// exactSearch is the state of Exact for one piece of people; one goroutine owns it.
type exactSearch struct {
	ctx     context.Context
	m       Model
	a       *constraint.Set
	o       ExactOptions
	w       []float32 // of an affine model, or nil
	slack   float64   // how far above the required margin the search aims
	x       []float32
	first   int // row of the first person
	actions []Action
	methods []Method
}

func (e *exactSearch) run(x []float32, first int, actions []Action, methods []Method) error {
	e.x, e.first, e.actions, e.methods = x, first, actions, methods
	dim := e.a.Dim()
	margins, err := e.m.Margins(e.ctx, x)
	if err := call(dim, len(actions), margins, nil, err); err != nil {
		return err
	}
	var linear, counted []int
	for i, m := range margins {
		actions[i] = Action{Status: AlreadyFavourable, Point: row(x, i, dim), Delta: make([]float32, dim), Margin: float64(m)}
		if valid(m, float32(e.o.Margin)) {
			continue
		}
		actions[i].Status = NoneFound
		switch a := e.a.Person(first + i); {
		case e.w != nil && a.Separable() == "":
			linear = append(linear, i)
		case noMethod(a, e.w != nil) == "":
			counted = append(counted, i)
		default:
			methods[i] = Method("none: " + noMethod(a, e.w != nil))
		}
	}
	if err := e.affine(linear); err != nil {
		return err
	}
	return e.exhaustive(counted)
}

// settle makes the judged point the action of person i, and says whether it is feasible.
func (e *exactSearch) settle(i int, point []float32, margin float32) bool {
	a, x := e.a.Person(e.first+i), row(e.x, i, e.a.Dim())
	delta := make([]float32, a.Dim())
	constraint.Difference(delta, x, point)
	if a.Check(x, delta) != nil {
		return false
	}
	e.actions[i] = Action{
		Status: Found, Point: slices.Clone(point), Delta: delta, Cost: a.Cost(x, delta),
		Margin: float64(margin),
	}
	return true
}
