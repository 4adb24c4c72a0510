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
	TooWide    Method = "none: numbers may change farther than is looked at; bounds make that less"
	Refused    Method = "none: the model refuses what its weights promise, for rounding"
)

// Proved says whether the answer is exact: the optimum, or the proof that there is no action.
func (m Method) Proved() bool { return m != Search && !strings.HasPrefix(string(m), "none") }

// exactChunk is the number of people searched together: few, for one alone may take seconds.
const exactChunk = 16

// networkModel is a Model that may be a network of Relu units. Its numbers are x, then the values of the units, which
// are max(0, v), the first rows being the weights of the v; the margin is the smallest of the others. Without units,
// and with one margin, it is affine. why says what else it is.
type networkModel interface {
	Network(ctx context.Context) (rows [][]float64, bias []float64, units int, why string, err error)
}

// network is a model of Relu units, see networkModel.
type network struct {
	rows  [][]float64
	bias  []float64
	units int
}

// networkOf returns the network that a model is. Why says what keeps the model from being affine.
func networkOf(ctx context.Context, m Model) (_ *network, why string, err error) {
	f, ok := m.(networkModel)
	if !ok {
		return nil, "the model is not affine", nil
	}
	n := &network{}
	n.rows, n.bias, n.units, why, err = f.Network(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case err != nil:
		return nil, err.Error(), nil
	case why != "":
		return nil, "the model is not affine: " + why, nil
	case n.units > 0:
		return n, fmt.Sprintf("the model is not affine: it has %d Relu units", n.units), nil
	case len(n.rows) > 1:
		return n, "the model is not affine: it has more than two classes", nil
	}
	return n, "", nil
}

// affine says whether the margin is affine.
func (n *network) affine() bool { return n != nil && n.units == 0 && len(n.rows) == 1 }

// ErrNotExact says that no exact method applies. The error around it names the features that are the reason.
var ErrNotExact = errors.New("no exact method applies")

// Exact finds for every person the cheapest feasible action that reaches the required margin, or proves that there
// is none. It aims at the same margin as Solve, a little above the required one, so the two compare.
//
//   - An affine model, one with a method Network that says so, under l1 or l2: branch and bound over steps, switches,
//     the limit and rules, its bound the Lagrangian dual. The cost is least to a relative 1e-7, as far as float32 goes.
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
	net, why, err := networkOf(ctx, m)
	if err != nil {
		return nil, nil, fmt.Errorf("recourse: %w", err)
	}
	if why := a.Unordered(); why != "" {
		return nil, nil, fmt.Errorf("recourse: %w: %s", ErrNotExact, why)
	}
	whole := &exactSearch{a: a, o: o, net: net, why: why}
	if why := whole.noMethod(a); why != "" && !a.HasOverrides() {
		return nil, nil, fmt.Errorf("recourse: %w: %s; give steps to make the actions countable", ErrNotExact, why)
	}
	actions, methods := make([]Action, n), make([]Method, n)
	err = chunks(ctx, n, exactChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		e := &exactSearch{ctx: ctx, m: withinLimit(m), a: a, o: o, net: net, why: why, slack: slackAbove(o.Margin)}
		return e.run(x[lo*a.Dim():hi*a.Dim()], lo, actions[lo:hi], methods[lo:hi])
	})
	if err != nil {
		return nil, nil, err
	}
	return actions, methods, nil
}

// noMethod says why there is no exact method for the action set, "" when there is one.
func (e *exactSearch) noMethod(a *constraint.Set) string {
	var names []string
	for _, u := range a.Free() {
		if u.Numeric() && u.Step == 0 {
			names = append(names, fmt.Sprintf("%q", u.Name))
		}
	}
	why := e.why
	if e.net.affine() {
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
	net     *network // nil when the model is none
	why     string   // the model is not affine
	slack   float64  // how far above the required margin the search aims
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
		case e.net.affine() && a.Separable() == "":
			linear = append(linear, i)
		case !hasFreeNumbers(a):
			counted = append(counted, i)
		default:
			methods[i] = Method("none: " + e.noMethod(a))
		}
	}
	if err := e.affine(linear); err != nil {
		return err
	}
	return e.exhaustive(counted, e.o.MaxPoints)
}

// hasFreeNumbers says whether a feature changes without steps.
func hasFreeNumbers(a *constraint.Set) bool {
	return slices.ContainsFunc(a.Free(), func(u *constraint.Feature) bool { return u.Numeric() && u.Step == 0 })
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
