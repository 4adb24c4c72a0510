package cfq

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/classifier"
	"cfq/quant"
	"cfq/task"
)

// personal lets the people change what Options.Overrides gives them.
func (q *job) personal(people *task.People) error {
	if len(q.o.Overrides) == 0 {
		return nil
	}
	if len(people.Rows) != people.N {
		return fmt.Errorf("overrides are by rows of the data file, and %d people have %d of them", people.N, len(people.Rows))
	}
	by := map[int][]task.Override{}
	for _, o := range q.o.Overrides {
		by[o.Row] = append(by[o.Row], o)
	}
	q.own = nil
	for i, row := range people.Rows {
		for _, o := range by[row] {
			o.Row = i
			q.own = append(q.own, o)
		}
	}
	set, err := q.set.Override(q.own)
	if err != nil {
		return fmt.Errorf("overrides: %w", err)
	}
	q.set = set
	return nil
}

// calibrate makes the calibration set and fits every quantizer on it.
func (q *job) calibrate(ctx context.Context, t *task.Task, people *task.People) error {
	if err := q.lookAtTarget(ctx, people); err != nil {
		return err
	}
	x, dim := people.X, q.full.Dim()
	q.cal = calib.FactualSet(x, dim)
	if q.o.CalibrateOn != OnFactual || q.method.RecourseSensitivity {
		o := q.o.Teacher
		o.Progress = func(done, total int) { q.tell("teacher recourse", done, total) }
		if o.Workers == 0 {
			o.Workers = q.o.Workers
		}
		var err error
		if q.o.Promises != nil {
			q.cal, err = calib.Promised(ctx, q.full, x, q.o.Promises)
		} else {
			q.cal, err = q.counterfactual(ctx, t, x, o)
		}
		if err != nil {
			return err
		}
	}
	q.tell("statistics of the layers", 0, 0)
	if err := q.fitInput(ctx, t); err != nil {
		return err
	}
	stats, err := calib.Collect(ctx, q.full, q.wide, q.cal, q.input)
	if err != nil {
		return inputError(fmt.Errorf("%s: %w", strings.Join(append(q.warnings, "statistics"), "; "), err))
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

// fit fits layer i in each of the formats.
func (q *job) fit(ctx context.Context, i int, s *calib.Stats, formats []quant.Format, vary calib.Variation) ([]quant.Layer, error) {
	fits, err := calib.FitWeights(ctx, q.wide[i], s, formats, calib.WeightOptions{
		PerTensor: q.o.Scales == ScaleTensor, Compensate: q.o.Rounding == RoundCompensate, Vary: vary, Workers: q.o.Workers,
	})
	if err != nil {
		return nil, err
	}
	for n := range fits {
		fits[n].Reduced = q.o.Reduced
		if q.input == nil || q.layers[i].Input != q.input.Value {
			act := vary.Clip(q.layers[i].Node, calib.Activation(s, 8))
			fits[n].Act = &act
		}
	}
	return fits, nil
}

// lookAtTarget warns when the model disagrees with most labels, which is what a
// wrong class index looks like.
func (q *job) lookAtTarget(ctx context.Context, people *task.People) error {
	margins, err := q.full.Margins(ctx, people.X)
	if err != nil {
		return err
	}
	right, known := 0, 0
	for i, l := range people.Labels {
		if l >= 0 {
			known++
			if (margins[i] > 0) == (l == 1) {
				right++
			}
		}
	}
	if known >= 20 && 5*right < 2*known {
		q.warn("the model decides only %.0f %% of the labelled rows as their labels say: is class %d, the task's target.index, the favourable one?", 100*float64(right)/float64(known), q.full.Target())
	}
	return nil
}

// fitInput lays the value that the first dense layers read on its grid: the
// model's input, or what scaling operators make of it.
func (q *job) fitInput(ctx context.Context, t *task.Task) error {
	q.wide = slices.Clone(q.layers)
	first := q.found[0]
	if first.Fixed != "" {
		return nil // what lies behind it is no input any more
	}
	out, weights := 0, 0
	for _, l := range q.layers {
		weights += l.Params()
		if l.Input == first.Input {
			out += l.Out
		}
	}
	x, values := q.cal.X, domain(t)
	if first.Input != q.canonical.Graph.DataInputs()[0].Name {
		x, values = nil, nil
		err := q.full.Observe(ctx, q.cal.X, classifier.Probe{Values: []string{first.Input}}, func(_, _ int, v, _ [][]float32) error {
			x = append(x, v[0]...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	q.input = calib.FitInput(x, first.In, values, out, weights)
	q.input.Value = first.Input
	for i, l := range q.layers {
		if l.Input == first.Input {
			q.wide[i] = q.input.Widen(l)
		}
	}
	if values == nil {
		return nil
	}
	for _, j := range q.cal.Clip(q.input) {
		q.warn("input %q has values far from all others: those are clipped; is there a mistake in the data?", t.InputName(j))
	}
	return nil
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
