package qat

import (
	"context"
	"math"
	"math/rand/v2"
)

// share is how often rows of a kind are drawn, as far as there are any. Objectives of the paper are a sum of two means.
func (o *ObjectiveDoc) share(k Kind) float64 {
	if o.Varied {
		return [Kinds]float64{Factual: 0.2, Teacher: 0.6, Student: 0.2}[k]
	}
	return [Kinds]float64{Factual: 0.5, Teacher: 0.5, Student: 0.5}[k]
}

// trainer draws batches from the points and does steps.
type trainer struct {
	*step
	o       *Options
	columns []column // of the objective
	pools   [Kinds]pool
	next    batch
}

// pool are the points of a kind, ready for batches.
type pool struct {
	rows    int
	x       []float32
	columns [][]float32
}

func newTrainer(s *step, o *Options) *trainer {
	t := &trainer{step: s, o: o, next: batch{columns: map[string][]float32{}}}
	for _, term := range o.objective.terms {
		t.columns = append(t.columns, term.columns...)
	}
	return t
}

// replace puts points into the pools of their kinds, in place of all that were there: a training that goes on from a
// checkpoint has not seen the rounds before.
func (t *trainer) replace(points []Points) {
	for k := range t.pools {
		t.pools[k] = pool{columns: make([][]float32, len(t.columns))}
	}
	for i := range points {
		p := &points[i]
		to := &t.pools[p.Kind]
		if p.Kind != Factual && !t.o.objective.Recourse {
			continue
		}
		n := len(p.X) / t.model.Dim()
		to.x, to.rows = append(to.x, p.X...), to.rows+n
		for k := range n {
			r := row{pick: make([]float32, t.o.classes)}
			t.o.objective.row(&r, p, k, t.o)
			for j, c := range t.columns {
				to.columns[j] = append(to.columns[j], c.of(&r)...)
			}
		}
	}
}

// steps does steps until there have been so many and returns the mean loss.
func (t *trainer) steps(ctx context.Context, to, first, last int) (float64, error) {
	var sum float64
	n := to - t.Steps
	for t.Steps < to {
		t.draw()
		rate := t.o.Rate * (1 + math.Cos(math.Pi*float64(t.Steps-first)/float64(last-first))) / 2
		loss, err := t.run(ctx, &t.next, rate*min(1, float64(t.Steps+1)/warmUp))
		if err != nil {
			return 0, err
		}
		if t.Steps == 1 {
			t.Start = loss / float64(t.o.Batch)
		}
		sum += loss
	}
	return sum / float64(max(1, n)) / float64(t.o.Batch), nil
}

// draw fills the next batch. It depends on the seed and on the number of the step alone.
func (t *trainer) draw() {
	rng := rand.New(rand.NewPCG(t.o.Seed, 1<<32+uint64(t.Steps)))
	b, dim := &t.next, t.model.Dim()
	b.x = b.x[:0]
	for _, c := range t.columns {
		b.columns[c.name] = b.columns[c.name][:0]
	}
	var total float64
	last := 0
	for k := range t.pools {
		if t.pools[k].rows > 0 {
			total += t.o.objective.share(Kind(k))
			last = k
		}
	}
	for range t.o.Batch {
		at, k := rng.Float64()*total, 0
		for ; k < last; k++ {
			if t.pools[k].rows == 0 {
				continue
			}
			if at -= t.o.objective.share(Kind(k)); at < 0 {
				break
			}
		}
		p := &t.pools[k]
		i := rng.IntN(p.rows)
		b.x = append(b.x, p.x[i*dim:(i+1)*dim]...)
		for j, c := range t.columns {
			n := len(p.columns[j]) / p.rows
			b.columns[c.name] = append(b.columns[c.name], p.columns[j][i*n:(i+1)*n]...)
		}
	}
}
