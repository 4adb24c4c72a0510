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

// What each way of fitting ranges does to the outputs of the layers, in sum over layers, relative to the outputs' own
// variance, computed row by row for activations. None but the kind that minimises it is better than that.
func TestAdultRanges(t *testing.T) {
	t.Parallel()
	c, layers, set := adult(t)
	set.X, set.Factual = set.X[:1000*set.Dim], 1000
	ctx := context.Background()
	stats, err := calib.Collect(ctx, c, layers, set, nil)
	must.Do(t, err)
	values := make([]string, len(layers))
	for i, l := range layers {
		values[i] = l.Input
	}
	rows := make([][]float32, len(layers))
	err = c.Observe(ctx, set.X, classifier.Probe{Values: values}, func(_, _ int, v, _ [][]float32) error {
		for i := range v {
			rows[i] = append(rows[i], v[i]...)
		}
		return nil
	})
	must.Do(t, err)
	for _, bits := range []int{2, 3, 4, 8} {
		least := map[calib.Range]float64{}
		for _, kind := range []calib.Range{calib.MinMax, calib.MSE, calib.Output} {
			f := must.Get(quant.FormatOf(bits, false))(t)
			var channel, tensor, act float64
			for i, l := range layers {
				s := &stats[i]
				total := variance(l, s)
				for _, perTensor := range []bool{false, true} {
					fits := must.Get(calib.FitWeights(ctx, l, s, []quant.Format{f},
						calib.WeightOptions{PerTensor: perTensor, Range: kind}))(t)
					e := layerError(l, s.Gram, s.Mean, &fits[0], f) / total
					if perTensor {
						tensor += e
						continue
					}
					channel += e
				}
				if i > 0 {
					act += actError(l, rows[i], calib.Activation(s, bits, kind)) / total
				}
			}
			t.Logf("%d bits, %-10s: weights %.3g by channel, %.3g by tensor; activations %.3g", bits, kind, channel, tensor, act)
			least[kind+" channel"], least[kind+" tensor"] = channel, tensor
			least[kind+" act"] = act
		}
		for _, kind := range []calib.Range{calib.MinMax, calib.MSE, calib.Output} {
			for _, column := range []calib.Range{" channel", " tensor"} {
				if least["output"+column] > 1.02*least[kind+column] {
					t.Errorf("%d bits,%s: output errs by %v, %s by %v", bits, column, least["output"+column], kind, least[kind+column])
				}
			}
			if least["output act"] > 1.25*least[kind+" act"] { // it leaves out how errors of channels go together
				t.Errorf("%d bits: output errs by %v, %s by %v", bits, least["output act"], kind, least[kind+" act"])
			}
		}
	}
}

func variance(l quant.LayerInfo, s *calib.Stats) float64 {
	var sum float64
	for r := range l.Out {
		w := l.Row(r)
		for i, a := range w {
			for j, b := range w {
				sum += float64(a) * float64(b) * (s.Gram[i*l.In+j] - s.Mean[i]*s.Mean[j])
			}
		}
	}
	return sum
}

// actError is E||W (h - q(h))||^2 over the rows of h.
func actError(l quant.LayerInfo, h []float32, a quant.Act) float64 {
	n := len(h) / l.In
	e := make([]float64, l.In)
	var sum float64
	for r := range n {
		for j, x := range h[r*l.In : (r+1)*l.In] {
			e[j] = float64(x) - float64(a.Apply(x))
		}
		for o := range l.Out {
			var d float64
			for j, w := range l.Row(o) {
				d += float64(w) * e[j]
			}
			sum += d * d / float64(n)
		}
	}
	return sum
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
