package eval

import (
	"encoding/binary"
	"math"

	"cfq/recourse"
)

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
