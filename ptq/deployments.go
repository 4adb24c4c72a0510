package ptq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"cfq/calib"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/ptq/taskmodel"
	"cfq/quant"
	"cfq/recourse"
	"cfq/task"
)

// Deployments vary as toolchains do, see docs/recourse.md: by stochastic rounding, by the largest relative change of
// each weight scale and activation range, and by the rows that each is calibrated on, drawn with replacement.
const drawRounding, drawJitter, drawRows = 1, 0.02, 4096

// Draws says how many deployments of a plan are drawn, and how the model is quantized.
type Draws struct {
	Recipe Recipe
	Models int
	Seed   uint64
}

// draw makes deployment k of a plan: the same graph, layers, widths and input grid, but other codes, scales, biases
// and activation ranges. It depends on the seed and k only. With 0 rows all are taken, undrawn.
func (c *calibration) draw(ctx context.Context, widths assignment, vary calib.Variation, rows, k int) (onnx []byte,
	_ *quant.Plan, err error,
) {
	recipe := c.written(c.net.recipe.Allocate.Budget, map[string]string{
		"deployment": strconv.Itoa(k), "deployment_seed": strconv.FormatUint(vary.Seed, 10),
	})
	vary.Seed = rand.NewPCG(vary.Seed, uint64(k)).Uint64()
	set := c.fitSet
	if rows > 0 {
		set = set.Batch(rows, vary.Seed)
	}
	stats, err := calib.Collect(ctx, c.net.full, c.foldedLayers, set, c.input)
	if err != nil {
		return nil, nil, err
	}
	c.net.join(stats)
	fits := make([][]quant.Layer, len(c.net.layers))
	for i := range c.net.layers {
		fits[i] = make([]quant.Layer, len(quant.Formats()))
		for _, f := range slices.Compact(slices.Sorted(slices.Values(widths[i]))) {
			one, err := c.fitLayer(ctx, i, &stats[i], c.formats(i)[f:f+1], vary)
			if err != nil {
				return nil, nil, err
			}
			fits[i][f] = one[0]
		}
	}
	layers, _, err := c.refine(ctx, c.assemble(fits, widths), set)
	if err != nil {
		return nil, nil, err
	}
	plan := c.planOf(layers)
	_, onnx, err = c.net.write(plan, recipe)
	return onnx, plan, err
}

// Fleet is a model, its quantized version and sampled deployments of that, ready to run.
type Fleet struct {
	Models []*classifier.Model // the original, its quantized version and the deployments
	Result *Result             // of the quantized version
}

// OpenFleet quantizes the model as Quantize does, draws deployments of the same plan, and opens all of them: what other
// runs of a toolchain, which round by chance, calibrate on other rows and clip a little differently, would have
// shipped. Close the fleet after use.
//
// Reference: U(f_q) of "Uncertainty set from quantization-induced variability".
func OpenFleet(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, draws Draws, run Run) (
	_ *Fleet, err error,
) {
	if draws.Recipe.Train != nil {
		return nil, inputError(fmt.Errorf("method %s: deployments vary a calibration, and this one trains: cf-ptq does "+
			"not", draws.Recipe.Method))
	}
	c, err := calibrate(ctx, m, t, people, draws.Recipe, run)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the fleet is what counts
	f := &Fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	add := func(m *classifier.Model, err error) error {
		if err == nil {
			f.Models = append(f.Models, m)
		}
		return err
	}
	if f.Result, err = c.quantize(ctx, c.net.recipe.Allocate.Budget); err != nil {
		return nil, err
	}
	if err = add(taskmodel.Open(m, t, run.Workers)); err != nil {
		return nil, inputError(err)
	}
	if err = add(openFile(ctx, f.Result.Model, t, m.Engine(), run.Workers)); err != nil {
		return nil, err
	}
	vary := calib.Variation{Seed: draws.Seed, Rounding: drawRounding, Jitter: drawJitter}
	for k := range draws.Models {
		run.tell("sampled deployments", k, draws.Models)
		onnx, _, err := c.draw(ctx, f.Result.widths, vary, drawRows, k)
		if err != nil {
			return nil, fmt.Errorf("deployment %d: %w", k, err)
		}
		if err := add(openFile(ctx, onnx, t, m.Engine(), run.Workers)); err != nil {
			return nil, err
		}
	}
	run.tell("sampled deployments", draws.Models, draws.Models)
	return f, nil
}

// Worst is the original, its quantized version and the first seen deployments in
// one model that accepts what all of them accept.
func (f *Fleet) Worst(seen int) recourse.Model {
	var models []recourse.Model
	for _, m := range f.Models[:2+seen] {
		models = append(models, m)
	}
	return recourse.Worst(models...)
}

// Close frees the models.
func (f *Fleet) Close() error {
	var errs []error
	for _, m := range f.Models {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
