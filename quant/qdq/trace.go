package qdq

import (
	"fmt"
	"slices"
	"strings"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// stored is what a weight is made of.
type stored struct {
	dims    []int64 // of all parts together
	parts   []storedPart
	columns int // of the kernel, where inputs are repeated; 0 without that
}

// storedPart is one tensor of a weight.
type storedPart struct {
	weights   int
	bits      int
	container string
	note      string
	float     bool
}

// describe fills in what l says of its container.
func (s *stored) describe(l *LayerNote) {
	bits, weights := 0, 0
	var containers, notes []string
	var widths []int
	add := func(to *[]string, v string) {
		if v != "" && !slices.Contains(*to, v) {
			*to = append(*to, v)
		}
	}
	for _, p := range s.parts {
		bits, weights = bits+p.bits*p.weights, weights+p.weights
		add(&containers, p.container)
		add(&notes, p.note)
		if !slices.Contains(widths, p.bits) {
			widths = append(widths, p.bits)
		}
	}
	l.Bits = float64(bits) / float64(max(weights, 1))
	if len(widths) > 1 {
		slices.Sort(widths)
		l.Widths = widths
		text := strings.ReplaceAll(strings.Trim(fmt.Sprint(widths), "[]"), " ", ",")
		notes = append([]string{text + " bits by row"}, notes...)
	}
	l.Columns = l.In
	if s.columns > 0 && s.columns != l.In {
		l.Columns = s.columns
		notes = append(notes, fmt.Sprintf("%d columns", s.columns))
	}
	l.Container, l.Note = strings.Join(containers, ", "), strings.Join(notes, "; ")
}

// tracer follows weights to the tensors that they are made of.
type tracer struct {
	m         *graph.Model
	inits     map[string]*graph.Tensor
	producers map[string]*graph.Node
	counted   map[string]bool // values, and functions as domain.name, that weigh has counted
}

func newTracer(m *graph.Model) *tracer {
	return &tracer{m: m, inits: m.Graph.InitMap(), producers: m.Graph.Producers(), counted: map[string]bool{}}
}

// constant returns the tensor behind a name, or nil.
func (t *tracer) constant(name string) *graph.Tensor {
	if c := t.inits[name]; c != nil {
		return c
	}
	if p := t.producers[name]; p != nil {
		return p.Constant()
	}
	return nil
}

// trace follows a value to the tensors that it is made of. It returns nil when
// those are not all stored.
func (t *tracer) trace(name string, depth int) *stored {
	if c := t.constant(name); c != nil {
		part := storedPart{weights: c.Len(), bits: c.DType.Bits(), container: c.DType.String(), float: c.DType.IsFloat()}
		if c.DType == graph.Int4 {
			if n := codeBits(c); n < 4 {
				part.note = fmt.Sprintf("codes of %d bits", n)
			}
		}
		return &stored{dims: c.Dims, parts: []storedPart{part}}
	}
	p := t.producers[name]
	const deepest = 20
	switch {
	case p == nil || depth > deepest:
		return nil
	case p.Is("DequantizeLinear") || p.Is("Cast") || p.Is("Identity") || p.Is("Mul"):
		return t.trace(p.Input(0), depth+1)
	case p.Is("Reshape"):
		s := t.trace(p.Input(0), depth+1)
		if shape := t.ints(p.Input(1)); s != nil && shape != nil {
			s.dims = shape
		}
		return s
	case p.Is("Gather"):
		s := t.trace(p.Input(0), depth+1)
		if indices := t.indices(p.Input(1)); s != nil && p.Int("axis", 0) == 1 && indices > 0 {
			s.columns = indices
		}
		return s
	case p.Is("Concat") && p.Int("axis", 0) == 0:
		return t.concat(p, depth)
	case !p.Standard():
		return t.unpacked(p)
	}
	return nil
}

// concat joins the parts of a Concat over the rows.
func (t *tracer) concat(n *graph.Node, depth int) *stored {
	var all *stored
	const most = 64 // no layer has so many; a chain of doubling ones has
	for _, in := range n.Inputs {
		s := t.trace(in, depth+1)
		switch {
		case s == nil || len(s.dims) == 0 || all != nil && len(s.dims) != len(all.dims):
			return nil
		case all == nil:
			all = &stored{dims: slices.Clone(s.dims), parts: s.parts}
		default:
			all.dims[0] += s.dims[0]
			all.parts = append(slices.Clip(all.parts), s.parts...)
		}
		if len(all.parts) > most {
			return nil
		}
	}
	return all
}

// ints returns the integers behind a name, nil when they are no constant.
func (t *tracer) ints(name string) []int64 {
	c := t.constant(name)
	if c == nil {
		return nil
	}
	v, err := c.Ints()
	if err != nil || slices.Min(append(v, 0)) < 0 {
		return nil
	}
	return v
}

// indices is the number of the constant indices called name, 0 when they are none.
func (t *tracer) indices(name string) int {
	if p := t.producers[name]; p != nil && p.Is("Cast") {
		name = p.Input(0)
	}
	return len(t.ints(name))
}

// codeBits is the width that the codes of an int8 or int4 tensor need: a small layer
// takes fewer bytes in a wider container than with what unpacks a narrower one.
func codeBits(t *graph.Tensor) int {
	low, high := int8(0), int8(0)
	for i := range t.Len() {
		code := int8(0)
		if t.DType == graph.Int4 {
			code = int8(t.Raw[i/2]>>(i%2*4)<<4) >> 4
		} else {
			code = int8(t.Raw[i])
		}
		low, high = min(low, code), max(high, code)
	}
	for _, f := range quant.Formats() {
		if f.QMin <= int(low) && int(high) <= f.QMax {
			return f.Bits
		}
	}
	return t.DType.Bits()
}

// unpacked reads the call of a function that takes packed bytes and a shape.
func (t *tracer) unpacked(call *graph.Node) *stored {
	part := storedPart{container: fmt.Sprintf("packed, %s.%s", call.Domain, call.Op)}
	var packed *graph.Tensor
	var dims []int64
	for _, in := range call.Inputs {
		c := t.constant(in)
		switch {
		case c == nil:
			return nil
		case c.DType == graph.Int64 && c.Len() == 2:
			dims, _ = c.Ints() // cannot fail for this type
		case c.DType == graph.Uint8 && (packed == nil || len(c.Raw) > len(packed.Raw)):
			packed = c
		}
	}
	if packed == nil || len(dims) != 2 || dims[0]*dims[1] <= 0 {
		return nil
	}
	part.weights = int(dims[0] * dims[1])
	part.bits = len(packed.Raw) / ((part.weights + 7) / 8) // planes of eight weights a byte, padded
	return &stored{dims: dims, parts: []storedPart{part}}
}
