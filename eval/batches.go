package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"cfq/onnxio/classifier"
	"cfq/recourse"
)

// Batches is what both models said of judged points alone and in other company: a row's output must not depend on the
// rows that happen to be in its batch.
type Batches struct {
	Points  int   `json:"points"` // a sample of all that were judged
	Sizes   []int `json:"sizes"`  // rows of the batches in which they were run again
	Differ  int   `json:"differ"` // points whose margin is another by more than rounding
	Decided int   `json:"decided_differently"`
	// Difference is the largest one of a margin, in logits; 0 when there is no more than rounding.
	Difference Float `json:"difference"`
	// Nodes are those from which outputs differ, as far as the graph shows it.
	Nodes []string `json:"nodes,omitempty"`
}

// String says what was found, in one sentence.
func (b *Batches) String() string {
	if b.Differ == 0 {
		return fmt.Sprintf("%d points have the same margin in other batches", b.Points)
	}
	where := "no single node of the graph shows it"
	if len(b.Nodes) > 0 {
		where = "from " + strings.Join(b.Nodes, ", ") + " on"
	}
	return fmt.Sprintf("%d of %d points have another margin in another batch, %d of them another decision: %s", b.Differ,
		b.Points, b.Decided, where)
}

const (
	batchPoints = 256 // are run again, half of them recourse points
	batchNodes  = 5   // are named
)

type diverging interface {
	Diverging(ctx context.Context, pairs [][2]classifier.Place) ([]classifier.Divergence, error)
}

// Rerun asks both models again about a sample of the points that made r: alone, in shuffled batches of 8, and in
// shuffled batches of 64 in which one row has in each input the most unusual value of all people. Differences that
// quantizers make of rounding do not count.
func Rerun(ctx context.Context, f, g recourse.Model, r *Result) (*Batches, error) {
	if r.Records == nil || r.Records.judged == nil {
		return nil, errors.New("eval: other batches need the records that Summarize summed up")
	}
	s := r.Records.judged
	s.draw()
	out := &Batches{Points: len(s.judged), Sizes: []int{1, 8, 64}}
	differ, decided := make([]bool, len(s.judged)), make([]bool, len(s.judged))
	for i, m := range []recourse.Model{f, g} {
		name := []string{"the original", "the quantized model"}[i]
		e, err := s.rerun(ctx, m, i, out.Sizes)
		if err != nil {
			return nil, fmt.Errorf("eval: other batches under %s: %w", name, err)
		}
		for k, x := range e.apart {
			differ[k] = differ[k] || x > 0
			decided[k] = decided[k] || x > 0 && e.decided[k]
			out.Difference = max(out.Difference, Float(x))
		}
		for _, n := range e.nodes {
			if len(out.Nodes) < batchNodes {
				out.Nodes = append(out.Nodes, n+" of "+name)
			}
		}
	}
	for k := range differ {
		out.Differ += count(differ[k])
		out.Decided += count(decided[k])
	}
	return out, nil
}

type judgedSample struct {
	seed        uint64
	facts, ends bottomK[judgedPoint] // people as they are, recourse points

	dim     int
	x       []float32
	judged  [][2]Float
	unusual []float32
	// farthest is the person with the largest numbers, whose square sum is far.
	farthest []float32
	far      float64
	rng      *rand.Rand
}

type judgedPoint struct {
	x    []float32
	f, g Float
}

func newJudgedSample(of *Settings) *judgedSample {
	return &judgedSample{
		seed: of.Seed, facts: bottomK[judgedPoint]{most: batchPoints, once: true},
		ends: bottomK[judgedPoint]{most: batchPoints, once: true},
	}
}

func (s *judgedSample) visitor() Visitor {
	add := func(to *bottomK[judgedPoint], x []float32, f, g Float) {
		if p := priority(s.seed, x); to.wants(p) {
			to.add(p, judgedPoint{slices.Clone(x), f, g})
		}
	}
	return VisitRecords(func(some []*Record) error {
		for _, c := range some {
			s.dim = len(c.X)
			add(&s.facts, c.X, c.Full, c.Quant)
			for k := range c.Steps {
				before := &Step{}
				if k > 0 {
					before = &c.Steps[k-1]
				}
				if p := &c.Steps[k].Full; p.Exists() && !p.same(&before.Full) {
					add(&s.ends, p.Point, p.Own, p.Other)
				}
				if p := &c.Steps[k].Quant; p.Exists() && !p.same(&before.Quant) {
					add(&s.ends, p.Point, p.Other, p.Own)
				}
			}
			s.look(c.X)
		}
		return nil
	})
}

func (s *judgedSample) draw() {
	s.x, s.judged, s.rng = nil, nil, rand.New(rand.NewPCG(s.seed, 0xba7c4))
	take := func(from []judgedPoint, n int) {
		for _, p := range from[:min(n, len(from))] {
			s.x, s.judged = append(s.x, p.x...), append(s.judged, [2]Float{p.f, p.g})
		}
	}
	as := s.facts.kept()
	take(s.ends.kept(), max(batchPoints/2, batchPoints-len(as)))
	take(as, batchPoints-len(s.judged))
}

func (s *judgedSample) look(x []float32) {
	far := 0.0
	for _, v := range x {
		far += float64(v) * float64(v)
	}
	if s.farthest == nil || far > s.far || far == s.far && slices.Compare(x, s.farthest) > 0 { // whatever the order
		s.farthest, s.far = slices.Clone(x), far
	}
	if s.unusual == nil {
		s.unusual = make([]float32, len(x))
	}
	for i, v := range x {
		u := &s.unusual[i]
		if a, b := math.Abs(float64(v)), math.Abs(float64(*u)); a > b || a == b && v > *u {
			*u = v
		}
	}
}

// batchEffect is by how much each point's margin differs in other batches, 0 for rounding, whether the decision does,
// and where that begins.
type batchEffect struct {
	apart   []float64
	decided []bool
	nodes   []string
}

func (s *judgedSample) rerun(ctx context.Context, m recourse.Model, which int, sizes []int) (*batchEffect, error) {
	n := len(s.judged)
	e := &batchEffect{apart: make([]float64, n), decided: make([]bool, n)}
	places, got := make([][]classifier.Place, n), make([][]Float, n)
	for _, size := range sizes {
		order := s.rng.Perm(n)
		for chunk := range slices.Chunk(order, max(1, size-size/64)) {
			var x []float32
			for at, k := range chunk {
				x = append(x, s.x[k*s.dim:(k+1)*s.dim]...)
				places[k] = append(places[k], classifier.Place{At: at})
			}
			if size/64 > 0 {
				x = append(x, s.unusual...)
			}
			margins, err := m.Margins(ctx, x)
			if err != nil && size/64 > 0 && ctx.Err() == nil {
				// All values of a category at once may be none that a model looks up: a person as they are is one.
				copy(x[len(x)-s.dim:], s.farthest)
				margins, err = m.Margins(ctx, x)
			}
			if err != nil {
				return nil, err
			}
			for at, k := range chunk {
				places[k][len(places[k])-1].Batch = x
				got[k] = append(got[k], Float(margins[at]))
			}
		}
	}
	for k, all := range got {
		judged := s.judged[k][which]
		for _, v := range all {
			if !v.Defined() {
				return nil, fmt.Errorf("the margin of a point is %v, and was %v", v, judged)
			}
			x := math.Abs(float64(v - judged))
			if x > shortfall*max(1, math.Abs(float64(judged))) {
				e.apart[k] = max(e.apart[k], x)
				e.decided[k] = e.decided[k] || approves(v) != approves(judged)
			}
		}
	}
	return e, s.trace(ctx, m, e, places, got)
}

// trace finds the nodes from which the outputs of points begin to differ. A point whose outputs do so by rounding
// alone, as when a quantizer takes the next code, does not differ.
func (s *judgedSample) trace(
	ctx context.Context, m recourse.Model, e *batchEffect, places [][]classifier.Place, got [][]Float,
) error {
	var apart []int
	for k, x := range e.apart {
		if x > 0 {
			apart = append(apart, k)
		}
	}
	d, ok := m.(diverging)
	if len(apart) == 0 || !ok {
		return nil
	}
	slices.SortStableFunc(apart, func(a, b int) int { return cmp.Compare(e.apart[b], e.apart[a]) })
	pairs := make([][2]classifier.Place, len(apart))
	for i, k := range apart {
		low, high := 0, 0
		for i, v := range got[k] {
			if v < got[k][low] {
				low = i
			}
			if v > got[k][high] {
				high = i
			}
		}
		pairs[i] = [2]classifier.Place{places[k][low], places[k][high]}
		if low == high { // only the batch in which it was judged differs: a large one
			pairs[i] = [2]classifier.Place{places[k][0], {Batch: s.x, At: k}}
		}
	}
	found, err := d.Diverging(ctx, pairs)
	if err != nil {
		return err
	}
	for i, x := range found {
		if !x.Same && len(x.Nodes) == 0 {
			e.apart[apart[i]] = 0
		}
		for _, n := range x.Nodes {
			if !slices.Contains(e.nodes, n) {
				e.nodes = append(e.nodes, n)
			}
		}
	}
	return nil
}
