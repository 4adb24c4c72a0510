package qdq

import (
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"maps"
	"slices"
)

// container is a way to store signed codes of at most its number of bits: as a tensor of
// integers of that width, or as bit planes.
type container struct {
	bits   int
	planes bool
}

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

// stores says in which container the rows of each width stand. Rows of several widths may share one.
type stores map[int]container

func (s stores) planes() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s)), func(c container) bool { return c.planes })
}

type rowGroup struct {
	container
	widths uint16 // bit b is set when rows of width b are among them
	rows   []int
}

// tensorCache holds the tensors that rows of certain widths of a layer make in a
// container: a model is written many times while containers are chosen.
type tensorCache map[tensorKey]*graph.Tensor

type tensorKey struct {
	layer *plannedLayer
	container
	widths uint16
}

func packed(l *plannedLayer, g rowGroup) *graph.Tensor {
	in := l.enc.In
	codes := l.enc.Codes
	if len(g.rows) < l.enc.Out {
		codes = nil
		for _, o := range g.rows {
			codes = append(codes, l.enc.Codes[o*in:(o+1)*in]...)
		}
	}
	if g.planes { // uint8 [bits, bytes of a plane, 1]
		m := (len(codes) + 7) / 8
		raw := make([]byte, g.bits*m)
		for i, q := range codes {
			for b := range g.bits {
				raw[b*m+i/8] |= byte(q) >> b & 1 << (i % 8)
			}
		}
		return &graph.Tensor{Name: "w", DType: graph.Uint8, Dims: []int64{int64(g.bits), int64(m), 1}, Raw: raw}
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

// The function that unpacks bit planes, shared by all layers of a model.
const (
	functionDomain = pass.FunctionDomain
	functionName   = "Unpack"
)

// unpackFunction is the model-local function that turns bit planes into int8 codes. Inputs: the planes p, uint8 [bits,
// m, 1], bit k of byte j of a plane belonging to element 8j+k; the worth v of each plane, float [bits, 1]; the shape n
// of the result, int64 [2]. The runtime folds a call with constant inputs at load.
func unpackFunction(opset int64) *graph.Function {
	f := &graph.Function{
		Name: functionName, Domain: functionDomain,
		Inputs: []string{"p", "v", "n"}, Outputs: []string{"w"},
		Opsets: []graph.Opset{{Version: opset}},
	}
	op := func(name, out string, in []string, attrs ...graph.Attr) {
		f.Nodes = append(f.Nodes, &graph.Node{Op: name, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	bytes := func(out string, v ...byte) {
		t := &graph.Tensor{DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: v}
		op("Constant", out, nil, graph.TensorAttr("value", t))
	}
	ints := func(out string, v ...int64) { op("Constant", out, nil, graph.IntsAttr("value_ints", v...)) }
	bytes("a", 0, 1, 2, 3, 4, 5, 6, 7)
	bytes("b", 1)
	ints("c", 0, -1)
	ints("d", 0)
	op("BitShift", "e", []string{"p", "a"}, graph.StringAttr("direction", "RIGHT"))
	op("BitwiseAnd", "f", []string{"e", "b"})
	op("Reshape", "g", []string{"f", "c"})
	op("Cast", "h", []string{"g"}, graph.IntAttr("to", int64(graph.Float)))
	op("Gemm", "i", []string{"h", "v"}, graph.IntAttr("transA", 1))
	op("Cast", "j", []string{"i"}, graph.IntAttr("to", int64(graph.Int8)))
	op("ReduceProd", "k", []string{"n"})
	op("Slice", "l", []string{"j", "d", "k"})
	op("Reshape", "w", []string{"l", "n"})
	return f
}

func (l *plannedLayer) widths() []int {
	widths := map[int]bool{}
	for _, f := range l.enc.Formats {
		widths[f.Bits] = true
	}
	return slices.Sorted(maps.Keys(widths))
}

// groupBytes is more than it can save to store rows of one width with those of another
// and not by themselves: a tensor, what unpacks it, a Concat and a Gather.
const groupBytes = 600
