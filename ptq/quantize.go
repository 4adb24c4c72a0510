package ptq

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/task"
)

// verifyRows is how many rows the written model is verified on.
const verifyRows = 512

func (q *job) warn(format string, args ...any) {
	q.warnings = append(q.warnings, fmt.Sprintf(format, args...))
}

func (q *job) formats() []quant.Format { return quant.FormatsFor(q.o.Reduced) }

// layersOf returns the plans of the layers that have formats, fitted in them.
func (q *job) layersOf(w widths) []quant.Layer {
	var out []quant.Layer
	for i, formats := range w {
		switch {
		case len(formats) == 0:
		case !slices.ContainsFunc(formats, func(f int) bool { return f != formats[0] }):
			out = append(out, q.fits[i][formats[0]])
		default:
			out = append(out, mixed(q.fits[i], formats, q.layers[i].In))
		}
	}
	return out
}

// mixed puts a layer together from the rows of its fits in several formats.
func mixed(fits []quant.Layer, formats []int, in int) quant.Layer {
	out := fits[formats[0]]
	out.Bits, out.Scales, out.Codes, out.Bias = 0, nil, nil, nil
	for r, f := range formats {
		fit := &fits[f]
		out.RowBits = append(out.RowBits, fit.Bits)
		out.Scales = append(out.Scales, fit.Scales[r])
		if fit.Codes != nil {
			out.Codes = append(out.Codes, fit.Codes[r*in:(r+1)*in]...)
		}
		if fit.Bias != nil {
			out.Bias = append(out.Bias, fit.Bias[r])
		}
	}
	return out
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
	recipe := map[string]string{
		"method": q.method.Name, "budget": fmt.Sprint(q.o.Budget), "refine": strconv.Itoa(q.o.Refine), "task": t.Hash(),
	}
	for _, s := range Settings() {
		recipe[strings.ReplaceAll(s.Name, "-", "_")] = *s.Of(&q.o)
	}
	if q.people.N < q.all.N {
		recipe["calibrated_on"] = fmt.Sprintf("%d of %d rows", q.people.N, q.all.N)
	}
	if q.o.ActBits != 8 {
		recipe["act_bits"] = strconv.Itoa(q.o.ActBits)
	}
	for key, on := range map[string]bool{"equalize": q.o.Equalize, "weight_only": q.o.WeightOnly, "reduced": q.o.Reduced} {
		if on {
			recipe[key] = "yes"
		}
	}
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
	setRecipe(m, recipe)
}

// result says what was decided for the written model.
func (q *job) result(written *graph.Model, plan *quant.Plan) (*Result, error) {
	r := &Result{
		Plan: plan, Method: q.method.Name, Allocator: q.o.Allocator, Rounding: q.o.Rounding, Budget: q.o.Budget, Cost: q.o.Cost,
		Equalized: q.equalized, People: q.all.N, Calibrated: q.rows, Factual: q.union.Factual, Recourse: q.union.Recourse, Reached: q.union.Valid(), FloatBytes: q.floatBytes, Warnings: q.warnings,
	}
	r.Promised = r.Recourse > 0 && q.o.Promises != nil
	at := 0
	for _, l := range q.found {
		out := Layer{Node: l.Node, Params: l.Params(), Float: l.Fixed}
		if l.Fixed == "" {
			out.Score = q.score[at]
			if q.damage != nil {
				out.Damage = q.damage[at]
			}
			at++
		}
		r.Layers = append(r.Layers, out)
	}
	r.widths(q.found)
	stored, err := qdq.Stored(written)
	if err != nil {
		return nil, err
	}
	r.Stored = 8 * float64(stored) / float64(r.weights())
	return r, nil
}

// widths fills in what the plan says about the layers.
func (r *Result) widths(found []quant.LayerInfo) {
	var bits float64
	for k := range r.Layers {
		l, info := &r.Layers[k], &found[k]
		if l.Float != "" {
			continue
		}
		p := r.Plan.Layer(l.Node)
		rows := map[int]int{}
		for o := range info.Out {
			rows[p.Width(o)]++
			l.Bits += float64(p.Width(o)) / float64(info.Out)
		}
		if len(rows) > 1 {
			l.Rows = rows
		}
		l.Channels = len(p.Scales)
		bits += l.Bits * float64(l.Params)
	}
	r.Bits = bits / float64(r.weights())
}

// weights is the number of weights that are quantized.
func (r *Result) weights() int {
	n := 0
	for _, l := range r.Layers {
		if l.Float == "" {
			n += l.Params
		}
	}
	return n
}

// thin returns at most most rows, evenly spread.
func thin(x []float32, dim, most int) []float32 {
	n := len(x) / dim
	if n <= most {
		return x
	}
	out := make([]float32, 0, most*dim)
	for _, i := range spread(0, n, most) {
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
