package eval

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"cfq/recourse"
)

type layout struct {
	columns             []Column
	upTo                [toPoints + 1]int // how many of them are as deep, by depth
	margins, attributes int
	blank               []Step
}

func newLayout(margins []float64, attributes []string) *layout {
	l := &layout{margins: len(margins), attributes: len(attributes), blank: blankSteps(len(margins))}
	l.columns = slices.DeleteFunc(Columns(margins, attributes), func(c Column) bool { return c.Derived })
	slices.SortStableFunc(l.columns, func(a, b Column) int { return cmp.Compare(a.depth, b.depth) })
	for i := range l.columns {
		for to := l.columns[i].depth; to <= toPoints; to++ {
			l.upTo[to]++
		}
	}
	return l
}

// encode appends a record: a bit for each column that says whether it has the cell, and those cells. Recourse points
// are written as what they change of the inputs.
func (l *layout) encode(b []byte, r *Record) []byte {
	has := len(b)
	b = append(b, make([]byte, (len(l.columns)+7)/8)...)
	for i := range l.columns {
		if cell := l.columns[i].Of(r); cell != nil && !blank(cell) {
			b[has+i/8] |= 1 << (i % 8)
			b = encodeCell(b, cell, r)
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

var errDamaged = errors.New("eval: a record in the temporary file is damaged")

type recordDecoder struct {
	*layout
	texts map[string]string // that were read before
	b     []byte
	more  int // cells that follow
	bad   bool
}

func (d *recordDecoder) decode(b []byte, s *slot, to depth) error {
	s.clear(d.blank, d.attributes)
	d.b, d.bad = b, false
	has := d.take(uint64(len(d.columns)+7) / 8)
	wanted := func(i int) byte { // of a byte of has
		if n := d.upTo[to] - 8*i; n < 8 {
			return has[i] & (1<<max(n, 0) - 1)
		}
		return has[i]
	}
	d.more = 0
	for i := range has {
		d.more += bits.OnesCount8(wanted(i))
	}
	for i := range has {
		for set := wanted(i); set != 0; set &= set - 1 {
			column := 8*i + bits.TrailingZeros8(set)
			d.more--
			d.cell(d.columns[column].Place(&s.Record), s)
		}
	}
	if d.bad || to == toPoints && len(d.b) > 0 {
		return errDamaged
	}
	s.Settle()
	return nil
}

func (d *recordDecoder) take(n uint64) []byte {
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *recordDecoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *recordDecoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad = d.bad || n <= 0; d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *recordDecoder) many(size int) uint64 {
	n := d.uvarint()
	if d.bad = d.bad || n > uint64(len(d.b)/size); d.bad {
		return 0
	}
	return n
}

func (d *recordDecoder) cell(cell any, s *slot) {
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
		if text := d.take(d.uvarint()); x == &s.ID {
			*x = string(text)
		} else {
			*x = d.text(text)
		}
	case *Float:
		*x = Float(math.Float64frombits(d.uint64()))
	case *recourse.Status:
		*x = recourse.Status(d.byte())
	case *[]float32:
		*x = d.point(s)
	case *[]uint64:
		s.hashes = s.hashes[:0]
		for range d.many(8) {
			s.hashes = append(s.hashes, d.uint64())
		}
		*x = s.hashes
	case *[]Float:
		for range d.many(8) {
			*x = append(*x, Float(math.Float64frombits(d.uint64())))
		}
	default:
		d.bad = true
	}
}

func (d *recordDecoder) text(b []byte) string {
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

// point reads a list of numbers; those that were not written are those of the inputs.
func (d *recordDecoder) point(s *slot) []float32 {
	n := d.uvarint()
	if d.bad = d.bad || n > maxInputs; n == 0 || d.bad {
		return nil
	}
	x := s.point(int(n), d.more)
	if len(s.X) == len(x) {
		copy(x, s.X)
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

// slot is a record with the memory of what it points to, which the next record may take over.
type slot struct {
	Record
	issued Promise
	steps  []Step
	groups []string
	hashes []uint64
	raw    []byte    // what it was read of, its length included; valid until the next record is read
	points []float32 // inputs and recourse points, one behind the other
}

func (s *slot) clear(steps []Step, attributes int) {
	if s.steps == nil {
		s.steps, s.groups = make([]Step, len(steps)), make([]string, attributes)
	}
	copy(s.steps, steps)
	clear(s.groups)
	s.points = s.points[:0]
	s.issued = none(recourse.NoneFound)
	s.Record = Record{
		Groups: s.groups, Evaluated: true, Issued: &s.issued, Steps: s.steps, First: s.issued,
		Label: -1, Full: undefined(), Quant: undefined(),
	}
}

// point returns room for n numbers, which are 0; more is how many points come behind it.
func (s *slot) point(n, more int) []float32 {
	used := len(s.points)
	if used+n > cap(s.points) { // what is handed out already stays where it is
		s.points, used = make([]float32, 0, n*(1+more)), 0
	}
	s.points = s.points[:used+n]
	x := s.points[used : used+n : used+n]
	clear(x)
	return x
}
