// Package eval measures how faithful one classifier is to another where people act on it: does the
// recourse that the full-precision model f promises still hold under the quantized model g, what does
// it cost there, and does g promise what f would not keep.
//
// In: two recourse.Models, an action set, people. Out: a Result with every metric of [Metrics], each
// with its counts. An evaluation has three steps, and [Compare] is all of them:
//
//   - [Solve] finds one model's points: where the recourse of each refused person ends.
//   - [Solution.Judge] asks the other model about these points and makes one [Record] for each person.
//   - [Summarize] computes the metrics, from the records alone.
//
// The solution of f serves any number of quantized models, and records from several machines may be
// joined before they are summarized. The invariant: everyone who is evaluated is counted. A person
// without recourse, or with none to compare, is in a denominator or in a count of its own, and is never
// dropped. Results depend on the inputs and the seed only.
//
// [Groups] are subgroups, [Stressed] evaluates under other conditions, and [ComparePaired]
// compares several quantized models. Verdicts are made by package gate.
//
// Definitions: sections "Metrics" and "Sensitivity to action constraints" of the paper; [Metrics] says
// where this package is more precise.
package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// HeadlineMargin is the required margin, in logits, that stands for the curve.
const HeadlineMargin = 0.1

// Options of Solve and Compare. The zero value evaluates everyone f refuses.
type Options struct {
	Margins    []float64             // required logit margins, >= 0; default 0, 0.1, 0.25, 0.5
	Sample     int                   // evaluate a random sample of this many refused people; 0 = all
	Seed       uint64                // of the sample, and of the solver unless Solver.Seed is set
	Confidence float64               // of the intervals; default 0.95
	Solver     recourse.SolveOptions // Margin and Progress are set by Solve
	// Promises are issued already, one action for each of the people: those that are Found replace what
	// the solver would find for f, also for people whom f approves as they are. nil solves.
	Promises []recourse.Action
	// Unmatched is the number of further promises that belong to none of the people: they are counted, and not judged.
	Unmatched int
	// OneSided leaves out what takes time and is not about f's promises: the recourse of g and the first valid iterates.
	OneSided bool
	// Noise is the number of people, drawn by Seed, whose recourse under f is solved a second time with other
	// random numbers: CRG of a model against itself. 0 = none. It has no meaning with Promises.
	Noise int
	// Prove and Perturb, if set, measure the neighbourhoods, of the Radius in model-input units, of f's recourse points.
	Prove    Prover
	Perturb  Perturber
	Radius   float64
	Workers  int // of the solver unless Solver.Workers is set
	Progress func(Event)
	// Made, if set, is given the records of each batch of Measure; it must not keep them. Its error ends the run.
	Made func(b *Batch, s *Settings, records []Record) error

	below *uint64 // the largest priority of those in the Sample; nil when it is not known yet
}

// Event is progress within one stage of the work: Done of Total, 0 when that is not known; people in Compare.
type Event struct {
	Stage       string // "decisions", "recourse of the original, margin 0.1", ...
	Done, Total int
}

// Compare measures g against f on people. Both models must take inputs of
// people's dimension, and their margins must be of the same favourable class.
// The people evaluated are those f refuses (margin <= 0), or a sample of them;
// overrides in set are theirs by position among people.
//
// With Options.Promises, the promises of f at t are those issued whose margin
// under f is t or more, and the following holds for g alone.
//
// At each required margin t, in ascending order, both models' minimal-cost
// recourse is solved, once: a person whose point for a smaller t reaches the
// larger one already keeps it (it is minimal there too), and without a
// point for a smaller t there is none for a larger.
//
// It fails when a model fails, when the dimensions differ, or when a margin is
// not finite. Having few people or none to evaluate is not an error but a warning.
func Compare(
	ctx context.Context, f, g recourse.Model, set *constraint.Set, people *task.People, o Options,
) (*Result, error) {
	s, err := Solve(ctx, f, set, people, o)
	if err != nil {
		return nil, err
	}
	return s.Compare(ctx, g, o)
}

// Compare is the part of [Compare] that is about g; of o it takes what Judge takes.
func (s *Solution) Compare(ctx context.Context, g recourse.Model, o Options) (*Result, error) {
	list, err := s.Judge(ctx, g, o)
	if err != nil {
		return nil, err
	}
	people := s.people
	records := NewRecords(s.o.Margins, people.Subgroups)
	records.CompareBy(people.OtherColumns)
	for i := range list {
		if err := records.Add(&list[i]); err != nil {
			return nil, err
		}
	}
	r, err := Summarize(records, s.Settings(o), DataFile{
		Rows: max(people.Total, people.N), Unreadable: people.Failed, LeftOut: people.Filtered + people.Excluded,
		Filtered: people.Filtered, Unmatched: s.o.Unmatched,
	})
	if err != nil {
		return nil, err
	}
	r.addNoise(s.noise)
	return r, nil
}

// Settings are those of records that Judge makes with o.
func (s *Solution) Settings(o Options) Settings {
	settings := s.o.settings()
	settings.Radius = o.Radius
	return settings
}

func (o Options) withDefaults() (Options, error) {
	if o.Margins == nil {
		o.Margins = []float64{0, 0.1, 0.25, 0.5}
	}
	o.Margins = slices.Clone(o.Margins)
	slices.Sort(o.Margins)
	o.Margins = slices.Compact(o.Margins)
	o.Confidence = cmp.Or(o.Confidence, 0.95)
	o.Solver.Seed, o.Solver.Workers = cmp.Or(o.Solver.Seed, o.Seed), cmp.Or(o.Solver.Workers, o.Workers)
	if o.Promises != nil {
		o.Noise = 0
	}
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	var errs []error
	if len(o.Margins) == 0 {
		errs = append(errs, errors.New("no required margin to evaluate at"))
	}
	for _, t := range o.Margins {
		if !(t >= 0) || math.IsInf(t, 1) {
			errs = append(errs, fmt.Errorf("required margin %v: it must be a number >= 0", t))
		}
	}
	if o.Sample < 0 || o.Noise < 0 {
		errs = append(errs, fmt.Errorf("samples of %d and %d people", o.Sample, o.Noise))
	}
	if !(o.Radius >= 0) || math.IsInf(o.Radius, 1) {
		errs = append(errs, fmt.Errorf("radius %v: it must be a number >= 0", o.Radius))
	}
	if !(o.Confidence > 0 && o.Confidence < 1) {
		errs = append(errs, fmt.Errorf("confidence %v: it must lie between 0 and 1", o.Confidence))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("eval: %w", err)
	}
	return o, nil
}

func (o Options) settings() Settings {
	return Settings{
		Margins: o.Margins, Sample: o.Sample, Seed: o.Seed, Confidence: o.Confidence,
		Epsilon: Epsilon, SupportTau: SupportTau, Issued: o.Promises != nil, OneSided: o.OneSided, Radius: o.Radius,
		Solver: Solver{
			Steps: o.Solver.Steps, Restarts: o.Solver.Restarts, Rounds: o.Solver.Rounds, Beam: o.Solver.Beam,
			Seed: o.Solver.Seed,
		},
	}
}
