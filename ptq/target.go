package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"cfq/allocate"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/internal/statistics"
	"cfq/onnxio"
	"cfq/recourse"
	"cfq/task"
)

// Target is what Smallest searches for: the smallest model whose VD and RVD are at most VD, verified on people
// who were held out. See docs/method.md.
type Target struct {
	VD         float64 `json:"vd"`         // the largest Validity Drop, above 0; the same limit holds for RVD
	Margin     float64 `json:"margin"`     // the required logit margin of promises
	HoldOut    float64 `json:"holdout"`    // the share of the people who are held out
	Confidence float64 `json:"confidence"` // of the claim
	// Sample is the largest number of refused people to ask in each of the two parts, drawn by Seed.
	Sample int    `json:"sample"`
	Seed   uint64 `json:"seed"` // of the parts, the sample and the solver
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
	Reached    bool         `json:"reached"`
	Level      float64      `json:"level"` // confidence of each upper bound
	Calibrated int          `json:"calibrated"`
	HeldOut    int          `json:"held_out"`
	Refused    int          `json:"refused"`  // of those held out
	Asked      int          `json:"asked"`    // of the refused: all, or the sample
	Promises   int          `json:"promises"` // of the original to those asked
	Candidates []*Candidate `json:"candidates"`
	Chosen     int          `json:"chosen"` // index of Result among them
	Result     *Result      `json:"result"`
}

// TooFew is the error that too few people are held out to verify the target, even if not a single promise breaks.
type TooFew struct {
	What       string // what there is too little of
	Have, Need int
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("%s: %d are too few to show this; with %d, none may break", e.What, e.Have, e.Need)
}

// level is the confidence of each of the bounds: together they hold at Confidence.
func (t Target) level() float64 { return 1 - (1-t.Confidence)/targetTries }

func (t Target) need() int {
	return int(math.Ceil(math.Log(1-t.level())/math.Log1p(-t.VD) - 1e-9))
}

func (t Target) share(num, den int) Share {
	if den == 0 {
		return Share{Upper: 1}
	}
	return Share{Num: num, Den: den, Upper: eval.Float(statistics.ClopperPearsonUpper(num, den, t.level()))}
}

func (m *Measured) bound() float64 { return float64(max(m.VD.Upper, m.RVD.Upper)) }

// Smallest searches for the smallest quantized model that keeps the target, calibrated on one part of the people and
// judged by the rest. With probability Target.Confidence or more it does not return a model as one that holds whose
// true VD (or RVD) is above the target. The recipe's Target says what is searched for, and its budget is replaced. A
// *TooFew says that there are not enough people to verify the target.
func Smallest(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run,
) (_ *TargetResult, err error) {
	switch err := r.Check(); {
	case err != nil:
		return nil, err
	case r.Target == nil:
		return nil, inputError(errors.New("the recipe has no target"))
	case run.Checkpoint != "":
		return nil, inputError(errors.New("checkpoint: a search for a target trains several times"))
	case run.Promises != nil && len(run.Promises) != people.N:
		return nil, inputError(fmt.Errorf("%d promises for %d people", len(run.Promises), people.N))
	}
	target := *r.Target
	from, err := openOriginal(ctx, m, t, people, &run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.full.Close()) }()
	own, held := divide(people, target.HoldOut, target.Seed)
	theirs := func(i int) bool {
		_, ok := slices.BinarySearch(from.rows, i)
		return ok
	}
	held = lists.Filter(held, theirs)
	s := &search{original: from, run: run, r: &TargetResult{
		Target: target, Level: target.level(), Calibrated: len(own), HeldOut: len(held), Chosen: -1,
	}}
	// Before anything is quantized, those held out must be enough.
	if s.held, err = s.promises(ctx, people, held); err != nil {
		return nil, err
	}
	found, need := s.r, target.need()
	found.Refused, found.Asked, found.Promises = s.held.Count(0)
	switch {
	case found.Refused < need:
		return nil, &TooFew{
			fmt.Sprintf("refused people among those held out, of %d people in all", people.N), found.Refused, need,
		}
	case found.Promises < need:
		what := fmt.Sprintf("promises to the %d people held out who were asked", found.Asked)
		return nil, &TooFew{what, found.Promises, need}
	case len(own) == 0:
		return nil, inputError(fmt.Errorf("all %d people are held out", people.N))
	}
	if s.own, err = s.promises(ctx, people, lists.Filter(own, theirs)); err != nil {
		return nil, err
	}
	if run.Promises != nil {
		run.Promises = subset(run.Promises, own)
	}
	if s.cal, err = calibrate(ctx, m, t, people.Subset(own), r, run); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cal.Close()) }()
	if err := s.judge(ctx); err != nil {
		return nil, err
	}
	if err := s.choose(); err != nil {
		return nil, err
	}
	found.Result.Calibrated = task.AllRows(people.N) // the people held out have chosen the model, too
	return found, s.cal.judge(ctx, found.Result)
}

// divide returns the positions of the people to work on and of those who are held out. Who is held out follows
// from a hash of their values, or of their ID: rows of one person, and equal rows, are on one side, and the order of
// the file makes no difference. Bounds take people to be independent, see measure.
func divide(people *task.People, share float64, seed uint64) (own, held []int) {
	held = lists.Where(people.N, func(i int) bool { return people.Uniform(seed, i) < share })
	own = lists.Where(people.N, func(i int) bool { return !(people.Uniform(seed, i) < share) })
	return own, held
}

type search struct {
	*original

	run       Run
	r         *TargetResult
	own, held *eval.Batch // what the original promises the people of the two parts
	cal       *calibration
}

func (s *search) promises(ctx context.Context, people *task.People, at []int) (*eval.Batch, error) {
	target := s.r.Target
	b := &eval.Batch{People: people.Subset(at), Set: s.set.Select(at)}
	if s.run.Promises != nil {
		b.Promises = subset(s.run.Promises, at)
	}
	return eval.Solve(ctx, s.full, b, eval.Options{
		Margins: []float64{target.Margin}, Sample: target.Sample, Seed: target.Seed, Confidence: target.Confidence,
		Solver: recourse.SolveOptions{Workers: s.run.Workers}, Progress: s.run.Progress,
	})
}

func (s *search) measure(ctx context.Context, c *Candidate, part *eval.Batch) (_ *Measured, err error) {
	o := eval.Options{Solver: recourse.SolveOptions{Workers: s.run.Workers}, Progress: func(ev eval.Event) {
		s.run.tell(fmt.Sprintf("%s, %g bits", ev.Stage, c.Budget), ev.Done, ev.Total)
	}}
	r, err := s.compare(ctx, c.result.Model, part, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	others, err := r.Alternatives(nil)
	if err != nil {
		return nil, err
	}
	t := s.r.Target
	share := func(id string) Share {
		x := r.Margins[0].Rate(id)
		most := t.share(x.Num, x.Den)
		for _, o := range others { // equal rows may be copies: the larger bound decides
			x := o.Result.Margins[0].Rate(id)
			most.Upper = max(most.Upper, t.share(x.Num, x.Den).Upper)
		}
		return most
	}
	return &Measured{share("vd"), share("rvd"), r.Rate("accuracy_quant")}, nil
}

func (s *search) candidate(ctx context.Context, budget float64) (*Candidate, error) {
	for _, c := range s.r.Candidates {
		if c.Budget == budget {
			return c, nil
		}
	}
	c := &Candidate{Budget: budget}
	r, err := s.cal.quantize(ctx, budget)
	switch {
	case errors.Is(err, allocate.ErrBudget):
		c.Problem = err.Error()
	case err != nil:
		return nil, err
	default:
		c.result, c.Bytes = r, r.Bytes
		if err := r.Verified.Err(); err != nil {
			c.Problem = err.Error()
		}
		for _, before := range s.r.Candidates {
			if before.Problem == "" && reflect.DeepEqual(before.result.Plan, r.Plan) {
				c.Search, c.HeldOut = before.Search, before.HeldOut // these did not hold
			}
		}
	}
	s.r.Candidates = append(s.r.Candidates, c)
	return c, nil
}

// promising says whether held-out people would show the target if as many promises to
// them broke as to those that the model is calibrated on.
func (s *search) promising(ctx context.Context, budget float64) (bool, error) {
	s.run.tell("search by bits per weight", len(s.r.Candidates), 0)
	c, err := s.candidate(ctx, budget)
	if err != nil || c.Problem != "" {
		return false, err
	}
	if c.Search == nil {
		if c.Search, err = s.measure(ctx, c, s.own); err != nil {
			return false, err
		}
	}
	expect := func(v Share) bool {
		n := s.r.Promises
		k := int(math.Ceil(float64(v.Num) / float64(max(v.Den, 1)) * float64(n)))
		return v.Den > 0 && float64(s.r.Target.share(min(k, n), n).Upper) <= s.r.Target.VD
	}
	return expect(c.Search.VD) && expect(c.Search.RVD), nil
}

// shortlist says about which budgets, in which order, held-out people are to be asked.
// Nothing that they say goes into it.
func (s *search) shortlist(ctx context.Context) ([]float64, error) {
	first := func(from, to, step float64) (float64, error) {
		for b := from; b <= to; b += step {
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
		seen := lists.Filter(s.r.Candidates, func(c *Candidate) bool { return c.Search != nil })
		slices.SortStableFunc(seen, func(a, b *Candidate) int {
			return cmp.Or(cmp.Compare(a.Search.bound(), b.Search.bound()), cmp.Compare(b.Budget, a.Budget))
		})
		return lists.Map(seen[:min(len(seen), 2)], func(c *Candidate) float64 { return c.Budget }), nil
	}
	fine, err := first(max(minBudget, coarse-1+targetStep), coarse-targetStep, targetStep)
	if err != nil {
		return nil, err
	}
	more := [targetTries]float64{0, targetStep, 3 * targetStep, 7 * targetStep}
	budgets := lists.Map(more[:], func(by float64) float64 { return min(cmp.Or(fine, coarse)+by, maxBudget) })
	return slices.Compact(budgets), nil
}

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
		if c.Holds = c.HeldOut.bound() <= s.r.Target.VD; c.Holds {
			return nil
		}
	}
	return nil
}

// choose takes the candidate with the least bound: one that holds where there is one, as judge ends with it.
func (s *search) choose() error {
	r := s.r
	slices.SortStableFunc(r.Candidates, func(a, b *Candidate) int { return cmp.Compare(a.Budget, b.Budget) })
	judged := lists.Filter(r.Candidates, func(c *Candidate) bool { return c.HeldOut != nil && c.Problem == "" })
	if len(judged) == 0 { // then each has a problem
		last := r.Candidates[len(r.Candidates)-1]
		return inputError(fmt.Errorf("no budget gives a model that can be used: %s", last.Problem))
	}
	best := slices.MinFunc(judged, func(a, b *Candidate) int { return cmp.Compare(a.HeldOut.bound(), b.HeldOut.bound()) })
	r.Chosen, r.Reached, r.Result = slices.Index(r.Candidates, best), best.Holds, best.result
	return nil
}
