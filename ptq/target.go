package ptq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"cfq/allocate"
	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Target is what Smallest searches for: the smallest model whose VD and RVD are at most VD, verified on people
// who were held out. See docs/method.md.
type Target struct {
	VD     float64 `json:"vd"`     // the largest Validity Drop, above 0
	Margin float64 `json:"margin"` // the required logit margin of promises (0.1)
	// OneSided leaves out RVD: recourse of the quantized model that the original
	// refuses. Without it the same limit holds for both.
	OneSided   bool    `json:"one_sided,omitempty"`
	HoldOut    float64 `json:"holdout"`    // the share of the people who are held out (0.3)
	Confidence float64 `json:"confidence"` // of the claim (0.95)
	// Sample is the largest number of refused people to ask in each of the two parts, drawn by Seed; 0 = 4000.
	Sample int                   `json:"sample"`
	Seed   uint64                `json:"seed"` // of the parts, the sample and the solver
	Solver recourse.SolveOptions `json:"-"`    // Margin, Seed, Workers and Progress are set by Smallest
}

// Held-out people judge at most targetTries models, and which models does not depend on
// these people: so each bound is one of targetTries (Bonferroni).
const (
	targetTries = 4
	targetStep  = 0.25
)

// Share is a share of promises that break, with its exact upper bound at the confidence of TargetResult.Level.
type Share struct {
	Num   int        `json:"num"`
	Den   int        `json:"den"`
	Upper eval.Float `json:"upper"`
}

// Measured is what people of one part say about a candidate.
type Measured struct {
	VD       Share     `json:"vd"`
	RVD      Share     `json:"rvd"`
	Accuracy eval.Rate `json:"accuracy"` // of the quantized model, on all labelled people of the part
}

// Candidate is a model that was looked at.
type Candidate struct {
	Budget  float64   `json:"budget"`
	Bytes   int       `json:"bytes"`
	Search  *Measured `json:"search,omitempty"`   // by the calibration's own people: a guess
	HeldOut *Measured `json:"held_out,omitempty"` // nil unless they were asked
	Holds   bool      `json:"holds"`              // the bounds of HeldOut are within the target
	Problem string    `json:"problem,omitempty"`  // why it can be no answer
	result  *Result
}

// TargetResult is what Smallest found.
type TargetResult struct {
	Target Target `json:"target"`
	// Reached says that Result holds. Otherwise it is the best of those that were asked about.
	Reached    bool        `json:"reached"`
	Level      float64     `json:"level"` // confidence of each upper bound
	Calibrated int         `json:"calibrated"`
	HeldOut    int         `json:"held_out"`
	Refused    int         `json:"refused"`  // of those held out
	Asked      int         `json:"asked"`    // of the refused: all, or the sample
	Promises   int         `json:"promises"` // of the original to those asked
	Candidates []Candidate `json:"candidates"`
	Chosen     int         `json:"chosen"` // index of Result among them
	Result     *Result     `json:"result"`
}

// TooFew is the error that too few people are held out to verify the target, even if
// not a single promise breaks.
type TooFew struct {
	What       string // what there is too little of
	Have, Need int
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("%s: %d are too few to show this; with %d, none may break", e.What, e.Have, e.Need)
}

func (t Target) withDefaults() (Target, error) {
	t.Margin, t.HoldOut = cmp.Or(t.Margin, 0.1), cmp.Or(t.HoldOut, 0.3)
	t.Confidence, t.Sample = cmp.Or(t.Confidence, 0.95), cmp.Or(t.Sample, 4000)
	inside := func(v float64) bool { return v > 0 && v < 1 }
	switch {
	case !inside(t.VD):
		return t, fmt.Errorf("a Validity Drop of %v: the target is a share between 0 and 1", t.VD)
	case !inside(t.HoldOut):
		return t, fmt.Errorf("a share of %v held out: it lies between 0 and 1", t.HoldOut)
	case !(t.Confidence >= 0.5 && t.Confidence < 1):
		return t, fmt.Errorf("a confidence of %v: it lies between 0.5 and 1", t.Confidence)
	case !(t.Margin > 0) || math.IsInf(t.Margin, 1):
		return t, fmt.Errorf("a margin of %v: at the boundary half of all promises break whatever is done; 0.1 is usual",
			t.Margin)
	case t.Sample < 0:
		return t, fmt.Errorf("a sample of %d people", t.Sample)
	}
	return t, nil
}

// level is the confidence of each of the bounds: together they hold at Confidence.
func (t Target) level() float64 { return 1 - (1-t.Confidence)/targetTries }

// need is how many promises it takes to show the target if none breaks.
func (t Target) need() int {
	return int(math.Ceil(math.Log(1-t.level())/math.Log1p(-t.VD) - 1e-9))
}

// Smallest searches for the smallest quantized model that keeps the target, calibrated on one part of the
// people and judged by the rest. With probability Target.Confidence or more it does
// not return a model as one that holds whose true VD (or RVD) is above the target.
// Options.Budget is ignored. A *TooFew says that there are not enough people to verify the target.
func Smallest(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, o Options,
	target Target,
) (_ *TargetResult, err error) {
	if target, err = target.withDefaults(); err != nil {
		return nil, inputError(err)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	s := &search{task: t, o: o, r: &TargetResult{Target: target, Level: target.level()}}
	if err := s.open(ctx, m, people); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.full.Close()) }()
	o.Recipe = maps.Clone(o.Recipe)
	if o.Recipe == nil {
		o.Recipe = map[string]string{}
	}
	o.Recipe["target"] = fmt.Sprintf("VD %v at margin %v, %v of the people held out by seed %d", target.VD,
		target.Margin, target.HoldOut, target.Seed)
	if o.Promises != nil {
		o.Promises = subset(o.Promises, s.own.rows)
	}
	s.cal, err = Calibrate(ctx, m, t, people.Subset(s.own.rows), o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cal.Close()) }()
	if err := s.judge(ctx); err != nil {
		return nil, err
	}
	r, err := s.answer()
	if err == nil { // the people held out have chosen the model, too
		r.Result.Calibrated = spread(0, people.N, people.N)
	}
	return r, err
}

// judge lets held-out people judge the models of the shortlist until one holds.
func (s *search) judge(ctx context.Context) error {
	tries, err := s.shortlist(ctx)
	if err != nil {
		return err
	}
	for _, budget := range tries {
		c, err := s.candidate(ctx, budget)
		if err != nil {
			return err
		}
		if c.Problem != "" || c.HeldOut != nil {
			continue
		}
		if c.HeldOut, err = s.measure(ctx, c, s.held); err != nil {
			return err
		}
		if c.Holds = s.within(c.HeldOut); c.Holds {
			return nil
		}
	}
	return nil
}

// search is one run of Smallest.
type search struct {
	task       *task.Task
	o          Options
	r          *TargetResult
	full       *classifier.Model
	own, held  *part
	cal        *Calibration
	candidates []*Candidate
}

// part is the people of one part, and what the original promises the refused among them.
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

// newDivider returns what says whether the next row, x, is held out: by a hash of its values and of how many
// equal ones came before. The order of the file makes no difference then, and each person is drawn
// for themselves: bounds of shares take people to be independent, which they are not where
// all equal ones are drawn together.
func newDivider(share float64, seed uint64) func(x []float32) bool {
	seen := map[[sha256.Size]byte]uint64{}
	return func(x []float32) bool {
		buf := make([]byte, 0, 4*len(x)+8)
		for _, v := range x {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v+0)) // no -0
		}
		key := sha256.Sum256(buf)
		buf = binary.LittleEndian.AppendUint64(append(buf[:0], key[:]...), seed)
		buf = binary.LittleEndian.AppendUint64(buf, seen[key])
		seen[key]++
		sum := sha256.Sum256(buf)
		return float64(binary.LittleEndian.Uint64(sum[:])>>11)*0x1p-53 < share
	}
}

// open divides the people, opens the original and has its promises made. It fails before
// anything is quantized if they are too few.
func (s *search) open(ctx context.Context, m *onnxio.Model, people *task.People) error {
	r, o := s.r, s.o
	if o.Promises != nil && len(o.Promises) != people.N {
		return inputError(fmt.Errorf("%d promises for %d people", len(o.Promises), people.N))
	}
	set, err := constraint.Compile(s.task)
	if err != nil {
		return inputError(err)
	}
	if set, _, err = personal(set, o.Overrides, people); err != nil {
		return inputError(err)
	}
	s.own, s.held = &part{name: "calibration part"}, &part{name: "held-out part"}
	heldOut := newDivider(r.Target.HoldOut, r.Target.Seed)
	for i := range people.N {
		p := s.own
		if heldOut(people.X[i*people.Dim : (i+1)*people.Dim]) {
			p = s.held
		}
		p.rows = append(p.rows, i)
	}
	r.Calibrated, r.HeldOut = len(s.own.rows), len(s.held.rows)
	if s.full, err = OpenFor(m, s.task, o.Workers); err != nil {
		return inputError(err)
	}
	if err := s.promise(ctx, people, set); err != nil {
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
		refused := refusedRows(margins) // positions in the part
		p.refused = len(refused)
		if p == s.held && len(refused) < need {
			return &TooFew{fmt.Sprintf("refused people among those held out, of %d people in all", people.N), len(refused), need}
		}
		refused = drawn(refused, r.Target.Sample, r.Target.Seed, 0x7a26)
		all := subset(p.rows, refused) // positions among all people
		p.asked, p.set = who.Subset(refused).X, set.Select(all)
		if p.points, err = s.pointsOf(ctx, p, all); err != nil {
			return err
		}
		if p == s.held {
			r.Refused, r.Asked, r.Promises = p.refused, len(refused), len(p.points)/people.Dim
			if r.Promises < need {
				return &TooFew{fmt.Sprintf("promises to the %d people held out who were asked", len(refused)), r.Promises, need}
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
	if s.o.Promises != nil {
		points := foundPoints(subset(s.o.Promises, all))
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
	return s.solve(ctx, s.full, p.set, p.asked, "recourse of the original, "+p.name)
}

// solve returns where the recourse of a model for the rows of x leads, for those who have one.
func (s *search) solve(ctx context.Context, m *classifier.Model, set *constraint.Set, x []float32,
	stage string,
) ([]float32, error) {
	if len(x) == 0 {
		return nil, nil
	}
	o := s.r.Target.Solver
	o.Margin, o.Workers = s.r.Target.Margin, s.o.Workers
	if o.Seed == 0 {
		o.Seed = s.r.Target.Seed
	}
	o.Progress = func(done, total int) { s.tell(stage, done, total) }
	actions, err := recourse.Solve(ctx, m, set, x, o)
	return foundPoints(actions), err
}

// foundPoints returns where the actions lead that were found.
func foundPoints(actions []recourse.Action) []float32 {
	var points []float32
	for i := range actions {
		if actions[i].Status == recourse.Found {
			points = append(points, actions[i].Point...)
		}
	}
	return points
}

// measure asks the people of a part about a candidate. VD and RVD are those of
// eval.Compare at the target's margin.
func (s *search) measure(ctx context.Context, c *Candidate, p *part) (_ *Measured, err error) {
	g, err := openFile(ctx, c.result.Model, s.task, s.full.Engine(), s.o.Workers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	out := &Measured{}
	if out.VD, err = s.broken(ctx, g, p.points); err != nil {
		return nil, err
	}
	margins, err := g.Margins(ctx, p.x)
	if err != nil {
		return nil, err
	}
	right, known := agreement(p.labels, margins)
	out.Accuracy = eval.NewRate(right, known, s.r.Target.Confidence)
	// The candidate makes promises to the people that both models refuse.
	var both []int
	if len(p.asked) > 0 {
		if margins, err = g.Margins(ctx, p.asked); err != nil {
			return nil, err
		}
		both = refusedRows(margins)
	}
	x := rowsOf(p.asked, g.Dim(), both)
	points, err := s.solve(ctx, g, p.set.Select(both), x, fmt.Sprintf("recourse at %g bits, %s", c.Budget, p.name))
	if err != nil {
		return nil, err
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

// score is the larger of the bounds that the target is about.
func (s *search) score(m *Measured) float64 {
	if s.r.Target.OneSided {
		return float64(m.VD.Upper)
	}
	return max(float64(m.VD.Upper), float64(m.RVD.Upper))
}

func (s *search) within(m *Measured) bool { return s.score(m) <= s.r.Target.VD }

// candidate quantizes at a budget, once.
func (s *search) candidate(ctx context.Context, budget float64) (*Candidate, error) {
	for _, c := range s.candidates {
		if c.Budget == budget {
			return c, nil
		}
	}
	c := &Candidate{Budget: budget}
	s.candidates = append(s.candidates, c)
	r, err := s.cal.Quantize(ctx, budget)
	switch {
	case errors.Is(err, allocate.ErrBudget):
		c.Problem = err.Error()
		return c, nil
	case err != nil:
		return nil, err
	}
	c.result, c.Bytes = r, r.Bytes
	if err := r.Verified.Err(); err != nil {
		c.Problem = err.Error()
	}
	for _, before := range s.candidates {
		if before != c && before.Problem == "" && before.result != nil && reflect.DeepEqual(before.result.Plan, r.Plan) {
			c.Search, c.HeldOut, c.Holds = before.Search, before.HeldOut, before.Holds
		}
	}
	return c, nil
}

// promising says whether held-out people would show the target if as many promises to
// them broke as to those that c was calibrated on.
func (s *search) promising(ctx context.Context, budget float64) (bool, error) {
	c, err := s.candidate(ctx, budget)
	if err != nil || c.Problem != "" {
		return false, err
	}
	if c.Search == nil {
		if c.Search, err = s.measure(ctx, c, s.own); err != nil {
			return false, err
		}
	}
	n := s.r.Promises
	expect := func(v Share) bool {
		k := int(math.Ceil(float64(v.Num) / float64(max(v.Den, 1)) * float64(n)))
		return v.Den > 0 && eval.ClopperPearsonUpper(min(k, n), n, s.r.Level) <= s.r.Target.VD
	}
	return expect(c.Search.VD) && (s.r.Target.OneSided || expect(c.Search.RVD)), nil
}

// shortlist says about which budgets, in which order, held-out people are to be asked.
// Nothing that they say goes into it.
func (s *search) shortlist(ctx context.Context) ([]float64, error) {
	first := func(from, to, step float64) (float64, error) {
		for b := from; b <= to; b += step {
			s.tell("search by bits per weight", len(s.candidates), 0)
			if ok, err := s.promising(ctx, b); ok || err != nil {
				return b, err
			}
		}
		return 0, nil
	}
	coarse, err := first(minBudget, maxBudget, 1)
	if err != nil {
		return nil, err
	}
	if coarse == 0 { // only those that are nearest
		seen := slices.DeleteFunc(slices.Clone(s.candidates), func(c *Candidate) bool { return c.Search == nil })
		slices.SortStableFunc(seen, func(a, b *Candidate) int {
			return cmp.Or(cmp.Compare(s.score(a.Search), s.score(b.Search)), cmp.Compare(b.Budget, a.Budget))
		})
		var out []float64
		for _, c := range seen[:min(len(seen), 2)] {
			out = append(out, c.Budget)
		}
		return out, nil
	}
	fine, err := first(max(minBudget, coarse-1+targetStep), coarse-targetStep, targetStep)
	if err != nil {
		return nil, err
	}
	best := coarse
	if fine > 0 {
		best = fine
	}
	var out []float64
	for _, more := range [targetTries]float64{0, targetStep, 3 * targetStep, 7 * targetStep} {
		if b := min(best+more, maxBudget); !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out, nil
}

// answer puts the result together: the candidate that holds, or the nearest to it.
func (s *search) answer() (*TargetResult, error) {
	slices.SortStableFunc(s.candidates, func(a, b *Candidate) int { return cmp.Compare(a.Budget, b.Budget) })
	r := s.r
	r.Chosen = -1
	for i, c := range s.candidates {
		r.Candidates = append(r.Candidates, *c)
		if c.HeldOut == nil || c.Problem != "" {
			continue
		}
		best := r.Chosen < 0
		if !best {
			b := s.candidates[r.Chosen]
			best = c.Holds && (!b.Holds || c.Bytes < b.Bytes) ||
				!c.Holds && !b.Holds && s.score(c.HeldOut) < s.score(b.HeldOut)
		}
		if best {
			r.Chosen, r.Reached, r.Result = i, c.Holds, c.result
		}
	}
	if r.Chosen < 0 {
		problem := "there is no candidate"
		if len(s.candidates) > 0 {
			problem = s.candidates[len(s.candidates)-1].Problem
		}
		return nil, inputError(fmt.Errorf("no budget gives a model that can be used: %s", problem))
	}
	return r, nil
}
