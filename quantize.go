package cfq

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"cfq/allocate"
	"cfq/calib"
	"cfq/classifier"
	"cfq/graph"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/sensitivity"
	"cfq/task"
	"cfq/verify"
)

// damageRows is how many points measure the damage of a width; more change the
// third digit.
const damageRows = 4096

// verifyRows is how many rows the written model is verified on.
const verifyRows = 512

func (q *job) warn(format string, args ...any) {
	q.warnings = append(q.warnings, fmt.Sprintf(format, args...))
}

// calibrate makes the calibration set and fits every quantizer on it.
func (q *job) calibrate(ctx context.Context, t *task.Task, people *task.People) error {
	if err := q.lookAtTarget(ctx, people); err != nil {
		return err
	}
	x, dim := people.X, q.full.Dim()
	q.cal = calib.FactualSet(x, dim)
	if q.method.Counterfactual || q.method.RecourseSensitivity {
		o := q.o.Teacher
		o.Progress = func(done, total int) { q.tell("teacher recourse", done, total) }
		if o.Workers == 0 {
			o.Workers = q.o.Workers
		}
		cal, err := calib.Counterfactual(ctx, q.full, q.set, x, o)
		if err != nil {
			return err
		}
		q.cal = cal
	}
	q.tell("statistics of the layers", 0, 0)
	if err := q.fitInput(ctx, t); err != nil {
		return err
	}
	stats, err := calib.Collect(ctx, q.full, q.wide, q.cal, q.input)
	if err != nil {
		return err
	}
	o := calib.WeightOptions{PerTensor: q.o.PerTensor, Compensate: q.o.Rounding == RoundCompensate, Workers: q.o.Workers}
	q.fits = make([][]quant.Layer, len(q.layers))
	for i := range q.layers {
		q.tell("fit the weights", i, len(q.layers))
		if q.fits[i], err = calib.FitWeights(ctx, q.wide[i], &stats[i], q.formats(), o); err != nil {
			return err
		}
		for n := range q.fits[i] {
			fit := &q.fits[i][n]
			fit.Reduced = q.o.Reduced
			if q.input == nil || q.layers[i].Input != q.input.Value {
				act := calib.Activation(&stats[i], 8)
				fit.Act = &act
			}
		}
	}
	q.tell("fit the weights", len(q.layers), len(q.layers))
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

func (q *job) formats() []quant.Format { return quant.FormatsFor(q.o.Reduced) }

// allocate gives each quantized layer the index of its format.
func (q *job) allocate(ctx context.Context, people *task.People) ([]int, error) {
	if err := q.measure(ctx, people); err != nil {
		return nil, err
	}
	choices := make([][]allocate.Choice, len(q.layers))
	perParam := make([]float64, len(q.layers))
	var weights int64
	for i, l := range q.layers {
		n := int64(l.Params())
		weights += n
		perParam[i] = q.score[i] / float64(n)
		for f, format := range q.formats() {
			c := allocate.Choice{Bits: format.Bits, Cost: n * int64(format.Bits)}
			if q.damage != nil {
				c.Damage = q.damage[i][f]
			}
			choices[i] = append(choices[i], c)
		}
	}
	budget := int64(math.Floor(q.o.Budget*float64(weights) + 1e-6)) // 4.1 x 2880 is 11808, not a hair less
	switch q.o.Allocator {
	case AllocatorUniform:
		return allocate.Uniform(choices, budget)
	case AllocatorPaper:
		return allocate.Paper(choices, perParam, budget)
	case AllocatorExact:
		return allocate.Exact(choices, budget)
	}
	return nil, fmt.Errorf("unknown allocator %q", q.o.Allocator)
}

// measure fills in the gradient scores and, for the exact allocator, the measured
// damage of every width, at recourse points or on factual rows as the method says.
func (q *job) measure(ctx context.Context, people *task.People) error {
	classes, err := factualClasses(ctx, q.full, people)
	if err != nil {
		return err
	}
	scored, damaged := q.cal.Facts(), q.cal.Facts()
	if q.method.RecourseSensitivity && q.cal.Recourse > 0 {
		scored, damaged, classes = q.cal.Moved(), q.cal.Points(), nil
	}
	if q.method.Counterfactual && q.cal.Recourse == 0 {
		q.warn("nobody among the rows is refused and can be helped: calibrated on factual rows alone, as %s would be", "mixed-ptq")
	}
	q.tell("sensitivity of the layers", 0, 0)
	q.score, err = sensitivity.Gradient(ctx, q.full, q.layers, scored, classes)
	switch {
	case err != nil && (q.o.Allocator == AllocatorPaper || ctx.Err() != nil):
		return err
	case err != nil:
		q.score = make([]float64, len(q.layers))
		q.warn("no sensitivity scores: %v", err)
	}
	if q.o.Allocator != AllocatorExact {
		return nil
	}
	dim := q.full.Dim()
	q.damage, err = sensitivity.Damage(ctx, q.full, len(q.layers), len(q.formats()), thin(damaged, dim, damageRows), q.openWith,
		func(done, total int) { q.tell("damage of each width", done, total) })
	return err
}

// openWith opens the model in which one layer alone is quantized, as it would be
// written.
func (q *job) openWith(layer, format int) (*classifier.Model, error) {
	choice := slices.Repeat([]int{inFloat}, len(q.layers))
	choice[layer] = format
	m, err := qdq.Write(q.canonical, q.plan(choice), qdq.Options{})
	if err != nil {
		return nil, err
	}
	return q.full.With(m), nil
}

// inFloat is the choice of no format.
const inFloat = -1

// plan makes the plan of the chosen formats.
func (q *job) plan(choice []int) *quant.Plan {
	p := &quant.Plan{}
	for i, format := range choice {
		if format == inFloat {
			continue
		}
		l := q.fits[i][format]
		if l.Act == nil {
			p.Input = q.input
		}
		p.Layers = append(p.Layers, l)
	}
	return p
}

// describe writes the recipe into the model's metadata.
func (q *job) describe(m *graph.Model, t *task.Task) {
	recipe := map[string]string{"method": q.method.Name, "allocator": q.o.Allocator, "rounding": q.o.Rounding, "budget": fmt.Sprint(q.o.Budget), "task": t.Hash()}
	if q.o.PerTensor {
		recipe["scales"] = "per tensor"
	}
	for k, v := range q.o.Recipe {
		if v != "" {
			recipe[k] = v
		}
	}
	text, err := json.Marshal(recipe) // keys are sorted: the same recipe gives the same bytes
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	m.SetMeta("cfq.recipe", string(text))
}

func (q *job) result(bytes []byte, plan *quant.Plan, choice []int, report *verify.Report) *Result {
	r := &Result{
		Model: bytes, Plan: plan, Method: q.method.Name, Allocator: q.o.Allocator, Rounding: q.o.Rounding, Budget: q.o.Budget,
		Factual: q.cal.Factual, Recourse: q.cal.Recourse, FloatBytes: q.floatBytes, Bytes: len(bytes), Verified: report, Warnings: q.warnings,
	}
	for _, ok := range q.cal.Reached {
		if ok {
			r.Reached++
		}
	}
	formats := q.formats()
	weights, at := 0, 0
	for _, l := range q.found {
		out := Layer{Node: l.Node, Params: l.Params(), Float: l.Fixed}
		if l.Fixed == "" {
			out.Bits, out.Channels, out.Score = formats[choice[at]].Bits, len(q.fits[at][choice[at]].Scales), q.score[at]
			if q.damage != nil {
				out.Damage = q.damage[at]
			}
			r.Bits += float64(out.Bits * l.Params())
			weights += l.Params()
			at++
		}
		r.Layers = append(r.Layers, out)
	}
	r.Bits /= float64(weights)
	return r
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

// factualClasses returns the class of each row for the factual gradient: the
// favourable one for rows with that label; for others the most likely class, of
// those that are not favourable where the label says so.
func factualClasses(ctx context.Context, c *classifier.Model, people *task.People) ([]int, error) {
	z, k, err := c.Logits(ctx, people.X)
	if err != nil {
		return nil, err
	}
	out := make([]int, people.N)
	for i := range out {
		label := int8(-1)
		if people.Labels != nil {
			label = people.Labels[i]
		}
		row := z[i*k : (i+1)*k]
		if k == 1 {
			row = []float32{0, row[0]}
		}
		best := -1
		for class, v := range row {
			if (label != 0 || class != c.Target()) && (best < 0 || v > row[best]) {
				best = class
			}
		}
		if label == 1 {
			best = c.Target()
		}
		out[i] = best
	}
	return out, nil
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
			case f.Kind == task.OneHot || f.Kind == task.Binary:
				out = append(out, []float32{0, 1})
			case f.Kind == task.Ordinal && len(f.Levels) > 0:
				out = append(out, []float32{float32(f.ToInput(f.Levels[0])), float32(f.ToInput(f.Levels[len(f.Levels)-1]))})
			default:
				out = append(out, nil)
			}
		}
	}
	return out
}

// thin returns at most most rows, evenly spread.
func thin(x []float32, dim, most int) []float32 {
	n := len(x) / dim
	if n <= most {
		return x
	}
	out := make([]float32, 0, most*dim)
	for k := range most {
		i := k * n / most
		out = append(out, x[i*dim:(i+1)*dim]...)
	}
	return out
}

// probes is what the written model is verified on: a spread of the people, as
// many as a model with a fixed batch size takes.
func (q *job) probes(people *task.People) []*graph.Tensor {
	rows, dim := verifyRows, q.full.Dim()
	if n := q.full.Fixed(); n > 0 {
		rows = n
	}
	x := thin(people.X, dim, rows)
	for q.full.Fixed() > 0 && len(x) < rows*dim {
		x = append(slices.Clip(x), x[:min(len(x), rows*dim-len(x))]...)
	}
	return []*graph.Tensor{q.full.Feed(x)}
}
