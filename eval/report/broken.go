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

const maxListed = 10_000

// BrokenPromises finds the people whose promise breaks at the headline margin while records are visited.
type BrokenPromises struct {
	Count  int // of them
	at     int // the margin
	s      *eval.Settings
	people People
	kept   []*eval.Record
}

// NewBrokenPromises is of records that were made with the settings.
func NewBrokenPromises(s *eval.Settings, people People) *BrokenPromises {
	return &BrokenPromises{at: s.Headline(), s: s, people: people}
}

// Visitor looks at the records.
func (b *BrokenPromises) Visitor() eval.Visitor { return eval.VisitRecords(b.add) }

func (b *BrokenPromises) add(some []*eval.Record) error {
	for _, x := range some {
		if b.at < 0 || !x.Evaluated || !x.Steps[b.at].Full.Broken() {
			continue
		}
		b.Count++
		if b.kept = append(b.kept, x.Clone()); len(b.kept) >= 2*maxListed {
			b.cut()
		}
	}
	return nil
}

func (b *BrokenPromises) cut() {
	slices.SortStableFunc(b.kept, byRow)
	n := min(maxListed, len(b.kept))
	clear(b.kept[n:])
	b.kept = b.kept[:n]
}

// List says who they are, and what would have held: the first maxListed of them by their ID, or by their row when they
// have none.
func (b *BrokenPromises) List() (list []Broken) {
	b.cut()
	set := b.people(b.kept)
	for i, x := range b.kept {
		changes := func(q *eval.Promise) []string {
			var out []string
			for _, c := range set.Person(i).Changes(x.X, q.Point) {
				out = append(out, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
			}
			return out
		}
		s := &x.Steps[b.at].Full
		one := Broken{
			ID: x.ID, Row: x.Row, Line: x.Line, Margin: b.s.Margins[b.at], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: changes(s),
		}
		if strings.HasPrefix(one.ID, eval.RowID) {
			one.ID = ""
		}
		if what, better := repair(b.s, x, b.at); better != nil {
			one.Repair, one.RepairCost = what+": "+strings.Join(changes(better), ", "), better.Cost
		} else {
			one.RepairCost = eval.Float(math.NaN())
		}
		list = append(list, one)
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
