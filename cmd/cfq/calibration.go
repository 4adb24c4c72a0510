package main

import (
	"context"
	"fmt"

	"cfq/ptq"
	"cfq/task"
)

type calibrationFlags struct {
	peopleFlags
	recipeFlags
}

// maxRead is the largest number of rows kept in memory: of more rows, a sample of this size is drawn.
const maxRead = 100000

// reading says which people are read. With promises these are all, for the promises are to any of them.
func (f *calibrationFlags) reading(r *ptq.Recipe, seed uint64) task.ReadOptions {
	o := task.ReadOptions{Seed: seed}
	if rows := r.Calibrate.Rows; f.promises == "" && rows > 0 {
		o.Most = max(maxRead, rows)
	}
	return o
}

func (f *calibrationFlags) origin(model string, people *task.People, seed uint64) (map[string]string, error) {
	r, err := madeFrom(map[string]string{
		"model": model, "data": f.data, "task": f.task, "promises": f.promises, "overrides": f.overrides,
	})
	if err != nil {
		return nil, err
	}
	r["rows"] = f.rows
	if people.Undrawn > 0 {
		r["drawn"] = fmt.Sprintf("%d of %d rows, seed %d", people.N, people.N+people.Undrawn, seed)
	}
	return r, nil
}

func (f *calibrationFlags) openRun(ctx context.Context, e *env, model string, read task.ReadOptions) (
	in *opened, run ptq.Run, err error,
) {
	if in, err = f.open(ctx, e, []string{model}, read); err != nil {
		return nil, run, err
	}
	run = ptq.Run{Workers: e.workers, Progress: e.progress(), Overrides: in.allowed.list}
	run.Promises, err = in.judged(ctx, e, model)
	return in, run, err
}
