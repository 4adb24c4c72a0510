package eval

import (
	"encoding/binary"
	"math"

	"cfq/recourse"
)

// layout says how many cells a record has in the temporary file.
type layout struct{ margins, attributes int }

func (l layout) cells(r *Record) []any {
	return append(r.Cells(l.margins, l.attributes), &r.Calibrated)
}

// encode appends a record: for each cell whether there is one, and what it holds. Inputs are written as what differs
// from 0, and recourse points as what differs from the inputs.
func (l layout) encode(b []byte, r *Record) []byte {
	for _, cell := range l.cells(r) {
		switch cell.(type) {
		case nil, bool:
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		switch x := cell.(type) {
		case *bool:
			b = append(b, byte(count(*x)))
		case *int8:
			b = append(b, byte(*x))
		case *recourse.Status:
			b = append(b, byte(*x))
		case *int:
			b = binary.LittleEndian.AppendUint64(b, uint64(*x))
		case *uint64:
			b = binary.LittleEndian.AppendUint64(b, *x)
		case *Float:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(*x)))
		case *string:
			b = append(binary.AppendUvarint(b, uint64(len(*x))), *x...)
		case *[]uint64:
			b = binary.AppendUvarint(b, uint64(len(*x)))
			for _, v := range *x {
				b = binary.LittleEndian.AppendUint64(b, v)
			}
		case *[]Float:
			b = binary.AppendUvarint(b, uint64(len(*x)))
			for _, v := range *x {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
			}
		case *[]float32:
			b = binary.AppendUvarint(b, uint64(len(*x)))
			base := r.base(x, len(*x))
			for i, v := range *x {
				var was float32
				if base != nil {
					was = base[i]
				}
				if bits := math.Float32bits(v); bits != math.Float32bits(was) {
					b = binary.LittleEndian.AppendUint32(binary.AppendUvarint(b, uint64(i)+1), bits)
				}
			}
			b = append(b, 0)
		}
	}
	return b
}

// base is what a list of n numbers is written as the difference from; nil is 0.
func (r *Record) base(list *[]float32, n int) []float32 {
	if list != &r.X && len(r.X) == n {
		return r.X
	}
	return nil
}

func (l layout) decode(b []byte) *Record {
	r, in := Blank(l.margins, l.attributes), &recordReader{b}
	for _, cell := range l.cells(&r) {
		if in.take(1)[0] == 0 {
			continue
		}
		switch x := cell.(type) {
		case *bool:
			*x = in.take(1)[0] == 1
		case *int8:
			*x = int8(in.take(1)[0])
		case *recourse.Status:
			*x = recourse.Status(int8(in.take(1)[0]))
		case *int:
			*x = int(in.word())
		case *uint64:
			*x = in.word()
		case *Float:
			*x = in.float()
		case *string:
			*x = string(in.take(in.uvarint()))
		case *[]uint64:
			for range in.uvarint() {
				*x = append(*x, in.word())
			}
		case *[]Float:
			for range in.uvarint() {
				*x = append(*x, in.float())
			}
		case *[]float32:
			if n := in.uvarint(); n > 0 { // or there is no list
				*x = make([]float32, n)
				copy(*x, r.base(x, n))
			}
			for i := in.uvarint(); i > 0; i = in.uvarint() {
				(*x)[i-1] = math.Float32frombits(binary.LittleEndian.Uint32(in.take(4)))
			}
		}
	}
	r.Settle()
	return &r
}

type recordReader struct{ b []byte }

func (in *recordReader) take(n int) []byte {
	b := in.b[:n]
	in.b = in.b[n:]
	return b
}

func (in *recordReader) uvarint() int {
	v, n := binary.Uvarint(in.b)
	in.b = in.b[n:]
	return int(v)
}

func (in *recordReader) word() uint64 { return binary.LittleEndian.Uint64(in.take(8)) }

func (in *recordReader) float() Float { return Float(math.Float64frombits(in.word())) }
