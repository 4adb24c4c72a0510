package ptq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// part is the people of one part, and what the original promises those whom it refuses.
type part struct {
	name    string
	rows    []int     // positions among all people
	x       []float32 // of everybody
	labels  []int8    // of everybody; nil when not known
	refused int
	asked   []float32       // the refused, or a sample of them
	set     *constraint.Set // of those asked
	points  []float32       // where the original's promises to them lead
}

func (s *search) tell(stage string, done, total int) { s.o.tell(stage, done, total) }

// divider says whether rows are held out: by a hash of their values and of how many equal ones
// came before. The order of the file makes no difference then, and each person is drawn
// for themselves: bounds of shares take people to be independent, which they are not where
// all equal ones are drawn together.
type divider struct {
	share float64
	seed  uint64
	seen  map[[sha256.Size]byte]uint64
}

func newDivider(share float64, seed uint64) *divider {
	return &divider{share, seed, map[[sha256.Size]byte]uint64{}}
}

// heldOut says whether the next row, x, is held out.
func (d *divider) heldOut(x []float32) bool {
	buf := make([]byte, 0, 4*len(x)+8)
	for _, v := range x {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v+0)) // no -0
	}
	key := sha256.Sum256(buf)
	buf = binary.LittleEndian.AppendUint64(append(buf[:0], key[:]...), d.seed)
	buf = binary.LittleEndian.AppendUint64(buf, d.seen[key])
	d.seen[key]++
	sum := sha256.Sum256(buf)
	return float64(binary.LittleEndian.Uint64(sum[:])>>11)*0x1p-53 < d.share
}

// open divides the people, opens the original and has its promises made. It fails before
// anything is quantized if they are too few.
func (s *search) open(ctx context.Context, m *graph.Model, people *task.People) error {
	r, o := s.r, s.o
	if o.Promises != nil && len(o.Promises) != people.N {
		return inputError(fmt.Errorf("%d promises for %d people", len(o.Promises), people.N))
	}
	set, err := constraint.Compile(s.task)
	if err != nil {
		return inputError(err)
	}
	q := &job{o: o, set: set}
	if err := q.personal(people); err != nil {
		return inputError(err)
	}
	s.own, s.held = &part{name: "calibration part"}, &part{name: "held-out part"}
	draw := newDivider(r.Target.HoldOut, r.Target.Seed)
	for i := range people.N {
		p := s.own
		if draw.heldOut(people.X[i*people.Dim : (i+1)*people.Dim]) {
			p = s.held
		}
		p.rows = append(p.rows, i)
	}
	r.Calibrated, r.HeldOut = len(s.own.rows), len(s.held.rows)
	if s.full, err = OpenFor(ctx, m, s.task, o.Engine, o.Workers); err != nil {
		return inputError(err)
	}
	if err := s.promise(ctx, people, q.set); err != nil {
		return errors.Join(err, s.full.Close())
	}
	return nil
}

// promise asks the original for its promises to the refused of both parts, to those held out first.
func (s *search) promise(ctx context.Context, people *task.People, set *constraint.Set) error {
	r, need := s.r, s.r.Target.need()
	for _, p := range []*part{s.held, s.own} {
		who := people.Subset(p.rows)
		p.x, p.labels = who.X, who.Labels
		var margins []float32
		var err error
		if who.N > 0 {
			if margins, err = s.full.Margins(ctx, who.X); err != nil {
				return err
			}
		}
		var refused []int // positions in the part
		for i, m := range margins {
			if !(m > 0) {
				refused = append(refused, i)
			}
		}
		p.refused = len(refused)
		if p == s.held && len(refused) < need {
			return &TooFew{fmt.Sprintf("people held out whom the model refuses, of %d people in all", people.N), len(refused), need}
		}
		if n := r.Target.Sample; len(refused) > n {
			rng := rand.New(rand.NewPCG(r.Target.Seed, 0x7a26))
			rng.Shuffle(len(refused), func(i, j int) { refused[i], refused[j] = refused[j], refused[i] })
			refused = refused[:n]
			slices.Sort(refused)
		}
		all := make([]int, len(refused)) // positions among all people
		for k, i := range refused {
			all[k] = p.rows[i]
		}
		p.asked, p.set = who.Subset(refused).X, set.Select(all)
		if p.points, err = s.pointsOf(ctx, p, all); err != nil {
			return err
		}
		if p == s.held {
			r.Refused, r.Asked, r.Promises = p.refused, len(refused), len(p.points)/people.Dim
			if r.Promises < need {
				return &TooFew{fmt.Sprintf("promises to people held out, %d of whom were asked about", len(refused)), r.Promises, need}
			}
		}
	}
	if len(s.own.rows) == 0 {
		return inputError(fmt.Errorf("all %d people are held out", people.N))
	}
	return nil
}

// pointsOf returns where the original's promises to those asked, who are the people all, lead.
func (s *search) pointsOf(ctx context.Context, p *part, all []int) ([]float32, error) {
	var points []float32
	if s.o.Promises != nil {
		for _, i := range all {
			if a := &s.o.Promises[i]; a.Status == recourse.Found {
				points = append(points, a.Point...)
			}
		}
		if len(points) == 0 {
			return nil, nil
		}
		margins, err := s.full.Margins(ctx, points)
		if err != nil {
			return nil, err
		}
		dim, kept := s.full.Dim(), points[:0:0]
		for k, m := range margins { // a promise at the margin is one that has it
			if m > 0 && m >= float32(s.r.Target.Margin) {
				kept = append(kept, points[k*dim:(k+1)*dim]...)
			}
		}
		return kept, nil
	}
	actions, err := s.solve(ctx, s.full, p.set, p.asked, "recourse of the original, "+p.name)
	for i := range actions {
		if actions[i].Status == recourse.Found {
			points = append(points, actions[i].Point...)
		}
	}
	return points, err
}

func (s *search) solve(ctx context.Context, m *classifier.Model, set *constraint.Set, x []float32, stage string) ([]recourse.Action, error) {
	if len(x) == 0 {
		return nil, nil
	}
	o := s.r.Target.Solver
	o.Margin, o.Workers = s.r.Target.Margin, s.o.Workers
	if o.Seed == 0 {
		o.Seed = s.r.Target.Seed
	}
	o.Progress = func(done, total int) { s.tell(stage, done, total) }
	return recourse.Solve(ctx, m, set, x, o)
}

// measure asks the people of a part about a candidate. VD and RVD are those of
// eval.Compare at the target's margin.
func (s *search) measure(ctx context.Context, c *Candidate, p *part) (_ *Measured, err error) {
	file, err := codec.Read(c.result.Model, "")
	if err != nil {
		return nil, err
	}
	g, err := OpenFor(ctx, file, s.task, s.o.Engine, s.o.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	out := &Measured{}
	if out.VD, err = s.broken(ctx, g, p.points); err != nil {
		return nil, err
	}
	if out.Accuracy, err = accuracy(ctx, g, p, s.r.Target.Confidence); err != nil {
		return nil, err
	}
	// Those whom the candidate refuses, too, are promised something by it.
	dim := g.Dim()
	var both []int
	if len(p.asked) > 0 {
		margins, err := g.Margins(ctx, p.asked)
		if err != nil {
			return nil, err
		}
		for i, m := range margins {
			if !(m > 0) {
				both = append(both, i)
			}
		}
	}
	var x, points []float32
	for _, i := range both {
		x = append(x, p.asked[i*dim:(i+1)*dim]...)
	}
	actions, err := s.solve(ctx, g, p.set.Select(both), x, fmt.Sprintf("recourse at %g bits, %s", c.Budget, p.name))
	if err != nil {
		return nil, err
	}
	for i := range actions {
		if actions[i].Status == recourse.Found {
			points = append(points, actions[i].Point...)
		}
	}
	out.RVD, err = s.broken(ctx, s.full, points)
	return out, err
}

// broken is the share of points that the model refuses.
func (s *search) broken(ctx context.Context, m *classifier.Model, points []float32) (Share, error) {
	out := Share{Den: len(points) / m.Dim(), Upper: 1}
	if out.Den == 0 {
		return out, nil
	}
	margins, err := m.Margins(ctx, points)
	for _, v := range margins {
		if !(v > 0) {
			out.Num++
		}
	}
	out.Upper = eval.Float(eval.ClopperPearsonUpper(out.Num, out.Den, s.r.Level))
	return out, err
}

func accuracy(ctx context.Context, g *classifier.Model, p *part, confidence float64) (eval.Rate, error) {
	margins, err := g.Margins(ctx, p.x)
	if err != nil {
		return eval.Rate{}, err
	}
	right, known := agreement(p.labels, margins)
	return eval.NewRate(right, known, confidence), nil
}

// score is the larger of the bounds that the target is about.
func (s *search) score(m *Measured) float64 {
	if s.r.Target.OneSided {
		return float64(m.VD.Upper)
	}
	return max(float64(m.VD.Upper), float64(m.RVD.Upper))
}

func (s *search) within(m *Measured) bool { return s.score(m) <= s.r.Target.VD }

// compareScores orders by a number and, where those are equal, by a second one.
func compareScores(a, b, a2, b2 float64) int {
	if c := cmp.Compare(a, b); c != 0 {
		return c
	}
	return cmp.Compare(a2, b2)
}
