package calib

import (
	"context"
	"fmt"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Outputs are the output quantizers of convolutions, by the layer's node.
type Outputs map[string]output

type output struct {
	act    quant.Act
	behind quant.Behind
}

// FitOutputs fits the output quantizers of the convolutions among the layers on
// what the set makes of them, behind their Relu or Clip, as Activation does for
// inputs; other layers have none.
func FitOutputs(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, bits int,
	kind Range,
) (Outputs, error) {
	k := &collector{set: set}
	for _, l := range layers {
		if l.Conv == nil {
			continue
		}
		l.Input = l.Behind.Value // what is looked at
		k.layers = append(k.layers, l)
		k.stats = append(k.stats, emptyStats())
	}
	if len(k.layers) == 0 {
		return nil, nil
	}
	err := k.run(ctx, c, func(_ context.Context, i, from, rows int, v []float32) error {
		k.stats[i].count(v, k.rowWeights(from, rows), slices.Repeat([]float64{1}, len(v)/rows))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("statistics of the convolutions' outputs: %w", err)
	}
	out := Outputs{}
	for i, l := range k.layers {
		out[l.Node] = output{Activation(&k.stats[i], bits, kind), l.Behind}
	}
	return out, nil
}

// Result returns the output quantizer of the layer called node, nil when it has none.
func (o Outputs) Result(node string, vary Variation) *quant.Act {
	r, ok := o[node]
	if !ok {
		return nil
	}
	a := r.behind.Within(vary.Clip(node, r.act))
	return &a
}

// Act returns the quantizer of a layer's input: where a convolution's output comes
// straight to it that one, so that nothing is rounded twice, else the one fitted.
func (o Outputs) Act(l quant.LayerInfo, vary Variation, fitted quant.Act) quant.Act {
	if r := o.Result(l.Source, vary); r != nil && r.Bits == fitted.Bits {
		return *r
	}
	return vary.Clip(l.Node, fitted)
}
