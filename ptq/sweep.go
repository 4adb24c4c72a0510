package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/allocate"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/recourse"
	"cfq/task"
)

// SweepOptions of Sweep.
type SweepOptions struct {
	// Methods are names of Methods (all that do not train).
	Methods []string
	// Budgets are values of AllocateSpec.Budget (2, 2.5, 3, 3.5, 4, 5, 6, 8).
	Budgets []float64
	// Settings change the recipe of each method, as Recipe.Set reads them, where they have an effect.
	Settings []string
	// Origin is added to the metadata of the models.
	Origin map[string]string
	// Options are those of the evaluation; the margins are 0.1 unless there are some. Solver.Workers (1) is methods at
	// once, and runs of a model within a method if there are more workers than methods.
	eval.Options
	// Done are points that an earlier run of the same sweep finished: they are not computed again.
	Done []SweepPoint
	// Finished receives each point that was computed, one at a time, and of each method the smallest budget first; an
	// error of it ends the sweep.
	Finished func(SweepPoint) error
}

// Recipe is the recipe of a method with those of the settings that have an effect on it.
func (o *SweepOptions) Recipe(method string) (Recipe, error) {
	r, err := NewRecipe(method)
	if err == nil {
		err = r.change(o.Settings, true)
	}
	if err == nil {
		err = r.Check()
	}
	return r, err
}

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
	Bits   float64 `json:"mean_bit_width,omitempty"`         // as Result.Bits
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

// Least is Unfit without that the budget is too small: what budget would do.
func (p *SweepPoint) Least() string {
	_, least, _ := strings.Cut(p.Unfit, allocate.ErrBudget.Error()+": ")
	return cmp.Or(least, p.Unfit)
}

// SweepResult is all points, by method in the order asked for and by budget.
type SweepResult struct {
	FloatBytes int `json:"float_bytes"`
	// LeftOut are the test people of a task with codes who are approved by the decoder alone, see taskmodel.OwnDoing.
	LeftOut int          `json:"left_out,omitempty"`
	Points  []SweepPoint `json:"points"`
}

// Sweep quantizes the model by several methods at several budgets, calibrated on people, and compares each with the
// original on test. Budgets that a method does not fit are points that say so; it is an error when there are no others.
// The invariant: a point is what Quantize and eval.Compare give for the same options, for any number of workers and
// whatever was Done before.
func Sweep(ctx context.Context, m *onnxio.Model, t *task.Task, people, test *task.People,
	o SweepOptions,
) (_ *SweepResult, err error) {
	switch o, err = o.resolve(); {
	case err != nil:
		return nil, &InputError{err}
	case test.N == 0:
		return nil, &InputError{errors.New("there are no rows to test on")}
	}
	s := &sweep{o: o, m: m, people: people, r: &SweepResult{}}
	s.r.FloatBytes, _ = sizes(m.File(), false)
	for _, method := range o.Methods {
		for _, b := range o.Budgets {
			s.r.Points = append(s.r.Points, SweepPoint{Method: method, Budget: b})
			if s.earlier(method, b) != nil {
				s.finished++
			}
		}
	}
	o.Progress(eval.Event{Stage: "points", Done: s.finished, Total: len(s.r.Points)})
	if s.original, err = openOriginal(ctx, m, t, test, &Run{Workers: o.Solver.Workers}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.full.Close()) }()
	if s.r.LeftOut = test.N - len(s.rows); s.r.LeftOut > 0 {
		test = test.Subset(s.rows)
	}
	if s.finished < len(s.r.Points) {
		if s.promised, err = eval.Solve(ctx, s.full, &eval.Batch{People: test, Set: s.set}, o.Options); err != nil {
			return nil, err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Solver.Workers)
	for points := range slices.Chunk(s.r.Points, len(o.Budgets)) {
		g.Go(func() error { return s.method(ctx, points) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return s.r, s.r.fits()
}

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
	return &InputError{errors.Join(errs...)}
}

func (o SweepOptions) resolve() (SweepOptions, error) {
	var errs []error
	if len(o.Methods) == 0 { // the others take half a minute for each budget
		quick := lists.Filter(Methods(), func(m Method) bool { return m.Recipe.Train == nil })
		o.Methods = lists.Map(quick, func(m Method) string { return m.Name })
	}
	if len(o.Budgets) == 0 {
		o.Budgets = []float64{2, 2.5, 3, 3.5, 4, 5, 6, 8}
	}
	o.Budgets = slices.Compact(slices.Sorted(slices.Values(o.Budgets)))
	for _, b := range o.Budgets {
		if !(b >= minBudget && b <= maxBudget) {
			errs = append(errs, fmt.Errorf("invalid budget %v: want 2 to 8 bits per weight", b))
		}
	}
	for i, name := range o.Methods {
		if _, err := o.Recipe(name); err != nil {
			errs = append(errs, fmt.Errorf("method %s: %w", name, err))
		}
		if slices.Contains(o.Methods[:i], name) {
			errs = append(errs, fmt.Errorf("method %s is asked for twice", name))
		}
	}
	if len(o.Margins) == 0 {
		o.Margins = []float64{0.1}
	}
	o.Solver.Workers = max(o.Solver.Workers, 1)
	if o.Progress == nil {
		o.Progress = func(eval.Event) {}
	}
	return o, errors.Join(errs...)
}

// sweep is one run of Sweep. Each method works on its own part of the points.
type sweep struct {
	*original

	o        SweepOptions
	m        *onnxio.Model
	people   *task.People
	promised *eval.Batch // the test people with what the original promises them; nil when all is done
	r        *SweepResult

	mu       sync.Mutex
	finished int // points
}

func (s *sweep) earlier(method string, budget float64) *SweepPoint {
	i := slices.IndexFunc(s.o.Done, func(p SweepPoint) bool { return p.Method == method && p.Budget == budget })
	if i < 0 {
		return nil
	}
	return &s.o.Done[i]
}

func (s *sweep) method(ctx context.Context, points []SweepPoint) (err error) {
	r, err := s.o.Recipe(points[0].Method)
	if err != nil {
		return err
	}
	run := Run{Workers: max(1, s.o.Solver.Workers/len(s.o.Methods)), Origin: s.o.Origin}
	var c *calibration
	first := map[string]*SweepPoint{} // by graph
	for i := range points {
		p := &points[i]
		if before := s.earlier(p.Method, p.Budget); before != nil {
			*p = *before
		} else {
			if c == nil {
				if c, err = calibrate(ctx, s.m, s.task, s.people, r, run); err != nil {
					return fmt.Errorf("method %s: %w", p.Method, err)
				}
				defer c.Close() //nolint:errcheck // the points are what counts
			}
			err := s.compute(ctx, c, p, first)
			if err == nil {
				err = s.finish(*p)
			}
			if err != nil {
				return fmt.Errorf("method %s, budget %v: %w", p.Method, p.Budget, err)
			}
		}
		switch same := first[p.Graph]; {
		case p.Unfit != "":
		case p.Same == 0:
			first[p.Graph] = p
		case same != nil:
			p.Measured = same.Measured
		}
		if p.Unfit == "" && p.Measured == nil { // of a damaged log
			err := fmt.Errorf("method %s, budget %v: the point of the earlier run has no measurement", p.Method, p.Budget)
			return &InputError{err}
		}
	}
	return nil
}

func (s *sweep) compute(ctx context.Context, c *calibration, p *SweepPoint, first map[string]*SweepPoint) error {
	r, err := c.quantize(ctx, p.Budget)
	if errors.Is(err, allocate.ErrBudget) {
		p.Unfit = err.Error()
		return nil
	}
	if err == nil {
		err = p.describe(r)
	}
	if err != nil {
		return err
	}
	if same := first[p.Graph]; same != nil {
		p.Same = same.Budget
		return nil
	}
	o := eval.Options{Solver: recourse.SolveOptions{Workers: c.net.run.Workers}}
	if p.Measured, err = s.compare(ctx, r.Model, s.promised, o); err != nil {
		return err
	}
	return p.Measured.Close() // the records are of no use here
}

func (p *SweepPoint) describe(r *Result) error {
	m, err := codec.Read(r.Model, "")
	if err != nil {
		return err
	}
	m.Metadata = nil // has the budget in it
	if p.Graph, err = codec.Fingerprint(m); err != nil {
		return err
	}
	p.Bits, p.Stored, p.Bytes = r.Bits, r.Stored, r.Bytes
	p.Warnings, p.Problems = r.Warnings, r.Verified.Problems
	p.BitWidths = lists.Map(r.Layers, func(l Layer) float64 { return l.Bits })
	return nil
}

func (s *sweep) finish(p SweepPoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished++
	s.o.Progress(eval.Event{Stage: "points", Done: s.finished, Total: len(s.r.Points)})
	if s.o.Finished == nil {
		return nil
	}
	return s.o.Finished(p)
}
