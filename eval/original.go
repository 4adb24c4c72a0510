package eval

import (
	"context"
	"fmt"
	"slices"

	"cfq/recourse"
	"cfq/task"
)

// Original is the recourse of the full-precision model, which is the same whatever it is
// compared with. It is not changed by use, so that any number of Compare may use it at once.
type Original struct {
	solved map[string]solved // by stage
}

type solved struct {
	todo    []int // positions among the people evaluated
	actions []recourse.Action
}

// Prepare solves the recourse of f that Compare of f with any other model would solve, for Options.Original.
// Everything that both get (people, set, and the options but Workers and Progress) must be the same.
func Prepare(ctx context.Context, f recourse.Model, set *recourse.ActionSet, people *task.People, o Options) (*Original, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if f.Dim()*people.N != len(people.X) {
		return nil, fmt.Errorf("eval: the original takes %d inputs, and the data hold %d values for %d people", f.Dim(), len(people.X), people.N)
	}
	records, err := decide(ctx, f, f, people, o)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	k := &Original{solved: map[string]solved{}}
	rows := pick(records, o.Sample, o.Seed)
	if len(rows) == 0 {
		return k, nil
	}
	s := &side{name: originalName, own: f, other: f, set: set.Select(rows), x: people.Subset(rows).X, dim: f.Dim(), o: o, learn: k}
	for _, row := range rows {
		s.start = append(s.start, records[row].Full)
	}
	if _, err := s.first(ctx); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if o.Promises != nil {
		return k, nil
	}
	var a answers
	for _, t := range o.Margins {
		if a, err = s.next(ctx, t, a); err != nil {
			return nil, fmt.Errorf("eval: %w", err)
		}
	}
	return k, nil
}

// solve returns the actions of people todo at a stage: those that are known already, or what f makes.
func (s *side) solve(stage string, todo []int, f func() ([]recourse.Action, error)) ([]recourse.Action, error) {
	if s.known != nil {
		if k, ok := s.known.solved[stage]; ok && slices.Equal(k.todo, todo) {
			return k.actions, nil
		}
	}
	actions, err := f()
	if err == nil && s.learn != nil {
		s.learn.solved[stage] = solved{slices.Clone(todo), actions}
	}
	return actions, err
}
