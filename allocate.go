package cfq

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/allocate"
	"cfq/classifier"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/sensitivity"
	"cfq/task"
)

// damageRows is how many points measure the damage of a width; more change the
// third digit.
const damageRows = 4096

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
	var scored, damaged []float32
	var classes []int
	var err error
	if q.method.RecourseSensitivity && q.cal.Recourse > 0 {
		scored, damaged = q.cal.Moved(), q.cal.Points()
	} else {
		scored, damaged = q.cal.Facts(), q.cal.Facts()
		if classes, err = factualClasses(ctx, q.full, people); err != nil {
			return err
		}
	}
	if q.o.CalibrateOn != OnFactual && q.cal.Recourse == 0 {
		q.warn("%s: calibrated on factual rows alone, as mixed-ptq would be", q.noRecourse())
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
	choice := slices.Repeat([]int{inFloat}, len(q.layers))
	choice[layer] = format
	m, err := qdq.Write(q.canonical, q.plan(choice), qdq.Options{})
	if err != nil {
		return nil, err
	}
	return q.full.With(m), nil
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
