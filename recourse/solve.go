package recourse

import (
	"cmp"
	"context"
	"fmt"

	"cfq/recourse/constraint"
	"cfq/recourse/proof"
	"cfq/task"
)

// SolveOptions are the settings of Solve; the zero value is the default. All budgets are counts, so
// that results do not depend on the machine.
type SolveOptions struct {
	// Margin is the logit margin that an action must reach; 0 = any favourable one.
	Margin float64
	// Restarts is the number of gradient searches with random feature weights; 0 = 4, negative = none.
	Restarts int
	// Rounds is how often the discrete choices are expanded by one more switch; 0 = 6, negative = none.
	Rounds int
	// Beam is the number of discrete choices that a round keeps; 0 = 16.
	Beam int
	// Nodes bounds the branch and bound for one person, see Solve; 0 = 10, negative = none.
	Nodes int
	// Seed drives the restarts. A person's random numbers depend on it and the person's inputs only.
	Seed uint64
	// Starts holds for each person an action to search from, too, nil for none; it may be empty.
	Starts [][]float32
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

const (
	solveChunk = 256 // people searched together
	imageChunk = 32  // the same of images: their models are slow enough to be kept busy by few
	climbSteps = 16  // of one gradient search
	treeUnits  = 256 // of the networks that have a branch and bound: of larger ones it takes longer than the search
)

// Solve finds for every person an action of (nearly) minimal cost that reaches the required margin: the evaluation
// solver behind delta*_f and delta*_q. People who meet the requirement get no action; people who are favourable by less
// than the required margin get one that reaches it, so that costs under two models pay for the same.
//
// The search is batched over people:
//
//  1. Gradient search from the factual point, a move of one feature at a time, also with numeric moves only and with
//     random feature weights; under rules between features, scans of single numeric ones; for people without a valid
//     action a phase without regard to cost.
//  2. Rounds over discrete choices: all single switches of the kept choices; the most promising ones by the linearised
//     cost of completing them are completed by numeric moves.
//  3. Refinement of each valid action: needless changes are dropped, switches replaced by cheaper ones, numbers pulled
//     back to the required margin, and cost is shifted to features that achieve more with it.
//  4. Branch and bound, see [proof.Pair.Cheapest], of networks of up to 256 Relu units under norms other than l1, under
//     which it would save less than 0.1 % of the cost. A few nodes find other features to change. It is the last part
//     for people whose action it proves, or that there is none.
//  5. Local search: changes of the best action are taken back, numbers by half, too, and other features tried.
//  6. Perturbation: gradient searches without some of the best action's changes, until they come back to it.
//     Without any valid action, that of the largest margin is perturbed, for a larger margin at any cost.
//
// With more than 64 numeric features, as images have, one is too little to look at alone: searches move as many as
// close a share of the gap, refinement takes many changes back at once, and scans and parts 4 to 6 are left out. The
// same parts are left out for a model that says it is Large: they take most of the runs, and save little.
//
// The search aims 1e-5 (relative to 1+Margin) above the required margin, so that rounding differences between batches
// do not undo an action. The margin of the result is evaluated once more at the end and decides.
//
// References: app:eq:recourse_general; section "Practical recourse solver used in training and evaluation".
func Solve(ctx context.Context, m Model, a *constraint.Set, x []float32, o SolveOptions) ([]Action, error) {
	n, err := people(m, a, x, o.Margin)
	if err != nil {
		return nil, err
	}
	o.Restarts = defaulted(o.Restarts, 4)
	o.Rounds = defaulted(o.Rounds, 6)
	o.Beam = max(defaulted(o.Beam, 16), 1)
	o.Nodes = defaulted(o.Nodes, 10)
	pair, err := o.tree(ctx, m, a)
	if err != nil {
		return nil, fmt.Errorf("recourse: %w", err)
	}
	way := strategyOf(a)
	if l, ok := m.(interface{ Large() bool }); ok && l.Large() {
		way.last = nil
	}
	actions := make([]Action, n)
	return actions, chunks(ctx, n, Together(a.Task()), o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		s := &pieceSearch{
			ctx: ctx, m: withinLimit(m), set: a.AtAnyCost(), check: a, first: lo, o: o, strategy: way,
			target: float32(Aim(o.Margin)), pair: pair, actions: actions[lo:hi],
		}
		return s.run(x[lo*a.Dim() : hi*a.Dim()])
	})
}

// tree returns the network for the branch and bound of Solve, nil when there is none.
func (o *SolveOptions) tree(ctx context.Context, m Model, a *constraint.Set) (*proof.Pair, error) {
	if o.Nodes == 0 || a.Norm().IsL1() || len(a.Numeric()) > pixelsFrom {
		return nil, nil
	}
	n, why, err := NetworkOf(ctx, m)
	if err != nil || why != "" || n.Units > treeUnits {
		return nil, err
	}
	return proof.NewPair(n, nil)
}

// Together is how many people Solve searches together: the most that keep one worker busy and no other.
func Together(t *task.Task) int {
	if t.Images != nil {
		return imageChunk
	}
	return solveChunk
}

func defaulted(v, def int) int { return max(cmp.Or(v, def), 0) }
