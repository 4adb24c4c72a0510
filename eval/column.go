package eval

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	Of   func(r *Record) any
	make func(r *Record) // the place of the cell in a record that has none; nil where every record has
	// Derived columns say what follows from others, for those who read the table: they are written and not read.
	Derived bool
}

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
		all = append(all, Column{Name: "group_" + name, Of: func(r *Record) any {
			if i >= len(r.Groups) {
				return nil
			}
			return &r.Groups[i]
		}})
	}
	issued := promiseColumns("issued_", "", true, func(r *Record) *Promise { return r.Issued })
	for i := range issued {
		issued[i].make = func(r *Record) {
			if r.Issued == nil {
				p := none(recourse.NoneFound)
				r.Issued = &p
			}
		}
	}
	all = append(all, issued...)
	all = append(all, promiseColumns("first_", "", false, func(r *Record) *Promise { return evaluated(r, &r.First) })...)
	for i, t := range margins {
		all = append(all, stepColumns(i, "@"+strconv.FormatFloat(t, 'g', -1, 64))...)
	}
	return all
}

func evaluated(r *Record, p *Promise) *Promise {
	if !r.Evaluated {
		return nil
	}
	return p
}

// stepColumns are the columns of the i-th required margin.
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

// promiseColumns are those of a promise, with its point where points are kept; nil is none.
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
		if !p.Made() {
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

// Blank is a record to be filled from a table, see [Column.Place].
func Blank(margins, attributes int) Record {
	r := Record{
		Groups: make([]string, attributes), Evaluated: true, Steps: make([]Step, margins),
		Label: -1, Full: undefined(), Quant: undefined(), First: none(recourse.NoneFound),
	}
	for i := range r.Steps {
		r.Steps[i] = Step{
			Full: none(recourse.NoneFound), Quant: none(recourse.NoneFound), DirSim: undefined(), Overlap: undefined(),
		}
	}
	return r
}

// Settle takes the cells of a Blank record that nothing was put into away again.
func (r *Record) Settle() {
	if !r.Issued.Made() {
		r.Issued = nil
	}
	if !r.Evaluated {
		r.Steps, r.First = nil, Promise{}
	}
}

// encode appends the cells of a record. Recourse points are written as what they change of the inputs.
func encode(b []byte, columns []Column, r *Record) []byte {
	for i := range columns {
		if columns[i].Derived {
			continue
		}
		if cell := columns[i].Of(r); cell != nil && !blank(cell) {
			b = encodeCell(append(b, 1), cell, r)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// blank says that a cell is that of a Blank record, which needs no bytes.
func blank(cell any) bool {
	switch x := cell.(type) {
	case *Float:
		return math.IsNaN(float64(*x))
	case *recourse.Status:
		return *x == recourse.NoneFound
	case *string:
		return *x == ""
	case *[]float32:
		return len(*x) == 0
	case *[]uint64:
		return len(*x) == 0
	case *[]Float:
		return len(*x) == 0
	}
	return false
}

func encodeCell(b []byte, cell any, r *Record) []byte {
	switch x := cell.(type) {
	case *int:
		return binary.AppendVarint(b, int64(*x))
	case *int8:
		return append(b, byte(*x))
	case *uint64:
		return binary.LittleEndian.AppendUint64(b, *x)
	case *bool:
		return append(b, byte(count(*x)))
	case *string:
		return append(binary.AppendUvarint(b, uint64(len(*x))), *x...)
	case *Float:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(*x)))
	case *recourse.Status:
		return append(b, byte(*x))
	case *[]float32:
		var from []float32
		if x != &r.X && len(r.X) == len(*x) {
			from = r.X
		}
		return encodePoint(b, *x, from)
	case *[]uint64:
		b = binary.AppendUvarint(b, uint64(len(*x)))
		for _, v := range *x {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	case *[]Float:
		b = binary.AppendUvarint(b, uint64(len(*x)))
		for _, v := range *x {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
		}
		return b
	}
	panic(fmt.Sprintf("eval: no cell is a %T", cell))
}

// encodePoint writes the inputs that differ from others, nil for zeros.
func encodePoint(b []byte, x, from []float32) []byte {
	b = binary.AppendUvarint(b, uint64(len(x)))
	if len(x) == 0 {
		return b
	}
	differ, at := 0, len(b)
	b = append(b, 0, 0, 0, 0)
	for i, v := range x {
		bits, base := math.Float32bits(v), uint32(0)
		if from != nil {
			base = math.Float32bits(from[i])
		}
		if bits != base {
			b = binary.AppendUvarint(b, uint64(i))
			b = binary.LittleEndian.AppendUint32(b, bits)
			differ++
		}
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(differ))
	return b
}

// errDamaged is what a record is that encode did not write.
var errDamaged = errors.New("eval: a record in the temporary file is damaged")

// decoder reads what encode wrote.
type decoder struct {
	columns             []Column
	margins, attributes int
	texts               map[string]string // that were read before
	lean                bool              // points are left out
	b                   []byte
	bad                 bool
}

// decode makes a record of the bytes of one.
func (d *decoder) decode(b []byte) (Record, error) {
	r := Blank(d.margins, d.attributes)
	d.b, d.bad = b, false
	for i := range d.columns {
		if !d.columns[i].Derived && d.byte() == 1 {
			d.cell(d.columns[i].Place(&r), &r)
		}
	}
	if d.bad || len(d.b) > 0 {
		return r, errDamaged
	}
	r.Settle()
	return r, nil
}

func (d *decoder) take(n uint64) []byte {
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad = d.bad || n <= 0; d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

// many is how many values of some bytes each follow.
func (d *decoder) many(size int) uint64 {
	n := d.uvarint()
	if d.bad = d.bad || n > uint64(len(d.b)/size); d.bad {
		return 0
	}
	return n
}

func (d *decoder) cell(cell any, r *Record) {
	switch x := cell.(type) {
	case *int:
		v, n := binary.Varint(d.b)
		if d.bad = d.bad || n <= 0; !d.bad {
			*x, d.b = int(v), d.b[n:]
		}
	case *int8:
		*x = int8(d.byte())
	case *uint64:
		*x = d.uint64()
	case *bool:
		*x = d.byte() == 1
	case *string:
		*x = d.text(d.take(d.uvarint()))
	case *Float:
		*x = Float(math.Float64frombits(d.uint64()))
	case *recourse.Status:
		*x = recourse.Status(d.byte())
	case *[]float32:
		if d.lean && x != &r.X {
			d.skipPoint()
		} else {
			*x = d.point(r)
		}
	case *[]uint64:
		for range d.many(8) {
			*x = append(*x, d.uint64())
		}
	case *[]Float:
		for range d.many(8) {
			*x = append(*x, Float(math.Float64frombits(d.uint64())))
		}
	default:
		d.bad = true
	}
}

// text keeps the texts that occur often, such as groups, once.
func (d *decoder) text(b []byte) string {
	const often = 4096
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.texts) < often {
		d.texts[s] = s
	}
	return s
}

// maxInputs bounds what a damaged record can ask for.
const maxInputs = 1 << 24

// skipPoint reads what point does, and returns nothing.
func (d *decoder) skipPoint() {
	if d.uvarint() == 0 || d.bad {
		return
	}
	if b := d.take(4); b != nil {
		for range binary.LittleEndian.Uint32(b) {
			d.uvarint()
			if d.take(4); d.bad {
				return
			}
		}
	}
}

// point reads a list of numbers.
func (d *decoder) point(r *Record) []float32 {
	n := d.uvarint()
	if d.bad = d.bad || n > maxInputs; n == 0 || d.bad {
		return nil
	}
	x := make([]float32, n)
	if len(r.X) == len(x) {
		copy(x, r.X)
	}
	differ := d.take(4)
	if d.bad {
		return nil
	}
	for range binary.LittleEndian.Uint32(differ) {
		i, v := d.uvarint(), d.take(4)
		if d.bad = d.bad || i >= n; d.bad {
			return nil
		}
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(v))
	}
	return x
}
