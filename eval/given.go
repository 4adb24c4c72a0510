package eval

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/recourse"
)

// Issued counts the promises that Compare was given in place of the original's recourse.
type Issued struct {
	Promises   int `json:"promises"`   // to people who are evaluated
	Others     int `json:"others"`     // to people who are not: f approves them as they are, or they are not in the sample
	Invalid    int `json:"invalid"`    // of Promises: f refuses who takes the action, so they are promises at no margin
	Infeasible int `json:"infeasible"` // of Promises: the task does not allow the action; they count all the same
}

// given makes the counts of o.Promises, of which none is taken yet; nil when there are none to take.
func (o *Options) given() *Issued {
	if o.Promises == nil {
		return nil
	}
	g := &Issued{}
	for i := range o.Promises {
		g.Others += count(o.Promises[i].Status == recourse.Found)
	}
	return g
}

// take makes the given promises of the people in rows, who are the side's, the ones that the side keeps to, and counts them.
func (s *side) take(ctx context.Context, rows []int, g *Issued) error {
	everyone, actions := make([]int, len(rows)), make([]recourse.Action, len(rows))
	for k, row := range rows {
		everyone[k], actions[k] = k, s.o.Promises[row]
	}
	out := answers{promises: make([]Promise, len(rows)), deltas: make([][]float32, len(rows))}
	if err := s.settle(ctx, everyone, actions, math.Inf(-1), out); err != nil {
		return fmt.Errorf("given promises: %w", err)
	}
	for k := range out.promises {
		if p := &out.promises[k]; p.Made() {
			g.Promises++
			g.Others--
			g.Invalid += count(!approves(p.Own))
		}
	}
	s.given, g.Infeasible = &out, s.unfit
	return nil
}

// meeting returns those of the given promises that are promises at the required margin t.
func (s *side) meeting(t float64) answers {
	out := answers{promises: slices.Clone(s.given.promises), deltas: slices.Clone(s.given.deltas)}
	for k := range out.promises {
		if p := &out.promises[k]; p.Made() && !p.reaches(t) {
			*p = none(recourse.NoneFound)
			out.deltas[k] = nil
		}
	}
	return out
}

// reaches says whether the model that gives the promise approves by the required margin. The comparison is the solver's.
func (p *Promise) reaches(t float64) bool { return approves(p.Own) && float32(p.Own) >= float32(t) }
