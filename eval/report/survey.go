package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/recourse/constraint"
)

// Survey finds out whose promise breaks at the headline margin, while records are visited.
type Survey struct {
	Settings *eval.Settings                          // of the records
	People   func(of []*eval.Record) *constraint.Set // what people can change, in the order of their records

	kept    []*eval.Record // whose promise breaks
	broken  int            // how many there are
	refuted []*eval.Record // whose transfer certificate is refuted
}

// maxListed and maxRefuted are how many people a document lists whose promise breaks, and whose transfer certificate is
// refuted.
const (
	maxListed  = 10_000
	maxRefuted = 3
)

// Visit is an [eval.Visitor].
func (v *Survey) Visit(some []*eval.Record, _ [][]*eval.Record) error {
	at := v.Settings.Headline()
	for _, x := range some {
		if x.Evaluated && x.Steps[at].Full.Broken() {
			v.broken++
			if v.kept = append(v.kept, x); len(v.kept) >= 2*maxListed {
				v.kept = firstOf(v.kept, maxListed)
			}
		}
		if x.Evaluated && x.Steps[at].Transfer != nil && x.Steps[at].Transfer.Refuted != nil {
			v.refuted = firstOf(append(v.refuted, x), maxRefuted)
		}
	}
	return nil
}

// firstOf leaves the first people by their ID, or by their row when they have none.
func firstOf(kept []*eval.Record, most int) []*eval.Record {
	slices.SortStableFunc(kept, func(a, b *eval.Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Line, b.Line))
	})
	n := min(most, len(kept))
	clear(kept[n:])
	return kept[:n]
}

// Details are the first people whose promise breaks, with what would have held, and those whose certificate is refuted.
func (v *Survey) Details() (d Details) {
	if v.kept = firstOf(v.kept, maxListed); v.broken > len(v.kept) {
		d.AllBroken = v.broken
	}
	at, set := v.Settings.Headline(), v.People(v.kept)
	for i, x := range v.kept {
		s := &x.Steps[at].Full
		b := v.listed(x, set.Person(i), s)
		if what, better := repair(v.Settings, x, at); better != nil {
			b.Repair, b.RepairCost = what+": "+strings.Join(changes(set.Person(i), x, better.Point), ", "), better.Cost
		}
		d.Broken = append(d.Broken, b)
	}
	set = v.People(v.refuted)
	for i, x := range v.refuted {
		unknown := eval.Float(math.NaN())
		p := &eval.Promise{Point: x.Steps[at].Transfer.Refuted, Own: unknown, Other: unknown}
		delta := make([]float32, len(x.X))
		constraint.Difference(delta, x.X, p.Point)
		p.Cost = eval.Float(set.Person(i).Cost(x.X, delta))
		d.Refuted = append(d.Refuted, v.listed(x, set.Person(i), p))
	}
	return d
}

func (v *Survey) listed(x *eval.Record, set *constraint.Set, p *eval.Promise) Broken {
	b := Broken{
		Row: x.Row, Line: x.Line, Margin: v.Settings.Margins[v.Settings.Headline()], Own: p.Own, Other: p.Other,
		Cost: p.Cost, Action: changes(set, x, p.Point), RepairCost: eval.Float(math.NaN()),
	}
	if x.HasID() {
		b.ID = x.ID
	}
	return b
}

// changes are what a person changes, in words.
func changes(set *constraint.Set, x *eval.Record, point []float32) (list []string) {
	for _, c := range set.Changes(x.X, point) {
		list = append(list, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
	}
	return list
}

// repair is what would have held for a person whose promise breaks at the h-th margin: recourse with the smallest
// larger margin that both models accept, or the quantized model's own; nil when there is neither.
func repair(s *eval.Settings, p *eval.Record, h int) (what string, better *eval.Promise) {
	if !s.Issued {
		for i := h + 1; i < len(p.Steps); i++ {
			if q := &p.Steps[i].Full; q.Exists() && !q.Broken() {
				return fmt.Sprintf("margin %g", s.Margins[i]), q
			}
		}
	}
	switch s := &p.Steps[h].Quant; {
	case !s.Exists():
		return "", nil
	case s.Broken():
		return "the quantized model's own, which the original breaks", s
	default:
		return "the quantized model's own", s
	}
}
