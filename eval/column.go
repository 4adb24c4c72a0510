package eval

import (
	"math"
	"strconv"

	"cfq/recourse"
)

// Layout says which cells records have: those of the required margins, and of the attributes that tell groups apart.
type Layout struct {
	Margins    []float64
	Attributes []string
}

// Columns are the names of the columns of a table of records. Those of the required margins end in @ and the margin.
// The inputs come before recourse points, which are written as what they change.
func (l Layout) Columns() []string {
	all := []string{"id", "row", "line", "hash", "hashes", "label", "inputs", "margin_full", "margin_quant", "evaluated"}
	for _, name := range l.Attributes {
		all = append(all, "group_"+name)
	}
	named := func(before, after string, names ...string) {
		for _, name := range names {
			all = append(all, before+name+after)
		}
	}
	promise := []string{"status", "cost", "own", "other", "broken", "violation", "point"}
	named("issued_", "", promise...)
	named("first_", "", promise[:len(promise)-1]...)
	for _, t := range l.Margins {
		at := "@" + strconv.FormatFloat(t, 'g', -1, 64)
		named("", at, promise...)
		named("quant_", at, promise...)
		named("", at, "dir_sim", "act_overlap", "pixel_distance", "perturbation", "transfer", "transfer_point",
			"quant_transfer", "quant_transfer_point")
	}
	return all
}

// Cells point to the cells of a record, one for each of the Columns: *int, *int8, *uint64, *bool, *string, *Float,
// *recourse.Status, *[]float32, *[]uint64 or *[]Float; nil where the record has no such cell. A bool, which a Blank
// record does not have, follows from other cells: it is written, and not read.
func (l Layout) Cells(r *Record) []any {
	all := make([]any, 0, 32+len(l.Attributes)+22*len(l.Margins))
	all = append(all, &r.ID, &r.Row, &r.Line, &r.Hash, &r.Others, &r.Label, &r.X, &r.Full, &r.Quant, &r.Evaluated)
	for i := range l.Attributes {
		if i < len(r.Groups) {
			all = append(all, &r.Groups[i])
		} else {
			all = append(all, nil)
		}
	}
	all = r.Issued.appendCells(all)
	first := &r.First
	if !r.Evaluated {
		first = nil
	}
	all = first.appendCells(all)
	all = all[:len(all)-1] // without its point
	for i := range l.Margins {
		var step *Step
		if i < len(r.Steps) {
			step = &r.Steps[i]
		}
		all = step.appendCells(all)
	}
	return all
}

func (s *Step) appendCells(all []any) []any {
	if s == nil {
		return append(all, make([]any, 22)...)
	}
	all = s.Quant.appendCells(s.Full.appendCells(all))
	other := [8]any{&s.DirSim, &s.Overlap, nil, &s.Perturbed}
	if s.Pixels != 0 {
		other[2] = &s.Pixels
	}
	for i, x := range []*Transfer{s.Transfer, s.Back} {
		if x != nil {
			other[4+2*i], other[5+2*i] = &x.Upper, &x.Refuted
		}
	}
	return append(all, other[:]...)
}

func (p *Promise) appendCells(all []any) []any {
	if p == nil {
		return append(all, make([]any, 7)...)
	}
	var broken any
	if p.Exists() {
		broken = p.Broken()
	}
	return append(all, &p.Status, &p.Cost, &p.Own, &p.Other, broken, &p.Violation, &p.Point)
}

// Blank is a record to be filled from a table: it has a place for each cell that is read.
func (l Layout) Blank() Record {
	r := Record{
		Label: -1, Full: undefined(), Quant: undefined(), Evaluated: true, First: none(recourse.NoneFound),
		Steps: make([]Step, len(l.Margins)), RowData: RowData{Groups: make([]string, len(l.Attributes))},
	}
	issued := r.First
	r.Issued = &issued
	for i := range r.Steps {
		r.Steps[i] = Step{
			Full: issued, Quant: issued, DirSim: undefined(), Overlap: undefined(), Pixels: undefined(),
			Transfer: &Transfer{Upper: undefined()}, Back: &Transfer{Upper: undefined()},
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
		if math.IsNaN(float64(s.Pixels)) {
			s.Pixels = 0
		}
		for _, x := range []**Transfer{&s.Transfer, &s.Back} {
			if math.IsNaN(float64((*x).Upper)) {
				*x = nil
			}
		}
	}
}
