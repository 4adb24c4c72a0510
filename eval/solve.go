package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// solution is what one model promises: for each person evaluated and each required margin, the point
// where their recourse ends. It is not changed by use, so any number of Compare may use it at once.
type solution struct {
	name   string // in messages
	model  recourse.Model
	people *task.People // all of them
	rows   []int        // positions among people of those evaluated, ascending
	// promises are Batch.Promises
	promises []recourse.Action
	set      *constraint.Set // of those evaluated
	x        []float32       // model inputs of those evaluated
	o        Options
	below    *uint64   // see sampled
	margins  []float32 // the model's, of all people as they are
	original *solution // whose points the search starts from, too; nil for none

	first  []*point   // first valid iterates, by person evaluated; nil when they were not computed
	steps  [][]*point // by required margin and person evaluated; nil when nothing was solved
	issued []*point   // promises issued, by person evaluated; nil when the solver made the promises
	found  [][]*point // all points that exist, in the batches in which they were found
}

// point is where one person's recourse ends. A point that is good for several margins is shared between them.
type point struct {
	Promise // Other is not known yet
	delta   []float32
	pixels  Float // see Step.Pixels
}

// Solve returns the batch with the recourse of the people that f refuses, or of a sample of them, at each of the
// margins: it serves any number of quantized models.
func Solve(ctx context.Context, f recourse.Model, b *Batch, o Options) (*Batch, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	below, err := sampled(ctx, f, b.Source(), o)
	if err != nil {
		return nil, err
	}
	s, err := solve(ctx, f, b, below, o)
	if err != nil {
		return nil, err
	}
	solved := *b
	solved.solution = s
	return &solved, nil
}

func solve(ctx context.Context, f recourse.Model, b *Batch, below *uint64, o Options) (*solution, error) {
	people := b.People
	if f.Dim()*people.N != len(people.X) {
		return nil, fmt.Errorf("eval: the original takes %d inputs, and the data hold %d values for %d people",
			f.Dim(), len(people.X), people.N)
	}
	if b.Promises != nil && len(b.Promises) != people.N {
		return nil, fmt.Errorf("eval: %d promises for %d people", len(b.Promises), people.N)
	}
	s := &solution{name: "the original", model: f, people: people, promises: b.Promises, below: below, o: o}
	if err := s.decide(ctx); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	s.rows = s.evaluated()
	s.x, s.set = people.Subset(s.rows).X, b.Set.Select(s.rows)
	if err := s.solveOriginal(ctx); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return s, nil
}

// Count counts, in a batch that was solved, the people that the model refuses, those of them who are evaluated, and the
// promises to these at the at-th of the required margins.
func (b *Batch) Count(at int) (all, evaluated, promises int) {
	s := b.solution
	if s.steps != nil {
		for _, p := range s.steps[at] {
			promises += count(p.Exists())
		}
	}
	return len(Refused(s.margins, 0, 0)), len(s.rows), promises
}

func (s *solution) solveOriginal(ctx context.Context) error {
	if len(s.rows) == 0 {
		return nil
	}
	if s.promises != nil {
		actions := make([]recourse.Action, len(s.rows))
		for k, row := range s.rows {
			actions[k] = s.promises[row]
		}
		var err error
		if s.issued, err = s.validate(ctx, task.AllRows(len(s.rows)), actions); err != nil {
			return fmt.Errorf("issued promises: %w", err)
		}
	}
	if !s.o.OneSided {
		if err := s.firstValid(ctx); err != nil {
			return err
		}
	}
	return s.solve(ctx)
}

// evaluated are the positions of the people to evaluate: those whom the model refuses and those with a promise, or a
// sample of them.
func (s *solution) evaluated() (rows []int) {
	for i, m := range s.margins {
		eligible := !approves(Float(m)) || s.promises != nil && s.promises[i].Status == recourse.Found
		if eligible && draws(s.below, s.o.Seed, s.inputs(i)) {
			rows = append(rows, i)
		}
	}
	return rows
}

func (s *solution) inputs(i int) []float32 { return s.people.X[i*s.people.Dim : (i+1)*s.people.Dim] }

func (s *solution) decide(ctx context.Context) (err error) {
	n := s.people.N
	s.o.Progress(Event{Stage: "decisions", Total: n})
	if s.margins, err = margins(ctx, s.model, s.people.X, n); err != nil {
		return fmt.Errorf("decisions of %s: %w", s.name, err)
	}
	for i, m := range s.margins {
		if !Float(m).Defined() {
			return &UndefinedError{Model: s.name, Where: s.people.Place(i), Margin: Float(m)}
		}
	}
	s.o.Progress(Event{Stage: "decisions", Done: n, Total: n})
	return nil
}

// UndefinedError reports a margin that is no finite number.
type UndefinedError struct {
	Model  string // "the original" or "the quantized model"
	Where  string // "line 7" of the data, or "a recourse point"
	Margin Float
}

func (e *UndefinedError) Error() string {
	return fmt.Sprintf("%s: the margin of %s is %v", e.Where, e.Model, float64(e.Margin))
}

// Quantized says that the margin is the quantized model's.
func (e *UndefinedError) Quantized() bool { return e.Model == quantizedModel }

func margins(ctx context.Context, m recourse.Model, x []float32, n int) ([]float32, error) {
	if n == 0 {
		return nil, nil
	}
	out, err := m.Margins(ctx, x)
	if err == nil && len(out) != n {
		err = fmt.Errorf("%d rows gave %d margins", n, len(out))
	}
	return out, err
}

// Refused returns the positions of the people that are refused, ascending, or of a random sample of them.
func Refused(margins []float32, sample int, seed uint64) []int {
	var rows []int
	for i, m := range margins {
		if !approves(Float(m)) {
			rows = append(rows, i)
		}
	}
	if sample > 0 && sample < len(rows) {
		rng := rand.New(rand.NewPCG(seed, 0x5ea1))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		rows = rows[:sample]
		slices.Sort(rows)
	}
	return rows
}

// solve finds the points for every required margin. Of issued promises they are those whose own margin is as large, to
// people whom the model refuses as they are: others would hide broken promises in a larger denominator.
func (s *solution) solve(ctx context.Context) (err error) {
	var points []*point
	for _, t := range s.o.Margins {
		if s.issued == nil {
			points, err = s.search(ctx, t, points)
		} else {
			points = slices.Clone(s.issued)
			for k, p := range points {
				switch {
				case !p.Exists():
				case approves(Float(s.margins[s.rows[k]])):
					points[k] = &point{Promise: none(recourse.AlreadyFavourable)}
					points[k].Cost = 0
				case !p.reaches(t):
					points[k] = &point{Promise: none(recourse.NoneFound)}
				}
			}
		}
		if err != nil {
			return err
		}
		s.steps = append(s.steps, points)
	}
	return nil
}

// search solves. People who have a point with that margin from the margin below, nil at the first one, keep it.
func (s *solution) search(ctx context.Context, t float64, below []*point) ([]*point, error) {
	n, dim := len(s.rows), s.model.Dim()
	points := make([]*point, n)
	var todo []int
	var x []float32
	for k, row := range s.rows {
		switch m := s.margins[row]; {
		case approves(Float(m)) && m >= float32(t): // the solver's rule
			points[k] = &point{Promise: none(recourse.AlreadyFavourable)}
			points[k].Cost = 0
		case below != nil && below[k].final(t):
			points[k] = below[k]
		default:
			todo, x = append(todo, k), append(x, s.x[k*dim:(k+1)*dim]...)
		}
	}
	stage := fmt.Sprintf("recourse of %s, margin %g", s.name, t)
	if len(todo) == 0 {
		s.o.Progress(Event{Stage: stage, Done: n, Total: n})
		return points, nil
	}
	so := s.o.Solver
	so.Margin = t
	if s.original != nil {
		for _, k := range todo {
			so.Starts = append(so.Starts, s.original.steps[len(s.steps)][k].delta)
		}
	}
	so.Progress = func(done, total int) {
		s.o.Progress(Event{Stage: stage, Done: n - len(todo) + min(done, len(todo)), Total: n})
	}
	actions, err := recourse.Solve(ctx, s.model, s.set.Select(todo), x, so)
	var solved []*point
	if err == nil {
		solved, err = s.validate(ctx, todo, actions)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	for i, k := range todo {
		points[k] = solved[i]
	}
	return points, nil
}

// final says that nothing else will be found at the larger margin t.
func (p *point) final(t float64) bool {
	return p.Status == recourse.NoneFound || p.Status == recourse.NoneExists || p.Exists() && p.reaches(t)
}

// firstValid finds the first valid iterate of gradient descent for everyone.
func (s *solution) firstValid(ctx context.Context) error {
	stage := fmt.Sprintf("first valid step of %s", s.name)
	actions, err := recourse.FirstValid(ctx, s.model, s.set, s.x, recourse.SolveOptions{
		Workers:  s.o.Solver.Workers,
		Progress: func(done, total int) { s.o.Progress(Event{Stage: stage, Done: done, Total: total}) },
	})
	if err == nil {
		s.first, err = s.validate(ctx, task.AllRows(len(s.rows)), actions)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return nil
}

// validate turns the actions of the people todo into points: it runs the model there, and checks the action against
// the task. The margin that came with the action is not used.
func (s *solution) validate(ctx context.Context, todo []int, actions []recourse.Action) ([]*point, error) {
	if len(actions) != len(todo) {
		return nil, fmt.Errorf("%d people got %d actions", len(todo), len(actions))
	}
	points := make([]*point, len(todo))
	var found []*point
	var x []float32
	dim := s.model.Dim()
	for i, k := range todo {
		a, p := &actions[i], &point{Promise: none(actions[i].Status)}
		points[i] = p
		switch a.Status {
		case recourse.AlreadyFavourable:
			p.Cost = 0
		case recourse.Found:
			if err := s.set.Person(k).Check(s.x[k*dim:(k+1)*dim], a.Delta); err != nil {
				p.Violation = err.Error()
			}
			p.Cost, p.Point, p.delta = Float(a.Cost), a.Point, a.Delta
			found, x = append(found, p), append(x, a.Point...)
		}
	}
	own, err := margins(ctx, s.model, x, len(found))
	if err != nil {
		return nil, fmt.Errorf("at the recourse points: %w", err)
	}
	for i, p := range found {
		if p.Own = Float(own[i]); !p.Own.Defined() {
			return nil, &UndefinedError{Model: s.name, Where: "a recourse point", Margin: p.Own}
		}
	}
	s.found = append(s.found, found)
	return points, s.measurePixels(ctx, x, found)
}

// measurePixels finds Step.Pixels of points x, if the model is one behind a decoder, and who is beyond the budget.
func (s *solution) measurePixels(ctx context.Context, x []float32, found []*point) error {
	m, ok := s.model.(recourse.Decoded)
	if !ok || len(found) == 0 {
		return nil
	}
	distances, err := m.Distances(ctx, x)
	for i, d := range distances {
		p := found[i]
		p.pixels = Float(d)
		if far := s.set.TooFar(d); far != nil && p.Violation == "" {
			p.Violation = far.Error()
		}
	}
	return err
}

const quantizedModel = "the quantized model"

// judge asks g about the points of s, and the model of s about the points of g, which it solves first for the same
// people unless Options.OneSided. proofs is nil for none. It returns one record for each person, in their order.
func (s *solution) judge(ctx context.Context, g recourse.Model, proofs *transfers, o Options) (_ []Record, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("eval: %w", err)
		}
	}()
	if d := s.model.Dim(); d != g.Dim() {
		return nil, fmt.Errorf("the original takes %d inputs, the quantized model %d", d, g.Dim())
	}
	q := &solution{name: quantizedModel, model: g, people: s.people, rows: s.rows, set: s.set, x: s.x, o: o}
	if _, gradless := g.(classifier.Along); gradless { // gradients of another model lead past narrow places
		q.original = s
	}
	if err := q.decide(ctx); err != nil {
		return nil, err
	}
	if !o.OneSided && len(q.rows) > 0 {
		if err := q.solve(ctx); err != nil {
			return nil, err
		}
	}
	full, err := s.marginsUnder(ctx, q)
	if err != nil {
		return nil, err
	}
	quant, err := q.marginsUnder(ctx, s)
	if err != nil {
		return nil, err
	}
	records := s.decisions(q)
	for k, row := range s.rows {
		r := &records[row]
		r.First, r.Steps = none(recourse.NoneFound), make([]Step, len(s.o.Margins))
		if s.first != nil {
			r.First = full(s.first[k])
		}
		if s.issued != nil && s.issued[k].Exists() {
			p := full(s.issued[k])
			r.Issued = &p
		}
		for i := range r.Steps {
			step := &r.Steps[i]
			*step = Step{
				Full: full(s.steps[i][k]), Quant: none(recourse.NoneFound),
				DirSim: undefined(), Overlap: undefined(), Pixels: s.steps[i][k].pixels,
			}
			if q.steps == nil {
				continue
			}
			own := q.steps[i][k]
			if own.Status == recourse.NoneFound && step.Full.Exists() && step.Full.Violation == "" {
				kept := &point{Promise: step.Full, delta: s.steps[i][k].delta}
				if kept.Own, kept.Other = kept.Other, kept.Own; kept.reaches(o.Margins[i]) { // it is recourse under both
					own = kept
				}
			}
			step.Quant = quant(own)
			if step.Full.Exists() && step.Quant.Exists() {
				a, b := s.steps[i][k].delta, own.delta
				step.DirSim, step.Overlap = Float(dirSim(a, b)), Float(actOverlap(a, b))
			}
		}
	}
	for i := range s.o.Margins {
		if err := o.measurePerturbations(ctx, records, s, i); err != nil {
			return nil, err
		}
	}
	return records, o.measureTransfers(ctx, records, s, proofs)
}

func (s *solution) decisions(q *solution) []Record {
	records := make([]Record, s.people.N)
	for i := range records {
		r := &records[i]
		*r = Record{
			Person: i, Row: s.people.Row(i), Line: s.people.Line(i), Label: -1,
			Full: Float(s.margins[i]), Quant: Float(q.margins[i]), RowData: RowData{X: s.inputs(i)},
		}
		for k := range s.people.Subgroups {
			r.Groups = append(r.Groups, s.people.Subgroups[k].Of(i))
		}
		if s.people.IDs != nil {
			r.ID = s.people.IDs[i]
		}
		if s.people.Content != nil {
			r.Hash, r.Others = s.people.Content[i], s.people.Others[i]
		}
		if s.people.Labels != nil {
			r.Label = s.people.Labels[i]
		}
		if s.promises != nil && s.promises[i].Status == recourse.Found {
			r.Issued = &Promise{Status: recourse.Found, Cost: Float(s.promises[i].Cost), Own: undefined(), Other: undefined()}
		}
	}
	for _, row := range s.rows {
		records[row].Evaluated = true
	}
	return records
}

// marginsUnder runs the other model at all points of s, in the batches in which s found them: another batch
// size may round otherwise. It returns the promises of points, judged.
func (s *solution) marginsUnder(ctx context.Context, other *solution) (func(p *point) Promise, error) {
	all := map[*point]Float{}
	for _, found := range s.found {
		x := lists.Join(found, func(p *point) []float32 { return p.Point })
		m, err := margins(ctx, other.model, x, len(found))
		if err != nil {
			return nil, fmt.Errorf("recourse points of %s under %s: %w", s.name, other.name, err)
		}
		for i, p := range found {
			if all[p] = Float(m[i]); !all[p].Defined() {
				where := "a recourse point of " + s.name
				return nil, &UndefinedError{Model: other.name, Where: where, Margin: all[p]}
			}
		}
	}
	return func(p *point) Promise {
		out := p.Promise
		if margin, ok := all[p]; ok {
			out.Other = margin
		}
		return out
	}, nil
}
