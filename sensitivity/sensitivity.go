// Package sensitivity measures how much each layer matters: to the decisions on factual rows, to recourse, by
// curvature, and by the error of the margin that quantizing it makes, measured or to first order.
//
// In: the classifier of the canonical graph, its layers, a calibration set. Out: one number per layer, or per layer and
// width. The invariant: scores are means over rows of per-row quantities, so they depend neither on batch nor workers
// beyond rounding.
//
// References: Training-free counterfactual sensitivity (eq. cfptq_sensitivity); the
// trace is that of HAWQ-V2 (Dong et al., NeurIPS 2020), by Hutchinson's estimate.
package sensitivity

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Gradient returns, per layer, the mean over the rows of x of the l1 norm of the gradient of the row's cross-entropy by
// the layer's weights. classes holds each row's class (the label for factual sensitivity); nil means the target class,
// which over x + delta of all calibration rows is the paper's s_l^cf.
//
// A dense layer's per-row weight gradient is the outer product of the gradient
// by its output and its input, so its l1 norm is the product of their l1 norms, and
// none is ever formed. A convolution's is a sum of such products over its positions.
func Gradient(
	ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32, classes []int,
) ([]float64, error) {
	if len(x) == 0 {
		return nil, fmt.Errorf("no rows to measure sensitivity on")
	}
	sums := make([]float64, len(layers))
	err := observe(ctx, c, layers, x, classifier.Probe{Classes: classes}, func(i, _, rows int, h, g []float32) {
		l := &layers[i]
		in, out, sum := len(h)/rows, len(g)/rows, 0.0
		for r := range rows {
			h, g := h[r*in:(r+1)*in], g[r*out:(r+1)*out]
			if l.Conv != nil || l.Positions > 1 {
				sum += floats.Norm(gradient(l, h, g), 1)
			} else {
				sum += norm1(h) * norm1(g)
			}
		}
		sums[i] += sum
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

// observe runs the rows of x, and gives visit, for each layer i and batch of rows, what the layer reads (h) and the
// gradient by what it makes (g), of the loss that p names.
func observe(
	ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32, p classifier.Probe,
	visit func(i, from, rows int, h, g []float32),
) error {
	for _, l := range layers {
		p.Values, p.Grads = append(p.Values, l.Input), append(p.Grads, l.Output)
	}
	return c.Observe(ctx, x, p, func(from, rows int, values, grads [][]float32) error {
		for i := range layers {
			if err := fits(&layers[i], values[i], grads[i], rows); err != nil {
				return err
			}
			visit(i, from, rows, values[i], grads[i])
		}
		return nil
	})
}

func fits(l *quant.LayerInfo, h, g []float32, rows int) error {
	in, out := l.In*l.Positions, l.Out*l.Positions
	if c := l.Conv; c != nil {
		in, out = c.Channels, l.Out*c.Positions()
		for _, a := range c.Axes {
			in *= a.Input
		}
	}
	if len(h) != rows*in || len(g) != rows*out {
		return fmt.Errorf("layer %q reads %d and makes %d numbers for each row: its weights are for %d and %d",
			l.Node, len(h)/rows, len(g)/rows, in, out)
	}
	return nil
}

// gradient returns the gradient, Out x In, by the weights of a layer for one row: h is what it reads and g the gradient
// by what it makes. It is the sum over the positions of the outer products of g there and what the layer reads there.
func gradient(l *quant.LayerInfo, h, g []float32) []float64 {
	d, patch := make([]float64, l.Params()), make([]float64, l.In)
	if l.Conv == nil {
		for p := range l.Positions {
			for i, v := range h[p*l.In : (p+1)*l.In] {
				patch[i] = float64(v)
			}
			for o, v := range g[p*l.Out : (p+1)*l.Out] {
				floats.AddScaled(d[o*l.In:(o+1)*l.In], float64(v), patch)
			}
		}
		return d
	}
	n, outs := l.Conv.Positions(), l.Out/l.Conv.Group
	for group := range l.Conv.Group {
		for p := range n {
			l.Conv.Patch(patch, h, group, p)
			for o := group * outs; o < (group+1)*outs; o++ {
				floats.AddScaled(d[o*l.In:(o+1)*l.In], float64(g[o*n+p]), patch)
			}
		}
	}
	return d
}

// Weights returns, for each layer and weight w (Out x In), the mean over the rows of x of |w dm/dw|: to first order
// what the target margin m changes by when w becomes zero.
func Weights(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32) ([][]float64, error) {
	scores := make([][]float64, len(layers))
	for i := range layers {
		scores[i] = make([]float64, layers[i].Params())
	}
	margin := classifier.Probe{Margin: true}
	err := observe(ctx, c, layers, x, margin, func(i, _, rows int, h, g []float32) {
		l := &layers[i]
		in, out := len(h)/rows, len(g)/rows
		for r := range rows {
			for k, d := range gradient(l, h[r*in:(r+1)*in], g[r*out:(r+1)*out]) {
				scores[i][k] += math.Abs(d)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("sensitivity of the weights: %w", err)
	}
	for i := range scores {
		for k, w := range layers[i].W {
			scores[i][k] *= math.Abs(float64(w)) * float64(c.Dim()) / float64(len(x))
		}
	}
	return scores, nil
}
