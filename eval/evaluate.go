package eval

import (
	"context"
	"fmt"

	"cfq/recourse"
	"cfq/task"
)

// shortfall is how far, in logits, a recourse point's margin may lie below
// what the solver promised before it is worth a warning: more than the
// rounding that another batch size brings.
const shortfall = 1e-3

// side is one model giving promises and the other one keeping them or not.
type side struct {
	name       string
	own, other recourse.Model
	set        *recourse.ActionSet
	x          []float32 // the people evaluated
	start      []Float   // own's margins as they are: who reaches the required one gets no promise, at no cost
	dim        int
	o          Options
	short      int       // promises whose point does not reach the margin they were made for
	unfit      int       // promises whose action is not feasible
	unfitErr   error     // the first of them
	given      *answers  // promises that were made already; nil to solve them
	known      *Original // actions that were solved already; nil for none
	learn      *Original // keeps what is solved; nil for nothing
	of         []int     // of twice: the people's positions on the side that it repeats
	silent     bool      // promises nothing
}

const originalName = "the original"

// evaluate solves the recourse of the people in rows under both models and
// fills in their records, or takes the promises of f that o gives. The strings are warnings.
func evaluate(ctx context.Context, f, g recourse.Model, set *recourse.ActionSet, people *task.People, records []Record, rows []int, o Options) (*Issued, []string, error) {
	if len(rows) == 0 {
		return o.given(), nil, nil
	}
	x := people.Subset(rows).X
	set = set.Select(rows)
	full := &side{name: originalName, own: f, other: g, set: set, x: x, dim: f.Dim(), o: o, known: o.Original}
	quant := &side{name: "the quantized model", own: g, other: f, set: set, x: x, dim: f.Dim(), o: o, silent: o.OneSided}
	for _, row := range rows {
		full.start, quant.start = append(full.start, records[row].Full), append(quant.start, records[row].Quant)
	}
	given := o.given()
	if given != nil {
		if err := full.take(ctx, rows, given); err != nil {
			return nil, nil, err
		}
	}
	for _, row := range rows {
		records[row].First = none(recourse.NoneFound)
		records[row].Steps = make([]Step, len(o.Margins))
	}
	if !o.OneSided {
		first, err := full.first(ctx)
		if err != nil {
			return nil, nil, err
		}
		for k, row := range rows {
			records[row].First = first[k]
		}
	}
	again := full.twice()
	var af, ag, aa answers
	for i, t := range o.Margins {
		var err error
		if af, err = full.next(ctx, t, af); err != nil {
			return nil, nil, err
		}
		if ag, err = quant.next(ctx, t, ag); err != nil {
			return nil, nil, err
		}
		for k, row := range rows {
			s := Step{Full: af.promises[k], Quant: ag.promises[k], DirSim: undefined(), Overlap: undefined(), RepeatCost: undefined()}
			if s.Full.Made() && s.Quant.Made() {
				s.DirSim = Float(dirSim(af.deltas[k], ag.deltas[k]))
				s.Overlap = Float(actOverlap(af.deltas[k], ag.deltas[k]))
			}
			records[row].Steps[i] = s
		}
		if again != nil {
			if aa, err = again.next(ctx, t, aa); err != nil {
				return nil, nil, err
			}
			for j, k := range again.of {
				if s := &records[rows[k]].Steps[i]; s.Full.Made() && aa.promises[j].Made() {
					s.RepeatCost = aa.promises[j].Cost
				}
			}
		}
		if err := around(ctx, full, records, rows, i); err != nil {
			return nil, nil, err
		}
	}
	return given, append(full.notes(), quant.notes()...), nil
}

// answers are one model's recourse for everyone evaluated at one required margin.
type answers struct {
	promises []Promise
	deltas   [][]float32 // nil where no promise was made
}

// next solves at the required margin t, given the answers at the margin below
// (empty at the first one).
func (s *side) next(ctx context.Context, t float64, below answers) (answers, error) {
	if s.given != nil {
		return s.meeting(t), nil
	}
	n := len(s.x) / s.dim
	out := answers{promises: make([]Promise, n), deltas: make([][]float32, n)}
	if s.silent {
		for k := range out.promises {
			out.promises[k] = none(recourse.NoneFound)
		}
		return out, nil
	}
	var todo []int
	for k := range n {
		if approves(s.start[k]) && float32(s.start[k]) >= float32(t) { // the solver's rule
			out.promises[k] = Promise{Status: recourse.AlreadyFavourable, Own: undefined(), Other: undefined()}
			continue
		}
		if below.promises != nil {
			p := below.promises[k]
			if p.Status == recourse.NoneFound || p.Status == recourse.NoneExists || p.Made() && p.reaches(t) {
				out.promises[k], out.deltas[k] = p, below.deltas[k]
				continue
			}
		}
		todo = append(todo, k)
	}
	stage := fmt.Sprintf("recourse of %s, margin %g", s.name, t)
	if len(todo) == 0 {
		s.o.Progress(Event{Stage: stage, Done: n, Total: n})
		return out, nil
	}
	so := s.o.Solver
	so.Margin = t
	so.Progress = func(done, total int) {
		s.o.Progress(Event{Stage: stage, Done: n - len(todo) + min(done, len(todo)), Total: n})
	}
	actions, err := s.solve(stage, todo, func() ([]recourse.Action, error) {
		return recourse.Solve(ctx, s.own, s.set.Select(todo), s.rows(todo), so)
	})
	if err == nil {
		err = s.settle(ctx, todo, actions, t, out)
	}
	if err != nil {
		return answers{}, fmt.Errorf("%s: %w", stage, err)
	}
	return out, nil
}

// first asks for the first valid PGD iterate of everyone.
func (s *side) first(ctx context.Context) ([]Promise, error) {
	n := len(s.x) / s.dim
	stage := fmt.Sprintf("first valid step of %s", s.name)
	progress := func(done, total int) { s.o.Progress(Event{Stage: stage, Done: done, Total: total}) }
	out := answers{promises: make([]Promise, n), deltas: make([][]float32, n)}
	everyone := make([]int, n)
	for k := range everyone {
		everyone[k] = k
	}
	actions, err := s.solve(stage, everyone, func() ([]recourse.Action, error) {
		return recourse.FirstValid(ctx, s.own, s.set, s.x, recourse.FirstValidOptions{Workers: s.o.Solver.Workers, Progress: progress})
	})
	if err == nil {
		err = s.settle(ctx, everyone, actions, 0, out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	return out.promises, nil
}

// settle turns the actions of people todo into promises in out: it runs both
// models at the recourse points, and holds the solver to what it claims.
func (s *side) settle(ctx context.Context, todo []int, actions []recourse.Action, t float64, out answers) error {
	if len(actions) != len(todo) {
		return fmt.Errorf("%d people got %d actions", len(todo), len(actions))
	}
	var found []int
	var points []float32
	for i, k := range todo {
		a := actions[i]
		out.promises[k] = none(a.Status)
		switch a.Status {
		case recourse.AlreadyFavourable:
			out.promises[k].Cost = 0
		case recourse.Found:
			x := s.x[k*s.dim : (k+1)*s.dim]
			if err := s.set.Person(k).Check(x, a.Delta); err != nil {
				s.unfit++
				if s.unfitErr == nil {
					s.unfitErr = err
				}
			}
			out.promises[k].Cost, out.promises[k].Point, out.deltas[k] = Float(a.Cost), a.Point, a.Delta
			found = append(found, k)
			points = append(points, a.Point...)
		}
	}
	own, other, err := margins(ctx, s.own, s.other, points, len(found))
	if err != nil {
		return fmt.Errorf("at the recourse points: %w", err)
	}
	for i, k := range found {
		p := &out.promises[k]
		p.Own, p.Other = Float(own[i]), Float(other[i])
		if !p.Own.Defined() || !p.Other.Defined() {
			return fmt.Errorf("at the recourse point of person %d the margins are %v and %v", k, p.Own, p.Other)
		}
		s.short += count(float64(p.Own) < t-shortfall)
	}
	return nil
}

func (s *side) rows(todo []int) []float32 {
	x := make([]float32, 0, len(todo)*s.dim)
	for _, k := range todo {
		x = append(x, s.x[k*s.dim:(k+1)*s.dim]...)
	}
	return x
}

func (s *side) notes() []string {
	var notes []string
	if s.given != nil {
		if s.unfit > 0 {
			notes = append(notes, fmt.Sprintf("the task does not allow %d of the promises given (the first: %v): they count all the same", s.unfit, s.unfitErr))
		}
		return notes
	}
	if s.short > 0 {
		notes = append(notes, fmt.Sprintf("%d recourse points of %s fall short of the margin they were solved for by more than %g: run again, the model gave another value than it gave the solver",
			s.short, s.name, shortfall))
	}
	if s.unfit > 0 {
		notes = append(notes, fmt.Sprintf("%d actions of %s are not feasible (the first: %v): they were counted all the same, this is a fault of the solver", s.unfit, s.name, s.unfitErr))
	}
	return notes
}
