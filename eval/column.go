package eval

import (
	"encoding/binary"
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

// recordBytes writes records to bytes, or reads them from there.
type recordBytes struct {
	b     []byte
	reads bool
}

// record is, for each cell, whether there is one, and what it holds. Inputs are written as what differs from 0, and
// recourse points as what differs from the inputs.
func (c *recordBytes) record(l Layout, r *Record) {
	for _, cell := range append(l.Cells(r), &r.Calibrated) {
		_, follows := cell.(bool)
		if c.length(count(cell != nil && !follows)) == 0 {
			continue
		}
		switch x := cell.(type) {
		case *bool:
			*x = c.length(count(*x)) == 1
		case *int8:
			*x = int8(c.length(int(uint8(*x))))
		case *recourse.Status:
			*x = recourse.Status(c.length(int(*x)))
		case *int:
			*x = int(c.word(uint64(*x)))
		case *uint64:
			*x = c.word(*x)
		case *Float:
			*x = c.float(*x)
		case *string:
			if n := c.length(len(*x)); c.reads {
				*x, c.b = string(c.b[:n]), c.b[n:]
			} else {
				c.b = append(c.b, *x...)
			}
		case *[]uint64:
			*x = eachOf(c, *x, c.word)
		case *[]Float:
			*x = eachOf(c, *x, c.float)
		case *[]float32:
			c.inputs(x, r)
		}
	}
}

func eachOf[T any](c *recordBytes, list []T, one func(T) T) []T {
	if n := c.length(len(list)); c.reads {
		list = append(list, make([]T, n)...)
	}
	for i, v := range list {
		list[i] = one(v)
	}
	return list
}

func (c *recordBytes) float(v Float) Float {
	return Float(math.Float64frombits(c.word(math.Float64bits(float64(v)))))
}

func (c *recordBytes) word(v uint64) uint64 {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint64(c.b, v)
		return v
	}
	v = binary.LittleEndian.Uint64(c.b)
	c.b = c.b[8:]
	return v
}

func (c *recordBytes) length(n int) int {
	if !c.reads {
		c.b = binary.AppendUvarint(c.b, uint64(n))
		return n
	}
	v, size := binary.Uvarint(c.b)
	c.b = c.b[size:]
	return int(v)
}

func (c *recordBytes) inputs(list *[]float32, r *Record) {
	n := c.length(len(*list))
	var base []float32 // nil is 0
	if list != &r.X && len(r.X) == n {
		base = r.X
	}
	if c.reads {
		if n > 0 { // or there is no list
			*list = make([]float32, n)
			copy(*list, base)
		}
		for i := c.length(0); i > 0; i = c.length(0) {
			(*list)[i-1] = math.Float32frombits(binary.LittleEndian.Uint32(c.b))
			c.b = c.b[4:]
		}
		return
	}
	for i, v := range *list {
		var was float32
		if base != nil {
			was = base[i]
		}
		if bits := math.Float32bits(v); bits != math.Float32bits(was) {
			c.length(i + 1)
			c.b = binary.LittleEndian.AppendUint32(c.b, bits)
		}
	}
	c.length(0)
}
