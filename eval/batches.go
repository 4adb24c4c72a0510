package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/classifier"
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
	return fmt.Sprintf("%d of %d points have another margin in another batch, %d of them another decision: %s", b.Differ,
		b.Points, b.Decided, classifier.FromNodes(b.Nodes))
}

const (
	batchPoints = 256 // are run again, half of them recourse points
	batchNodes  = 5   // are named
)

// batched is a model that is asked about rows in several batches, see [classifier.Model].
type batched interface {
	InBatch(ctx context.Context, x []float32) ([]classifier.Placed, error)
	Diverging(ctx context.Context, pairs [][2]classifier.Placed) ([]classifier.Divergence, error)
}

// Rerun asks both models again about a sample of the points that made r: alone, in shuffled batches of 8, and in
// shuffled batches of 64 in which one row has in each input the most unusual value of all people. Differences that
// quantizers make of rounding do not count.
func Rerun(ctx context.Context, f, g batched, r *Result) (*Batches, error) {
	if r.Records == nil || r.Records.judged == nil {
		return nil, errors.New("eval: other batches need the records that Summarize summed up")
	}
	s := r.Records.judged
	points, rng := s.draw(), rand.New(rand.NewPCG(s.seed, 0xba7c4))
	out := &Batches{Points: len(points), Sizes: []int{1, 8, 64}}
	x := lists.Join(points, func(p judgedPoint) []float32 { return p.x })
	full, _ := f.(*classifier.Model)
	if quant, ok := g.(*classifier.Model); ok && full != nil && len(x) > 0 {
		if err := quant.SameAnswers(ctx, full, x); err != nil {
			return nil, fmt.Errorf("eval: labels: %w", err)
		}
	}
	differ, decided := make([]bool, len(points)), make([]bool, len(points))
	for i, m := range []batched{f, g} {
		name := []string{"the original", "the quantized model"}[i]
		rerun := &rerunPoints{judgedSample: s, model: m, which: i, points: points}
		nodes, err := rerun.run(ctx, out.Sizes, rng)
		if err != nil {
			return nil, fmt.Errorf("eval: other batches under %s: %w", name, err)
		}
		for k, x := range rerun.apart {
			differ[k] = differ[k] || x > 0
			decided[k] = decided[k] || x > 0 && rerun.decided[k]
			out.Difference = max(out.Difference, Float(x))
		}
		for _, n := range nodes[:min(len(nodes), batchNodes-len(out.Nodes))] {
			out.Nodes = append(out.Nodes, n+" of "+name)
		}
	}
	for k := range differ {
		out.Differ += count(differ[k])
		out.Decided += count(decided[k])
	}
	return out, nil
}

// judgedSample is points with the margins of both models by which they were judged: of people as they are, and of
// recourse, of which there may be few among many people.
type judgedSample struct {
	seed        uint64
	facts, ends bottomK[judgedPoint]
	unusual     []float32 // in each input, the most unusual value of all people
	farthest    []float32 // the person with the largest numbers, whose square sum is far
	far         float64
}

type judgedPoint struct {
	x       []float32
	margins [2]Float // under f and g
}

func (s *judgedSample) visit(some []*Record, _ [][]*Record) error {
	add := func(to *bottomK[judgedPoint], x []float32, f, g Float) {
		to.add(priority(s.seed, x), judgedPoint{x, [2]Float{f, g}})
	}
	for _, c := range some {
		add(&s.facts, c.X, c.Full, c.Quant)
		before := &Step{}
		for k := range c.Steps {
			step := &c.Steps[k]
			if p := &step.Full; p.Exists() && !p.same(&before.Full) {
				add(&s.ends, p.Point, p.Own, p.Other)
			}
			if p := &step.Quant; p.Exists() && !p.same(&before.Quant) {
				add(&s.ends, p.Point, p.Other, p.Own)
			}
			before = step
		}
		s.look(c.X)
	}
	return nil
}

func (s *judgedSample) draw() []judgedPoint {
	facts, ends := s.facts.kept(), s.ends.kept()
	points := slices.Clone(ends[:min(len(ends), max(batchPoints/2, batchPoints-len(facts)))])
	return append(points, facts[:min(len(facts), batchPoints-len(points))]...)
}

func (s *judgedSample) look(x []float32) {
	far := 0.0
	for _, v := range x {
		far += float64(v) * float64(v)
	}
	if s.farthest == nil || far > s.far || far == s.far && slices.Compare(x, s.farthest) > 0 { // whatever the order
		s.farthest, s.far = x, far
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

// rerunPoints are points in other batches under one model: by how much each one's margin differs, 0 for rounding,
// whether the decision does, and what was said of it in which place.
type rerunPoints struct {
	*judgedSample
	model   batched
	which   int // of the margins judged by
	points  []judgedPoint
	apart   []float64
	decided []bool
	seen    [][]classifier.Placed
}

func (e *rerunPoints) run(ctx context.Context, sizes []int, rng *rand.Rand) ([]string, error) {
	n := len(e.points)
	e.apart, e.decided, e.seen = make([]float64, n), make([]bool, n), make([][]classifier.Placed, n)
	for _, size := range sizes {
		unusual := size == 64
		for chunk := range slices.Chunk(rng.Perm(n), size-count(unusual)) {
			if err := e.batch(ctx, chunk, unusual); err != nil {
				return nil, err
			}
		}
	}
	for k, all := range e.seen {
		judged := e.points[k].margins[e.which]
		for _, p := range all {
			v := Float(p.Margin)
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
	return e.trace(ctx)
}

// batch runs the points at these positions, with an unusual row at the end.
func (e *rerunPoints) batch(ctx context.Context, chunk []int, unusual bool) error {
	x := lists.Join(chunk, func(k int) []float32 { return e.points[k].x })
	if unusual {
		x = append(x, e.unusual...)
	}
	rows, err := e.model.InBatch(ctx, x)
	if err != nil && unusual && ctx.Err() == nil {
		// All values of a category at once may be none that a model looks up: a person as they are is one.
		copy(x[len(x)-len(e.farthest):], e.farthest)
		rows, err = e.model.InBatch(ctx, x)
	}
	if err != nil {
		return err
	}
	for at, k := range chunk {
		e.seen[k] = append(e.seen[k], rows[at])
	}
	return nil
}

// trace finds the nodes from which the outputs of points begin to differ. A point whose outputs do so by rounding
// alone, as when a quantizer takes the next code, does not differ.
func (e *rerunPoints) trace(ctx context.Context) (nodes []string, err error) {
	apart := lists.Where(len(e.apart), func(k int) bool { return e.apart[k] > 0 })
	if len(apart) == 0 {
		return nil, nil
	}
	judged := lists.Join(e.points, func(p judgedPoint) []float32 { return p.x })
	slices.SortStableFunc(apart, func(a, b int) int { return cmp.Compare(e.apart[b], e.apart[a]) })
	pairs := make([][2]classifier.Placed, len(apart))
	byMargin := func(a, b classifier.Placed) int { return cmp.Compare(a.Margin, b.Margin) }
	for i, k := range apart {
		pairs[i] = [2]classifier.Placed{slices.MinFunc(e.seen[k], byMargin), slices.MaxFunc(e.seen[k], byMargin)}
		if pairs[i][0].Margin == pairs[i][1].Margin { // only the batch in which it was judged differs: a large one
			pairs[i][1] = classifier.Placed{Batch: judged, At: k}
		}
	}
	found, err := e.model.Diverging(ctx, pairs)
	if err != nil {
		return nil, err
	}
	for i, x := range found {
		if !x.Same && len(x.Nodes) == 0 {
			e.apart[apart[i]] = 0
		}
		for _, n := range x.Nodes {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes, nil
}
