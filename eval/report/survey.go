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

// People says what the people of some records can change, in their order.
type People func(of []*eval.Record) *constraint.Set

// Survey finds out whose promise breaks at the headline margin, while records are visited.
type Survey struct {
	s      *eval.Settings
	people People
	kept   []*eval.Record // whose promise breaks
	broken int            // how many there are
}

// maxListed is how many people whose promise breaks a document lists.
const maxListed = 10_000

// NewSurvey is of records that were made with the settings.
func NewSurvey(s *eval.Settings, people People) *Survey { return &Survey{s: s, people: people} }

// Visitor looks at the records.
func (v *Survey) Visitor() eval.Visitor { return eval.VisitRecords(v.add) }

func (v *Survey) add(some []*eval.Record) error {
	at := v.s.Headline()
	for _, x := range some {
		if x.Evaluated && x.Steps[at].Full.Broken() {
			v.broken++
			if v.kept = append(v.kept, x); len(v.kept) >= 2*maxListed {
				v.cut()
			}
		}
	}
	return nil
}

// cut leaves the first people by their ID, or by their row when they have none.
func (v *Survey) cut() {
	slices.SortStableFunc(v.kept, func(a, b *eval.Record) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Line, b.Line))
	})
	n := min(maxListed, len(v.kept))
	clear(v.kept[n:])
	v.kept = v.kept[:n]
}

// Details are the first people whose promise breaks, with what would have held.
func (v *Survey) Details() (d Details) {
	if v.cut(); v.broken > len(v.kept) {
		d.AllBroken = v.broken
	}
	at, set := v.s.Headline(), v.people(v.kept)
	for i, x := range v.kept {
		changes := func(q *eval.Promise) (list []string) {
			for _, c := range set.Person(i).Changes(x.X, q.Point) {
				list = append(list, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
			}
			return list
		}
		s := &x.Steps[at].Full
		b := Broken{
			ID: x.ID, Row: x.Row, Line: x.Line, Margin: v.s.Margins[at], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: changes(s), RepairCost: eval.Float(math.NaN()),
		}
		if strings.HasPrefix(b.ID, eval.RowID) {
			b.ID = ""
		}
		if what, better := repair(v.s, x, at); better != nil {
			b.Repair, b.RepairCost = what+": "+strings.Join(changes(better), ", "), better.Cost
		}
		d.Broken = append(d.Broken, b)
	}
	return d
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
