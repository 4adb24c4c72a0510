package eval

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"io"
	"math"
	"slices"
)

// recordCodec writes records for a temporary file, each as a message of its own: they can be read in any order.
type recordCodec struct {
	buf   bytes.Buffer
	out   *gob.Encoder
	types []byte // a record with the description of its type, which a reader must have seen before all others
}

func newRecordCodec() (*recordCodec, error) {
	c := &recordCodec{}
	c.out = gob.NewEncoder(&c.buf)
	_, err := c.encode(&Record{})
	c.types = bytes.Clone(c.buf.Bytes())
	return c, err
}

// encode returns the message of a record, which is valid until the next call. Inputs are written as what differs from
// 0, and recourse points as what differs from the inputs. The point of the first valid iterate is not kept.
func (c *recordCodec) encode(r *Record) ([]byte, error) {
	short := *r
	short.First.Point, short.Steps = nil, slices.Clone(r.Steps)
	if r.Issued != nil {
		issued := *r.Issued
		short.Issued = &issued
	}
	for _, point := range short.points() {
		*point = changes(*point, r.X)
	}
	short.X = changes(r.X, nil)
	c.buf.Reset()
	err := c.out.Encode(&short)
	return c.buf.Bytes(), err
}

// decoder reads records one after the other, until io.EOF.
func (c *recordCodec) decoder(from io.Reader, size int64) func() (*Record, error) {
	all := io.MultiReader(bytes.NewReader(c.types), from)
	in := gob.NewDecoder(bufio.NewReaderSize(all, int(min(1<<16, size+int64(len(c.types))))))
	next := func() (*Record, error) {
		r := &Record{}
		if err := in.Decode(r); err != nil {
			return nil, err
		}
		r.X = changed(r.X, nil)
		for _, point := range r.points() {
			*point = changed(*point, r.X)
		}
		return r, nil
	}
	_, err := next() // the record of types
	return func() (*Record, error) {
		if err != nil {
			return nil, err
		}
		return next()
	}
}

// points are the recourse points of the record that are kept.
func (r *Record) points() (all []*[]float32) {
	if r.Issued != nil {
		all = append(all, &r.Issued.Point)
	}
	for i := range r.Steps {
		all = append(all, &r.Steps[i].Full.Point, &r.Steps[i].Quant.Point)
	}
	return all
}

// changes are the length of x, and position and value of each number that differs from those of others, if these are as
// many, or from 0.
func changes(x, others []float32) []float32 {
	if x == nil {
		return nil
	}
	list := []float32{float32(len(x))}
	for i, v := range x {
		var was float32
		if len(others) == len(x) {
			was = others[i]
		}
		if math.Float32bits(v) != math.Float32bits(was) {
			list = append(list, float32(i), v)
		}
	}
	return list
}

// changed is x of which changes made the list.
func changed(list, others []float32) []float32 {
	if list == nil {
		return nil
	}
	x := make([]float32, int(list[0]))
	if len(others) == len(x) {
		copy(x, others)
	}
	for pair := range slices.Chunk(list[1:], 2) {
		x[int(pair[0])] = pair[1]
	}
	return x
}
