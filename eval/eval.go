// Package eval measures how faithful one classifier is to another where people act on it: does the
// recourse that the full-precision model f promises still hold under the quantized model g, what does
// it cost there, and does g promise what f would not keep.
//
// In: two recourse.Models, an action set, people. Out: a Result with every metric of package metrics, each with its
// counts. An evaluation has two steps, and [Compare] is both for people who fit in memory:
//
//   - [Measure] takes people from a [Source], finds the points where the recourse of each refused person ends, asks the
//     other model about them, and makes one [Record] for each person.
//   - [Summarize] computes the metrics, from the records alone.
//
// A batch of people can come with what is known of them: the promises that were issued, the points of f (see [Solve]),
// or records of an earlier run. Records from several machines may be joined before they are summarized. The invariant:
// everyone who is evaluated is counted. A person without recourse, or with none to compare, is in a denominator or in
// a count of its own, and is never dropped. Results depend on the inputs and the seed only.
//
// [Groups] are subgroups, [Result.Stress] evaluates under other conditions, and [ComparePaired]
// compares several quantized models. Verdicts are made by package gate.
//
// Definitions: sections "Metrics" and "Sensitivity to action constraints" of the paper; package metrics
// says where this package is more precise.
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
)

// HeadlineMargin is the required margin, in logits, that stands for the curve.
const HeadlineMargin = 0.1

// Options of Measure and Compare. The zero value evaluates everyone f refuses.
type Options struct {
	Margins    []float64             // required logit margins, >= 0; default 0, 0.1, 0.25, 0.5
	Sample     int                   // evaluate a random sample of this many refused people; 0 = all
	Seed       uint64                // of the sample, and of the solver unless Solver.Seed is set
	Confidence float64               // of the intervals; default 0.95
	Solver     recourse.SolveOptions // Margin and Progress are set by Solve
	// OneSided leaves out what takes time and is not about f's promises: the recourse of g and the first valid iterates.
	OneSided bool
	// Noise is the number of people, drawn by Seed, whose recourse under f is solved a second time with other
	// random numbers: CRG of a model against itself. 0 = none. It has no meaning with promises.
	Noise   int
	Perturb Perturber // measures the logit perturbation around f's recourse points; nil leaves it out
	Radius  float64   // of Perturb, in model-input units
	// Factor, 1 or more, asks for proofs about all changes that cost up to so many times the cheapest one; 0 for none.
	Factor   float64
	Progress func(Event)
	// OnRecords, if set, is given the records of each batch; it must not keep them. Its error ends the run.
	OnRecords func(b *Batch, s *Settings, records []Record) error
}

// Event is progress within one stage of the work: Done of Total, 0 when that is not known; people in Compare.
type Event struct {
	Stage       string // "decisions", "recourse of the original, margin 0.1", ...
	Done, Total int
}

// Compare measures g against f on the people of one batch: it is [Measure] and [Summarize].
// Both models must take inputs of people's dimension, and their margins must be of the same favourable class.
// The people evaluated are those f refuses (margin <= 0), or a sample of them.
//
// With promises, those of f at t are those issued whose margin under f is t or more, and the following holds for g
// alone.
//
// At each required margin t, in ascending order, both models' minimal-cost recourse is solved, once: a person whose
// point for a smaller t reaches the larger one already keeps it (it is minimal there too), and without a point for a
// smaller t there is none for a larger.
//
// It fails when a model fails, when the dimensions differ, or when a margin is
// not finite. Having few people or none to evaluate is not an error but a warning.
func Compare(ctx context.Context, f, g recourse.Model, b *Batch, o Options) (*Result, error) {
	if s := b.solution; s != nil {
		of := s.o
		of.Solver.Workers, of.Progress = o.Solver.Workers, o.Progress
		of.Perturb, of.Radius, of.Noise, of.Factor = o.Perturb, o.Radius, o.Noise, o.Factor
		o = of
	}
	records, settings, err := Measure(ctx, f, []recourse.Model{g}, b.Source(), o)
	if err != nil {
		return nil, err
	}
	people := b.People
	r, err := Summarize(records[0], settings, DataFile{
		Rows: max(people.Total, people.N), Unreadable: people.Failed, LeftOut: people.Filtered + people.Excluded,
		Filtered: people.Filtered,
	}, nil)
	if err != nil {
		return nil, err
	}
	return r, r.Repeat(ctx, f, func(of []*Record) *constraint.Set {
		at := make([]int, len(of))
		for i, x := range of {
			at[i] = x.Person
		}
		return b.Set.Select(at)
	}, o)
}

func (o Options) withDefaults() (Options, error) {
	if o.Margins == nil {
		o.Margins = []float64{0, 0.1, 0.25, 0.5}
	}
	o.Margins = slices.Clone(o.Margins)
	slices.Sort(o.Margins)
	o.Margins = slices.Compact(o.Margins)
	o.Confidence = cmp.Or(o.Confidence, 0.95)
	o.Solver.Seed = cmp.Or(o.Solver.Seed, o.Seed)
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
	if o.Factor != 0 && !(o.Factor >= 1) || math.IsInf(o.Factor, 1) {
		errs = append(errs, fmt.Errorf("factor %v: it must be a number >= 1", o.Factor))
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
		Epsilon: epsilon, SupportTau: supportTau, OneSided: o.OneSided, Radius: o.Radius, Factor: o.Factor,
		Solver: Solver{Restarts: o.Solver.Restarts, Rounds: o.Solver.Rounds, Beam: o.Solver.Beam, Seed: o.Solver.Seed},
	}
}
