package ptq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/task"
)

// Target is what Smallest looks for: the smallest model of which people who were held
// out show that at most a share VD of its promises break. See docs/target-vd.md.
type Target struct {
	VD     float64 `json:"vd"`     // the largest Validity Drop, above 0
	Margin float64 `json:"margin"` // the required logit margin of promises (0.1)
	// OneSided leaves RVD out, the promises of the quantized model that the original
	// would not keep. Without it the same limit holds for both.
	OneSided   bool    `json:"one_sided,omitempty"`
	HoldOut    float64 `json:"holdout"`    // the share of the people who are held out (0.3)
	Confidence float64 `json:"confidence"` // of the claim (0.95)
	// Sample bounds the refused people who are asked, in each of the two parts, drawn by Seed; 0 = 4000.
	Sample int                   `json:"sample"`
	Seed   uint64                `json:"seed"` // of the parts, the sample and the solver
	Solver recourse.SolveOptions `json:"-"`    // Margin, Seed, Workers and Progress are set by Smallest
}

// The search. Held-out people are asked about at most targetTries models, and which those
// are does not depend on them: so each bound is one of targetTries.
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

// TooFew is the error that the people held out cannot show what is asked for, even if
// not a single promise breaks.
type TooFew struct {
	What       string // who are too few
	Have, Need int
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("%s: %d are too few to show this; with %d, none may break", e.What, e.Have, e.Need)
}

func (t Target) withDefaults() (Target, error) {
	def := func(v *float64, to float64) {
		if *v == 0 {
			*v = to
		}
	}
	def(&t.Margin, 0.1)
	def(&t.HoldOut, 0.3)
	def(&t.Confidence, 0.95)
	if t.Sample == 0 {
		t.Sample = 4000
	}
	inside := func(v float64) bool { return v > 0 && v < 1 }
	switch {
	case !inside(t.VD):
		return t, fmt.Errorf("a Validity Drop of %v: the target is a share between 0 and 1", t.VD)
	case !inside(t.HoldOut):
		return t, fmt.Errorf("a share of %v held out: it lies between 0 and 1", t.HoldOut)
	case !(t.Confidence >= 0.5 && t.Confidence < 1):
		return t, fmt.Errorf("a confidence of %v: it lies between 0.5 and 1", t.Confidence)
	case !(t.Margin > 0) || math.IsInf(t.Margin, 1):
		return t, fmt.Errorf("a margin of %v: at the boundary half of all promises break whatever is done; 0.1 is usual", t.Margin)
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

// Smallest looks for the smallest quantized model that keeps the target, calibrated on one part of the
// people and judged by the rest. With probability Target.Confidence or more it does
// not return a model as one that holds whose true VD (or RVD) is above the target.
// Options.Budget is of no use. A *TooFew says that there are not enough people to say.
func Smallest(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options, target Target) (_ *TargetResult, err error) {
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
	o.Recipe["target"] = fmt.Sprintf("VD %v at margin %v, %v of the people held out by seed %d", target.VD, target.Margin, target.HoldOut, target.Seed)
	if o.Promises != nil {
		o.Promises = subset(o.Promises, s.own.rows)
	}
	s.cal, err = Calibrate(ctx, m, t, people.Subset(s.own.rows), o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.cal.Close()) }()
	tries, err := s.shortlist(ctx)
	if err != nil {
		return nil, err
	}
	for _, budget := range tries {
		c, err := s.candidate(ctx, budget)
		if err != nil {
			return nil, err
		}
		if c.Problem != "" || c.HeldOut != nil {
			continue
		}
		if c.HeldOut, err = s.measure(ctx, c, s.held); err != nil {
			return nil, err
		}
		if c.Holds = s.within(c.HeldOut); c.Holds {
			break
		}
	}
	r, err := s.answer()
	if err == nil { // those who were held out have chosen the model, too
		r.Result.Calibrated = spread(0, people.N, people.N)
	}
	return r, err
}
