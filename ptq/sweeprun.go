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
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/recourse/constraint"
	"cfq/task"
)

type sweepKey struct {
	method string
	budget float64
}

// sweep is one run of Sweep.
type sweep struct {
	o            SweepOptions
	m            *graph.Model
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

// method calibrates a method once and quantizes at the budgets that are missing, the
// smallest first. Nobody holds a slot while waiting for something else.
func (s *sweep) method(ctx context.Context, g *errgroup.Group, method string) (err error) {
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
		p.Widths = append(p.Widths, l.Bits)
	}
	return nil
}

// measure compares a written model with the original.
func (s *sweep) measure(ctx context.Context, p SweepPoint, model []byte) error {
	err := s.work(ctx, func() (err error) {
		m, err := codec.Read(model, "")
		if err != nil {
			return err
		}
		quantized, err := OpenFor(ctx, m, s.t, s.o.Quantize.Engine, 1)
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

// tell says how many points there are; whoever calls it holds mu, or is alone.
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

func (s *sweep) point(method string, budget float64) (SweepPoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.points[sweepKey{method, budget}]
	return p, ok
}

// result puts the points in order and gives those that are the same as others what was measured there.
func (s *sweep) result() *SweepResult {
	r := &SweepResult{FloatBytes: size(s.m)}
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
