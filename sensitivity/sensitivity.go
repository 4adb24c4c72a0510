// Package sensitivity says how much each layer matters: to the decisions on
// factual rows, to recourse, and, measured, to the margin.
//
// In: the classifier of the canonical graph, its layers, a calibration set. Out:
// one number per layer, or per layer and width. The invariant: scores are means
// over rows of per-row quantities, so they depend neither on batch nor workers
// beyond rounding.
//
// References: Training-free counterfactual sensitivity (eq. cfptq_sensitivity).
package sensitivity

import (
	"context"
	"fmt"
	"math"

	"cfq/classifier"
	"cfq/quant"
)

// Gradient returns, per layer, the mean over the rows of x of the l1 norm of the
// gradient of the row's cross-entropy by the layer's weights. classes holds each
// row's class (the label for factual sensitivity); nil means the target class,
// which at recourse points is the paper's s_l^cf.
//
// A dense layer's per-row weight gradient is the outer product of the gradient
// by its output and its input, so its l1 norm is the product of their l1 norms:
// no per-row weight gradient is ever formed.
func Gradient(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32, classes []int) ([]float64, error) {
	if len(x) == 0 {
		return nil, fmt.Errorf("no rows to measure sensitivity on")
	}
	p := classifier.Probe{Classes: classes}
	for _, l := range layers {
		p.Values = append(p.Values, l.Input)
		p.Grads = append(p.Grads, l.Output)
	}
	sums := make([]float64, len(layers))
	err := c.Observe(ctx, x, p, func(_, rows int, values, grads [][]float32) error {
		for i := range layers {
			in, out := len(values[i])/rows, len(grads[i])/rows
			for r := range rows {
				sums[i] += norm1(values[i][r*in:(r+1)*in]) * norm1(grads[i][r*out:(r+1)*out])
			}
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

func norm1(v []float32) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Abs(float64(x))
	}
	return sum
}

// Damage measures what each width does to the margin: for each layer and format
// it replaces that layer's weights alone, runs the rows of x and returns the mean
// squared difference of the target margin. open makes the classifier of the
// canonical graph with one layer's weights replaced.
func Damage(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, formats []quant.Format, x []float32,
	open func(layer int, f quant.Format) *classifier.Model, step func(done, total int),
) ([][]float64, error) {
	ref, err := c.Margins(ctx, x)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(layers))
	for i := range layers {
		out[i] = make([]float64, len(formats))
		for k, f := range formats {
			if out[i][k], err = marginDamage(ctx, ref, x, i, f, open); err != nil {
				return nil, fmt.Errorf("layer %q at %d bits: %w", layers[i].Node, f.Bits, err)
			}
			if step != nil {
				step(i*len(formats)+k+1, len(layers)*len(formats))
			}
		}
	}
	return out, nil
}

func marginDamage(ctx context.Context, ref, x []float32, layer int, f quant.Format, open func(int, quant.Format) *classifier.Model) (float64, error) {
	q := open(layer, f)
	defer q.Close()
	m, err := q.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	var sum float64
	for i := range m {
		d := float64(m[i]) - float64(ref[i])
		sum += d * d
	}
	return sum / float64(max(1, len(m))), nil
}
