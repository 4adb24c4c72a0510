package qdq

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cfq/internal/lists"
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
	// Bits are the width of the weights' codes, on average, whatever holds them, 32 in float; Widths are those that occur,
	// when there are several.
	Bits   float64 `json:"bits"`
	Widths []int   `json:"widths,omitempty"`
	// Container is the element type of the stored tensor, or the function that
	// unpacks it; all of them, when the rows stand in several.
	Container string `json:"container"`
	// Stored is the bytes of data that the file holds for the weights of a quantized layer: codes, scales, zero points,
	// the order of rows and columns, and what unpacks all that. Names, nodes and their dimensions are not counted, nor are
	// biases and what belongs to activations. It is found in the graph, from the weights backwards, so it does not depend
	// on who wrote the model; what several layers share counts for the first of them.
	Stored int    `json:"stored_bytes,omitempty"`
	Note   string `json:"note,omitempty"`
	Kernel string `json:"kernel"` // operator that ONNX Runtime runs, for the caller to fill in

	LayerRole `json:"-"`
}

// LayerRole says what the graph does with a layer.
type LayerRole struct {
	Rows       map[int]int // outputs whose codes have that many bits
	Held       float64     // bits of what holds a weight, which a kernel computes with
	Columns    int         // inputs that the kernel multiplies: In, or more where inputs are split
	Table      bool        // rows are looked up by category: nothing is computed
	Output     string      // value that the layer defines
	Behind     string      // value of a Relu or Clip that follows a convolution
	Activation int         // bits of what the layer reads
	Saturates  bool        // it multiplies integers whose sums processors without VNNI cut off, see ort.Saturates
	Fixed      string      // that of quant.LayerInfo: it says something of canonical models only
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
	notes, err := describe(c, unusual == nil)
	return notes, cmp.Or(unusual, err)
}

// LayersOf is Layers of an opened model. Where its file looks rows up in a table, its graph multiplies the inputs of a
// column of categories with floats: tables of few bits are described as they are in the file, and so are the bits of
// floats.
func LayersOf(m *onnxio.Model) ([]LayerNote, error) {
	quantized := Quantized(m.Graph())
	file, err := Describe(m.File())
	if err != nil {
		return nil, err
	}
	if c, unusual := m.Canonical(); !quantized && unusual == nil {
		m = c
	}
	g := m.Graph().Clone()
	g.Graph.Values = nil
	for name, t := range m.Types() {
		g.Graph.Values = append(g.Graph.Values, graph.Value{Name: name, DType: t.DType, Shape: t.Shape})
	}
	notes, err := describe(g, !quantized)
	if err != nil {
		return nil, err
	}
	inputs, producers := m.Tables(), m.Graph().Graph.Producers()
	stored := lists.Filter(file, func(l LayerNote) bool { return l.IsFloat() })
	for i := range notes { // in the order of the graph, where nodes may have other names
		l := &notes[i]
		l.Table = inputs[producers[l.Output].Input(0)]
		k := slices.IndexFunc(stored, func(f LayerNote) bool { return f.Params() == l.Params() })
		if k >= 0 && l.IsFloat() {
			l.Bits, l.Container = stored[k].Bits, stored[k].Container
			stored = slices.Delete(stored, k, k+1)
		}
	}
	if file = lists.Filter(file, func(l LayerNote) bool { return l.Table }); len(file) > 0 {
		notes = slices.DeleteFunc(notes, func(l LayerNote) bool { return l.Table && l.IsFloat() })
	}
	return append(file, notes...), nil
}

// Quantized reports whether a model holds quantizers or operators on integers.
func Quantized(m *graph.Model) bool {
	kernels := Kernels()
	return slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return n.Op == "DequantizeLinear" || n.Op == "QuantizeLinear" || kernels[n.Op].coded()
	})
}

// Describe lists the Gemm, MatMul and Conv nodes of a model, and their kinds on integers, whose weights come, perhaps
// through casts, scales and unpacking, from stored tensors, the Gather nodes that look up in such of few bits, and
// other nodes that read matrices of floats.
func Describe(m *graph.Model) ([]LayerNote, error) { return describe(m, false) }

func describe(m *graph.Model, canonical bool) ([]LayerNote, error) {
	infos, err := quant.FindLayers(m)
	if err != nil {
		return nil, err
	}
	float := map[string]*quant.LayerInfo{}
	for i := range infos {
		if infos[i].Fixed != quant.Coded {
			float[infos[i].Output] = &infos[i]
		}
	}
	v := &view{m: m, constants: m.Graph.Constants(), producers: m.Graph.Producers(), consumers: m.Graph.Consumers()}
	counted, constants, kernels := map[string]bool{}, m.Graph.Stored(), Kernels()
	notes := []LayerNote{}
	for _, n := range m.Graph.Nodes {
		if len(n.Outputs) == 0 || constants[n.Outputs[0]] != nil {
			continue
		}
		k, table, info := kernels[n.Op], v.lookedUp(n), float[n.Outputs[0]]
		if !quant.IsLayer(n) && !k.coded() && !table && info == nil {
			continue
		}
		l := LayerNote{
			Node: quant.NodeName(n), Op: n.Op,
			LayerRole: LayerRole{Output: n.Outputs[0], Behind: Behind(v.consumers, n), Activation: v.activation(n.Input(0))},
		}
		conv := strings.Contains(n.Op, "Conv")
		weight, bias := n.Input(1), n.Input(2)
		if k.coded() {
			weight, bias, l.Activation = n.Input(k.Weights[0]), n.Input(k.Bias), k.Activation
		}
		if table {
			weight, bias, l.Table = n.Input(0), "", true
		}
		if info != nil {
			weight, l.In, l.Out, l.Fixed = info.Weight, info.In, info.Out, info.Fixed
		}
		s := v.trace(weight, 0)
		if n.Op == "MatMulNBits" {
			in, out := n.Int("K", 0), n.Int("N", 0)
			if s == nil || in < 1 || out < 1 {
				continue
			}
			part := storedPart{weights: int(in * out), bits: int(n.Int("bits", 4)), container: "packed, " + n.Op}
			s = &stored{dims: []int64{in, out}, parts: []storedPart{part}}
		}
		switch {
		case s == nil || len(s.dims) == 0 || s.dims[0] < 1 || info == nil && len(s.dims) != 2 && !conv:
			continue
		case info == nil && conv:
			l.Out, l.In = int(s.dims[0]), s.weights()/int(s.dims[0])
		case info == nil && n.Int("transB", 0) != 0:
			l.Out, l.In = int(s.dims[0]), int(s.dims[1])
		case info == nil:
			l.In, l.Out = int(s.dims[0]), int(s.dims[1])
		}
		s.describe(&l, info == nil && !conv && n.Int("transB", 0) == 0)
		if canonical && l.Fixed != "" {
			l.Note = "stays in float: " + l.Fixed
		}
		if info != nil && !quant.IsLayer(n) {
			l.Columns = 0 // it may multiply nothing
		}
		l.Saturates = l.Activation <= 8 && s.saturates(l.Activation)
		names := []string{weight}
		if k.coded() {
			names = append(lists.Map(k.Weights, n.Input), v.outerScales(n)...)
		}
		for _, name := range names {
			if !s.holdsFloats() {
				l.Stored += v.weigh(name, counted)
			}
		}
		if bias != "" {
			l.Biases = l.Out
		}
		notes = append(notes, l)
	}
	return notes, nil
}

func (v *view) lookedUp(n *graph.Node) bool {
	if !n.Is("Gather") || n.Int("axis", 0) != 0 || v.trace(n.Input(1), 0) != nil {
		return false
	}
	s := v.trace(n.Input(0), 0)
	return s != nil && len(s.dims) == 2 && !s.holdsFloats()
}

// Behind returns the value of the activation that alone reads the convolution n, of those that the optimizer makes one
// node of with it, called after that value; "" when there is none.
func Behind(consumers map[string][]*graph.Node, n *graph.Node) string {
	readers, fused := consumers[n.Outputs[0]], []string{"Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid"}
	if n.Is("Conv") && len(readers) == 1 && readers[0].Standard() && slices.Contains(fused, readers[0].Op) {
		return readers[0].Outputs[0]
	}
	return ""
}

func (s *stored) describe(l *LayerNote, last bool) {
	sum, held := 0.0, 0
	l.Rows = map[int]int{}
	var containers, notes []string
	for _, p := range s.parts {
		bits := p.codeBits(s.byRow, last != s.turned)
		for _, b := range bits {
			sum += float64(b*p.weights) / float64(len(bits))
			l.Rows[b] += p.weights / len(bits) / max(l.In, 1)
		}
		held += p.bits * p.weights
		containers = append(containers, p.container)
		if p.note != "" {
			notes = append(notes, p.note)
		}
	}
	containers, notes = slices.Compact(containers), slices.Compact(notes)
	l.Bits, l.Held = sum/float64(max(s.weights(), 1)), float64(held)/float64(max(s.weights(), 1))
	if len(l.Rows) > 1 {
		l.Widths = slices.Sorted(maps.Keys(l.Rows))
		text := strings.ReplaceAll(strings.Trim(fmt.Sprint(l.Widths), "[]"), " ", ",")
		notes = append([]string{text + " bits by row"}, notes...)
	}
	l.Columns = l.In
	if s.columns > 0 && s.columns != l.In {
		l.Columns = s.columns
		notes = append(notes, fmt.Sprintf("%d columns", s.columns))
	}
	l.Container, l.Note = strings.Join(containers, ", "), strings.Join(notes, "; ")
}

// StoredBits is what a file stores for the weights of layers, in bits per weight: those of floats, and for quantized
// layers all that LayerNote.Stored counts; 0 without layers.
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
	return slices.Contains([]string{"float", "double", "float16", "bfloat16"}, n.Container)
}

// weigh returns the bytes of all that the value called name is made of, and that has not been counted before.
func (v *view) weigh(name string, counted map[string]bool) int {
	if name == "" || counted[name] {
		return 0
	}
	counted[name] = true
	if c := v.constants[name]; c != nil {
		return len(c.Raw)
	}
	n := v.producers[name]
	if n == nil {
		return 0
	}
	sum, from := v.held(n, counted), n.Inputs
	if n.Is("Add") {
		from = from[:1] // a bias
	}
	for _, in := range from {
		sum += v.weigh(in, counted)
	}
	return sum
}

func (v *view) held(n *graph.Node, counted map[string]bool) int {
	if c := n.Constant(); c != nil {
		return len(c.Raw)
	}
	sum := 0
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

// Kernel says at which inputs an operator that ONNX Runtime runs a layer with has what.
type Kernel struct {
	Weights    []int // the weights; of codes also their scales and, where there are such, zero points
	Bias       int
	Activation int // bits of what it multiplies the weights with
	// Scale and OutputScale are those of the activations, of the integer kernels that written layers are planned for.
	Scale, OutputScale int
}

// Kernels is the table of these operators, those that other tools write included.
func Kernels() map[string]Kernel {
	whole := graph.Float.Bits()
	table := map[string]Kernel{
		"MatMulInteger":         {Weights: []int{1, 3}, Bias: math.MaxInt, Activation: 8},
		"ConvInteger":           {Weights: []int{1, 3}, Bias: math.MaxInt, Activation: 8},
		"DynamicQuantizeMatMul": {Weights: []int{1, 2, 3}, Bias: 4, Activation: 8},
		"MatMulIntegerToFloat":  {[]int{1, 3, 5}, 6, 8, 2, math.MaxInt},
		"QGemm":                 {[]int{3, 4, 5}, 6, 8, 1, 7},
		"QLinearMatMul":         {[]int{3, 4, 5}, math.MaxInt, 8, 1, 6},
		"QLinearConv":           {[]int{3, 4, 5}, 8, 8, 1, 6},
		"MatMulNBits":           {Weights: []int{1, 2, 3, 4}, Bias: 5, Activation: whole},
		"Gather":                {Weights: []int{0}, Bias: math.MaxInt, Activation: whole},
	}
	for _, op := range []string{"Gemm", "FusedGemm", "MatMul", "Conv", "FusedConv"} {
		table[op] = Kernel{Weights: []int{1}, Bias: 2, Activation: whole}
	}
	return table
}

// Planned reports whether written layers are planned for the kernel.
func (k Kernel) Planned() bool { return k.Scale > 0 || len(k.Weights) == 1 }

// coded reports whether the kernel reads codes and their scales.
func (k Kernel) coded() bool { return len(k.Weights) > 1 }

// Integer reports whether the kernel multiplies integers.
func (k Kernel) Integer() bool { return k.Activation == 8 }

// outerScales are the scales of weights that a dynamically quantized layer multiplies its sums with: MatMulInteger ->
// Cast -> Mul by the product of two scales, of which one is stored.
func (v *view) outerScales(n *graph.Node) (names []string) {
	for _, op := range []string{"Cast", "Mul"} {
		readers := v.consumers[n.Outputs[0]]
		if len(readers) != 1 || !readers[0].Is(op) {
			return nil
		}
		n = readers[0]
	}
	for _, in := range n.Inputs {
		if scales := v.producers[in]; scales != nil && scales.Is("Mul") {
			names = append(names, scales.Inputs...)
		}
	}
	return lists.Filter(names, func(name string) bool { return v.constants[name] != nil }) // not of the activations
}

// IntegerWeights is the number of weights from which a dense layer computes faster on integers, the cost of
// quantizing what it reads included: 256 x 256. BenchmarkCompute measures it.
const IntegerWeights = 256 * 256

// Integers says for each layer of a model, in the order of the graph, whether its arithmetic is faster on integers than
// in float in ONNX Runtime, by shapes alone, so that the same model always gives the same file.
//
// Dense layers that read the same value are on integers together, from IntegerWeights weights on, and so are all dense
// layers behind them: the kernel in front hands them codes. Convolutions stay in float: their blocked layouts are
// faster than integer convolutions at every size. Tables that are looked up compute nothing.
func Integers(layers []quant.LayerInfo) []bool {
	weights := map[string]int{}
	for i := range layers {
		if layers[i].Conv == nil && !layers[i].Table {
			weights[layers[i].Input] += layers[i].Params()
		}
	}
	out, behind := make([]bool, len(layers)), false
	for i := range layers {
		if layers[i].Conv == nil && !layers[i].Table {
			behind = behind || weights[layers[i].Input] >= IntegerWeights
			out[i] = behind
		}
	}
	return out
}
