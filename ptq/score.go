package ptq

import (
	"context"
	"fmt"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/sensitivity"
	"cfq/task"
)

// errorRows is how many points the quantization error of the margin is measured on; more change the
// third digit.
const errorRows = 4096

// widthErrors is what the exact knapsack minimises, by layer and format and by layer, row and format; nil where not
// measured. It is the mean squared quantization error of the margin, what the allocator says in its place, or the risk
// of bit widths that were learned (qat.Policy).
type widthErrors struct {
	layers [][]float64
	rows   [][][]float64
}

func (c *calibration) score(ctx context.Context) (err error) {
	rule, perRow := c.net.recipe.Allocate.Rule, c.net.recipe.Allocate.Unit == bitWidthsPerRow
	points, at := c.calibrationSet.Moved(), c.calibrationSet.Points() // for gradients, and for errors of the margin
	var classes []int                                                 // the target
	if c.net.recipe.Allocate.Scores == onFactual || c.calibrationSet.Recourse == 0 {
		points, at = c.calibrationSet.Facts(), c.calibrationSet.Facts()
		if classes, err = factualClasses(ctx, c.net.full, c.sample.people); err != nil {
			return err
		}
	}
	at, _ = c.net.thin(at, nil, c.affordable(errorRows))
	if rule == allocatorExact { // it only reports gradients
		points, classes = c.net.thin(points, classes, c.affordable(len(points)))
	}
	c.net.run.tell("sensitivity of the layers", 0, 0)
	c.gradients, err = sensitivity.Gradient(ctx, c.net.full, c.net.layers, points, classes)
	switch {
	case err != nil && (rule == allocatorPaper || rule == allocatorOptimum || ctx.Err() != nil):
		return err
	case err != nil:
		c.gradients = make([]float64, len(c.net.layers))
		c.warnings, err = append(c.warnings, fmt.Sprintf("no sensitivity scores: %v", err)), nil
	}
	switch rule {
	case allocatorExact:
		if perRow {
			c.errors.rows, err = c.measureRows(ctx, at)
		}
		conv := func(l quant.LayerInfo) bool { return l.Conv != nil }
		if err == nil && (!perRow || slices.ContainsFunc(c.net.layers, conv)) {
			c.errors.layers, err = c.measureLayers(ctx, at, c.exactErrors(len(at)/c.net.full.Dim()),
				"quantization error of each bit width")
		}
	case allocatorOptimum:
		c.errors.layers = make([][]float64, len(c.net.layers))
		for i, score := range c.gradients { // the terms of eq. cfptq_budget, with the sign of errors
			for _, f := range quant.Formats() {
				c.errors.layers[i] = append(c.errors.layers[i], -score*float64(f.Bits))
			}
		}
	case allocatorHAWQ:
		c.errors.layers, err = c.curvatures(ctx, points, classes)
	}
	return err
}

// curvatures are the errors of layers and formats as HAWQ-V2 has them: the mean eigenvalue of the Hessian of the loss
// at rows of x by the layer's weights, times their squared error. A Hessian of negative trace counts nothing.
func (c *calibration) curvatures(ctx context.Context, x []float32, classes []int) ([][]float64, error) {
	x, classes = c.net.thin(x, classes, sensitivity.TraceRows(c.net.layers))
	traces, _, err := sensitivity.Trace(ctx, c.net.full, c.net.layers, x, classes, sensitivity.TraceOptions{
		Progress: func(done, total int) { c.net.run.tell("curvature", done, total) },
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(c.net.layers))
	for i, l := range c.foldedLayers {
		changes, err := c.changes(i)
		if err != nil {
			return nil, err
		}
		for _, change := range changes {
			squares := 0.0
			for k, w := range l.W {
				d := float64(change.W[k]) - float64(w)
				squares += d * d
			}
			out[i] = append(out[i], max(0, traces[i])/float64(l.Params())*squares)
		}
	}
	return out, nil
}

func (c *calibration) exactErrors(rows int) bool {
	return sensitivity.Exact(len(c.net.layers), len(quant.Formats()), rows, sensitivity.Multiplications(c.net.layers))
}

func (c *calibration) measureLayers(ctx context.Context, x []float32, exact bool, stage string) ([][]float64, error) {
	layers, formats := c.net.layers, len(quant.Formats())
	if !exact {
		x, _ = c.net.thin(x, nil, sensitivity.MaxFirstOrderRows)
		return sensitivity.FirstOrder(ctx, c.net.full, layers, x, c.changes,
			func(done, total int) { c.net.run.tell(stage, done, total) })
	}
	return sensitivity.Measured(ctx, c.net.full, x, len(layers), formats, func(i, f int) (*classifier.Model, error) {
		c.net.run.tell(stage, i*formats+f, len(layers)*formats)
		return c.openPlain(c.layers[i][f])
	})
}

// measureRows estimates what each format of each row of the dense layers does to the margin on rows of x.
func (c *calibration) measureRows(ctx context.Context, x []float32) ([][][]float64, error) {
	c.net.run.tell("quantization error of each bit width", 0, 0)
	var dense []int
	var infos []quant.LayerInfo
	for i, l := range c.net.layers {
		if l.Conv == nil {
			dense, infos = append(dense, i), append(infos, c.foldedLayers[i])
		}
	}
	got, err := sensitivity.Rows(ctx, c.net.full, infos, x,
		func(k int) ([]sensitivity.Change, error) { return c.changes(dense[k]) })
	if err != nil {
		return nil, err
	}
	out := make([][][]float64, len(c.net.layers))
	for k, i := range dense {
		out[i] = got[k]
	}
	return out, nil
}

func (c *calibration) changes(layer int) ([]sensitivity.Change, error) {
	return sensitivity.ChangesOf(c.layers[layer], c.foldedLayers[layer], c.input)
}

// openPlain opens the model in which one layer alone is quantized, to look at its margins.
func (c *calibration) openPlain(l quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(c.net.canonical, c.planOf([]quant.Layer{l}), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	return c.net.full.With(m), nil
}

// factualClasses returns the class of each row for the factual gradient: the
// favourable one for rows with that label; for others the most likely class, of
// those that are not favourable where the label says so.
func factualClasses(ctx context.Context, c *classifier.Model, people *task.People) ([]int, error) {
	z, k, err := c.Logits(ctx, people.X)
	if err != nil {
		return nil, err
	}
	out := make([]int, people.N)
	for i := range out {
		label := int8(-1)
		if people.Labels != nil {
			label = people.Labels[i]
		}
		row := z[i*k : (i+1)*k]
		if k == 1 {
			row = []float32{0, row[0]}
		}
		best := -1
		for class, v := range row {
			if (label != 0 || class != c.Target()) && (best < 0 || v > row[best]) {
				best = class
			}
		}
		if label == 1 {
			best = c.Target()
		}
		out[i] = best
	}
	return out, nil
}
