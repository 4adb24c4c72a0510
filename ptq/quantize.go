// Package ptq quantizes ONNX classifiers so that algorithmic recourse survives:
// what people were told to change to get a favourable decision still works after
// the model has been quantized.
//
// Input: a model, a task, the rows to calibrate on. Output: a quantized model, written
// and verified in ONNX Runtime, with the plan it was made from. Invariant:
// the same inputs and recipe give the same bytes, for any number of workers.
//
// [Quantize] does everything for one budget; [Smallest] searches for a budget, [Sweep] measures methods and budgets,
// [FromPlan] writes a saved plan, [OpenFleet] draws variants of a model, and [Sensitivity] measures how much each
// layer matters.
//
// References: section Training-Free Counterfactual-Aware PTQ of the paper.
package ptq

import (
	"context"
	"errors"
	"fmt"

	"cfq/onnxio"
	"cfq/task"
)

// Quantize quantizes the model for the task, calibrated on the people's rows.
// Result.Verified says whether the written model does what it should; look at it
// before shipping. An *InputError says that the recipe, the model or the task
// cannot be used as they are.
func Quantize(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	*Result, error,
) {
	c, err := calibrate(ctx, m, t, people, r, run)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the result is what counts
	result, err := c.quantize(ctx, c.net.recipe.Allocate.Budget)
	if err != nil {
		return nil, err
	}
	return result, c.fits.judge(ctx, result)
}

// calibration is all of Quantize that does not depend on the budget. Close it after use.
type calibration struct {
	net     *network
	fits    *layerFits
	scores  *layerScores
	trainer *trainingStage // nil for methods without training
}

func calibrate(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	_ *calibration, err error,
) {
	c := &calibration{}
	if c.net, err = prepare(ctx, m, t, r, run); err != nil { // layers, and what stays in float and why
		return nil, inputError(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	checkpoint, err := c.net.openCheckpoint(people)
	if err != nil {
		return nil, inputError(err)
	}
	if c.fits, err = c.net.calibrate(ctx, people); err != nil {
		return nil, err
	}
	if c.scores, err = c.fits.score(ctx); err != nil { // what each bit width costs the margin
		return nil, err
	}
	if c.net.recipe.Train != nil {
		if c.trainer, err = newTraining(ctx, c.fits, checkpoint); err != nil {
			return nil, fmt.Errorf("training: %w", err)
		}
	}
	return c, nil
}

func (p *network) calibrate(ctx context.Context, people *task.People) (*layerFits, error) {
	sample, err := p.chooseSample(ctx, people)
	if err != nil {
		return nil, inputError(err)
	}
	points, err := p.calibrationSet(ctx, sample) // U_cal of the paper: rows and recourse points
	if err != nil {
		return nil, err
	}
	return p.fitLayers(ctx, sample, points)
}

// quantize is Quantize of a candidate, which may never be written: its margin error is not measured.
func (c *calibration) quantize(ctx context.Context, budget float64) (*Result, error) {
	widths, learned, err := c.allocate(ctx, budget) // bit widths within the budget
	if err != nil {
		return nil, err
	}
	layers, refined, err := c.fits.refine(ctx, c.fits.assemble(c.fits.layers, widths), c.fits.fitSet)
	if err != nil {
		return nil, err
	}
	var trained *Training
	if c.trainer != nil {
		if layers, trained, err = c.trainer.train(ctx, layers, budget, c.scores.meanBits(widths)); err != nil {
			return nil, fmt.Errorf("training: %w", err)
		}
	}
	r, err := c.write(ctx, layers, c.written(budget, nil)) // the file, verified in ONNX Runtime
	if err != nil {
		return nil, err
	}
	r.Budget, r.Learned, r.Refined, r.Training, r.widths = budget, learned, refined, trained, widths
	c.describe(r)
	return r, nil
}

func (c *calibration) Close() error { return c.net.full.Close() }
