package eval

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/recourse"
)

type layout struct {
	columns             []Column
	blank               [][]byte // what the cells of a blank record are written as, by column
	margins, attributes int
}

func newLayout(margins []float64, attributes []string) *layout {
	l := &layout{margins: len(margins), attributes: len(attributes)}
	l.columns = slices.DeleteFunc(Columns(margins, attributes), func(c Column) bool { return c.Derived })
	for i := range l.columns {
		r := Blank(l.margins, l.attributes)
		l.blank = append(l.blank, encodeCell(nil, l.columns[i].Place(&r), &r))
	}
	return l
}

// encode appends a record: a bit for each column that says whether the cell differs from that of a blank record, and
// those cells. Recourse points are written as what they change of the inputs.
func (l *layout) encode(b []byte, r *Record) []byte {
	has := len(b)
	b = append(b, make([]byte, (len(l.columns)+7)/8)...)
	for i := range l.columns {
		cell := l.columns[i].Of(r)
		if cell == nil {
			continue
		}
		at := len(b)
		if b = encodeCell(b, cell, r); bytes.Equal(b[at:], l.blank[i]) {
			b = b[:at]
		} else {
			b[has+i/8] |= 1 << (i % 8)
		}
	}
	return b
}

func encodeCell(b []byte, cell any, r *Record) []byte {
	switch x := cell.(type) {
	case *int:
		return binary.AppendVarint(b, int64(*x))
	case *string:
		return append(binary.AppendUvarint(b, uint64(len(*x))), *x...)
	case *[]float32:
		b = binary.AppendUvarint(b, uint64(len(*x)))
		base := baseOf(r, x, len(*x))
		for i, v := range *x {
			bits, same := math.Float32bits(v), uint32(0)
			if base != nil {
				same = math.Float32bits(base[i])
			}
			if bits != same {
				b = binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, uint64(i)+1), bits)
			}
		}
		return binary.AppendUvarint(b, 0)
	case *[]uint64:
		return appendFixed(binary.AppendUvarint(b, uint64(len(*x))), *x)
	case *[]Float:
		return appendFixed(binary.AppendUvarint(b, uint64(len(*x))), *x)
	case *Float:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(*x)))
	case *recourse.Status:
		return append(b, byte(*x))
	}
	return appendFixed(b, cell)
}

func appendFixed(b []byte, x any) []byte {
	b, err := binary.Append(b, binary.LittleEndian, x)
	if err != nil {
		panic(fmt.Sprintf("eval: no cell is a %T", x))
	}
	return b
}

// baseOf are the numbers from which a list of n is written as the differences: a recourse point's are the inputs. nil:
// zeros.
func baseOf(r *Record, list *[]float32, n int) []float32 {
	if list != &r.X && len(r.X) == n {
		return r.X
	}
	return nil
}

var errDamaged = errors.New("eval: a record in the temporary file is damaged")

// maxInputs bounds what a damaged record can ask for.
const maxInputs = 1 << 24

type recordDecoder struct {
	b   []byte
	bad bool
}

// decode reads what encode wrote.
func (l *layout) decode(b []byte) (*Record, error) {
	r, d := Blank(l.margins, l.attributes), &recordDecoder{b: b}
	has := d.take(uint64(len(l.columns)+7) / 8)
	for i := range l.columns {
		if !d.bad && has[i/8]>>(i%8)&1 == 1 {
			d.cell(l.columns[i].Place(&r), &r)
		}
	}
	if d.bad || len(d.b) > 0 {
		return nil, errDamaged
	}
	r.Settle()
	return &r, nil
}

func (d *recordDecoder) take(n uint64) []byte {
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// skip goes on after a number that n bytes gave, or none did.
func (d *recordDecoder) skip(n int) {
	if d.bad = d.bad || n <= 0; !d.bad {
		d.b = d.b[n:]
	}
}

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *recordDecoder) fixed(x any) {
	n, err := binary.Decode(d.b, binary.LittleEndian, x)
	if d.bad = d.bad || err != nil; !d.bad {
		d.b = d.b[n:]
	}
}

// size is the length of a list whose bytes follow, of so many for a value.
func (d *recordDecoder) size(each int) uint64 {
	n := d.uvarint()
	if d.bad = d.bad || n > uint64(len(d.b)/each); d.bad {
		return 0
	}
	return n
}

func (d *recordDecoder) cell(cell any, r *Record) {
	switch x := cell.(type) {
	case nil: // only a damaged record says that it has the cell
		d.bad = true
	case *int:
		v, n := binary.Varint(d.b)
		*x = int(v)
		d.skip(n)
	case *string:
		*x = string(d.take(d.uvarint()))
	case *[]float32:
		*x = d.point(x, r)
	case *[]uint64:
		*x = make([]uint64, d.size(8))
		d.fixed(*x)
	case *[]Float:
		*x = make([]Float, d.size(8))
		d.fixed(*x)
	case *Float:
		d.fixed((*float64)(x))
	case *recourse.Status:
		d.fixed((*int8)(x))
	default:
		d.fixed(cell)
	}
}

func (d *recordDecoder) point(x *[]float32, r *Record) []float32 {
	n := d.uvarint()
	if d.bad = d.bad || n > maxInputs; d.bad {
		return nil
	}
	list := make([]float32, n)
	copy(list, baseOf(r, x, int(n)))
	for i := d.uvarint(); i > 0; i = d.uvarint() {
		v := d.take(4)
		if d.bad = d.bad || i > n; d.bad {
			return nil
		}
		list[i-1] = math.Float32frombits(binary.LittleEndian.Uint32(v))
	}
	return list
}
