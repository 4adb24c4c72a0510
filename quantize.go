package cfq

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"cfq/graph"
	"cfq/quant"
	"cfq/task"
	"cfq/verify"
)

// verifyRows is how many rows the written model is verified on.
const verifyRows = 512

func (q *job) warn(format string, args ...any) {
	q.warnings = append(q.warnings, fmt.Sprintf(format, args...))
}

func (q *job) formats() []quant.Format { return quant.FormatsFor(q.o.Reduced) }

// inFloat is the choice of no format.
const inFloat = -1

// plan makes the plan of the chosen formats.
func (q *job) plan(choice []int) *quant.Plan {
	var layers []quant.Layer
	for i, format := range choice {
		if format != inFloat {
			layers = append(layers, q.fits[i][format])
		}
	}
	return q.planOf(layers)
}

// planOf puts layers together to a plan.
func (q *job) planOf(layers []quant.Layer) *quant.Plan {
	p := &quant.Plan{Layers: layers}
	for i := range layers {
		if layers[i].Act == nil {
			p.Input = q.input
		}
	}
	return p
}

// describe writes the recipe into the model's metadata.
func (q *job) describe(m *graph.Model, t *task.Task, more map[string]string) {
	recipe := map[string]string{"method": q.method.Name, "allocator": q.o.Allocator, "rounding": q.o.Rounding, "budget": fmt.Sprint(q.o.Budget), "task": t.Hash()}
	recipe["scales"] = q.o.Scales
	if q.o.Promises != nil {
		recipe["recourse"] = "promises"
	}
	if o := q.o.Teacher; o.Noise > 0 || o.Sample > 0 {
		recipe["teacher"] = fmt.Sprintf("noise %v, sample %d, seed %d", o.Noise, o.Sample, o.Seed)
	}
	for k, v := range q.o.Recipe {
		if v != "" {
			recipe[k] = v
		}
	}
	maps.Copy(recipe, more)
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
	r.Promised = r.Recourse > 0 && q.o.Promises != nil
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
