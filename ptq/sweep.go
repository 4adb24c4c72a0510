package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/task"
)

// SweepOptions of Sweep. The zero value tries every method at SweepBudgets.
type SweepOptions struct {
	// Methods are names of Methods (all).
	Methods []string
	// Budgets are values of Options.Budget (SweepBudgets).
	Budgets []float64
	// Quantize is what all points have in common. Its Method, Budget, Workers and Progress are of
	// no use, and its Overrides are of the people of the calibration.
	Quantize Options
	// Margins, Sample, Seed and Solver are those of eval.Options; the margins are 0.1 unless there are some.
	Margins []float64
	Sample  int
	Seed    uint64
	Solver  recourse.SolveOptions
	Workers int // points at once (1)
	// Done are points of an earlier run of the same sweep: they are not computed again.
	Done []SweepPoint
	// Finished is told of each point that was computed, in the order in which they are
	// finished, one at a time; an error of it ends the sweep.
	Finished func(SweepPoint) error
	// Progress is told what is going on; nil is silence.
	Progress func(Event)
}

// SweepBudgets are the budgets of a sweep that names none.
func SweepBudgets() []float64 { return []float64{2, 2.5, 3, 3.5, 4, 5, 6, 8} }

// SweepPoint is one method at one budget.
type SweepPoint struct {
	Method string  `json:"method"`
	Budget float64 `json:"budget"`
	// Same is the smallest budget at which the method gives the same graph as here; 0 when that is this one.
	// What was measured there is not measured again.
	Same float64 `json:"same_as_budget,omitempty"`
	// Unfit says why nothing of the method fits the budget; then there is nothing else to say. "" when something does.
	Unfit string `json:"does_not_fit,omitempty"`
	// Graph is the SHA-256 of the written model without its metadata.
	Graph  string  `json:"graph,omitempty"`
	Bits   float64 `json:"bits_per_weight,omitempty"`        // as Result.Bits
	Stored float64 `json:"stored_bits_per_weight,omitempty"` // as Result.Stored
	Bytes  int     `json:"bytes,omitempty"`
	// Widths are those of the layers in the order of the model, means where the rows of a
	// layer differ, and 0 for layers in float.
	Widths   []float64 `json:"widths,omitempty"`
	Problems []string  `json:"problems,omitempty"` // what verification found: quantize would not write the file
	Warnings []string  `json:"warnings,omitempty"` // of quantizing
	// Measured compares the written file with the original on the test people; nil when the point is Unfit, and in
	// Finished and Done when Same is set.
	Measured *eval.Result `json:"measured,omitempty"`
}

// SweepResult is all points, by method in the order asked for and by budget.
type SweepResult struct {
	FloatBytes int          `json:"float_bytes"`
	Points     []SweepPoint `json:"points"`
}

// Sweep quantizes the model by several methods at several budgets, calibrated on people, and
// compares each with the original on test. Budgets that a method does not fit are points that say so; it is an
// error when there are no others. The invariant: a point is what Quantize and
// eval.Compare give for the same options, for any number of workers and
// whatever was Done before.
func Sweep(ctx context.Context, m *graph.Model, t *task.Task, people, test *task.People, o SweepOptions) (*SweepResult, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, &InputError{err}
	}
	if test.N == 0 {
		return nil, &InputError{errors.New("there are no rows to test on")}
	}
	full, err := OpenFor(ctx, m, t, o.Quantize.Engine, o.Workers)
	if err != nil {
		return nil, inputError(err)
	}
	s := &sweep{o: o, m: m, t: t, people: people, test: test, full: full, points: map[sweepKey]SweepPoint{}}
	for _, p := range o.Done {
		if p.Unfit != "" || p.Same == 0 && p.Measured != nil || p.Same < p.Budget && slices.Contains(o.Budgets, p.Same) {
			s.points[sweepKey{p.Method, p.Budget}] = p
		}
	}
	err = s.run(ctx)
	if err = errors.Join(err, full.Close()); err != nil {
		return nil, err
	}
	r := s.result()
	if err := r.fits(); err != nil {
		return nil, &InputError{err}
	}
	return r, nil
}

// fits reports a sweep none of whose points fits, by what the largest budget is too small for.
func (r *SweepResult) fits() error {
	var errs []error
	for i, p := range r.Points {
		if p.Unfit == "" {
			return nil
		}
		if i == len(r.Points)-1 || r.Points[i+1].Method != p.Method {
			errs = append(errs, fmt.Errorf("method %s fits none of the budgets: %s", p.Method, p.Unfit))
		}
	}
	return errors.Join(errs...)
}

// resolve fills in what is not given and reports what there is not.
func (o SweepOptions) resolve() (SweepOptions, error) {
	var errs []error
	if len(o.Methods) == 0 {
		for _, m := range Methods() {
			o.Methods = append(o.Methods, m.Name)
		}
	}
	if len(o.Budgets) == 0 {
		o.Budgets = SweepBudgets()
	}
	o.Budgets = slices.Clone(o.Budgets)
	slices.Sort(o.Budgets)
	o.Budgets = slices.Compact(o.Budgets)
	for i, name := range o.Methods {
		of := o.Quantize
		of.Method = name
		for _, b := range o.Budgets {
			of.Budget = b
			if _, _, err := of.resolve(); err != nil {
				errs = append(errs, fmt.Errorf("method %s, budget %v: %w", name, b, err))
				break
			}
		}
		if slices.Contains(o.Methods[:i], name) {
			errs = append(errs, fmt.Errorf("method %s is asked for twice", name))
		}
	}
	if len(o.Margins) == 0 {
		o.Margins = []float64{0.1}
	}
	o.Workers = max(o.Workers, 1)
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	return o, errors.Join(errs...)
}

// At returns what was measured at the required margin t, or at the one nearest to it.
func (p *SweepPoint) At(t float64) *eval.AtMargin {
	if p.Measured == nil || len(p.Measured.Margins) == 0 {
		return nil
	}
	at := slices.MinFunc(p.Measured.Margins, func(a, b eval.AtMargin) int { return cmp.Compare(math.Abs(a.Margin-t), math.Abs(b.Margin-t)) })
	return &at
}
