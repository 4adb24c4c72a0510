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
	"cfq/quant"
	"cfq/recourse"
	"cfq/task"
)

type variation struct {
	rounding float64 // width of the dither in codes; 1 is stochastic rounding
	jitter   float64 // the largest relative change of each weight scale and activation range
	batch    int     // rows of the calibration set that each is calibrated on, drawn with replacement; 0 = all, undrawn
}

// usual is the variation of toolchains, see docs/recourse.md.
func usual() variation { return variation{rounding: 1, jitter: 0.02, batch: 4096} }

// Deployment is one sampled deployment of a plan: the same graph, layers, widths
// and input grid, other codes, scales, biases and activation ranges.
type Deployment struct {
	Model []byte // the ONNX file
	Plan  *quant.Plan
}

// Draws says how many deployments of a plan are drawn, and how the model is quantized.
type Draws struct {
	Recipe Recipe
	Models int
	Seed   uint64
}

// Deployments quantizes the model as Quantize does and draws deployments of the
// same plan: what other runs of a toolchain, which round by chance, calibrate on
// other rows and clip a little differently, would have shipped. They are files in
// QDQ form like the nominal one. Deployment k depends on the seed and k only.
//
// Reference: U(f_q) of "Uncertainty set from quantization-induced variability".
func Deployments(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, draws Draws, run Run) (
	nominal *Result, drawn []Deployment, err error,
) {
	r := draws.Recipe
	if r.Train != nil {
		return nil, nil, inputError(fmt.Errorf("method %s: deployments vary a calibration, and this one trains: cf-ptq does "+
			"not", r.Method))
	}
	c, err := Calibrate(ctx, m, t, people, r, run)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close() //nolint:errcheck // the files are what counts
	if nominal, err = c.quantize(ctx, c.net.recipe.Allocate.Budget); err != nil {
		return nil, nil, err
	}
	a, err := c.allocate(ctx, c.net.recipe.Allocate.Budget)
	if err != nil {
		return nil, nil, err
	}
	for k := range draws.Models {
		c.net.tell("sampled deployments", k, draws.Models)
		one, err := c.draw(ctx, a.widths, usual(), draws.Seed, k)
		if err != nil {
			return nil, nil, fmt.Errorf("deployment %d: %w", k, err)
		}
		drawn = append(drawn, one)
	}
	c.net.tell("sampled deployments", draws.Models, draws.Models)
	return nominal, drawn, nil
}

func (c *Calibration) draw(ctx context.Context, widths assignment, v variation, seed uint64, k int) (Deployment,
	error,
) {
	vary := calib.Variation{
		Seed: rand.NewPCG(seed, uint64(k)).Uint64(), Rounding: v.rounding, Jitter: v.jitter,
	}
	set := c.fits.fitSet
	if v.batch > 0 {
		set = c.fits.fitSet.Batch(v.batch, vary.Seed)
	}
	stats, err := calib.Collect(ctx, c.net.full, c.fits.grid.foldedLayers, set, c.fits.grid.input, c.net.logits())
	if err != nil {
		return Deployment{}, err
	}
	c.net.join(stats)
	fits := make([][]quant.Layer, len(c.net.layers))
	for i := range c.net.layers {
		fits[i] = make([]quant.Layer, len(quant.Formats()))
		for _, f := range slices.Compact(slices.Sorted(slices.Values(widths[i]))) {
			one, err := c.fits.fit(ctx, i, &stats[i], c.fits.formats(i)[f:f+1], vary)
			if err != nil {
				return Deployment{}, err
			}
			fits[i][f] = one[0]
		}
	}
	layers, _, err := c.fits.refine(ctx, c.fits.assemble(fits, widths), set)
	if err != nil {
		return Deployment{}, err
	}
	out := Deployment{Plan: c.fits.planOf(layers)}
	recipe := c.written(c.net.recipe.Allocate.Budget, map[string]string{
		"deployment": strconv.Itoa(k), "deployment_seed": strconv.FormatUint(seed, 10),
	})
	_, out.Model, err = c.net.model.write(out.Plan, recipe)
	return out, err
}

// Fleet is a model, its quantized version and sampled deployments of that, ready to run.
type Fleet struct {
	Full, Nominal *classifier.Model
	Drawn         []*classifier.Model
	Result        *Result // of the nominal version
}

// OpenFleet makes deployments of the model, calibrated on people, and opens all of
// them. Close the fleet after use.
func OpenFleet(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, draws Draws, run Run) (
	_ *Fleet, err error,
) {
	nominal, drawn, err := Deployments(ctx, m, t, people, draws, run)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Result: nominal}
	if f.Full, err = OpenFor(m, t, run.Workers); err != nil {
		return nil, inputError(err)
	}
	for _, d := range append([]Deployment{{Model: nominal.Model}}, drawn...) {
		c, err := openFile(ctx, d.Model, t, m.Engine(), run.Workers)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Drawn = append(f.Drawn, c)
	}
	f.Nominal, f.Drawn = f.Drawn[0], f.Drawn[1:]
	return f, nil
}

// Worst is the original, its quantized version and the first seen deployments in
// one model that accepts what all of them accept.
func (f *Fleet) Worst(seen int) recourse.Model {
	models := []recourse.Model{f.Full, f.Nominal}
	for _, c := range f.Drawn[:seen] {
		models = append(models, c)
	}
	return recourse.Worst(models...)
}

// Close frees the models.
func (f *Fleet) Close() error {
	var errs []error
	for _, c := range append([]*classifier.Model{f.Full, f.Nominal}, f.Drawn...) {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
