package ptq

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/recourse"
	"cfq/sensitivity"
	"cfq/task"
)

// calibrate makes the calibration set and fits every quantizer on it.
func (q *job) calibrate(ctx context.Context, t *task.Task) error {
	x, dim := q.people.X, q.full.Dim()
	q.cal = calib.FactualSet(x, dim)
	if q.o.CalibrateOn != OnFactual || q.method.RecourseSensitivity {
		var err error
		if q.o.Promises != nil {
			q.cal, err = calib.Promised(ctx, q.full, x, q.o.Promises)
		} else {
			q.cal, err = q.counterfactual(ctx, t, x, q.teacher())
		}
		if err != nil {
			return err
		}
	}
	if q.union = q.cal; q.o.CalibrateOn == OnFactual {
		q.cal = calib.FactualSet(q.union.Facts(), dim)
	}
	q.tell("statistics of the layers", 0, 0)
	if err := q.fitInput(ctx, t); err != nil {
		return err
	}
	if q.o.CalibrateOn == OnWeighted {
		margins, err := q.full.Margins(ctx, q.cal.X)
		if err != nil {
			return err
		}
		q.cal.Weigh(margins)
	}
	stats, err := q.statistics(ctx)
	if err != nil {
		return inputError(fmt.Errorf("%s: %w", strings.Join(append(q.warnings, "statistics"), "; "), err))
	}
	if q.outputs, err = calib.FitOutputs(ctx, q.full, q.layers, q.cal, q.o.ActBits, q.o.ActRange); err != nil {
		return inputError(err)
	}
	q.fits = make([][]quant.Layer, len(q.layers))
	for i := range q.layers {
		q.tell("fit the weights", i, len(q.layers))
		if q.fits[i], err = q.fit(ctx, i, &stats[i], q.formats(), calib.Variation{}); err != nil {
			return err
		}
	}
	q.tell("fit the weights", len(q.layers), len(q.layers))
	return nil
}

// teacher returns the settings of the teacher recourse.
func (q *job) teacher() recourse.TeacherOptions {
	o := q.o.Teacher
	o.Progress = func(done, total int) { q.tell("teacher recourse", done, total) }
	if o.Workers == 0 {
		o.Workers = q.o.Workers
	}
	return o
}

// collects says what statistics the ranges need.
func (q *job) collects() calib.CollectOptions {
	return calib.CollectOptions{Logits: q.o.WeightRange == calib.Logits || q.o.ActRange == calib.Logits}
}

// fit fits layer i in each of the formats.
func (q *job) fit(ctx context.Context, i int, s *calib.Stats, formats []quant.Format, vary calib.Variation) ([]quant.Layer, error) {
	fits, err := calib.FitWeights(ctx, q.wide[i], s, formats, calib.WeightOptions{
		PerTensor: q.o.Scales == ScaleTensor, Range: q.o.WeightRange, Rounding: q.o.Rounding, Vary: vary, Workers: q.o.Workers,
	})
	if err != nil {
		return nil, err
	}
	for n := range fits {
		fits[n].Reduced = q.o.Reduced
		for k, v := range fits[n].Scales {
			if half, ok := quant.Half(v); ok {
				fits[n].Scales[k] = half // stored in half the bytes
			}
		}
		if !q.floats(i) && (q.input == nil || q.layers[i].Input != q.input.Value) {
			act := q.outputs.Act(q.layers[i], vary, calib.Activation(s, q.o.ActBits, q.o.ActRange))
			fits[n].Act = &act
			fits[n].Result = q.outputs.Result(q.layers[i].Node, vary)
		}
	}
	return fits, nil
}

// inputHarm is the root mean square margin error, in logits, from which the grid of the
// input alone is too coarse: half of the headline margin.
const inputHarm = 0.05

// fitInput lays the value that the first dense layers read on its grid: the
// model's input, or what scaling operators make of it.
func (q *job) fitInput(ctx context.Context, t *task.Task) error {
	q.wide = slices.Clone(q.layers)
	first := q.found[0]
	if first.Fixed != "" || first.Conv != nil || q.o.WeightOnly || q.o.Input == InputFloat {
		return nil // what lies behind a layer in float is no input any more
	}
	raw := first.Input == q.canonical.Graph.DataInputs()[0].Name
	x, values := q.cal.X, domain(t)
	if q.all.N > q.people.N {
		x = append(slices.Clip(x), q.all.X...)
	}
	if !raw {
		seen := x
		x, values = nil, nil
		err := q.full.Observe(ctx, seen, classifier.Probe{Values: []string{first.Input}}, func(_, _ int, v, _ [][]float32) error {
			x = append(x, v[0]...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	q.input = calib.FitInput(x, first.In, values)
	q.input.Value = first.Input
	if raw && q.o.Input == InputAuto {
		harm, err := q.gridError(ctx)
		if err != nil {
			return err
		}
		if harm > inputHarm {
			q.warn("on an 8-bit grid the input alone moves margins by %.2g logits: the layers that read it compute in float (--input %s keeps them on integers)", harm, InputInt8)
			q.input = nil
			return nil
		}
	}
	for i, l := range q.layers {
		if l.Input == first.Input {
			q.wide[i] = q.input.Fold(l)
		}
	}
	if raw {
		if q.union != q.cal {
			q.union.Clip(q.input)
		}
		for _, j := range q.cal.Clip(q.input) {
			q.warn("input %q has values far from all others: those are clipped; is there a mistake in the data?", t.InputName(j))
		}
	}
	return nil
}

// gridError is the root mean square margin error that the grid of the input alone makes.
func (q *job) gridError(ctx context.Context) (float64, error) {
	x := thin(q.cal.X, q.cal.Dim, damageRows)
	want, err := q.full.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	got, err := q.full.Margins(ctx, q.input.Round(x, q.cal.Dim))
	if err != nil {
		return 0, err
	}
	return math.Sqrt(sensitivity.MarginDamage(got, want)), nil
}

// floats reports whether layer i computes in float, on weights of few bits.
func (q *job) floats(i int) bool {
	first := &q.found[0]
	return q.o.WeightOnly || q.input == nil && first.Fixed == "" && first.Conv == nil && q.layers[i].Input == first.Input
}

// domain returns the values that the input grid must cover whether the data show
// them or not: both values of one-hots and of binary features, the least and the
// largest level of ordinal ones.
func domain(t *task.Task) [][]float32 {
	out := make([][]float32, 0, t.Dim())
	for i := range t.Features {
		f := &t.Features[i]
		for range f.Width {
			switch {
			case f.Kind == task.OneHot || f.Kind == task.Binary || f.Kind == task.Thermometer:
				out = append(out, []float32{0, 1})
			case f.Kind == task.Ordinal && len(f.Levels) > 0:
				out = append(out, []float32{f.ToInput(f.Levels[0]), f.ToInput(f.Levels[len(f.Levels)-1])})
			default:
				out = append(out, nil)
			}
		}
	}
	return out
}
