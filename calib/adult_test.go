package calib_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"cfq/calib"
	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
	"cfq/task"
)

// adult opens a two-layer network of the Adult data and all training rows.
func adult(t testing.TB) (*classifier.Model, []quant.LayerInfo, *calib.Set) {
	t.Helper()
	e := orttest.Need(t)
	m, err := codec.ReadFile(realdata.Dir(t, "models", "adult", "mlp2-s0.onnx"))
	must.Do(t, err)
	if m.Opset("") < 21 {
		must.Do(t, pass.Upgrade(m, nil))
	}
	if m, _, err = pass.Canonical(m, nil); err != nil {
		t.Fatal(err)
	}
	tk := must.Get(task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", "adult.yaml")))(t)
	people := must.Get(task.Read(context.Background(), realdata.Dir(t, "data", "adult", "adult.data.gz"), tk,
		task.ReadOptions{}))(t)
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, e))(t)
	c := must.Get(classifier.New(loaded, classifier.Options{}))(t)
	t.Cleanup(func() {
		must.Do(t, c.Close())
	})
	layers := must.Get(quant.FindLayers(m))(t)
	return c, layers, calib.FactualSet(people.X, tk.Dim())
}

// layerError is E||W h + B - what the fit makes of it||^2 over moments of h.
func layerError(l quant.LayerInfo, gram, mean []float64, fit *quant.Layer, f quant.Format) float64 {
	var sum float64
	for r := range l.Out {
		e := make([]float64, l.In)
		scale := fit.Scales[r%len(fit.Scales)]
		shift := 0.0
		if fit.Bias != nil {
			shift = float64(fit.Bias[r]) - float64(l.B[r])
		}
		for j, w := range l.Row(r) {
			q := f.Quantize(w, scale)
			if fit.Codes != nil {
				q = fit.Codes[r*l.In+j]
			}
			e[j] = float64(w) - float64(quant.Dequantize(q, scale))
			sum -= 2 * shift * e[j] * mean[j]
		}
		for i := range e {
			for j := range e {
				sum += e[i] * e[j] * gram[i*l.In+j]
			}
		}
		sum += shift * shift
	}
	return sum
}

// On real moments, GPTQ halves the error of rounding to the nearest at least.
func TestAdultRoundings(t *testing.T) {
	t.Parallel()
	c, layers, set := adult(t)
	set.X, set.Factual = set.X[:3000*set.Dim], 3000
	stats := must.Get(calib.Collect(context.Background(), c, layers, set, nil))(t)
	for _, f := range quant.Formats()[1:3] {
		for i, l := range layers {
			errs := map[calib.Rounding]float64{}
			for _, rounding := range []calib.Rounding{calib.Nearest, calib.GPTQ} {
				start := time.Now()
				fits := must.Get(calib.FitWeights(context.Background(), l, &stats[i], []quant.Format{f},
					calib.WeightOptions{Rounding: rounding, Workers: 2}))(t)
				errs[rounding] = layerError(l, stats[i].Gram, stats[i].Mean, &fits[0], f)
				t.Logf("%d bits, %3d -> %2d, %-11s: %.4g in %v", f.Bits, l.In, l.Out, rounding, errs[rounding],
					time.Since(start).Round(time.Millisecond))
			}
			if errs[calib.GPTQ] > 0.6*errs[calib.Nearest] {
				t.Errorf("%d bits, layer %q: %v", f.Bits, l.Node, errs)
			}
		}
	}
}

// BenchmarkFitWeights measures the fit of all layers of a network of Adult in all formats.
func BenchmarkFitWeights(b *testing.B) {
	c, layers, set := adult(b)
	ctx := context.Background()
	stats := must.Get(calib.Collect(ctx, c, layers, set, nil))(b)
	for _, rounding := range []calib.Rounding{calib.Nearest, calib.GPTQ} {
		b.Run(string(rounding), func(b *testing.B) {
			for b.Loop() {
				for i, l := range layers {
					must.Get(calib.FitWeights(ctx, l, &stats[i], quant.Formats(), calib.WeightOptions{Rounding: rounding}))(b)
				}
			}
		})
	}
}
