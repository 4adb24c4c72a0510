package quant

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// LayerInfo describes one layer of a canonical model. That of a dense one is Output = Input W^T + B; a convolution does
// the same at each of its positions with the numbers under its kernel.
type LayerInfo struct {
	Node          string    // name of the node, unique among the layers; its output's when it has none
	Weight, Bias  string    // their initializers; Bias is "" when there is none
	Input, Output string    // values, [N*Positions, In] and [N*Positions, Out]; for a convolution [N, channels, sizes...]
	In, Out       int       // In*Out is the number of weights, whatever their shape
	W             []float32 // Out x In; nil when the layer is not in canonical form
	B             []float32 // Out; all zero when there is no bias; nil when the layer is not in canonical form
	Conv          *Conv     // what more there is to say of a convolution; nil for dense layers
	// Fixed says why the layer must stay in float; "" when it may be quantized.
	// Layers that are not in canonical form are always fixed.
	Fixed string

	LayerUse
}

// LayerUse says how the graph uses a layer.
type LayerUse struct {
	Columns int // columns of the integer kernel: In, or more where Input.Fold says that inputs are split
	// Positions is how often a row of the model's input uses each weight: the number of positions of a convolution, and
	// of vectors that a dense layer reads of each row, such as the tokens of a transformer.
	Positions int
	Behind    Behind
	// Table says that the file looks the weights up, by category, where the model multiplies them with the inputs of one
	// column of categories: a layer that computes nothing. FindLayers does not know of it.
	Table bool
	// Source is the convolution whose output quantizer this layer's input has gone
	// through: operators between move numbers and compute none. "" without one.
	Source string
}

// Behind is what the output of a layer becomes first: its value behind the Relu or Clip that alone reads it, where
// an integer convolution has its output quantizer, or else the output itself.
type Behind struct {
	Value  string
	Lo, Hi float32 // 0 and +Inf behind a Relu; two zeros bound nothing
}

// Bounds returns Lo and Hi, infinite where nothing is bounded.
func (b *Behind) Bounds() (lo, hi float32) {
	if b.Lo == 0 && b.Hi == 0 {
		return float32(math.Inf(-1)), float32(math.Inf(1))
	}
	return b.Lo, b.Hi
}

// Params is the number of weights, without the bias.
func (l *LayerInfo) Params() int { return l.In * l.Out }

// Row returns the weights of output o.
func (l *LayerInfo) Row(o int) []float32 { return l.W[o*l.In : (o+1)*l.In] }

// FindLayers lists the layers of a canonical model in graph order: the Gemm nodes in the form that Canonical leaves,
// the Conv nodes and, fixed with the reason, all other nodes with stored weights, those of other operators last.
func FindLayers(m *graph.Model) ([]LayerInfo, error) {
	f := &finder{g: m.Graph, inits: m.Graph.InitMap(), stored: m.Graph.Stored(), consumers: m.Graph.Consumers()}
	var layers []LayerInfo
	for _, n := range m.Graph.Nodes {
		if !IsLayer(n) || f.stored[n.Outputs[0]] != nil {
			continue
		}
		if l, err := f.layer(n); err != nil {
			return nil, err
		} else if l != nil {
			layers = append(layers, *l)
		}
	}
	f.sources(layers)
	return append(layers, f.others(layers)...), nil
}

// others lists the nodes of other kinds that read matrices of floats, so that all weights of a model are in the list.
func (f *finder) others(layers []LayerInfo) []LayerInfo {
	listed := map[string]bool{}
	for _, l := range layers {
		listed[l.Output] = true
	}
	var out []LayerInfo
	for _, n := range f.g.Nodes {
		if len(n.Outputs) == 0 || listed[n.Outputs[0]] || f.stored[n.Outputs[0]] != nil ||
			slices.ContainsFunc(n.Inputs, f.isCode) {
			continue
		}
		l := LayerInfo{
			Node: NodeName(n), Input: n.Input(0), Output: n.Outputs[0], Out: 1, LayerUse: LayerUse{Positions: 1},
			Fixed: "weights of " + n.Op + " are not quantized",
		}
		for _, in := range n.Inputs {
			if w := f.stored[in]; w != nil && w.DType.IsFloat() && matrix(w.Dims) {
				l.Weight = cmp.Or(l.Weight, in)
				l.In += w.Len()
			}
		}
		if l.In > 0 {
			out = append(out, l)
		}
	}
	return out
}

func (f *finder) isCode(value string) bool {
	t := f.stored[value]
	return t != nil && t.DType.IsCode()
}

func matrix(dims []int64) bool {
	return len(slices.DeleteFunc(slices.Clone(dims), func(d int64) bool { return d == 1 })) > 1
}

// IsLayer reports whether n is of an operator that may have weights.
func IsLayer(n *graph.Node) bool {
	return len(n.Outputs) > 0 && (n.Is("Gemm") || n.Is("MatMul") || n.Is("Conv") || n.Is("Einsum"))
}

// Quantized says which weights of an operator are quantized; "" for an operator that has none.
func Quantized(op string) string {
	rows := "stored weights that rows are multiplied with"
	return map[string]string{
		"Gemm": rows, "MatMul": rows,
		"Conv":   "stored weights of convolutions of one or two dimensions",
		"Einsum": "stored weights, where it is a product of rows with matrices",
		"Gather": "tables of embeddings, from which categories take rows",
	}[op]
}

// NodeName is the name by which plans know a node: its own, or its output's when it has none.
func NodeName(n *graph.Node) string { return cmp.Or(n.Name, n.Outputs[0]) }

type finder struct {
	g         *graph.Graph
	inits     map[string]*graph.Tensor
	stored    map[string]*graph.Tensor // see graph.Stored
	consumers map[string][]*graph.Node
	types     graph.Types // of the values, inferred when the first convolution needs them
}

func (f *finder) layer(n *graph.Node) (*LayerInfo, error) {
	conv, side := n.Is("Conv"), 1
	if !conv && f.stored[n.Input(1)] == nil {
		side = 0
	}
	w := f.stored[n.Input(side)]
	coded := f.isCode(n.Input(side))
	if w == nil || !w.DType.IsFloat() && !coded || w.Len() == 0 || len(w.Dims) == 0 || conv && len(w.Dims) < 3 {
		return nil, nil
	}
	l := &LayerInfo{
		Node: NodeName(n), Weight: n.Input(side), Bias: n.Input(2),
		Input: n.Input(1 - side), Output: n.Outputs[0], LayerUse: LayerUse{Positions: 1},
	}
	// The inputs of a dense layer are summed over: the last dimension but one of a
	// right factor, the last of a left one or a transposed.
	last := len(w.Dims) - 1
	transposed := side == 0 && n.Int("transA", 0) == 0 || side == 1 && n.Int("transB", 0) != 0
	if !transposed && last > 0 {
		last--
	}
	l.In = int(w.Dims[last])
	if conv {
		l.In = w.Len() / int(w.Dims[0])
	}
	l.Out, l.Columns = w.Len()/l.In, l.In
	var err error
	switch bias := f.inits[l.Bias]; {
	case coded:
		l.Fixed = Coded
	case n.Is("Einsum"):
		l.Fixed = "it is not a product of rows with matrices, or sizes of its input are not known"
	case side == 0:
		l.Fixed = "its weights are the left factor of the product"
	case conv && len(w.Dims) > 4:
		l.Fixed = fmt.Sprintf("it is a convolution of %d dimensions, not 1 or 2", len(w.Dims)-2)
	case w.DType != graph.Float:
		l.Fixed = fmt.Sprintf("its weights are %s, not float32", w.DType)
	case f.inits[l.Weight] == nil:
		l.Fixed = "its weights are computed from others"
	case l.Bias != "" && bias == nil:
		l.Fixed = fmt.Sprintf("its bias %q is computed", l.Bias)
	case bias != nil && (bias.DType != graph.Float || !slices.Equal(bias.Dims, []int64{int64(l.Out)})):
		l.Fixed = fmt.Sprintf("its bias is %s of shape %v, not one float32 for each output", bias.DType, bias.Dims)
	case conv:
		if l.Conv, err = convOf(n, w.Dims, f.shape(l.Input)); err != nil {
			l.Fixed = err.Error()
		}
	case len(w.Dims) != 2:
		l.Fixed = fmt.Sprintf("its weights have %d dimensions, not 2", len(w.Dims))
	case n.Is("MatMul"):
		l.Fixed = "its input is not known to have 2 dimensions"
	case !n.PlainGemm():
		l.Fixed = "it is not in canonical form"
	}
	if l.Fixed != "" {
		return l, nil
	}
	f.follow(l)
	if conv {
		l.Positions = l.Conv.Positions()
	}
	return l, f.numbers(l, w, f.inits[l.Bias])
}

// Coded is why a layer that another tool has quantized stays as it is.
const Coded = "its weights are quantized already"

// NotFinite is why a layer of a model that does not compute numbers stays as it is.
const NotFinite = "its weights are not all finite"

func (f *finder) numbers(l *LayerInfo, w, b *graph.Tensor) (err error) {
	l.B = make([]float32, l.Out)
	if l.W, err = w.Floats(); err == nil && b != nil {
		l.B, err = b.Floats()
	}
	switch {
	case err != nil:
		return fmt.Errorf("weights of layer %q: %w", l.Node, err)
	case f.g.IsOutput(l.Weight):
		l.Fixed = fmt.Sprintf("its weight %q is also an output of the model", l.Weight)
	case !finite(l.W) || !finite(l.B):
		l.Fixed = NotFinite
	}
	return nil
}

func finite(v []float32) bool {
	return !slices.ContainsFunc(v, func(x float32) bool { return x-x != 0 })
}

// Groups returns the layer's groups, each as a layer of its own that reads its
// share of the channels; the layer itself when it is not split.
func (l LayerInfo) Groups() []LayerInfo {
	if l.Conv == nil || l.Conv.Group == 1 {
		return []LayerInfo{l}
	}
	out := make([]LayerInfo, l.Conv.Group)
	for g := range out {
		c := *l.Conv
		c.Group, c.Channels = 1, l.Conv.Channels/len(out)
		c.First = l.Conv.First + g*c.Channels
		part := l
		part.Conv, part.Out = &c, l.Out/len(out)
		part.W = l.W[g*part.Out*l.In : (g+1)*part.Out*l.In]
		part.B = l.B[g*part.Out : (g+1)*part.Out]
		out[g] = part
	}
	return out
}

func (f *finder) shape(value string) graph.Shape {
	if f.types == nil {
		f.types = graph.Types{}
		for _, v := range slices.Concat(f.g.Values, f.g.Outputs) {
			if known(v.Shape) {
				f.types[v.Name] = graph.Type{DType: v.DType, Shape: v.Shape}
			}
		}
		g := *f.g
		g.Nodes = slices.Clone(g.Nodes)
		for i, n := range g.Nodes {
			if n.Is("QuantizeLinear") || n.Is("DequantizeLinear") { // inference does not know them
				g.Nodes[i] = &graph.Node{Op: "Identity", Inputs: n.Inputs[:1], Outputs: n.Outputs}
			}
		}
		_ = autodiff.Infer(&g, f.types) // the rest stays unknown
	}
	if s := f.types[value].Shape; known(s) {
		return s
	}
	return nil
}

func known(s graph.Shape) bool {
	return len(s) > 1 && !slices.ContainsFunc(s[1:], func(d graph.Dim) bool { return d.Size < 1 || d.Size > maxSize })
}

func (f *finder) follow(l *LayerInfo) {
	b := &l.Behind
	b.Value = l.Output
	readers := f.consumers[l.Output]
	if len(readers) != 1 || f.g.IsOutput(l.Output) || len(readers[0].Outputs) != 1 || readers[0].Input(0) != l.Output {
		return
	}
	n := readers[0]
	switch {
	case n.Is("Relu"):
		b.Value, b.Hi = n.Outputs[0], float32(math.Inf(1))
	case n.Is("Clip"):
		lo, hi := NumberOr(f.g, n.Input(1), math.Inf(-1)), NumberOr(f.g, n.Input(2), math.Inf(1))
		if lo <= 0 && hi > 0 { // a range without 0 has no zero point
			b.Value, b.Lo, b.Hi = n.Outputs[0], lo, hi
		}
	}
}

// NumberOr returns the constant called name, what is given without a name, and NaN where it is not one number.
func NumberOr(g *graph.Graph, name string, absent float64) float32 {
	if name == "" {
		return float32(absent)
	}
	if t := g.Init(name); t != nil && t.DType == graph.Float && t.Len() == 1 {
		if v, err := t.Floats(); err == nil {
			return v[0]
		}
	}
	return float32(math.NaN())
}

func (f *finder) sources(layers []LayerInfo) {
	from := map[string]string{}
	for _, l := range layers {
		if l.Conv != nil && l.Fixed == "" {
			from[l.Behind.Value] = l.Node
		}
	}
	for _, n := range f.g.Nodes {
		if s, ok := from[n.Input(0)]; ok && Moves(n) {
			from[n.Outputs[0]] = s
		}
	}
	for i := range layers {
		layers[i].Source = from[layers[i].Input]
	}
}

// Moves reports whether every number of n's output is one of its first input.
func Moves(n *graph.Node) bool {
	moving := slices.Contains([]string{"MaxPool", "GlobalMaxPool", "Transpose"}, n.Op)
	return Reshapes(n) || moving && n.Standard() && len(n.Outputs) == 1
}

// Reshapes reports whether n's output has the numbers of its first input, in their order.
func Reshapes(n *graph.Node) bool {
	return n.Standard() && len(n.Outputs) == 1 &&
		slices.Contains([]string{"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Identity"}, n.Op)
}

// Conv describes the convolution of a layer, of one or two dimensions.
//
// Row o of the layer's weights belongs to the group o / (Out/Group). At each of Positions() places of the output it
// multiplies one patch: the numbers of the group's Channels/Group input channels under the kernel, channel by channel.
type Conv struct {
	Group    int
	Channels int             // of the input that it reads; Channels/Group of them meet each output
	First    int             // of those channels; 0 but for one group out of many
	Axes     []autodiff.Axis // behind the channels, one or two
}

// Positions is the number of places of the output at which each weight is used, and more than maxSize where it is.
func (c *Conv) Positions() int {
	p := 1
	for _, a := range c.Axes {
		if p *= a.Size; p > maxSize {
			return maxSize + 1
		}
	}
	return p
}

// Patch copies what the kernel of a group meets at one position into dst, of length Channels/Group x kernel, from x,
// one row of the layer's input (Channels x Input).
func (c *Conv) Patch(dst []float64, x []float32, group, position int) {
	rows, cols := autodiff.Axis{Input: 1, Kernel: 1}, c.Axes[len(c.Axes)-1]
	if len(c.Axes) == 2 {
		rows = c.Axes[0]
	}
	top, left := position/cols.Size*rows.Stride-rows.Begin, position%cols.Size*cols.Stride-cols.Begin
	per := c.Channels / c.Group
	at := 0
	for ch := c.First + group*per; ch < c.First+(group+1)*per; ch++ {
		for i := range rows.Kernel {
			row := top + i*rows.Dilation
			for j := range cols.Kernel {
				col := left + j*cols.Dilation
				dst[at] = 0
				if row >= 0 && row < rows.Input && col >= 0 && col < cols.Input {
					dst[at] = float64(x[(ch*rows.Input+row)*cols.Input+col])
				}
				at++
			}
		}
	}
}

// Within returns a with a scale, and if need be a zero point, whose codes all lie within what the Relu or Clip in front
// of the output quantizer lets through, so that the integer kernel takes it in.
func (b *Behind) Within(a Act) Act {
	minimum, maximum := b.Bounds()
	if minimum >= 0 && a.Zero != 0 {
		a = FitAct(a.Bits, 0, float32(a.QMax()-int(a.Zero))*a.Scale)
	}
	for below, above := float32(a.Zero), float32(a.QMax()-int(a.Zero)); ; a.Scale = math.Nextafter32(a.Scale, 0) {
		lo, hi := -below*a.Scale, above*a.Scale
		switch {
		case hi > maximum*1.00001:
			a.Scale = maximum / above
		case lo < minimum*1.00001:
			a.Scale = -minimum / below
		case !(hi > maximum || lo < minimum):
			return a
		}
	}
}

// maxSize bounds each size of a convolution: a file may declare any.
const maxSize = 1 << 24

func convOf(n *graph.Node, weights []int64, in graph.Shape) (*Conv, error) {
	if in == nil {
		return nil, errors.New("the size of its input is not known")
	}
	axes, err := autodiff.ConvAxes(n, in, graph.Fixed(weights...))
	if err != nil {
		return nil, err
	}
	c := &Conv{Group: int(n.Int("group", 1)), Channels: int(in[1].Size), Axes: axes}
	if c.Positions() > maxSize {
		return nil, fmt.Errorf("its output has a size that is too large, %v",
			lists.Map(axes, func(a autodiff.Axis) int { return a.Size }))
	}
	return c, nil
}
