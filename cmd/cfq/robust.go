package main

import (
	"context"

	"cfq/onnxio"
	"cfq/ptq"
	"cfq/task"
)

// robustSample is how many people the table beneath robust actions is about, at most.
const robustSample = 500

type robustFlags struct {
	models      int
	calibration string
	method      string
	budget      float64
}

// openFleet samples deployments: as many as were asked for are solved on, as many again tell how far that carries.
func (f *recourseFlags) openFleet(ctx context.Context, e *env, m *onnxio.Model, t *task.Task) (*ptq.Fleet, error) {
	data, rows := f.data, f.rows
	if f.robust.calibration != "" {
		data, rows = f.robust.calibration, ""
	}
	people, err := readPeople(ctx, e, data, rows, t, task.ReadOptions{})
	if err != nil {
		return nil, err
	}
	r, err := ptq.NewRecipe(f.robust.method)
	if err != nil {
		return nil, err
	}
	r.Allocate.Budget = f.robust.budget
	fleet, err := ptq.OpenFleet(ctx, m, t, people, ptq.Draws{Recipe: r, Models: 2 * f.robust.models, Seed: f.seed},
		ptq.Run{Workers: e.workers, Progress: e.progress()})
	if err != nil {
		return nil, err
	}
	e.warn(fleet.Result.Warnings)
	return fleet, nil
}
