package calib

import (
	"context"
	"fmt"
	"math"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// CollectOptions say what statistics are wanted.
type CollectOptions struct {
	// Logits adds those that weigh by the gradient of the margin, for ranges of the
	// kind Logits.
	Logits bool
}

// Collect runs the set through the classifier of the canonical graph twice
// (ranges, then sums) and returns the statistics of each layer's input. layers are
// folded already where input, the layout of the model's input (or nil), feeds them.
func Collect(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, input *quant.Input, o CollectOptions) ([]Stats, error) {
	if set.Weights != nil && len(set.Weights) != set.Rows() {
		return nil, fmt.Errorf("%d weights of %d calibration rows", len(set.Weights), set.Rows())
	}
	k := &collector{
		layers: layers, set: set, input: input, stats: make([]Stats, len(layers)),
		weight: make([]float64, len(layers)), logitWeight: make([]float64, len(layers)),
	}
	for i, l := range layers {
		k.stats[i] = newStats(l, o)
		k.values.add(l.Input)
		if o.Logits {
			k.grads.add(l.Output)
			k.grads.add(l.Input)
		}
	}
	err := c.Observe(ctx, set.X, classifier.Probe{Values: k.values}, func(_, _ int, values, _ [][]float32) error { return k.bound(values) })
	if err != nil {
		return nil, fmt.Errorf("ranges of the layers: %w", err)
	}
	err = c.Observe(ctx, set.X, classifier.Probe{Values: k.values, Grads: k.grads, Margin: true}, func(from, rows int, values, grads [][]float32) error {
		for i := range layers {
			k.sum(i, from, rows, values, grads)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("statistics of the layers: %w", err)
	}
	for i := range k.stats {
		if layers[i].Conv != nil {
			k.finishConv(i)
			continue
		}
		k.stats[i].finish(k.weight[i], k.logitWeight[i])
	}
	return k.stats, nil
}

// names is a list without repetitions.
type names []string

func (n *names) add(name string) {
	if n.at(name) < 0 {
		*n = append(*n, name)
	}
}

func (n names) at(name string) int {
	for i, v := range n {
		if v == name {
			return i
		}
	}
	return -1
}

// collector is one run of Collect.
type collector struct {
	layers        []quant.LayerInfo
	set           *Set
	input         *quant.Input
	values, grads names
	stats         []Stats
	// The weight of the rows of each layer's sums, without and with gradients.
	weight, logitWeight []float64
	groupWeights        map[int][]float64 // logitWeight of the groups of convolutions
}

// bound widens the ranges.
func (k *collector) bound(values [][]float32) error {
	for i, l := range k.layers {
		s := &k.stats[i]
		for _, x := range values[k.values.at(l.Input)] {
			s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		}
		if !(s.Max-s.Min < math.MaxFloat32) { // also when one of them is not a number
			return fmt.Errorf("the input of layer %q is not finite on these rows (%v to %v)", l.Node, s.Min, s.Max)
		}
	}
	return nil
}

// sum adds rows of layer i.
func (k *collector) sum(i, from, rows int, values, grads [][]float32) {
	l, s := k.layers[i], &k.stats[i]
	if l.Conv != nil {
		k.sumConv(i, from, rows, values, grads)
		return
	}
	v := values[k.values.at(l.Input)]
	weights := k.rowWeights(from, rows)
	var by []float32 // gradient of the margin by the layer's input
	if s.LogitGram != nil {
		by = grads[k.grads.at(l.Input)]
	}
	s.count(v, by, weights, costs(l))
	k.weight[i] += moments(s.Gram, s.Mean, k.reads(v, rows, l), weights)
	if by != nil {
		out := grads[k.grads.at(l.Output)]
		k.logitWeight[i] += moments(s.LogitGram, s.LogitMean, k.reads(v, rows, l), squares(out, weights))
	}
}

// reads returns what a layer's integer kernel reads: v itself, or, for a layer
// that the input feeds, what the grid makes of it.
func (k *collector) reads(v []float32, rows int, l quant.LayerInfo) []float64 {
	if k.input != nil && l.Input == k.input.Value {
		v = k.input.Reads(v, len(v)/rows)
	}
	h := make([]float64, len(v))
	for i, x := range v {
		h[i] = float64(x)
	}
	return h
}

func repeat(v []float64, times int) []float64 {
	out := make([]float64, 0, len(v)*times)
	for _, x := range v {
		for range times {
			out = append(out, x)
		}
	}
	return out
}

// squares returns the weight of each row times the squared gradient by the layer's outputs.
func squares(g []float32, weights []float64) []float64 {
	out := make([]float64, len(weights))
	size := len(g) / len(weights)
	for r, w := range weights {
		for _, v := range g[r*size : (r+1)*size] {
			out[r] += w * float64(v) * float64(v)
		}
	}
	return out
}

// costs returns ||W_:,i||^2 for each input i of the layer.
func costs(l quant.LayerInfo) []float64 {
	out := make([]float64, l.In)
	for k, w := range l.W {
		out[k%l.In] += float64(w) * float64(w)
	}
	return out
}
