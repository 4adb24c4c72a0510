package qdq

import "cfq/onnxio/graph"

// The function that unpacks bit planes, shared by all layers of a model.
const (
	functionDomain = "cfq"
	functionName   = "Unpack"
)

// planes returns codes as bit planes: uint8 [bits, bytes of a plane, 1].
func planes(codes []int8, bits int) *graph.Tensor {
	m := (len(codes) + 7) / 8
	raw := make([]byte, bits*m)
	for i, q := range codes {
		for b := range bits {
			raw[b*m+i/8] |= byte(q) >> b & 1 << (i % 8)
		}
	}
	return &graph.Tensor{Name: "w", DType: graph.Uint8, Dims: []int64{int64(bits), int64(m), 1}, Raw: raw}
}

// unpack calls the function that turns the bit planes p into codes of shape dims.
func (w *writer) unpack(p string, bits int, dims []int64) string {
	w.unpacks = true
	// Two's complement: the highest plane counts negative.
	value := make([]float32, bits)
	for b := range value {
		value[b] = float32(int(1) << b)
	}
	value[bits-1] = -value[bits-1]
	v := w.tensor(graph.FromFloats("v", value, int64(bits), 1))
	shape := w.tensor(graph.FromInts("n", dims, 2))
	return w.once("unpack "+p+" "+shape, func() string {
		out := w.names.Name("w")
		w.append(&graph.Node{Op: functionName, Domain: functionDomain, Inputs: []string{p, v, shape}, Outputs: []string{out}})
		return out
	})
}

// unpackFunction is the model-local function that turns bit planes into int8
// codes. Inputs: the planes p, uint8 [bits, m, 1], bit k of byte j of a plane
// belonging to element 8j+k; the worth v of each plane, float [bits, 1]; the
// shape n of the result, int64 [2]. The runtime folds a call with constant
// inputs at load.
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
		op("Constant", out, nil, graph.TensorAttr("value", &graph.Tensor{DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: v}))
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
