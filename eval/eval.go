// Package eval measures how faithful one classifier is to another where
// people act on it: does a recourse that the full-precision model f promises
// still hold under the quantized model g, what does it cost there, and does
// g promise what f would not keep.
//
// In: two recourse.Models, an action set, people. Out: a Result, one Record
// per person and every metric of Metrics computed from them, each with its
// counts. The invariant: whoever is evaluated is counted; a person for whom
// there is no recourse, or none to compare, is in a denominator or in a count
// beside it, never dropped. Results depend on the inputs and the seed only.
//
// Beside Compare: ByGroups tells people apart, Stressed evaluates under other conditions, ComparePaired holds several
// quantized models against each other. Verdicts are package gate's.
//
// Definitions: sections "Metrics" and "Sensitivity to action constraints" of
// the paper; Metrics says where this package is more precise than they are.
package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse"
	"cfq/task"
)

// headlineMargin is the required margin, in logits, that stands for the curve.
const headlineMargin = 0.1

// Options of Compare. The zero value evaluates everyone f refuses.
type Options struct {
	Margins    []float64             // required logit margins, >= 0; default 0, 0.1, 0.25, 0.5
	Sample     int                   // evaluate a random sample of this many refused people; 0 = all
	Seed       uint64                // of the sample, and of the solver unless Solver.Seed is set
	Confidence float64               // of the intervals; default 0.95
	Solver     recourse.SolveOptions // Margin and Progress are set by Compare
	// Promises are recourse that people have been given already, one action for each of the people: those that are Found are the
	// promises of f that are held against g, in place of what the solver finds for f. nil solves.
	Promises []recourse.Action
	// OneSided leaves out what is not about f's promises, and takes the time: the recourse of g and the first valid iterates.
	OneSided bool
	// Noise is for how many people, drawn by Seed, f's recourse is solved once more with other random numbers: what CRG is of a
	// model against itself. 0 = none. It has no meaning with Promises.
	Noise int
	// Prove and Perturb, if any, are asked about the neighbourhoods, of the Radius in model-input units, of f's recourse points.
	Prove   Prover
	Perturb Perturber
	Radius  float64
	// Original is what Prepare solved for the same f, set, people and options; nil solves it. It changes no result.
	Original *Original
	Workers  int // of the solver unless Solver.Workers is set
	Progress func(Event)
}

// Event is progress within one stage of the work: Done of Total, 0 when that is not known;
// people in Compare.
type Event struct {
	Stage       string // "decisions", "recourse of the original, margin 0.1", ...
	Done, Total int
}

// Compare measures g against f on people. Both models must take inputs of
// people's dimension, and their margins must be of the same favourable class.
// The people evaluated are those f refuses (margin <= 0), or a sample of them;
// overrides in set are theirs by position among people.
//
// With Options.Promises, the promises of f at t are those given whose margin
// under f is t or more, and the following holds for g alone.
//
// At each required margin t, in ascending order, both models' minimal-cost
// recourse is solved, once: a person whose point for a smaller t reaches the
// larger one already keeps it (it is minimal there too), and one for whom
// there is none at a smaller t has none at a larger.
//
// It fails when a model fails, when the dimensions differ, or when a margin is
// not finite. Having few people or nobody to evaluate is not an error but a warning.
func Compare(ctx context.Context, f, g recourse.Model, set *recourse.ActionSet, people *task.People, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if f.Dim() != g.Dim() || f.Dim()*people.N != len(people.X) {
		return nil, fmt.Errorf("eval: the original takes %d inputs, the quantized model %d, and the data hold %d values for %d people",
			f.Dim(), g.Dim(), len(people.X), people.N)
	}
	if o.Promises != nil && len(o.Promises) != people.N {
		return nil, fmt.Errorf("eval: %d promises for %d people", len(o.Promises), people.N)
	}
	records, err := decide(ctx, f, g, people, o)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	rows := pick(records, o.Sample, o.Seed)
	given, notes, err := evaluate(ctx, f, g, set, people, records, rows, o)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	r := Summarize(records, o.settings())
	if r.Issued = given; given != nil && given.Invalid > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the original itself does not keep %d of the %d promises given to people who are evaluated: they count at no margin", given.Invalid, given.Promises))
	}
	r.Population.Rows = max(people.Total, people.N)
	r.Population.Unreadable = people.Failed
	r.Population.LeftOut = people.Filtered + people.Excluded
	r.Warnings = append(r.Warnings, fileWarnings(r.Population)...)
	r.Warnings = append(r.Warnings, notes...)
	return r, nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Margins == nil {
		o.Margins = []float64{0, 0.1, 0.25, 0.5}
	}
	o.Margins = slices.Clone(o.Margins)
	slices.Sort(o.Margins)
	o.Margins = slices.Compact(o.Margins)
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	if o.Solver.Seed == 0 {
		o.Solver.Seed = o.Seed
	}
	if o.Solver.Workers == 0 {
		o.Solver.Workers = o.Workers
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
		Margins: o.Margins, Sample: o.Sample, Seed: o.Seed, Confidence: o.Confidence, Epsilon: Epsilon, SupportTau: SupportTau, Issued: o.Promises != nil,
		OneSided: o.OneSided, Radius: o.Radius,
		Solver: Solver{Steps: o.Solver.Steps, Restarts: o.Solver.Restarts, Rounds: o.Solver.Rounds, Beam: o.Solver.Beam, Seed: o.Solver.Seed},
	}
}

// decide runs both models on everyone as they are.
func decide(ctx context.Context, f, g recourse.Model, people *task.People, o Options) ([]Record, error) {
	o.Progress(Event{Stage: "decisions", Total: people.N})
	mf, mg, err := margins(ctx, f, g, people.X, people.N)
	if err != nil {
		return nil, fmt.Errorf("decisions: %w", err)
	}
	records := make([]Record, people.N)
	for i := range records {
		r := &records[i]
		*r = Record{Row: i, Label: -1, Full: Float(mf[i]), Quant: Float(mg[i])}
		if people.Labels != nil {
			r.Label = people.Labels[i]
		}
		if people.Lines != nil {
			r.Line = people.Lines[i]
		}
		if !r.Full.Defined() || !r.Quant.Defined() {
			return nil, fmt.Errorf("line %d: the margins are %v (original) and %v (quantized)", r.Line, r.Full, r.Quant)
		}
	}
	o.Progress(Event{Stage: "decisions", Done: people.N, Total: people.N})
	return records, nil
}

// margins runs two models on the same n rows.
func margins(ctx context.Context, a, b recourse.Model, x []float32, n int) (ma, mb []float32, err error) {
	if n == 0 {
		return nil, nil, nil
	}
	if ma, err = a.Margins(ctx, x); err != nil {
		return nil, nil, err
	}
	if mb, err = b.Margins(ctx, x); err != nil {
		return nil, nil, err
	}
	if len(ma) != n || len(mb) != n {
		return nil, nil, fmt.Errorf("%d rows gave %d and %d margins", n, len(ma), len(mb))
	}
	return ma, mb, nil
}

// pick chooses whom to evaluate, marks them and returns their rows, ascending.
func pick(records []Record, sample int, seed uint64) []int {
	var rows []int
	for i := range records {
		if !approves(records[i].Full) {
			rows = append(rows, i)
		}
	}
	if sample > 0 && sample < len(rows) {
		rng := rand.New(rand.NewPCG(seed, 0x5ea1))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		rows = rows[:sample]
		slices.Sort(rows)
	}
	for _, i := range rows {
		records[i].Evaluated = true
	}
	return rows
}
