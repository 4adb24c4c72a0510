package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/recourse"
	"cfq/task"
)

// Scenario is the evaluation under other conditions than those of the data and the task.
type Scenario struct {
	Name   string  `json:"name"`   // Stress.Spec; of a preset, that of each of its parts
	About  string  `json:"about"`  // what was done, in one sentence
	Result *Result `json:"result"` // every metric; nothing about files and time, no groups or scenarios of its own
}

// trial is what scenarios are made of.
type trial struct {
	f, g   recourse.Model
	set    *recourse.ActionSet
	people *task.People
	o      Options
	base   *Result
}

// Check returns the error that Stressed would return because people or options have not what s needs: for those who want it before the work is done.
func (s *Stress) Check(people *task.People, o Options) error {
	var err error
	switch s.kind {
	case mixStress:
		_, _, err = mixed(people, s)
	case outcomeStress:
		_, _, err = withOutcome(people)
	case noiseStress, limitStress, shiftStresses, tightnessStresses:
		if o.Promises != nil {
			err = errors.New("recourse is computed anew under these conditions, and the promises are given: leave out one of the two")
		}
	}
	if err != nil {
		return fmt.Errorf("eval: %s: %w", s.Spec, err)
	}
	return nil
}

// Stressed evaluates under each of the conditions in list; base is what Compare returned for the same models, set, people and options. Presets
// become several scenarios; what occurs twice is evaluated once. Options.Original is of no use here. Results depend on the inputs and the seed only.
func Stressed(ctx context.Context, f, g recourse.Model, set *recourse.ActionSet, people *task.People, o Options, base *Result, list []Stress) ([]Scenario, error) {
	t := &trial{f: f, g: g, set: set, people: people, o: o, base: base}
	if len(base.Records) != people.N {
		return nil, fmt.Errorf("eval: the result has records of %d people, and there are %d", len(base.Records), people.N)
	}
	t.o.Original = nil
	var errs []error
	for i := range list {
		errs = append(errs, list[i].Check(people, o))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var out []Scenario
	for _, s := range list {
		parts, notes := t.parts(s)
		for i, p := range parts {
			if slices.ContainsFunc(out, func(o Scenario) bool { return o.Name == p.Spec }) {
				continue
			}
			one, err := t.run(ctx, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Spec, err)
			}
			if i == 0 {
				one.Result.Warnings = append(one.Result.Warnings, notes...)
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// run evaluates under one condition.
func (t *trial) run(ctx context.Context, s Stress) (Scenario, error) {
	one := Scenario{Name: s.Spec}
	var err error
	switch s.kind {
	case noiseStress:
		one.About = fmt.Sprintf("the numbers that people can change have noise of %g standard deviations", s.size)
		noisy := *t.people
		noisy.X = t.set.Jitter(t.people.X, s.size, t.o.Seed^0x6e015e)
		one.Result, err = t.compare(ctx, s, t.set, &noisy)
	case limitStress:
		var set *recourse.ActionSet
		if set, err = t.set.Tighten(s.features, s.scale); err != nil {
			return one, err
		}
		one.About = "an action changes at most " + features(set.Budget())
		if s.scale != 1 {
			one.About += fmt.Sprintf(", each at most %g times as far as the task lets it go", s.scale)
		}
		if set == t.set {
			one.About = "the task's own constraints: an action changes at most " + features(set.Budget())
			one.Result = t.plain()
			return one, nil
		}
		one.Result, err = t.compare(ctx, s, set, t.people)
	case mixStress:
		in, out, e := mixed(t.people, &s)
		if e != nil {
			return one, e
		}
		one.Result, one.About = t.draw(in, out, s.share, fmt.Sprintf("%s=%s", s.feature, s.value))
	case outcomeStress:
		in, out, e := withOutcome(t.people)
		if e != nil {
			return one, e
		}
		one.Result, one.About = t.draw(in, out, s.share, "the unfavourable outcome")
		if n := t.people.N - len(in) - len(out); n > 0 {
			one.About += fmt.Sprintf(" (%d have no known outcome and are left out)", n)
		}
	default:
		return one, errors.New("no condition: it was not read by ParseStress")
	}
	return one, err
}

// compare is Compare with the people or the set changed.
func (t *trial) compare(ctx context.Context, s Stress, set *recourse.ActionSet, people *task.People) (*Result, error) {
	o := t.o
	if o.Progress != nil {
		o.Progress = func(e Event) {
			e.Stage = s.Spec + ": " + e.Stage
			t.o.Progress(e)
		}
	}
	return Compare(ctx, t.f, t.g, set, people, o)
}

// plain is the base without what a scenario has not.
func (t *trial) plain() *Result {
	r := *t.base
	r.Footprint, r.Timing, r.Groups, r.Scenarios = nil, nil, nil, nil
	r.Warnings = slices.Clone(r.Warnings)
	return &r
}

func features(n int) string {
	if n == 1 {
		return "1 feature"
	}
	return fmt.Sprintf("%d features", n)
}
