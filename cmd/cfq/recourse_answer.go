package main

import (
	"context"
	"errors"

	"cfq/internal/cli"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// answer finds an action for every row of x, and says by which method. With --exact that may be the reason why there is
// no proof: the action is the solver's then.
func (j *recourseJob) answer(ctx context.Context, set *constraint.Set, x []float32, progress func(done, total int)) ([]recourse.Action, []recourse.Method, error) {
	o := recourse.SolveOptions{Margin: j.margin, Restarts: j.restarts, Seed: j.seed, Workers: j.e.workers, Progress: progress}
	if j.exact {
		return j.prove(ctx, set, x, o)
	}
	actions, err := recourse.Solve(ctx, j.model, set, x, o)
	methods := make([]recourse.Method, len(actions))
	for i := range actions {
		if actions[i].Status != recourse.AlreadyFavourable {
			methods[i] = recourse.Search
		}
	}
	return actions, methods, err
}

// prove finds the cheapest actions, and has the solver answer for those whom no proof reaches: they are never worse off
// than without --exact.
func (j *recourseJob) prove(ctx context.Context, set *constraint.Set, x []float32, o recourse.SolveOptions) ([]recourse.Action, []recourse.Method, error) {
	actions, methods, err := recourse.Exact(ctx, j.model, set, x, recourse.ExactOptions{Margin: o.Margin, Workers: o.Workers, Progress: o.Progress})
	switch {
	case errors.Is(err, recourse.ErrNotExact):
		return nil, nil, cli.Wrap(err, cli.Unusable, "without --exact the solver finds actions that are near the cheapest")
	case err != nil:
		return nil, nil, err
	}
	var rest []int
	var people []float32
	dim := set.Dim()
	for i, m := range methods {
		if !m.Proved() {
			rest, people = append(rest, i), append(people, x[i*dim:(i+1)*dim]...)
		}
	}
	if len(rest) == 0 {
		return actions, methods, nil
	}
	o.Progress = nil // these people have been counted
	found, err := recourse.Solve(ctx, j.model, set.Select(rest), people, o)
	if err != nil {
		return nil, nil, err
	}
	for k, i := range rest {
		actions[i] = found[k]
	}
	return actions, methods, nil
}
