// Package recourse finds what people can change so that a model decides in their favour.
//
// In: people as model inputs (float32, rows x dim), the actions that a task file allows them ([constraint.Set]),
// and a model behind the small interface [Model]. Out: actions delta in model-input units, with their cost and margin.
//
// The invariant: every action that leaves this package is feasible by [constraint.Set.Check], and the margin
// reported with it is the model's at the very point that it is reported with. For [Solve] and [Exact] that point is
// the one that reading the promise makes, "hours-per-week 40 -> 45": new values are rounded to what is written
// before they are judged.
//
//   - [Teacher]: K projected gradient steps for everyone at once; the actions that calibration and training use.
//   - [FirstValid]: the first valid iterate of a long projected gradient run; it stops past the boundary and is
//     kept for comparison with the literature.
//   - [Solve]: minimal-cost actions for evaluation, with the discrete choices searched as such.
//   - [Exact]: the proved minimum, for the models and action sets for which there is a method; it measures Solve.
//
// Each of them takes any Model; [Worst] makes one of several that accepts what all of them accept. Constraints of
// single people are found by their positions among the people that a solver is given ([constraint.Set.Select]).
//
// Projected gradient descent as the paper writes it returns a one-hot group to the same vertex after every step, so
// it hardly ever changes one. The gradient solvers therefore keep a relaxed iterate, whose groups move freely, and
// take its projection as the action; TeacherOptions.Plain is the rule as written.
//
// References: the paper's section "Recourse Optimization and Constraints": recourse problem
// (app:eq:recourse_general), projected gradient steps (app:eq:pgd_steps).
package recourse

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/internal/ordered"
	"cfq/recourse/constraint"
)

// Model is a classifier as recourse sees it. The margin is the target class's logit margin: above zero means that the
// model decides for the target. All x are rows x Dim; results have one entry, or one row, per row of x.
// Results belong to the caller. Methods are called from several goroutines at once. For results that do not depend
// on the number of workers, a row's result must not depend on the other rows.
type Model interface {
	LossModel
	// Margins returns the margin of every row.
	Margins(ctx context.Context, x []float32) ([]float32, error)
	// MarginGrads returns margins and d margin / d x.
	MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error)
}

// LossModel is a classifier as a teacher sees it.
type LossModel interface {
	// Dim returns the number of model inputs.
	Dim() int
	// LossGrads returns margins and d L_cf / d x, L_cf the cross-entropy of the target class.
	LossGrads(ctx context.Context, x []float32) (m, g []float32, err error)
}

// Decoded is a Model behind a decoder. Distances returns how far the image of each row is from the person; nil where
// there is no decoder.
type Decoded interface {
	Distances(ctx context.Context, x []float32) ([]float32, error)
}

// limited is a Model of which not every point is allowed, unless Limit is "". Limits returns margins, and what is left
// of the limit, below 0 where it is exceeded. MarginGrads and LossGrads are of the lesser of both.
type limited interface {
	Limit() string
	Limits(ctx context.Context, x []float32) (margins, limits []float32, err error)
}

type within struct {
	Model
	limited
}

func withinLimit(m Model) Model {
	if l, ok := m.(limited); ok && l.Limit() != "" {
		return within{m, l}
	}
	return m
}

func (w within) Margins(ctx context.Context, x []float32) ([]float32, error) {
	m, limits, err := w.Limits(ctx, x)
	return lesser(m, limits), err
}

func lesser(m, limits []float32) []float32 {
	for i, v := range limits {
		m[i] = min(m[i], v)
	}
	return m
}

// Status says what came of one person's search.
type Status int8

// The statuses.
const (
	AlreadyFavourable Status = iota // the person meets the required margin as they are; Delta is zero
	Found                           // Delta reaches the required margin
	NoneFound                       // no action was found; Delta is zero
	NoneExists                      // proved: no feasible action reaches the required margin; Delta is zero
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{AlreadyFavourable, Found, NoneFound, NoneExists} }

func (s Status) String() string {
	words := []string{"already favourable", "found", "none found", "none exists"}
	if int(s) < 0 || int(s) >= len(words) {
		return fmt.Sprintf("Status(%d)", int8(s))
	}
	return words[s]
}

// Action is what was found for one person.
type Action struct {
	Status Status
	Point  []float32 // the person after the action, Dim entries: what was judged
	Delta  []float32 // Point - x; Dim entries, never nil
	Cost   float64   // constraint.Set.Cost of the action
	Margin float64   // the model's margin at Point
}

// Point sets dst to the person after the action: x + delta in float32, the very numbers that models are given
// everywhere in this project. One-hot and binary inputs come out exactly 0 or 1, because for those the sum is exact.
// The slices have equal length; several rows at once are fine.
func Point(dst, x, delta []float32) {
	x = x[:len(dst)]
	delta = delta[:len(dst)]
	for i := range dst {
		dst[i] = x[i] + delta[i]
	}
}

// valid says whether a margin meets the requirement. At requirement 0 the decision itself must change.
func valid(m, required float32) bool { return m > 0 && m >= required }

func people(m LossModel, a *constraint.Set, x []float32, required float64) (n int, err error) {
	switch dim := a.Dim(); {
	case m.Dim() != dim:
		return 0, fmt.Errorf("recourse: model has %d inputs, task has %d", m.Dim(), dim)
	case dim == 0 || len(x)%dim != 0:
		return 0, fmt.Errorf("recourse: %d numbers are not rows of %d inputs", len(x), dim)
	case !(required >= 0):
		return 0, fmt.Errorf("recourse: required margin %g, must be 0 or more", required)
	}
	return len(x) / a.Dim(), nil
}

// Aim is the margin that solvers aim at, a little above the required one, so that rounding differences between batches
// do not undo an action.
func Aim(required float64) float64 { return required + 1e-5*(1+required) }

// chunks runs do on [0,n) in pieces of at most size people, several at a time. The pieces do not
// depend on the number of workers.
func chunks(ctx context.Context, n, size, workers int, progress func(done, total int),
	do func(ctx context.Context, lo, hi int) error,
) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	if n > size && workers > 1 {
		ctx = ordered.OneCore(ctx)
	}
	var mu sync.Mutex
	done := 0
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(ctx, lo, hi); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += hi - lo
			if progress != nil {
				progress(done, n)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("recourse: %w", err)
	}
	return nil
}

func call(dim, rows int, m, g []float32, err error) error {
	switch {
	case err != nil:
		return err
	case len(m) != rows:
		return fmt.Errorf("model returned %d margins for %d rows", len(m), rows)
	case g != nil && len(g) != rows*dim:
		return fmt.Errorf("model returned %d gradient entries for %d rows of %d inputs", len(g), rows, dim)
	}
	return nil
}

func judge(ctx context.Context, m Model, points []float32) ([]float32, error) {
	if err := ctx.Err(); err != nil || len(points) == 0 {
		return nil, err
	}
	margins, err := m.Margins(ctx, points)
	return margins, call(m.Dim(), len(points)/m.Dim(), margins, nil, err)
}

func row(x []float32, i, dim int) []float32 { return x[i*dim : (i+1)*dim : (i+1)*dim] }
