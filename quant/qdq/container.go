package qdq

import (
	"slices"

	"cfq/onnxio/graph"
)

// container is a way to store signed codes of up to so many bits: as a tensor of
// integers of that width, or as bit planes.
type container struct {
	bits   int
	planes bool
}

// dtype is the element type of the tensor that holds a container's codes.
func (c container) dtype() graph.DType {
	switch {
	case c.planes:
		return graph.Uint8
	case c.bits == 2:
		return graph.Int2
	case c.bits == 4:
		return graph.Int4
	}
	return graph.Int8
}

// stores says in which container the rows of each width stand. Rows of several
// widths may share one.
type stores map[int]container

// planes reports whether rows of some width stand in bit planes.
func (s stores) planes() bool {
	for _, c := range s {
		if c.planes {
			return true
		}
	}
	return false
}

// group is the rows of a layer that share a container, in the order of the layer.
type group struct {
	container
	widths uint16 // bit b is set when rows of width b are among them
	rows   []int
}

// shelf is what stores hold: the tensors that rows of certain widths of a layer make in
// a container. Models are written many times with other containers around them.
type shelf map[shelved]*graph.Tensor

type shelved struct {
	layer *layer
	container
	widths uint16
}

// groups collects the rows of l by their container, in the order in which those
// occur, and returns where in that order each row of the layer stands; nil when
// it stands in its place.
func (l *layer) groups() ([]group, []int) {
	var groups []group
	for o, f := range l.enc.Formats {
		c := l.stores[f.Bits]
		g := slices.IndexFunc(groups, func(g group) bool { return g.container == c })
		if g < 0 {
			g = len(groups)
			groups = append(groups, group{container: c})
		}
		groups[g].rows = append(groups[g].rows, o)
		groups[g].widths |= 1 << f.Bits
	}
	place := make([]int, len(l.enc.Formats))
	moved, at := false, 0
	for _, g := range groups {
		for _, o := range g.rows {
			place[o] = at
			moved = moved || o != at
			at++
		}
	}
	if !moved {
		return groups, nil
	}
	return groups, place
}

// codes returns the codes of l as a value of type to, int8 or float, [outputs,
// columns of the kernel]. The file holds them by the containers of their rows and
// once for each input; what makes one tensor of that is folded by the runtime at load.
func (w *writer) codes(l *layer, to graph.DType) string {
	groups, place := l.groups()
	parts := make([]string, len(groups))
	for i, g := range groups {
		parts[i] = w.group(l, g, to)
	}
	v := parts[0]
	if len(parts) > 1 {
		v = w.shared("Concat", "w", parts, graph.IntAttr("axis", 0))
	}
	if place != nil {
		v = w.shared("Gather", "w", []string{v, w.indices(place)})
	}
	if l.sources != nil {
		v = w.shared("Gather", "w", []string{v, w.indices(l.sources)}, graph.IntAttr("axis", 1))
	}
	return v
}

// group returns the codes of the rows of g as a value of type to.
func (w *writer) group(l *layer, g group, to graph.DType) string {
	key := shelved{l, g.container, g.widths}
	t := w.shelf[key]
	if t == nil {
		t = packed(l, g)
		w.shelf[key] = t
	}
	c := *t // tensors are named when they are added
	v := w.tensor(&c)
	w.int2 = w.int2 || t.DType == graph.Int2
	if g.planes {
		v = w.unpack(v, g.bits, []int64{int64(len(g.rows)), int64(l.enc.In)})
	}
	if to == graph.Int8 && (g.planes || g.bits == 8) {
		return v
	}
	return w.shared("Cast", "w", []string{v}, graph.IntAttr("to", int64(to)))
}

// packed returns the codes of the rows of g of l in their container.
func packed(l *layer, g group) *graph.Tensor {
	in := l.enc.In
	codes := l.enc.Codes
	if len(g.rows) < l.enc.Out {
		codes = nil
		for _, o := range g.rows {
			codes = append(codes, l.enc.Codes[o*in:(o+1)*in]...)
		}
	}
	if g.planes {
		return planes(codes, g.bits)
	}
	t := &graph.Tensor{Name: "w", DType: g.dtype(), Dims: []int64{int64(len(g.rows)), int64(in)}}
	t.Raw = make([]byte, graph.RawSize(t.DType, len(codes)))
	bits := t.DType.Bits()
	mask := byte(1<<bits - 1)
	for i, q := range codes {
		t.Raw[i*bits/8] |= (byte(q) & mask) << (i * bits % 8)
	}
	return t
}

// indices adds gather indices, as bytes behind a Cast where that is shorter.
func (w *writer) indices(v []int) string {
	small := len(v) > castBytes/3
	raw, ints := make([]byte, len(v)), make([]int32, len(v))
	for i, x := range v {
		small = small && x < 256
		raw[i], ints[i] = byte(x), int32(x)
	}
	if !small || w.plain {
		return w.tensor(graph.FromInt32s("i", ints, int64(len(v))))
	}
	t := w.tensor(&graph.Tensor{Name: "i", DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: raw})
	return w.shared("Cast", "i", []string{t}, graph.IntAttr("to", int64(graph.Int32)))
}
