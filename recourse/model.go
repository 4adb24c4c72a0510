package recourse

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Model is a classifier as recourse sees it. The margin is the target class's logit margin: above zero means that the
// model decides for the target. All x are rows x Dim; results have one entry, or one row, per row of x.
// Results belong to the caller. Methods are called from several goroutines at once. For results that do not depend on the
// number of workers, a row's result must not depend on the other rows.
type Model interface {
	// Dim returns the number of model inputs.
	Dim() int
	// Margins returns the margin of every row.
	Margins(ctx context.Context, x []float32) ([]float32, error)
	// MarginGrads returns margins and d margin / d x.
	MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error)
	// LossGrads returns margins and d L_cf / d x, L_cf the cross-entropy of the target class.
	LossGrads(ctx context.Context, x []float32) (m, g []float32, err error)
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
	switch s {
	case AlreadyFavourable:
		return "already favourable"
	case Found:
		return "found"
	case NoneFound:
		return "none found"
	case NoneExists:
		return "none exists"
	}
	return fmt.Sprintf("Status(%d)", int8(s))
}

// Action is what was found for one person.
type Action struct {
	Status Status
	Point  []float32 // the person after the action, Dim entries: what was judged
	Delta  []float32 // Point - x; Dim entries, never nil
	Cost   float64   // ActionSet.Cost of the action
	Margin float64   // the model's margin at Point
}

// valid says whether a margin meets the requirement. At requirement 0 the decision itself must change.
func valid(m, required float32) bool { return m > 0 && m >= required }

func checkArgs(m Model, a *ActionSet, x []float32) (n int, err error) {
	if m.Dim() != a.dim {
		return 0, fmt.Errorf("recourse: model has %d inputs, task has %d", m.Dim(), a.dim)
	}
	if a.dim == 0 || len(x)%a.dim != 0 {
		return 0, fmt.Errorf("recourse: %d numbers are not rows of %d inputs", len(x), a.dim)
	}
	return len(x) / a.dim, nil
}

func checkMargin(required float64) error {
	if math.IsNaN(required) || required < 0 {
		return fmt.Errorf("recourse: required margin %g, must be 0 or more", required)
	}
	return nil
}

// slackAbove is how far above a required margin solvers aim, so that rounding differences between batches do not undo an action.
func slackAbove(required float64) float64 { return 1e-5 * (1 + required) }

// chunks runs do on [0,n) in pieces of at most size people, several at a time. The pieces do not
// depend on the number of workers.
func chunks(ctx context.Context, n, size, workers int, progress func(done, total int), do func(ctx context.Context, lo, hi int) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
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

// call checks what a model returned.
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
