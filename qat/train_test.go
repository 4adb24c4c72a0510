package qat

import (
	"context"
	"slices"
	"testing"

	"cfq/quant"
)

// In the last rounds no code changes, whatever unit the weights are trained in; scales and biases go on.
func TestLastRoundsKeepCodes(t *testing.T) {
	t.Parallel()
	for _, lsq := range []bool{false, true} {
		p := mlp(t, 3, compute{bits: 8})
		var before []quant.Layer
		source := func(ctx context.Context, round int, use [Kinds]int, plans []quant.Layer) (Draw, error) {
			if round == rounds-frozenRounds {
				before = plans
			}
			return p.source(ctx, round, use, plans)
		}
		o := Options{Steps: 1600, Batch: 64, LSQ: lsq}
		out, err := Train(t.Context(), p.written(t, p.plans()), p.layers, source, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range out.Plans {
			if !slices.Equal(l.Codes, before[i].Codes) {
				t.Errorf("LSQ %v, layer %d: codes changed", lsq, i)
			}
			if slices.Equal(l.Scales, before[i].Scales) || slices.Equal(l.Bias, before[i].Bias) {
				t.Errorf("LSQ %v, layer %d: the scales %v or the biases %v stayed", lsq, i, l.Scales, l.Bias)
			}
		}
	}
}
