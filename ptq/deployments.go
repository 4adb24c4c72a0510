package ptq

import (
	"cmp"
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

// DeployOptions are the settings of Deployments; the zero value is the default.
type DeployOptions struct {
	Models int    // how many to draw (8)
	Seed   uint64 // deployment k depends on it and k only
	// Rounding is the width of the dither in codes, 1 for stochastic rounding; 0 = 1,
	// negative = none. With RoundGPTQ weights still make up for the rounding
	// errors of those before them.
	Rounding float64
	// Jitter is the largest relative change of each weight scale and activation range;
	// 0 = 0.02, negative = none.
	Jitter float64
	// Batch is the number of rows of the calibration set that each is calibrated on,
	// drawn with replacement; 0 = 4096, negative = all of them as they are.
	Batch int
}

// Deployment is one sampled deployment of a plan: the same graph, layers, widths
// and input grid, other codes, scales, biases and activation ranges.
type Deployment struct {
	Model []byte // the ONNX file
	Plan  *quant.Plan
}

// Deployments quantizes the model as Quantize does and draws deployments of the
// same plan: what other runs of a toolchain, which round by chance, calibrate on
// other rows and clip a little differently, would have shipped. They are files in
// QDQ form like the nominal one.
//
// Reference: U(f_q) of "Uncertainty set from quantization-induced variability".
func Deployments(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options,
	d DeployOptions,
) (nominal *Result, drawn []Deployment, err error) {
	if d, err = d.withDefaults(); err != nil {
		return nil, nil, inputError(err)
	}
	c, err := Calibrate(ctx, m, t, people, o)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close() //nolint:errcheck // the files are what counts
	a, err := c.stage.allocate(c.stage.o.Budget)
	if err != nil {
		return nil, nil, err
	}
	if nominal, err = a.quantize(ctx); err != nil {
		return nil, nil, err
	}
	for k := range d.Models {
		a.tell("sampled deployments", k, d.Models)
		one, err := a.draw(ctx, d, k)
		if err != nil {
			return nil, nil, fmt.Errorf("deployment %d: %w", k, err)
		}
		drawn = append(drawn, one)
	}
	a.tell("sampled deployments", d.Models, d.Models)
	return nominal, drawn, nil
}

func (d DeployOptions) withDefaults() (DeployOptions, error) {
	d.Models, d.Batch = cmp.Or(d.Models, 8), cmp.Or(d.Batch, 4096)
	d.Rounding, d.Jitter = max(cmp.Or(d.Rounding, 1), 0), max(cmp.Or(d.Jitter, 0.02), 0)
	switch {
	case d.Models < 0:
		return d, fmt.Errorf("%d sampled deployments", d.Models)
	case !(d.Rounding <= 8):
		return d, fmt.Errorf("a dither of %v codes: 1 is stochastic rounding, 8 the most", d.Rounding)
	case !(d.Jitter <= 0.5):
		return d, fmt.Errorf("a jitter of %v: scales and clips change by 0.5 of themselves at most", d.Jitter)
	}
	return d, nil
}

// draw makes deployment k: the same assignment of bit widths, fitted to other statistics and with variation.
func (a *allocated) draw(ctx context.Context, d DeployOptions, k int) (Deployment, error) {
	seed := rand.NewPCG(d.Seed, uint64(k)).Uint64()
	set := a.cal
	if d.Batch > 0 {
		set = a.cal.Batch(d.Batch, seed)
	}
	stats, err := calib.Collect(ctx, a.full, a.grid.wide, set, a.grid.input, a.collects())
	if err != nil {
		return Deployment{}, err
	}
	vary := calib.Variation{Seed: seed, Rounding: d.Rounding, Jitter: d.Jitter}
	fits := make([][]quant.Layer, len(a.layers))
	for i := range a.layers {
		fits[i] = make([]quant.Layer, len(a.formats()))
		for _, f := range slices.Compact(slices.Sorted(slices.Values(a.chosen[i]))) {
			one, err := a.fit(ctx, i, &stats[i], a.formats()[f:f+1], vary)
			if err != nil {
				return Deployment{}, err
			}
			fits[i][f] = one[0]
		}
	}
	layers, _, err := a.refine(ctx, a.assemble(fits, a.chosen), set)
	if err != nil {
		return Deployment{}, err
	}
	out := Deployment{Plan: a.planOf(layers)}
	recipe := a.recipe(map[string]string{"deployment": strconv.Itoa(k), "deployment_seed": strconv.FormatUint(d.Seed, 10)})
	_, out.Model, err = a.write(out.Plan, recipe)
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
func OpenFleet(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options,
	d DeployOptions,
) (f *Fleet, err error) {
	r, drawn, err := Deployments(ctx, m, t, people, o, d)
	if err != nil {
		return nil, err
	}
	f = &Fleet{Result: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			f = nil
		}
	}()
	if f.Full, err = OpenFor(m, t, o.Workers); err != nil {
		return f, inputError(err)
	}
	if f.Nominal, err = openFile(ctx, r.Model, t, m.Engine(), o.Workers); err != nil {
		return f, err
	}
	for k := range drawn {
		c, err := openFile(ctx, drawn[k].Model, t, m.Engine(), o.Workers)
		if err != nil {
			return f, fmt.Errorf("deployment %d: %w", k, err)
		}
		f.Drawn = append(f.Drawn, c)
	}
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
