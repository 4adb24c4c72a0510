package eval

import (
	"strconv"

	"cfq/recourse"
)

// Column is one column of a table of records: its name, and where a record has its cell. The columns of the required
// margins end in @ and the margin.
type Column struct {
	Name string
	// Of points to the cell of a record: *int, *int8, *uint64, *bool, *string, *Float, *recourse.Status, *[]float32,
	// *[]uint64 or *[]Float. nil: the record has no such cell.
	Of   func(r *Record) any
	make func(r *Record) // the place of the cell in a record that has none; nil where every record has
	// Derived columns say what follows from others, for those who read the table: they are written and not read.
	Derived bool
	depth   depth
}

// depth is how much of a record is read: a pass over millions of them reads no more than it needs.
type depth int

const (
	toIdentity depth = iota // who it is about
	toNumbers               // and what was measured
	toInputs                // and the inputs
	toPoints                // and the recourse points: everything
)

// Place is Of for a record that is filled from a table: it has the cell.
func (c *Column) Place(r *Record) any {
	if c.make != nil {
		c.make(r)
	}
	return c.Of(r)
}

// Columns are those of records that were made with the settings, of people with these attributes by which groups are
// told apart. They are the one declaration of the formats in which records are kept.
func Columns(margins []float64, attributes []string) []Column {
	identity := []Column{
		{Name: "id", Of: func(r *Record) any { return &r.ID }},
		{Name: "row", Of: func(r *Record) any { return &r.Row }},
		{Name: "line", Of: func(r *Record) any { return &r.Line }},
		{Name: "hash", Of: func(r *Record) any { return &r.Hash }},
		{Name: "hashes", Of: func(r *Record) any { return &r.Others }},
		{Name: "label", Of: func(r *Record) any { return &r.Label }},
		{Name: "calibrated", Of: func(r *Record) any { return &r.Calibrated }},
		{Name: "inputs", Of: func(r *Record) any { return &r.X }, depth: toInputs},
		{Name: "margin_full", Of: func(r *Record) any { return &r.Full }, depth: toNumbers},
		{Name: "margin_quant", Of: func(r *Record) any { return &r.Quant }, depth: toNumbers},
		{Name: "evaluated", Of: func(r *Record) any { return &r.Evaluated }},
	}
	var all []Column
	for i, name := range attributes {
		all = append(all, Column{Name: "group_" + name, Of: func(r *Record) any {
			if i >= len(r.Groups) {
				return nil
			}
			return &r.Groups[i]
		}})
	}
	all = append(all, promiseColumns("issued_", "", true, func(r *Record) *Promise { return r.Issued })...)
	all = append(all, promiseColumns("first_", "", false, func(r *Record) *Promise { return evaluated(r, &r.First) })...)
	for i, t := range margins {
		all = append(all, stepColumns(i, "@"+strconv.FormatFloat(t, 'g', -1, 64))...)
	}
	for i := range all {
		all[i].depth = max(all[i].depth, toNumbers)
	}
	return append(identity, all...)
}

func evaluated(r *Record, p *Promise) *Promise {
	if !r.Evaluated {
		return nil
	}
	return p
}

func stepColumns(i int, at string) []Column {
	step := func(of func(s *Step) any) func(r *Record) any {
		return func(r *Record) any {
			if i >= len(r.Steps) {
				return nil
			}
			return of(&r.Steps[i])
		}
	}
	proof := func(name string, of func(p *Proof) any) Column {
		return Column{Name: name, Of: step(func(s *Step) any {
			if s.Proof == nil {
				return nil
			}
			return of(s.Proof)
		}), make: func(r *Record) {
			if i < len(r.Steps) && r.Steps[i].Proof == nil {
				r.Steps[i].Proof = &Proof{undefined(), undefined()}
			}
		}}
	}
	promise := func(of func(s *Step) *Promise) func(r *Record) *Promise {
		return func(r *Record) *Promise {
			if i >= len(r.Steps) {
				return nil
			}
			return of(&r.Steps[i])
		}
	}
	all := promiseColumns("", at, true, promise(func(s *Step) *Promise { return &s.Full }))
	all = append(all, promiseColumns("quant_", at, true, promise(func(s *Step) *Promise { return &s.Quant }))...)
	return append(all,
		Column{Name: "dir_sim" + at, Of: step(func(s *Step) any { return &s.DirSim })},
		Column{Name: "act_overlap" + at, Of: step(func(s *Step) any { return &s.Overlap })},
		Column{Name: "pixel_distance" + at, Of: step(func(s *Step) any {
			if s.Pixels == 0 {
				return nil
			}
			return &s.Pixels
		}), make: func(r *Record) {
			if i < len(r.Steps) {
				r.Steps[i].Pixels = undefined()
			}
		}},
		proof("certified_lower"+at, func(p *Proof) any { return &p.Lower }),
		proof("certified_apart"+at, func(p *Proof) any { return &p.Apart }),
		Column{Name: "perturbation" + at, Of: step(func(s *Step) any { return &s.Perturbed })})
}

func promiseColumns(before, after string, points bool, of func(r *Record) *Promise) []Column {
	column := func(name string, cell func(p *Promise) any) Column {
		return Column{Name: before + name + after, Of: func(r *Record) any {
			p := of(r)
			if p == nil {
				return nil
			}
			return cell(p)
		}}
	}
	broken := column("broken", func(p *Promise) any {
		if !p.Exists() {
			return nil
		}
		b := p.Broken()
		return &b
	})
	broken.Derived = true
	all := []Column{
		column("status", func(p *Promise) any { return &p.Status }),
		column("cost", func(p *Promise) any { return &p.Cost }),
		column("own", func(p *Promise) any { return &p.Own }),
		column("other", func(p *Promise) any { return &p.Other }),
		broken,
		column("violation", func(p *Promise) any { return &p.Violation }),
	}
	if points {
		point := column("point", func(p *Promise) any { return &p.Point })
		point.depth = toPoints
		all = append(all, point)
	}
	return all
}

// Blank is a record to be filled from a table, see [Column.Place].
func Blank(margins, attributes int) Record {
	var s slot
	s.clear(blankSteps(margins), attributes)
	return s.Record
}

func blankSteps(margins int) []Step {
	steps := make([]Step, margins)
	for i := range steps {
		steps[i] = Step{
			Full: none(recourse.NoneFound), Quant: none(recourse.NoneFound), DirSim: undefined(), Overlap: undefined(),
		}
	}
	return steps
}

// Settle takes the cells of a Blank record that nothing was put into away again.
func (r *Record) Settle() {
	if !r.Issued.Exists() {
		r.Issued = nil
	}
	if !r.Evaluated {
		r.Steps, r.First = nil, Promise{}
	}
}
