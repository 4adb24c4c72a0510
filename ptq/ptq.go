// Package ptq quantizes ONNX classifiers so that algorithmic recourse survives:
// what people were told to change to get a favourable decision still works after
// the model has been quantized.
//
// Input: a model, a task, the rows to calibrate on. Output: a quantized model, written
// and verified in ONNX Runtime, with the plan it was made from. Invariant:
// the same inputs and options give the same bytes, for any number of workers.
//
// [Quantize] does everything for one budget and [Calibrate] for several; [Smallest] searches for a budget,
// [Sweep] measures methods and budgets, [FromPlan] writes a saved plan, [Deployments] draws variants
// of a model, and [Sensitivity] measures how much each layer matters.
//
// References: section Training-Free Counterfactual-Aware PTQ of the paper.
package ptq

import (
	"context"
	"errors"

	"cfq/onnxio"
	"cfq/task"
)

// Quantize quantizes the model for the task, calibrated on the people's rows.
// Result.Verified says whether the written model does what it should; look at it
// before shipping. An *InputError says that the options, the model or the task
// cannot be used as they are.
func Quantize(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options) (*Result, error) {
	c, err := Calibrate(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the result is what counts
	return c.Quantize(ctx, c.stage.o.Budget)
}

// Calibration is all of Quantize that does not depend on the budget. Close it after use.
type Calibration struct{ stage *scored }

// Calibrate does the part of Quantize that does not depend on the budget, so that a model
// can be quantized at several.
func Calibrate(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options) (*Calibration,
	error,
) {
	c, err := calibrate(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	s, err := c.score(ctx)
	if err != nil {
		return nil, errors.Join(err, c.full.Close())
	}
	return &Calibration{s}, nil
}

// Quantize quantizes the model at a budget: what the function Quantize returns for the same options.
func (c *Calibration) Quantize(ctx context.Context, budget float64) (*Result, error) {
	r, err := c.quantize(ctx, budget)
	if err != nil {
		return nil, err
	}
	return r, c.judge(ctx, r)
}

// judge measures the margin error of a result at recourse points of people held out.
func (c *Calibration) judge(ctx context.Context, r *Result) (err error) {
	r.HeldOut, err = c.stage.judge(ctx, r.Model, r.Plan.Layers)
	return err
}

// quantize is Quantize of a candidate, which may never be written: its margin error is not measured.
func (c *Calibration) quantize(ctx context.Context, budget float64) (*Result, error) {
	a, err := c.stage.allocate(ctx, budget)
	if err != nil {
		return nil, err
	}
	return a.quantize(ctx)
}

// Close frees the model.
func (c *Calibration) Close() error { return c.stage.full.Close() }

// calibrate runs the first two stages. The caller closes the model.
func calibrate(
	ctx context.Context,
	m *onnxio.Model,
	t *task.Task,
	people *task.People,
	o Options,
) (*calibrated, error) {
	p, err := prepare(ctx, m, t, o)
	if err != nil {
		return nil, inputError(err)
	}
	c, err := p.calibrate(ctx, people)
	if err != nil {
		return nil, errors.Join(err, p.full.Close())
	}
	return c, nil
}
