package ptq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/allocate"
	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// SweepOptions of Sweep. The zero value tries every method at SweepBudgets.
type SweepOptions struct {
	// Methods are names of Methods (all).
	Methods []MethodName
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
	// Finished receives each point that was computed, in the order in which they are finished, one at
	// a time; an error of it ends the sweep.
	Finished func(SweepPoint) error
	// Progress receives the steps of the work; nil = none.
	Progress func(Event)
}

// SweepBudgets are the budgets of a sweep that names none.
func SweepBudgets() []float64 { return []float64{2, 2.5, 3, 3.5, 4, 5, 6, 8} }

// SweepPoint is one method at one budget.
type SweepPoint struct {
	Method MethodName `json:"method"`
	Budget float64    `json:"budget"`
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
	// BitWidths are those of the layers in the order of the model, means where the rows of a
	// layer differ, and 0 for layers in float.
	BitWidths []float64 `json:"bit_widths,omitempty"`
	Problems  []string  `json:"problems,omitempty"` // what verification found: quantize would not write the file
	Warnings  []string  `json:"warnings,omitempty"` // of quantizing
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
func Sweep(ctx context.Context, m *onnxio.Model, t *task.Task, people, test *task.People,
	o SweepOptions,
) (*SweepResult, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, &InputError{err}
	}
	if test.N == 0 {
		return nil, &InputError{errors.New("there are no rows to test on")}
	}
	full, err := OpenFor(m, t, o.Workers)
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
	o.Budgets = slices.Compact(slices.Sorted(slices.Values(o.Budgets)))
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

type sweepKey struct {
	method MethodName
	budget float64
}

// sweep is one run of Sweep.
type sweep struct {
	o            SweepOptions
	m            *onnxio.Model
	t            *task.Task
	people, test *task.People
	full         *classifier.Model
	set          *constraint.Set // of test
	original     *eval.Solution

	slots, waiting chan struct{} // as many as there are workers: work at once, and models that wait for it
	mu             sync.Mutex
	points         map[sweepKey]SweepPoint
}

// run computes the points that are missing.
func (s *sweep) run(ctx context.Context) error {
	missing := len(s.o.Methods)*len(s.o.Budgets) - s.done()
	s.tell()
	if missing == 0 {
		return nil
	}
	var err error
	if s.set, err = constraint.Compile(s.t); err != nil {
		return &InputError{err}
	}
	s.original, err = eval.Solve(ctx, s.full, s.set, s.test, eval.Options{
		Margins: s.o.Margins, Sample: s.o.Sample, Seed: s.o.Seed, Solver: s.o.Solver,
		Workers: s.o.Workers, Progress: s.o.Progress,
	})
	if err != nil {
		return err
	}
	s.slots, s.waiting = make(chan struct{}, s.o.Workers), make(chan struct{}, s.o.Workers)
	g, ctx := errgroup.WithContext(ctx)
	for _, method := range s.o.Methods {
		if slices.ContainsFunc(s.o.Budgets, func(b float64) bool { _, ok := s.point(method, b); return !ok }) {
			g.Go(func() error { return s.method(ctx, g, method) })
		}
	}
	return g.Wait()
}

// method calibrates a method once and quantizes at the budgets that are missing, the smallest
// first. A goroutine gives its slot back before it waits for something else.
func (s *sweep) method(ctx context.Context, g *errgroup.Group, method MethodName) (err error) {
	o := s.o.Quantize
	o.Method, o.Budget, o.Progress = method, 0, nil
	o.Workers = max(1, s.o.Workers/len(s.o.Methods)) // all, when there is one method only
	var c *Calibration
	if err := s.work(ctx, func() (err error) { c, err = Calibrate(ctx, s.m, s.t, s.people, o); return err }); err != nil {
		return fmt.Errorf("method %s: %w", method, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	first := map[string]float64{} // budgets by the graphs that they gave first
	for _, b := range s.o.Budgets {
		p, known := s.point(method, b)
		var r *Result
		if !known {
			p = SweepPoint{Method: method, Budget: b}
			err := s.work(ctx, func() (err error) { r, err = c.Quantize(ctx, b); return err })
			switch {
			case err == nil:
				err = p.describe(r)
			case errors.Is(err, allocate.ErrBudget):
				p.Unfit = err.Error()
				err = s.finish(p)
			}
			if err != nil {
				return fmt.Errorf("method %s, budget %v: %w", method, b, err)
			}
		}
		if p.Unfit != "" {
			continue
		}
		smaller, same := first[p.Graph]
		switch {
		case !same:
			first[p.Graph] = b
		case !known:
			p.Same = smaller
			if err := s.finish(p); err != nil {
				return err
			}
			continue
		}
		if known {
			continue
		}
		select {
		case s.waiting <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		g.Go(func() error {
			defer func() { <-s.waiting }()
			return s.measure(ctx, p, r.Model)
		})
	}
	return nil
}

// work does something when there is a slot for it.
func (s *sweep) work(ctx context.Context, f func() error) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// describe fills in what is known of a point once it is quantized.
func (p *SweepPoint) describe(r *Result) error {
	m, err := codec.Read(r.Model, "")
	if err != nil {
		return err
	}
	m.Metadata = nil // has the budget in it
	if p.Graph, err = fingerprint(m); err != nil {
		return err
	}
	p.Bits, p.Stored, p.Bytes = r.Bits, r.Stored, r.Bytes
	p.Warnings, p.Problems = r.Warnings, r.Verified.Problems
	for _, l := range r.Layers {
		p.BitWidths = append(p.BitWidths, l.Bits)
	}
	return nil
}

// measure compares a written model with the original.
func (s *sweep) measure(ctx context.Context, p SweepPoint, model []byte) error {
	err := s.work(ctx, func() (err error) {
		quantized, err := openFile(ctx, model, s.t, s.m.Engine(), 1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, quantized.Close()) }()
		p.Measured, err = s.original.Compare(ctx, quantized, eval.Options{Workers: 1})
		return err
	})
	if err != nil {
		return fmt.Errorf("method %s, budget %v: %w", p.Method, p.Budget, err)
	}
	p.Measured.Records = nil // of no use here, and large
	return s.finish(p)
}

// finish keeps a point and tells of it.
func (s *sweep) finish(p SweepPoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points[sweepKey{p.Method, p.Budget}] = p
	s.tell()
	if s.o.Finished != nil {
		return s.o.Finished(p)
	}
	return nil
}

// tell reports how many points there are; its caller holds mu, or is alone.
func (s *sweep) tell() {
	s.o.Progress(Event{Stage: "points", Done: s.done(), Total: len(s.o.Methods) * len(s.o.Budgets)})
}

// done counts the points of this sweep that there are.
func (s *sweep) done() (n int) {
	for _, method := range s.o.Methods {
		for _, b := range s.o.Budgets {
			if _, ok := s.points[sweepKey{method, b}]; ok {
				n++
			}
		}
	}
	return n
}

func (s *sweep) point(method MethodName, budget float64) (SweepPoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.points[sweepKey{method, budget}]
	return p, ok
}

// result puts the points in order and gives those that are the same as others what was measured there.
func (s *sweep) result() *SweepResult {
	r := &SweepResult{FloatBytes: size(s.m.Graph())}
	for _, method := range s.o.Methods {
		for _, b := range s.o.Budgets {
			p := s.points[sweepKey{method, b}]
			if p.Same != 0 {
				p.Measured = s.points[sweepKey{method, p.Same}].Measured
			}
			r.Points = append(r.Points, p)
		}
	}
	return r
}
