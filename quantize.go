package cfq

import (
	"context"
	"encoding/json"
	"fmt"
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

// calibrate makes the calibration set and fits every quantizer on it.
func (q *job) calibrate(ctx context.Context, people *task.People) error {
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
	q.tell("calibrate", 0, 0)
	q.fitInput()
	var err error
	if q.stats, err = calib.Collect(ctx, q.full, q.wide, q.cal, q.input); err != nil {
		return err
	}
	o := calib.WeightOptions{PerTensor: q.o.PerTensor, Compensate: q.o.Rounding == RoundCompensate}
	q.fits = make([][]quant.Layer, len(q.layers))
	for _, i := range q.quantized {
		for _, f := range q.formats() {
			fit := calib.FitWeights(q.wide[i], &q.stats[i], f, o)
			fit.Reduced = q.o.Reduced
			if q.input == nil || q.layers[i].Input != q.input.Value {
				act := calib.Activation(&q.stats[i], 8)
				fit.Act = &act
			}
			q.fits[i] = append(q.fits[i], fit)
		}
	}
	return ctx.Err()
}

// fitInput lays the model's input on its grid when dense layers read it directly.
func (q *job) fitInput() {
	q.wide = slices.Clone(q.layers)
	name := q.canonical.Graph.DataInputs()[0].Name
	out, weights := 0, 0
	for _, i := range q.quantized {
		weights += q.layers[i].Params()
		if q.layers[i].Input == name {
			out += q.layers[i].Out
		}
	}
	if out == 0 {
		return
	}
	q.input = calib.FitInput(q.cal, out, weights)
	q.input.Value = name
	for _, i := range q.quantized {
		if q.layers[i].Input == name {
			q.wide[i] = q.input.Widen(q.layers[i])
		}
	}
}

func (q *job) formats() []quant.Format {
	var out []quant.Format
	for _, f := range quant.Formats() {
		f, err := quant.FormatOf(f.Bits, q.o.Reduced)
		if err == nil {
			out = append(out, f)
		}
	}
	return out
}

// allocate gives each quantized layer the index of its format.
func (q *job) allocate(ctx context.Context, people *task.People) ([]int, error) {
	if err := q.measure(ctx, people); err != nil {
		return nil, err
	}
	choices := make([][]allocate.Choice, len(q.quantized))
	perParam := make([]float64, len(q.quantized))
	var weights int64
	for k, i := range q.quantized {
		n := int64(q.layers[i].Params())
		weights += n
		perParam[k] = q.score[k] / float64(n)
		for f, format := range q.formats() {
			c := allocate.Choice{Bits: format.Bits, Cost: n * int64(format.Bits)}
			if q.damage != nil {
				c.Damage = q.damage[k][f]
			}
			choices[k] = append(choices[k], c)
		}
	}
	budget := int64(q.o.Budget * float64(weights))
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
	layers := make([]quant.LayerInfo, len(q.quantized))
	for k, i := range q.quantized {
		layers[k] = q.layers[i]
	}
	x, classes := q.cal.Facts(), labels(people.Labels, q.full)
	if q.method.RecourseSensitivity && q.cal.Recourse > 0 {
		x, classes = q.cal.Points(), nil
	}
	var err error
	q.tell("sensitivity of the layers", 0, 0)
	if q.score, err = sensitivity.Gradient(ctx, q.full, layers, x, classes); err != nil {
		return err
	}
	if q.o.Allocator != AllocatorExact {
		return nil
	}
	dim := q.full.Dim()
	q.damage, err = sensitivity.Damage(ctx, q.full, len(layers), len(q.formats()), thin(x, dim, damageRows), q.openWith,
		func(done, total int) { q.tell("damage of each width", done, total) })
	return err
}

// openWith opens the model in which one layer alone is quantized, as it would be
// written.
func (q *job) openWith(k, format int) (*classifier.Model, error) {
	m, err := qdq.Write(q.canonical, q.plan([]int{k}, []int{format}), qdq.Options{})
	if err != nil {
		return nil, err
	}
	return q.full.With(m), nil
}

// plan makes the plan of the chosen formats of the quantized layers listed.
func (q *job) plan(layers, choice []int) *quant.Plan {
	p := &quant.Plan{}
	for n, k := range layers {
		l := q.fits[q.quantized[k]][choice[n]]
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

func (q *job) result(bytes []byte, plan *quant.Plan, choice []int, floatBytes int, report *verify.Report) *Result {
	r := &Result{
		Model: bytes, Plan: plan, Method: q.method.Name, Allocator: q.o.Allocator, Rounding: q.o.Rounding, Budget: q.o.Budget,
		Factual: q.cal.Factual, Recourse: q.cal.Recourse, FloatBytes: floatBytes, Bytes: len(bytes), Verified: report,
	}
	for _, ok := range q.cal.Reached {
		if ok {
			r.Reached++
		}
	}
	formats := q.formats()
	weights := 0
	for i, l := range q.layers {
		out := Layer{Node: l.Node, Params: l.Params(), Float: l.Fixed}
		if k := slices.Index(q.quantized, i); k >= 0 {
			out.Bits, out.Channels, out.Score = formats[choice[k]].Bits, len(q.fits[i][choice[k]].Scales), q.score[k]
			if q.damage != nil {
				out.Damage = q.damage[k]
			}
			r.Bits += float64(out.Bits * l.Params())
			weights += l.Params()
		}
		r.Layers = append(r.Layers, out)
	}
	r.Bits /= float64(weights)
	return r
}

// labels turns labels into classes for the factual gradient; rows of unknown
// outcome take the class that the model is asked about, the target.
func labels(l []int8, c *classifier.Model) []int {
	if l == nil {
		return nil
	}
	other := 0
	if c.Target() == 0 {
		other = 1
	}
	out := make([]int, len(l))
	for i, v := range l {
		out[i] = c.Target()
		if v == 0 {
			out[i] = other
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
	rows := verifyRows
	if n := q.full.Fixed(); n > 0 {
		rows = n
	}
	return []*graph.Tensor{q.full.Feed(thin(people.X, q.full.Dim(), rows))}
}

// all returns 0..n-1.
func all(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
