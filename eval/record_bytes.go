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
	var has bool
	for _, cell := range append(l.Cells(r), &r.Calibrated) {
		_, follows := cell.(bool)
		has = cell != nil && !follows
		if c.value(&has); !has {
			continue
		}
		switch x := cell.(type) {
		case *recourse.Status:
			c.value((*int8)(x))
		case *int:
			v := int64(*x)
			c.value(&v)
			*x = int(v)
		case *Float:
			c.value((*float64)(x))
		case *string:
			if n := c.length(len(*x)); c.reads {
				*x, c.b = string(c.b[:n]), c.b[n:]
			} else {
				c.b = append(c.b, *x...)
			}
		case *[]uint64:
			if n := c.length(len(*x)); c.reads {
				*x = append(*x, make([]uint64, n)...)
			}
			c.value(*x)
		case *[]Float:
			if n := c.length(len(*x)); c.reads {
				*x = append(*x, make([]Float, n)...)
			}
			c.value(*x)
		case *[]float32:
			c.inputs(x, r)
		default:
			c.value(x)
		}
	}
}

// value is a number, or a list whose length is known, and never fails.
func (c *recordBytes) value(x any) {
	if !c.reads {
		c.b, _ = binary.Append(c.b, binary.LittleEndian, x)
		return
	}
	n, _ := binary.Decode(c.b, binary.LittleEndian, x)
	c.b = c.b[n:]
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
			c.value(&(*list)[i-1])
		}
		return
	}
	for i := range *list {
		var was float32
		if base != nil {
			was = base[i]
		}
		if math.Float32bits((*list)[i]) != math.Float32bits(was) {
			c.length(i + 1)
			c.value(&(*list)[i])
		}
	}
	c.length(0)
}
