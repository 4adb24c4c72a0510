package calib_test

import (
	"context"
	"testing"

	"cfq/calib"
	"cfq/internal/must"
	"cfq/quant"
)

// BenchmarkFitWeights measures the fit of all layers of a network of Adult in all
// formats.
func BenchmarkFitWeights(b *testing.B) {
	c, layers, set := adult(b)
	ctx := context.Background()
	stats := must.Get(calib.Collect(ctx, c, layers, set, nil, false))(b)
	for _, rounding := range []calib.Rounding{calib.Nearest, calib.GPTQ, calib.AdaRound} {
		b.Run(string(rounding), func(b *testing.B) {
			for b.Loop() {
				for i, l := range layers {
					if _, err := calib.FitWeights(ctx, l, &stats[i], quant.Formats(),
						calib.WeightOptions{Rounding: rounding}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
