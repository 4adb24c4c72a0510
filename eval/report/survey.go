package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/statistics"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Changed is how recourse at the headline margin changes a feature, in the units of the data.
type Changed struct {
	Feature   string `json:"feature"`
	Full      Moves  `json:"full"` // what the original asks for
	Quantized Moves  `json:"quantized"`
}

// Moves are the changes of a feature that people are asked for.
type Moves struct {
	People int        `json:"people"`
	Median eval.Float `json:"median"` // size of the change; undefined for categories and when nobody changes it
}

// People says what the people of some records can change, in their order.
type People func(of []*eval.Record) *constraint.Set

// Survey finds out what recourse at the headline margin changes and whose promise breaks there, while records are
// visited.
type Survey struct {
	s         *eval.Settings
	at        int // the margin
	people    People
	changes   map[string]*[2]changedSizes // by feature and model
	kept      []*eval.Record              // whose promise breaks
	allBroken int
}

// changedSizes are the changes of a feature that one model asks for.
type changedSizes struct {
	people int
	sizes  statistics.Values
}

// maxListed is how many people whose promise breaks a document lists.
const maxListed = 10_000

// NewSurvey is of records that were made with the settings.
func NewSurvey(s *eval.Settings, people People) *Survey {
	return &Survey{s: s, at: s.Headline(), people: people, changes: map[string]*[2]changedSizes{}}
}

// Visitor looks at the records.
func (v *Survey) Visitor() eval.Visitor { return eval.VisitRecords(v.add) }

func (v *Survey) add(some []*eval.Record) error {
	if v.at < 0 {
		return nil
	}
	var evaluated []*eval.Record
	for _, x := range some {
		if !x.Evaluated {
			continue
		}
		evaluated = append(evaluated, x)
		if x.Steps[v.at].Full.Broken() {
			v.allBroken++
			if v.kept = append(v.kept, x); len(v.kept) >= 2*maxListed {
				v.cut()
			}
		}
	}
	set := v.people(evaluated)
	for i, x := range evaluated {
		for model, q := range []*eval.Promise{&x.Steps[v.at].Full, &x.Steps[v.at].Quant} {
			if q.Exists() && q.Point != nil {
				for _, change := range set.Person(i).Changes(x.X, q.Point) {
					v.addChange(model, change)
				}
			}
		}
	}
	return nil
}

func byRow(a, b *eval.Record) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Line, b.Line))
}

func (v *Survey) addChange(model int, c constraint.Change) {
	if v.changes[c.Feature] == nil {
		v.changes[c.Feature] = &[2]changedSizes{}
	}
	m := &v.changes[c.Feature][model]
	m.people++
	from, err := strconv.ParseFloat(c.From, 64)
	to, err2 := strconv.ParseFloat(c.To, 64)
	if err == nil && err2 == nil {
		m.sizes.Add(math.Abs(to - from))
	}
}

// cut leaves the first people by their ID, or by their row when they have none.
func (v *Survey) cut() {
	slices.SortStableFunc(v.kept, byRow)
	n := min(maxListed, len(v.kept))
	clear(v.kept[n:])
	v.kept = v.kept[:n]
}

// Details are the features that recourse changes, in the task's order, and the first people whose promise breaks with
// what would have held.
func (v *Survey) Details(features []task.Feature) (d Details) {
	for i := range features {
		f := &features[i]
		of := v.changes[f.Name]
		if of == nil {
			continue
		}
		c := Changed{Feature: f.Name}
		for model, to := range []*Moves{&c.Full, &c.Quantized} {
			*to = Moves{of[model].people, eval.Float(math.NaN())}
			if f.Number() != nil {
				to.Median = eval.Float(of[model].sizes.Median())
			}
		}
		d.Changes = append(d.Changes, c)
	}
	if v.cut(); v.allBroken > len(v.kept) {
		d.AllBroken = v.allBroken
	}
	set := v.people(v.kept)
	for i, x := range v.kept {
		changes := func(q *eval.Promise) (list []string) {
			for _, c := range set.Person(i).Changes(x.X, q.Point) {
				list = append(list, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
			}
			return list
		}
		s := &x.Steps[v.at].Full
		b := Broken{
			ID: x.ID, Row: x.Row, Line: x.Line, Margin: v.s.Margins[v.at], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: changes(s), RepairCost: eval.Float(math.NaN()),
		}
		if strings.HasPrefix(b.ID, eval.RowID) {
			b.ID = ""
		}
		if what, better := repair(v.s, x, v.at); better != nil {
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
