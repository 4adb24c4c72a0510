package qat

import (
	"context"
	"math/rand/v2"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// share is how often rows of a kind are drawn, as far as there are any; where each round has other points, it is so at
// first (weighShares). Objectives of the paper look at teacher points of the very people that are drawn.
func (o *ObjectiveDoc) share(k Kind) float64 {
	switch {
	case o.Resamples:
		return [Kinds]float64{Factual: 0.05, Teacher: 0.75, Student: 0.2}[k]
	case o.needsPairs():
		return [Kinds]float64{Factual: 1, Teacher: 1}[k]
	case o.Recourse:
		return [Kinds]float64{Factual: 0.5, Teacher: 0.5, Student: 0.5}[k]
	}
	return [Kinds]float64{Factual: 1}[k]
}

type trainer struct {
	*trainStep
	columns []lossColumn   // of the objective
	pools   [Kinds]Points  // of the round
	shares  [Kinds]float64 // how often rows of each pool are drawn; their sum is positive
	next    trainBatch
	pairs   teacherPairs
	lambda  float64 // weight of the bit cost of a search
}

// teacherPairs is what objectives know that look at people and their recourse points.
type teacherPairs struct {
	points [][]int // rows of the pool of teacher points, by person
	people []int   // of the batch
	taught []int   // their rows in the pool of teacher points, -1 for none
}

func newTrainer(s *trainStep) *trainer {
	columns := lists.Join(s.job.objective.terms(), func(t lossTerm) []lossColumn { return t.columns })
	return &trainer{trainStep: s, columns: columns, next: trainBatch{columns: map[string][]float32{}}}
}

// replace fills the pools with new points and drops the old ones: a training that goes on from a checkpoint has not
// seen the rounds before.
func (t *trainer) replace(points []Points) {
	t.pools = [Kinds]Points{}
	for _, p := range points {
		if len(p.X) > 0 && t.job.objective.share(p.Kind) > 0 { // points that nobody found may have no kind
			t.pools[p.Kind] = p
		}
	}
	t.weighShares()
	if !t.job.objective.needsPairs() {
		return
	}
	t.pairs.points = make([][]int, t.rows(Factual))
	for k, person := range t.pools[Teacher].Source {
		t.pairs.points[person] = append(t.pairs.points[person], k)
	}
	if p := &t.pools[Teacher]; t.job.objective.Groups {
		p.Groups = lists.RowsAt(t.pools[Factual].Groups, t.job.source.Groups, p.Source)
	}
}

// weighShares sets how often rows of each kind are drawn. Where each round has other points, the share of people is how
// much a person counts on average: few of most networks' people are near the boundary, but a network that was trained
// for recourse margins may have most of them there, and rounding then changes decisions before it breaks a promise.
func (t *trainer) weighShares() {
	o := t.job.objective
	for k := range t.shares {
		t.shares[k] = o.share(Kind(k))
	}
	if people := t.rows(Factual); o.Resamples && people > 0 {
		f := 0.0
		for i := range people {
			f += float64(personWeight(&t.pools[Factual], i, t.job))
		}
		f /= float64(people)
		for k := range t.shares {
			t.shares[k] *= (1 - f) / (1 - o.share(Factual))
		}
		t.shares[Factual] = f
	}
}

func (t *trainer) rows(k Kind) int { return len(t.pools[k].X) / t.Dim() }

// draw fills the next batch. It depends on the seed, on the number of the step and, where the network's own recourse is
// found, on the parameters alone.
func (t *trainer) draw(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(t.job.Seed, 1<<32+uint64(t.Steps)))
	t.next.x, t.drawn = t.next.x[:0], t.gumbel()
	for j := range t.columns {
		t.columns[j].values = t.columns[j].values[:0]
	}
	if !t.job.objective.needsPairs() {
		t.drawRows(rng)
	} else {
		t.drawPairs(rng)
	}
	for _, c := range t.columns {
		t.next.columns[c.name] = c.values
	}
	if t.job.objective.unrolled() {
		return t.match(ctx)
	}
	return nil
}

func (t *trainer) drawRows(rng *rand.Rand) {
	var total float64
	last := Factual
	for k := range Kinds {
		if t.rows(k) > 0 {
			total += t.shares[k]
			last = k
		}
	}
	for range t.job.Batch {
		at, k := rng.Float64()*total, Factual
		for ; k < last; k++ {
			if t.rows(k) == 0 {
				continue
			}
			if at -= t.shares[k]; at < 0 {
				break
			}
		}
		t.put(k, rng.IntN(t.rows(k)))
	}
}

func (t *trainer) put(k Kind, i int) {
	p, dim := &t.pools[k], t.Dim()
	t.next.x = append(t.next.x, p.X[i*dim:(i+1)*dim]...)
	for j := range t.columns {
		c := &t.columns[j]
		width := c.width(t.job)
		c.values = append(c.values, make([]float32, width)...)
		c.fill(c.values[len(c.values)-width:], p, i, t.job)
	}
}

// drawPairs fills the next batch with people and then, in the same order, a teacher point of each who has one. The
// first people are there again, and count nothing, to fill up the rows of the step.
//
// Reference: algorithm cfq.
func (t *trainer) drawPairs(rng *rand.Rand) {
	t.pairs.people, t.pairs.taught = t.pairs.people[:0], t.pairs.taught[:0]
	for range t.job.Batch {
		i := rng.IntN(t.rows(Factual))
		t.pairs.people = append(t.pairs.people, i)
		t.put(Factual, i)
		at, which := -1, rng.Float64()
		if n := len(t.pairs.points[i]); n > 0 {
			at = t.pairs.points[i][int(which*float64(n))]
		}
		t.pairs.taught = append(t.pairs.taught, at)
	}
	rows := t.job.Batch
	for _, i := range t.pairs.taught {
		if i >= 0 {
			rows++
			t.put(Teacher, i)
		}
	}
	rest := t.job.rows - rows
	t.next.x = append(t.next.x, t.next.x[:rest*t.Dim()]...)
	for j := range t.columns {
		c := &t.columns[j]
		c.values = append(c.values, make([]float32, rest*c.width(t.job))...)
	}
}

// Kind says where points come from.
type Kind int

// The kinds of points.
const (
	Factual Kind = iota
	Teacher      // recourse of the full-precision model
	Student      // recourse of the network as trained so far
	Kinds        // how many kinds there are
)

// Points are rows to train on, and what the full-precision model says of them.
type Points struct {
	Kind    Kind
	X       []float32 // rows x inputs
	Margins []float32 // of the full-precision model
	// StudentMargins are those of the network as trained so far, at factual points of objectives that resample points.
	StudentMargins []float32
	// Source is the position, among the factual points, of the person of each teacher point; resampling needs none.
	Source []int
	// Groups says in which groups the people of factual points are, rows x Source.Groups of 0 and 1.
	Groups []float32
	// Classes has the label of each factual row, -1 where it is not known; nil where no label is.
	Classes []int
	// Probabilities of the full-precision model, rows x classes; only KD needs them.
	Probabilities []float32
	// Attributes of factual rows, rows x Code.Attributes; only the objective Attributes needs them.
	Attributes []float32
}

// Draw is what a round is trained on and what its people say.
type Draw struct {
	Points  []Points // all that the round is trained on, each kind once
	VD, RVD float64  // of the network as the round begins; NaN where nobody was asked
}

// Source owns the people of a training. The same calls must give the same points.
type Source struct {
	// Draw draws the points of a round, given the layers as trained so far: of each kind as many as the round has a use
	// for, where there may be any number.
	Draw   func(ctx context.Context, round int, use [Kinds]int, now []Trained) (Draw, error)
	Groups int // of people, as Points.Groups has them
	// Set is what people can change, by their positions among the factual points, for objectives that unroll the network's
	// own actions, which Teacher finds.
	Set     *constraint.Set
	Teacher recourse.TeacherOptions
}

// Dim returns the number of inputs of the network as trained so far, which is a model that a teacher can ask.
func (s *trainStep) Dim() int { return s.job.net.Model.Dim() }

// LossGrads returns the margin of each row and the gradient by the inputs of the cross-entropy with the target class.
func (s *trainStep) LossGrads(ctx context.Context, x []float32) (margins, g []float32, err error) {
	in := []*graph.Tensor{s.job.net.Model.Feed(x), ort.ViewFloats(paramsName, s.Params, int64(len(s.Params)))}
	for name, v := range s.drawn {
		if name != lambdaName {
			in = append(in, ort.ViewFloats(name, v, int64(len(v))))
		}
	}
	out, err := s.student.Run(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	if margins, err = ort.FloatsOf(out[0]); err == nil {
		g, err = ort.FloatsOf(out[1])
	}
	return margins, g, err
}

// Spread returns at most limit of the numbers below n, evenly spread.
func Spread(n, limit int) []int {
	limit = max(0, min(n, limit))
	return lists.Make(limit, func(k int) int { return k * n / limit })
}
