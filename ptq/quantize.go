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
	"slices"

	"cfq/calib"
	"cfq/onnxio"
	"cfq/qat/cohort"
	"cfq/quant"
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
	return result, c.judge(ctx, result)
}

// calibration is all of Quantize that does not depend on the budget, in the order in which it comes about. Close it
// after use.
type calibration struct {
	net            *network
	sample         *calibrationSample
	calibrationSet *calib.Set        // U_cal of the paper: the rows and the recourse points
	fitSet         *calib.Set        // what everything is fitted on: calibrationSet or its rows
	input          *quant.Input      // nil where no layer reads the input on a grid
	foldedLayers   []quant.LayerInfo // network.layers with the grid folded into those that read it
	outputs        calib.Outputs     // output quantizers of convolutions
	layers         [][]quant.Layer   // layer, format
	gradients      []float64         // gradient score of each layer
	errors         widthErrors       // what each bit width costs the margin
	source         *cohort.Source    // who is trained on; nil for methods without training
	warnings       []string          // of all stages up to this one
}

func calibrate(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	*calibration, error,
) {
	c, err := fit(ctx, m, t, people, r, run)
	if err != nil {
		return nil, err
	}
	if err = c.score(ctx); err == nil && r.Train != nil {
		if err = c.openSource(ctx); err != nil {
			err = fmt.Errorf("training: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// fit is calibrate without scores.
func fit(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	_ *calibration, err error,
) {
	net, err := prepare(ctx, m, t, r, run) // layers, and what stays in float and why
	if err != nil {
		return nil, inputError(err)
	}
	c := &calibration{net: net}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if net.checkpoint, err = net.openCheckpoint(people); err != nil {
		return nil, inputError(err)
	}
	if c.sample, err = net.chooseSample(ctx, people); err != nil {
		return nil, inputError(err)
	}
	c.warnings = slices.Concat(net.warnings, c.sample.warnings)
	c.calibrationSet = calib.FactualSet(c.sample.people.X, people.Dim)
	if r.Calibrate.Points != onFactual || r.Allocate.Scores != onFactual {
		c.calibrationSet, err = net.recoursePoints(ctx, c.sample.people.X, c.sample.set, c.sample.promises, net.teacher())
		if err != nil {
			return nil, err
		}
	}
	if err = c.fitLayers(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// quantize is Quantize of a candidate, which may never be written: its margin error is not measured.
func (c *calibration) quantize(ctx context.Context, budget float64) (*Result, error) {
	widths, learned, err := c.allocate(ctx, budget) // bit widths within the budget
	if err != nil {
		return nil, err
	}
	layers, refined, err := c.refine(ctx, c.assemble(c.layers, widths), c.fitSet)
	if err != nil {
		return nil, err
	}
	var trained *Training
	if c.source != nil {
		if layers, trained, err = c.train(ctx, layers, budget, c.meanBits(widths)); err != nil {
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
