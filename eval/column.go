package eval

import (
	"math"
	"strconv"

	"cfq/recourse"
)

// Column is one column of a table of records: its name, and where a record has its cell. The columns of the required
// margins end in @ and the margin.
type Column struct {
	Name string
	// Of points to the cell of a record: *int, *int8, *uint64, *bool, *string, *Float, *recourse.Status, *[]float32,
	// *[]uint64 or *[]Float. nil: the record has no such cell.
	Of func(r *Record) any
	// Derived columns say what follows from others, for those who read the table: they are written and not read.
	Derived bool
}

// Columns are those of records that were made with the settings, of people with these attributes by which groups are
// told apart. The inputs come before recourse points, which are written as what they change.
func Columns(margins []float64, attributes []string) []Column {
	all := []Column{
		{Name: "id", Of: func(r *Record) any { return &r.ID }},
		{Name: "row", Of: func(r *Record) any { return &r.Row }},
		{Name: "line", Of: func(r *Record) any { return &r.Line }},
		{Name: "hash", Of: func(r *Record) any { return &r.Hash }},
		{Name: "hashes", Of: func(r *Record) any { return &r.Others }},
		{Name: "label", Of: func(r *Record) any { return &r.Label }},
		{Name: "calibrated", Of: func(r *Record) any { return &r.Calibrated }},
		{Name: "inputs", Of: func(r *Record) any { return &r.X }},
		{Name: "margin_full", Of: func(r *Record) any { return &r.Full }},
		{Name: "margin_quant", Of: func(r *Record) any { return &r.Quant }},
		{Name: "evaluated", Of: func(r *Record) any { return &r.Evaluated }},
	}
	for i, name := range attributes {
		group := func(r *Record) *string { return item(r.Groups, i) }
		all = append(all, partColumn("group_"+name, group, func(g *string) any { return g }))
	}
	all = append(all, promiseColumns("issued_", "", true, func(r *Record) *Promise { return r.Issued })...)
	all = append(all, promiseColumns("first_", "", false, func(r *Record) *Promise {
		if !r.Evaluated {
			return nil
		}
		return &r.First
	})...)
	for i, t := range margins {
		all = append(all, stepColumns(i, "@"+strconv.FormatFloat(t, 'g', -1, 64))...)
	}
	return all
}

// item is that of a list at a position; nil where the list is too short.
func item[T any](list []T, i int) *T {
	if i >= len(list) {
		return nil
	}
	return &list[i]
}

// partColumn is a column of a part that not every record has.
func partColumn[T any](name string, part func(r *Record) *T, cell func(p *T) any) Column {
	return Column{Name: name, Of: func(r *Record) any {
		p := part(r)
		if p == nil {
			return nil
		}
		return cell(p)
	}}
}

func stepColumns(i int, margin string) []Column {
	step := func(r *Record) *Step { return item(r.Steps, i) }
	column := func(name string, cell func(s *Step) any) Column { return partColumn(name+margin, step, cell) }
	proof := func(name string, cell func(p *Proof) any) Column {
		return column(name, func(s *Step) any {
			if s.Proof == nil {
				return nil
			}
			return cell(s.Proof)
		})
	}
	pixels := column("pixel_distance", func(s *Step) any {
		if s.Pixels == 0 {
			return nil
		}
		return &s.Pixels
	})
	promise := func(of func(s *Step) *Promise) func(r *Record) *Promise {
		return func(r *Record) *Promise {
			if s := step(r); s != nil {
				return of(s)
			}
			return nil
		}
	}
	all := promiseColumns("", margin, true, promise(func(s *Step) *Promise { return &s.Full }))
	all = append(all, promiseColumns("quant_", margin, true, promise(func(s *Step) *Promise { return &s.Quant }))...)
	return append(all,
		column("dir_sim", func(s *Step) any { return &s.DirSim }),
		column("act_overlap", func(s *Step) any { return &s.Overlap }),
		pixels,
		proof("certified_lower", func(p *Proof) any { return &p.Lower }),
		proof("certified_apart", func(p *Proof) any { return &p.Apart }),
		column("perturbation", func(s *Step) any { return &s.Perturbed }))
}

func promiseColumns(before, after string, points bool, of func(r *Record) *Promise) []Column {
	column := func(name string, cell func(p *Promise) any) Column { return partColumn(before+name+after, of, cell) }
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
		all = append(all, column("point", func(p *Promise) any { return &p.Point }))
	}
	return all
}

// Blank is a record to be filled from a table: it has a place for each cell.
func Blank(margins, attributes int) Record {
	r := Record{
		Label: -1, Full: undefined(), Quant: undefined(), Evaluated: true, First: none(recourse.NoneFound),
		Steps: make([]Step, margins), RowData: RowData{Groups: make([]string, attributes)},
	}
	issued := r.First
	r.Issued = &issued
	for i := range r.Steps {
		r.Steps[i] = Step{
			Full: issued, Quant: issued, DirSim: undefined(), Overlap: undefined(), Pixels: undefined(),
			Proof: &Proof{undefined(), undefined()},
		}
	}
	return r
}

// Settle takes the places of a Blank record that nothing was put into away again.
func (r *Record) Settle() {
	if !r.Issued.Exists() {
		r.Issued = nil
	}
	if !r.Evaluated {
		r.Steps, r.First = nil, Promise{}
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		if math.IsNaN(float64(s.Proof.Lower)) && math.IsNaN(float64(s.Proof.Apart)) {
			s.Proof = nil
		}
		if math.IsNaN(float64(s.Pixels)) {
			s.Pixels = 0
		}
	}
}
