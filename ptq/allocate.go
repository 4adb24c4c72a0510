package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/allocate"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/sensitivity"
	"cfq/task"
)

// damageRows is how many points measure the damage of a width; more change the
// third digit.
const damageRows = 4096

// fewPoints is how many rows, or recourse points, are hardly enough to calibrate on.
const fewPoints = 100

// widths says which format each layer has, by its index among job.formats: none (the
// layer stays in float), one for the layer, or one for each of its rows.
type widths [][]int

// unit is what has a width of its own: a row of a layer, or, with row -1, all of it.
type unit struct{ layer, row int }

// units lists what has a width of its own. Convolutions have one for all rows.
func (q *job) units() []unit {
	var out []unit
	for i, l := range q.layers {
		if q.o.Widths != WidthsRow || l.Conv != nil {
			out = append(out, unit{i, -1})
			continue
		}
		for r := range l.Out {
			out = append(out, unit{i, r})
		}
	}
	return out
}

// weights is the number of weights of a unit.
func (q *job) weights(u unit) int64 {
	l := &q.layers[u.layer]
	if u.row < 0 {
		return int64(l.Params())
	}
	return int64(l.In)
}

// damageOf returns what each format of a unit does to the margin; nil when it was not measured.
func (q *job) damageOf(u unit) []float64 {
	switch {
	case u.row >= 0:
		return q.rowDamage[u.layer][u.row]
	case q.damage != nil:
		return q.damage[u.layer]
	}
	return nil
}

// multiples is what one bit of width of a weight of layer i costs, and what the budget
// grants for it, in the unit of the budget.
func (q *job) multiples(i int) (cost, grant int64) {
	if q.o.Cost != CostBOPs {
		return 1, 1
	}
	act := 8
	if fit := q.fits[i][0]; fit.Act != nil {
		act = fit.Act.Bits
	} else if q.input == nil || q.wide[i].Input != q.input.Value {
		act = 32 // float
	}
	n := int64(sensitivity.Multiplications(q.layers[i:i+1])) / int64(q.layers[i].Params())
	return n * int64(act), n * 8
}

// allocate gives each unit its format, so that the whole costs no more than the budget
// less spent, in the unit of the budget; skip are formats that are not to be had. It
// returns the predicted damage, too.
func (q *job) allocate(ctx context.Context, spent int64, skip ...int) (widths, float64, error) {
	units := q.units()
	choices := make([][]allocate.Choice, len(units))
	perWeight := make([]float64, len(units))
	index := make([][]int, len(units)) // the format of each choice
	var granted float64
	for k, u := range units {
		n := q.weights(u)
		cost, grant := q.multiples(u.layer)
		granted += float64(n) * float64(grant)
		perWeight[k] = q.score[u.layer] / float64(q.layers[u.layer].Params())
		damage := q.damageOf(u)
		for f, format := range q.formats() {
			if slices.Contains(skip, format.Bits) {
				continue
			}
			c := allocate.Choice{Bits: format.Bits, Cost: n * cost * int64(format.Bits)}
			if damage != nil {
				c.Error = damage[f]
			}
			choices[k], index[k] = append(choices[k], c), append(index[k], f)
		}
	}
	budget := int64(math.Floor(q.o.Budget*granted+1e-6)) - spent // 4.1 x 2880 is 11808, not a hair less
	var picks []int
	var err error
	switch q.o.Allocator {
	case AllocatorUniform:
		picks, err = allocate.Uniform(choices, budget)
	case AllocatorPaper:
		picks, err = allocate.Paper(choices, perWeight, budget)
	case AllocatorExact:
		picks, err = allocate.Exact(choices, budget)
	default:
		err = fmt.Errorf("unknown allocator %q", q.o.Allocator)
	}
	if errors.Is(err, allocate.ErrBudget) {
		least := spent
		for _, c := range choices {
			least += slices.MinFunc(c, func(a, b allocate.Choice) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
		}
		err = tooSmall(least, granted)
	}
	if err != nil {
		return nil, 0, err
	}
	var total float64
	for k, p := range picks {
		total += choices[k][p].Error
	}
	return q.widths(units, index, picks), total, nil
}

// tooSmall says which budget is the least, when so much is needed of what a budget of 1 grants.
func tooSmall(least int64, granted float64) error {
	return fmt.Errorf("%w: the least is %.2f", allocate.ErrBudget, math.Ceil(100*float64(least)/granted)/100)
}

// widths puts the picks of units together.
func (q *job) widths(units []unit, index [][]int, picks []int) widths {
	out := make(widths, len(q.layers))
	for k, u := range units {
		out[u.layer] = append(out[u.layer], index[k][picks[k]])
	}
	return out
}

// fitBytes allocates for a budget of bytes: what the file stores for the weights beside
// their codes is known only when it is written, so it is taken off the budget until all
// fits. Rows of 3 bits are tried with and without: in small models they take 4. Where
// nothing fits, mixtures being dear to store, two widths and then the lowest alone are tried.
func (q *job) fitBytes(ctx context.Context) (widths, error) {
	var budget int64
	var granted float64
	for _, l := range q.layers {
		granted += float64(l.Params())
		budget += int64(math.Floor(q.o.Budget*float64(l.Params()) + 1e-6))
	}
	var best widths
	least := math.Inf(1)
	var failed error
	for _, skip := range [][]int{nil, {3}, {3, 8}, {3, 4, 8}} {
		if best != nil && len(skip) > 1 {
			break
		}
		var spent int64
		for range 12 {
			w, damage, err := q.allocate(ctx, spent, skip...)
			if err != nil {
				failed = err
				break
			}
			m, err := qdq.Write(q.canonical, q.planOf(q.layersOf(w)), writer(q.o.Runtime))
			if err != nil {
				return nil, err
			}
			bytes, err := qdq.Stored(m)
			if err != nil {
				return nil, err
			}
			if over := 8*int64(bytes) - budget; over > 0 {
				if len(skip) == len(q.formats())-1 { // no wider than that
					failed = tooSmall(8*int64(bytes), granted)
					break
				}
				spent += over
				continue
			}
			if q.o.Allocator != AllocatorExact {
				damage = -q.meanBits(w) // only that one adds up damages
			}
			if damage < least {
				best, least = w, damage
			}
			break
		}
	}
	if best == nil {
		return nil, failed
	}
	return best, nil
}

// meanBits is the mean width of the weights.
func (q *job) meanBits(w widths) float64 {
	var bits, weights float64
	for i, formats := range w {
		n := float64(q.layers[i].Params())
		for _, f := range formats {
			bits += n / float64(len(formats)) * float64(q.formats()[f].Bits)
		}
		weights += n
	}
	return bits / weights
}

// measure fills in the gradient scores and, for the exact allocator, the damage of every
// width, at recourse points or on factual rows as the method says.
func (q *job) measure(ctx context.Context) error {
	var scored []float32
	var classes []int
	var err error
	if q.method.RecourseSensitivity && q.union.Recourse > 0 {
		scored, q.judged = q.union.Moved(), q.union.Points()
	} else {
		scored, q.judged = q.union.Facts(), q.union.Facts()
		if classes, err = factualClasses(ctx, q.full, q.people); err != nil {
			return err
		}
	}
	q.judged = thin(q.judged, q.full.Dim(), damageRows)
	if q.o.CalibrateOn != OnFactual && q.cal.Recourse == 0 {
		q.warn("%s: calibrated on factual rows alone, as mixed-ptq would be", q.noRecourse())
	}
	if n := q.cal.Recourse; q.o.CalibrateOn != OnFactual && n > 0 && n < fewPoints {
		q.warn("only %d recourse points to calibrate on: %d or more would be better", n, fewPoints)
	}
	if q.people.N < fewPoints {
		q.warn("only %d rows to calibrate on: %d or more would be better", q.people.N, fewPoints)
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
	if q.o.Widths == WidthsRow {
		if err := q.measureRows(ctx); err != nil || !slices.ContainsFunc(q.units(), func(u unit) bool { return u.row < 0 }) {
			return err
		}
	}
	return q.measureLayers(ctx)
}

// measureLayers measures what each format of each layer does to the margin, by the rule
// of sensitivity.Exact.
func (q *job) measureLayers(ctx context.Context) (err error) {
	exact := sensitivity.Exact(len(q.layers), len(q.formats()), len(q.judged)/q.full.Dim(), sensitivity.Multiplications(q.layers))
	q.damage, err = q.damageAt(ctx, q.judged, exact, func(done, total int) { q.tell("damage of each width", done, total) })
	return err
}

// damageAt measures or estimates what each format of each layer does to the margin on the rows of x.
func (q *job) damageAt(ctx context.Context, x []float32, exact bool, progress func(done, total int)) ([][]float64, error) {
	if exact {
		return sensitivity.Damage(ctx, q.full, len(q.layers), len(q.formats()), x, q.openWith, progress)
	}
	return sensitivity.FirstOrder(ctx, q.full, q.layers, len(q.formats()), x, q.change, progress)
}

// measureRows estimates what each format of each row of the dense layers does to the margin.
func (q *job) measureRows(ctx context.Context) error {
	q.tell("damage of each width", 0, 0)
	var dense []int
	for i := range q.layers {
		if q.layers[i].Conv == nil {
			dense = append(dense, i)
		}
	}
	q.rowDamage = make([][][]float64, len(q.layers))
	infos := make([]quant.LayerInfo, len(dense))
	for k, i := range dense {
		infos[k] = q.wide[i]
	}
	got, err := sensitivity.Rows(ctx, q.full, infos, len(q.formats()), q.judged, func(layer, format int) (sensitivity.Change, error) {
		return q.change(dense[layer], format)
	})
	if err != nil {
		return err
	}
	for k, i := range dense {
		q.rowDamage[i] = got[k]
	}
	return nil
}

// change is what a format makes of a layer.
func (q *job) change(layer, format int) (sensitivity.Change, error) {
	return sensitivity.ChangeOf(&q.fits[layer][format], q.wide[layer], q.input)
}

// noRecourse says why there are no recourse points.
func (q *job) noRecourse() string {
	switch promised := func(a recourse.Action) bool { return a.Status == recourse.Found }; {
	case q.o.Promises == nil:
		return "nobody among the rows is refused and can be helped"
	case slices.ContainsFunc(q.o.Promises, promised):
		return "the promises change nothing about anybody"
	}
	return "nobody among the rows is promised anything"
}

// openWith opens the model in which one layer alone is quantized, as it would be
// written.
func (q *job) openWith(layer, format int) (*classifier.Model, error) {
	w := make(widths, len(q.layers))
	w[layer] = []int{format}
	return q.openPlans(q.layersOf(w))
}

// openPlans opens the model of plans for a look at its margins.
func (q *job) openPlans(layers []quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(q.canonical, q.planOf(layers), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	return q.full.With(m), nil
}

// joint measures the damage of a whole model on the rows of x, whose margins should be those wanted.
func (q *job) joint(ctx context.Context, w widths, x, want []float32) (_ float64, err error) {
	m, err := q.openPlans(q.layersOf(w))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	got, err := m.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	return sensitivity.MarginDamage(got, want), nil
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
