package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/recourse/constraint"
)

// People says what the people of some records can change, in their order.
type People func(of []*eval.Record) *constraint.Set

// maxListed is how many people whose promise breaks a document lists.
const maxListed = 10_000

// BrokenPromises lists the people whose promise breaks at the headline margin, and what would have held: the first
// maxListed of them by their ID, or by their row when they have none. count is how many there are.
func BrokenPromises(r *eval.Result, people People) (list []Broken, count int, err error) {
	h := r.Headline()
	if h < 0 {
		return nil, 0, nil
	}
	var broken []*eval.Record
	for x, err := range r.Records.Where(func(x *eval.Record) bool { return x.Evaluated && x.Steps[h].Full.Broken() }) {
		if err != nil {
			return nil, 0, err
		}
		count++
		if broken = append(broken, x); len(broken) >= 2*maxListed {
			slices.SortStableFunc(broken, byRow)
			broken = broken[:maxListed]
		}
	}
	slices.SortStableFunc(broken, byRow)
	broken = broken[:min(maxListed, len(broken))]
	set := people(broken)
	for i, x := range broken {
		changes := func(q *eval.Promise) []string {
			var out []string
			for _, c := range set.Person(i).Changes(x.X, q.Point) {
				out = append(out, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
			}
			return out
		}
		s := &x.Steps[h].Full
		b := Broken{
			ID: x.ID, Row: x.Row, Line: x.Line, Margin: r.Settings.Margins[h], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: changes(s),
		}
		if strings.HasPrefix(b.ID, eval.RowID) {
			b.ID = ""
		}
		if what, better := repair(r, x, h); better != nil {
			b.Repair, b.RepairCost = what+": "+strings.Join(changes(better), ", "), better.Cost
		} else {
			b.RepairCost = eval.Float(math.NaN())
		}
		list = append(list, b)
	}
	return list, count, nil
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
