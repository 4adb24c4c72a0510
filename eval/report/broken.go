package report

import (
	"fmt"
	"math"
	"strings"

	"cfq/eval"
	"cfq/recourse/constraint"
	"cfq/task"
)

// BrokenPromises lists the people whose promise breaks at the headline margin, and what would have held. people and set
// are those that r was evaluated on.
func BrokenPromises(r *eval.Result, people *task.People, set *constraint.Set) []Broken {
	h := r.Headline()
	var list []Broken
	for i := range r.Records {
		p := &r.Records[i]
		if h < 0 || !p.Evaluated || !p.Steps[h].Full.Broken() {
			continue
		}
		changes := func(q *eval.Promise) []string {
			var out []string
			for _, c := range set.Person(p.Person).Changes(people.X[p.Person*people.Dim:(p.Person+1)*people.Dim], q.Point) {
				out = append(out, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
			}
			return out
		}
		s := &p.Steps[h].Full
		b := Broken{
			Row: p.Row, Line: p.Line, Margin: r.Settings.Margins[h], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: changes(s),
		}
		if what, better := repair(r, p, h); better != nil {
			b.Repair, b.RepairCost = what+": "+strings.Join(changes(better), ", "), better.Cost
		} else {
			b.RepairCost = eval.Float(math.NaN())
		}
		list = append(list, b)
	}
	return list
}

// repair is what would have held for a person whose promise breaks at the h-th margin: recourse with the smallest
// larger margin that both models accept, or the quantized model's own; nil when there is neither.
func repair(r *eval.Result, p *eval.Record, h int) (what string, better *eval.Promise) {
	if !r.Settings.Issued {
		for i := h + 1; i < len(p.Steps); i++ {
			if s := &p.Steps[i].Full; s.Made() && !s.Broken() {
				return fmt.Sprintf("margin %g", r.Settings.Margins[i]), s
			}
		}
	}
	switch s := &p.Steps[h].Quant; {
	case !s.Made():
		return "", nil
	case s.Broken():
		return "the quantized model's own, which the original breaks", s
	default:
		return "the quantized model's own", s
	}
}
