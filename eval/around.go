package eval

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// twice is the side of some of the people once more, with other random numbers; nil when nobody is to be solved twice.
func (s *side) twice() *side {
	n := len(s.x) / s.dim
	most := min(s.o.Noise, n)
	if most == 0 || s.given != nil {
		return nil
	}
	of := rand.New(rand.NewPCG(s.o.Seed, 0x2e)).Perm(n)[:most]
	slices.Sort(of)
	again := &side{name: s.name + " once more", own: s.own, other: s.own, set: s.set.Select(of), x: s.rows(of), dim: s.dim, o: s.o, of: of}
	again.o.Solver.Seed ^= 0x9e3779b97f4a7c15
	for _, k := range of {
		again.start = append(again.start, s.start[k])
	}
	return again
}

// around asks about the neighbourhoods of the recourse points of full at the i-th required margin.
func around(ctx context.Context, full *side, records []Record, rows []int, i int) error {
	o := full.o
	if o.Prove == nil && o.Perturb == nil {
		return nil
	}
	var steps []*Step
	var points, half []float32
	for k, row := range rows {
		s := &records[row].Steps[i]
		if !s.Full.Made() {
			continue
		}
		steps = append(steps, s)
		points = append(points, s.Full.Point...)
		box := make([]float32, full.dim)
		for _, j := range full.set.Person(k).Numbers() {
			box[j] = float32(o.Radius)
		}
		half = append(half, box...)
	}
	stage := fmt.Sprintf("neighbourhoods, margin %g", o.Margins[i])
	o.Progress(Event{Stage: stage, Total: len(steps)})
	if o.Prove != nil {
		proofs, err := o.Prove(ctx, points, half, len(steps))
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		for k, s := range steps {
			s.Proof = &proofs[k]
		}
	}
	if o.Perturb != nil {
		eps, err := o.Perturb(ctx, points, len(steps))
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		for k, s := range steps {
			s.Perturbed = eps[k]
		}
	}
	o.Progress(Event{Stage: stage, Done: len(steps), Total: len(steps)})
	return nil
}
