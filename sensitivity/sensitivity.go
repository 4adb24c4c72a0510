// Package sensitivity says how much each layer matters: to the decisions on
// factual rows, to recourse, by curvature, and, measured or to first order, to the
// margin.
//
// In: the classifier of the canonical graph, its layers, a calibration set. Out:
// one number per layer, or per layer and width. The invariant: scores are means
// over rows of per-row quantities, so they depend neither on batch nor workers
// beyond rounding.
//
// References: Training-free counterfactual sensitivity (eq. cfptq_sensitivity); the
// trace is that of HAWQ-V2 (Dong et al., NeurIPS 2020), by Hutchinson's estimate.
package sensitivity

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Gradient returns, per layer, the mean over the rows of x of the l1 norm of the
// gradient of the row's cross-entropy by the layer's weights. classes holds each
// row's class (the label for factual sensitivity); nil means the target class,
// which over x + delta of all calibration rows is the paper's s_l^cf.
//
// A dense layer's per-row weight gradient is the outer product of the gradient
// by its output and its input, so its l1 norm is the product of their l1 norms, and
// none is ever formed. A convolution's is a sum of such products over its positions.
func Gradient(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32, classes []int) ([]float64, error) {
	if len(x) == 0 {
		return nil, fmt.Errorf("no rows to measure sensitivity on")
	}
	p, reads, makes := around(layers)
	p.Classes = classes
	sums := make([]float64, len(layers))
	err := c.Observe(ctx, x, p, func(_, rows int, values, grads [][]float32) error {
		for i := range layers {
			h, g := values[reads[i]], grads[makes[i]]
			if err := fits(&layers[i], h, g, rows); err != nil {
				return err
			}
			sums[i] += norms(&layers[i], h, g, rows)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sensitivity of the layers: %w", err)
	}
	for i := range sums {
		sums[i] /= float64(len(x) / c.Dim())
	}
	return sums, nil
}

// norms adds up over the rows the l1 norms of the gradients by a layer's weights.
func norms(l *quant.LayerInfo, h, g []float32, rows int) float64 {
	in, out := len(h)/rows, len(g)/rows
	var d []float64
	if l.Conv != nil {
		d = make([]float64, l.Params())
	}
	var sum float64
	for r := range rows {
		h, g := h[r*in:(r+1)*in], g[r*out:(r+1)*out]
		if l.Conv != nil {
			convGradient(d, l, h, g)
			sum += floats.Norm(d, 1)
			continue
		}
		sum += norm1(h) * norm1(g)
	}
	return sum
}

func norm1(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Abs(float64(x))
	}
	return sum
}

// Damage measures what each width does to the margin: open makes the classifier
// in which one layer alone is quantized in one of the formats, the rows of x are
// run through it, and the damage is the mean squared difference of the target
// margin from c's. The result is layers x formats.
func Damage(ctx context.Context, c *classifier.Model, layers, formats int, x []float32,
	open func(layer, format int) (*classifier.Model, error), progress func(done, total int),
) ([][]float64, error) {
	ref, err := c.Margins(ctx, x)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, layers)
	for i := range layers {
		out[i] = make([]float64, formats)
		for f := range formats {
			if out[i][f], err = damageOf(ctx, ref, x, i, f, open); err != nil {
				return nil, fmt.Errorf("damage of layer %d in format %d: %w", i, f, err)
			}
			if progress != nil {
				progress(i*formats+f+1, layers*formats)
			}
		}
	}
	return out, nil
}

func damageOf(ctx context.Context, ref, x []float32, layer, format int, open func(layer, format int) (*classifier.Model, error)) (_ float64, err error) {
	q, err := open(layer, format)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	m, err := q.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	return MarginDamage(m, ref), nil
}

// MarginDamage is the mean squared difference of margins from those that are wanted, in
// squared logits; 0 where there are none.
func MarginDamage(got, want []float32) float64 {
	var sum float64
	for i, v := range got {
		d := float64(v) - float64(want[i])
		sum += d * d
	}
	return sum / float64(max(1, len(got)))
}
