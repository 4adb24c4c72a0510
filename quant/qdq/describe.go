package qdq

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"cfq/quant"
)

// LayerNote says how a layer's weights are stored.
type LayerNote struct {
	Node   string `json:"name"` // its output's name when it has none
	Op     string `json:"op"`   // Gemm, MatMul, Conv, or Gather for a table of In rows
	In     int    `json:"inputs"`
	Out    int    `json:"outputs"`
	Biases int    `json:"biases"`
	// Columns is the number of inputs that the kernel multiplies: In, or more where inputs are split.
	Columns int `json:"-"`
	// Bits of a stored weight, on average; Widths are those that occur, when there are several.
	Bits   float64 `json:"bits"`
	Widths []int   `json:"widths,omitempty"`
	// Container is the element type of the stored tensor, or the function that
	// unpacks it; all of them, when the rows stand in several.
	Container string `json:"container"`
	// Stored is what the weights take in the file; see the function of that name.
	// What several layers share counts for the first of them.
	Stored int    `json:"stored_bytes,omitempty"`
	Note   string `json:"note,omitempty"`
	Kernel string `json:"kernel"` // operator that ONNX Runtime runs, for the caller to fill in

	Table      bool   `json:"-"` // rows are looked up by category: nothing is computed
	Output     string `json:"-"` // value that the layer defines
	Behind     string `json:"-"` // value of a Relu or Clip that follows a convolution
	Activation int    `json:"-"` // bits of what the layer reads
	// Saturates says that the layer multiplies integers whose sums processors without VNNI cut off, see ort.Saturates.
	Saturates bool `json:"-"`
	// Fixed is that of quant.LayerInfo: it says something of canonical models only.
	Fixed string `json:"-"`
}

// Params is the number of weights, without the bias.
func (n *LayerNote) Params() int { return n.In * n.Out }

// Layers describes a float model in its canonical form, where layers are whole, as quantization looks at it, and a
// quantized one as it stands. So it does one that has no canonical form, which is an error.
func Layers(m *graph.Model) ([]LayerNote, error) {
	if Quantized(m) {
		return Describe(m)
	}
	c, _, unusual := pass.Canonical(m, nil)
	if unusual != nil {
		c = m
	}
	notes, err := Describe(c)
	if unusual == nil {
		fixed(notes)
	}
	return notes, cmp.Or(unusual, err)
}

// fixed notes why layers of a canonical model stay in float.
func fixed(notes []LayerNote) {
	for i := range notes {
		if l := &notes[i]; l.Fixed != "" {
			l.Note = "stays in float: " + l.Fixed
		}
	}
}

// LayersOf is Layers of an opened model. Where its file looks rows up in a table, its graph multiplies the inputs of a
// column of categories with floats: tables of few bits are described as they are in the file.
func LayersOf(m *onnxio.Model) ([]LayerNote, error) {
	quantized := Quantized(m.Graph())
	if c, unusual := m.Canonical(); !quantized && unusual == nil {
		m = c
	}
	notes, err := Describe(typed(m))
	if err != nil {
		return nil, err
	}
	if !quantized {
		fixed(notes)
	}
	inputs, producers := m.Tables(), m.Graph().Graph.Producers()
	for i := range notes {
		notes[i].Table = inputs[producers[notes[i].Output].Input(0)]
	}
	file, err := Describe(m.File())
	if file = slices.DeleteFunc(file, func(l LayerNote) bool { return !l.Table }); len(file) == 0 {
		return notes, err
	}
	notes = slices.DeleteFunc(notes, func(l LayerNote) bool { return l.Table && l.IsFloat() })
	return append(file, notes...), err
}

// typed returns the graph of a model that was opened with the types of its values, which the file need not declare.
func typed(m *onnxio.Model) *graph.Model {
	g := m.Graph().Clone()
	g.Graph.Values = nil
	for _, name := range slices.Sorted(maps.Keys(m.Types())) {
		t := m.Types()[name]
		g.Graph.Values = append(g.Graph.Values, graph.Value{Name: name, DType: t.DType, Shape: t.Shape})
	}
	return g
}

// Quantized reports whether a model holds quantizers or operators on integers.
func Quantized(m *graph.Model) bool {
	return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return n.Op == "DequantizeLinear" || n.Op == "QuantizeLinear" || integerOf(n) != nil
	})
}

// Describe lists the Gemm, MatMul and Conv nodes of a model, and their kinds on integers, whose weights come,
// perhaps through casts, scales and unpacking, from stored tensors, and the Gather nodes that look up in such of few
// bits.
func Describe(m *graph.Model) ([]LayerNote, error) {
	infos, err := quant.FindLayers(m)
	if err != nil {
		return nil, err
	}
	float := map[string]*quant.LayerInfo{}
	for i := range infos {
		float[infos[i].Output] = &infos[i]
	}
	v, counted := newView(m), map[string]bool{}
	notes := []LayerNote{}
	for _, n := range m.Graph.Nodes {
		whole, table := integerOf(n), v.lookedUp(n)
		if !quant.IsLayer(n) && whole == nil && !table {
			continue
		}
		l := LayerNote{
			Node: quant.NodeName(n), Op: n.Op, Output: n.Outputs[0],
			Behind: Behind(m.Graph, n), Activation: v.activation(n.Input(0)),
		}
		conv := strings.Contains(n.Op, "Conv")
		weight, bias := n.Input(1), n.Input(2)
		if whole != nil {
			weight, bias, l.Activation = n.Input(whole.weight[0]), n.Input(whole.bias), whole.activation
		}
		info := float[l.Output]
		if table {
			weight, bias, l.Table = n.Input(0), "", true
		}
		if info != nil {
			weight, l.In, l.Out, l.Fixed = info.Weight, info.In, info.Out, info.Fixed
		}
		s := v.trace(weight, 0)
		if n.Op == "MatMulNBits" {
			s = blocks(n, s)
		}
		switch {
		case s == nil || len(s.dims) == 0 || s.dims[0] < 1 || info == nil && len(s.dims) != 2 && !conv:
			continue
		case info == nil && conv:
			l.Out = int(s.dims[0])
			l.In = s.weights() / l.Out
		case info == nil && n.Int("transB", 0) != 0:
			l.Out, l.In = int(s.dims[0]), int(s.dims[1])
		case info == nil:
			l.In, l.Out = int(s.dims[0]), int(s.dims[1])
		}
		s.describe(&l)
		l.Saturates = v.saturating(l.Activation, weight) > 0
		l.Stored = v.weigh(s, weight, counted)
		if whole != nil {
			for _, name := range append(v.outerScales(n), whole.names(n)...) {
				l.Stored += v.weigh(s, name, counted)
			}
		}
		if bias != "" {
			l.Biases = l.Out
		}
		notes = append(notes, l)
	}
	return notes, nil
}

// lookedUp reports whether n looks rows up in a table that is stored in few bits: the layer that an embedding is.
func (v *view) lookedUp(n *graph.Node) bool {
	if !n.Is("Gather") || n.Int("axis", 0) != 0 || v.trace(n.Input(1), 0) != nil {
		return false
	}
	s := v.trace(n.Input(0), 0)
	return s != nil && len(s.dims) == 2 && !s.holdsFloats()
}

// Behind returns the value of the activation that alone reads the convolution n, of those that the optimizer makes one
// node of with it, called after that value; "" when there is none.
func Behind(g *graph.Graph, n *graph.Node) string {
	if !n.Is("Conv") {
		return ""
	}
	readers := g.Consumers()[n.Outputs[0]]
	if len(readers) != 1 {
		return ""
	}
	for _, op := range []string{"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid"} {
		if readers[0].Is(op) {
			return readers[0].Outputs[0]
		}
	}
	return ""
}

type stored struct {
	dims    []int64 // of all parts together
	parts   []storedPart
	columns int // of the kernel, where inputs are repeated; 0 without that
}

type storedPart struct {
	weights   int
	bits      int
	container string
	note      string
	tensor    *graph.Tensor // nil for what a function unpacks
}

// all are the parts of a weight, none of nil.
func (s *stored) all() []storedPart {
	if s == nil {
		return nil
	}
	return s.parts
}

func (s *stored) holdsFloats() bool {
	return slices.ContainsFunc(s.parts, func(p storedPart) bool { return p.tensor != nil && p.tensor.DType.IsFloat() })
}

func (s *stored) weights() int {
	n := 0
	for _, p := range s.parts {
		n += p.weights
	}
	return n
}

func (s *stored) describe(l *LayerNote) {
	sum := 0
	var widths []int
	var containers, notes []string
	for _, p := range s.parts {
		sum += p.bits * p.weights
		widths, containers = append(widths, p.bits), append(containers, p.container)
		if p.note != "" {
			notes = append(notes, p.note)
		}
	}
	containers, notes = slices.Compact(containers), slices.Compact(notes)
	l.Bits = float64(sum) / float64(max(s.weights(), 1))
	slices.Sort(widths)
	if widths = slices.Compact(widths); len(widths) > 1 {
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

// tensor returns the tensor called name, an initializer or a Constant node's; nil when there is none.
func (v *view) tensor(name string) *graph.Tensor {
	if t := v.inits[name]; t != nil {
		return t
	}
	if p := v.producers[name]; p != nil {
		return p.Constant()
	}
	return nil
}

// trace follows a value to the tensors that it is made of. It returns nil when
// those are not all stored.
func (v *view) trace(name string, depth int) *stored {
	if c := v.tensor(name); c != nil {
		part := storedPart{weights: c.Len(), bits: c.DType.Bits(), container: c.DType.String(), tensor: c}
		if c.DType == graph.Int4 {
			if n := codeBits(c); n < 4 {
				part.note = fmt.Sprintf("codes of %d bits", n)
			}
		}
		return &stored{dims: c.Dims, parts: []storedPart{part}}
	}
	p := v.producers[name]
	const deepest = 20
	switch {
	case p == nil || depth > deepest:
		return nil
	case p.Op == "QuantizeLinear": // of weights that the file holds as floats
		s := v.trace(p.Input(0), depth+1)
		for i := range s.all() {
			s.parts[i].note = "quantized when the model runs"
		}
		return s
	case p.Op == "DequantizeLinear" || slices.ContainsFunc([]string{"Cast", "Identity", "Mul", "Pad", "Add"}, p.Is):
		return v.trace(p.Input(0), depth+1)
	case p.Is("Transpose"):
		s := v.trace(p.Input(0), depth+1)
		if s != nil && len(s.dims) == 2 {
			s.dims = []int64{s.dims[1], s.dims[0]}
		}
		return s
	case p.Is("Reshape"):
		s := v.trace(p.Input(0), depth+1)
		if shape := v.ints(p.Input(1)); s != nil && shape != nil {
			s.dims = shape
		}
		return s
	case p.Is("Gather"):
		s := v.trace(p.Input(0), depth+1)
		if indices := v.indices(p.Input(1)); s != nil && p.Int("axis", 0) == 1 && indices > 0 {
			s.columns = indices
		}
		return s
	case p.Is("Concat") && p.Int("axis", 0) == 0:
		return v.concat(p, depth)
	case !p.Standard():
		return v.unpacked(p)
	}
	return nil
}

func (v *view) concat(n *graph.Node, depth int) *stored {
	var all *stored
	const maxParts = 64 // only a chain of doubling Concats has more
	for _, in := range n.Inputs {
		s := v.trace(in, depth+1)
		switch {
		case s == nil || len(s.dims) == 0 || all != nil && len(s.dims) != len(all.dims):
			return nil
		case all == nil:
			all = &stored{dims: slices.Clone(s.dims), parts: s.parts}
		default:
			all.dims[0] += s.dims[0]
			all.parts = append(slices.Clip(all.parts), s.parts...)
		}
		if len(all.parts) > maxParts {
			return nil
		}
	}
	return all
}

// ints returns the integers behind a name, nil when they are no constant.
func (v *view) ints(name string) []int64 {
	c := v.tensor(name)
	if c == nil {
		return nil
	}
	ints, err := c.Ints()
	if err != nil || slices.Min(append(ints, 0)) < 0 {
		return nil
	}
	return ints
}

// indices is the number of the constant indices called name, 0 when they are none.
func (v *view) indices(name string) int {
	if p := v.producers[name]; p != nil && p.Is("Cast") {
		name = p.Input(0)
	}
	return len(v.ints(name))
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

// activation returns the bits of the value called name where a layer reads it: those of the codes behind the
// DequantizeLinear that it comes from, and fewer where a Clip bounds the codes; 32 without one.
func (v *view) activation(name string) int {
	width, coded := graph.Float.Bits(), false
	for range len(v.producers) + 1 {
		n := v.producers[name]
		switch {
		case n == nil || n.Op == "QuantizeLinear":
			return width
		case n.Op == "DequantizeLinear":
			width, coded = 8, true
			if z := v.inits[n.Input(2)]; z != nil {
				width = z.DType.Bits()
			}
		case n.Is("Clip"):
			lo, hi := append(v.ints(n.Input(1)), 0), v.ints(n.Input(2))
			if coded && len(hi) == 1 && hi[0] >= lo[0] {
				width = min(width, max(1, bits.Len64(uint64(hi[0]-lo[0]))))
			}
		case !quant.Moves(n) && !n.Is("Relu") && !n.Is("Max") && !n.Is("Min"):
			return width
		}
		name = n.Input(0)
	}
	return width
}

func (v *view) unpacked(call *graph.Node) *stored {
	part := storedPart{container: fmt.Sprintf("packed, %s.%s", call.Domain, call.Op)}
	var packed *graph.Tensor
	var dims []int64
	for _, in := range call.Inputs {
		c := v.tensor(in)
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

// Stored returns the bytes of data that the file holds for the weights of
// quantized layers: codes, scales, zero points, the order of rows and columns, and
// what unpacks all that, in initializers and in constants of nodes and functions.
// Names, nodes and their dimensions are not counted, nor are biases and what belongs to
// activations. It is found in the graph, from each layer's weights backwards, so it
// does not depend on who wrote the model; what layers share counts once.
func Stored(m *graph.Model) (int, error) {
	notes, err := Describe(m)
	if err != nil {
		return 0, err
	}
	sum := 0
	for i := range notes {
		sum += notes[i].Stored
	}
	return sum, nil
}

// StoredBits is what a file stores for the weights of layers, in bits per weight: those of floats, and for quantized
// layers all that Stored counts; 0 without layers.
func StoredBits(layers []LayerNote) float64 {
	bits, weights := 0.0, 0
	for i := range layers {
		l := &layers[i]
		weights += l.Params()
		if l.IsFloat() {
			bits += l.Bits * float64(l.Params())
		} else {
			bits += 8 * float64(l.Stored)
		}
	}
	return bits / float64(max(1, weights))
}

// IsFloat reports whether the weights are stored as floats.
func (n *LayerNote) IsFloat() bool {
	return slices.ContainsFunc([]graph.DType{graph.Float, graph.Double, graph.Float16, graph.BFloat16},
		func(t graph.DType) bool { return n.Container == t.String() })
}

// weigh returns the bytes of all that the value called name is made of, and that
// has not been counted before; 0 when it stands for floats.
func (v *view) weigh(s *stored, name string, counted map[string]bool) int {
	if s.holdsFloats() {
		return 0
	}
	sum := 0
	todo := []string{name}
	for len(todo) > 0 {
		name, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if name == "" || counted[name] {
			continue
		}
		counted[name] = true
		if c := v.inits[name]; c != nil {
			sum += len(c.Raw)
			continue
		}
		if n := v.producers[name]; n != nil {
			sum += v.held(n, counted)
			from := n.Inputs
			if n.Is("Add") {
				from = from[:1] // a bias
			}
			todo = append(todo, from...)
		}
	}
	return sum
}

// held is the bytes of the constants in a node, or in the function that it calls.
func (v *view) held(n *graph.Node, counted map[string]bool) int {
	if c := n.Constant(); c != nil {
		return len(c.Raw)
	}
	sum := 0
	for i := range n.Attrs {
		if a := &n.Attrs[i]; a.T != nil {
			sum += len(a.T.Raw)
		}
	}
	for _, f := range v.m.Functions {
		key := "function " + f.Domain + "." + f.Name
		if f.Domain != n.Domain || f.Name != n.Op || counted[key] {
			continue
		}
		counted[key] = true
		for _, inner := range f.Nodes {
			sum += v.held(inner, counted)
		}
	}
	return sum
}
