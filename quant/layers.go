package quant

import (
	"fmt"
	"maps"

	"cfq/onnxio/graph"
)

// LayerInfo describes one layer of a canonical model. That of a dense one is
// Output = Input W^T + B; a convolution does the same at each of its positions
// with the numbers under its kernel.
type LayerInfo struct {
	Node          string    // name of the node, unique among the layers; its output's when it has none
	Weight, Bias  string    // their initializers; Bias is "" when there is none
	Input, Output string    // values, [N, In] and [N, Out]; for a convolution [N, channels, sizes...]
	In, Out       int       // In*Out is the number of weights, whatever their shape
	W             []float32 // Out x In; nil when the layer is not in canonical form
	B             []float32 // Out; all zero when there is no bias; nil when the layer is not in canonical form
	Columns       int       // columns of the integer kernel: In, or more where Input.Fold says that inputs are split
	// Positions is how often a row of the input uses each weight: 1, or the number of
	// positions of a convolution. Conv says more of those; nil for dense layers.
	Positions int
	Conv      *Conv
	// Source is the convolution whose output quantizer this layer's input has gone
	// through: operators between move numbers and compute none. "" without one.
	Source string
	// Fixed says why the layer must stay in float; "" when it may be quantized.
	// Layers that are not in canonical form are always fixed.
	Fixed string
}

// Params is the number of weights, without the bias.
func (l *LayerInfo) Params() int { return l.In * l.Out }

// Row returns the weights of output o.
func (l *LayerInfo) Row(o int) []float32 { return l.W[o*l.In : (o+1)*l.In] }

// FindLayers lists the layers of a canonical model in graph order: the Gemm nodes
// in the form that Canonical leaves, the Conv nodes and, fixed with the reason, all
// other Gemm, MatMul and Conv nodes with stored weights.
func FindLayers(m *graph.Model) ([]LayerInfo, error) {
	f := &finder{g: m.Graph, inits: m.Graph.InitMap(), outputs: map[string]bool{}, consumers: m.Graph.Consumers()}
	f.stored = maps.Clone(f.inits)
	for _, v := range m.Graph.Outputs {
		f.outputs[v.Name] = true
	}
	var layers []LayerInfo
	for _, n := range m.Graph.Nodes {
		if n.Is("Cast") && len(n.Outputs) == 1 && f.stored[n.Input(0)] != nil {
			f.stored[n.Outputs[0]] = f.stored[n.Input(0)]
		}
		if len(n.Outputs) == 0 || !n.Is("Gemm") && !n.Is("MatMul") && !n.Is("Conv") {
			continue
		}
		read := f.layer
		if n.Is("Conv") {
			read = f.conv
		}
		l, err := read(n)
		if err != nil {
			return nil, err
		}
		if l == nil && !n.Is("Conv") {
			l = f.foreign(n)
		}
		if l != nil {
			layers = append(layers, *l)
		}
	}
	f.sources(layers)
	return layers, nil
}

// finder holds what FindLayers knows of the model.
type finder struct {
	g         *graph.Graph
	inits     map[string]*graph.Tensor
	stored    map[string]*graph.Tensor // inits, and what Casts make of them
	outputs   map[string]bool
	consumers map[string][]*graph.Node
	sizes     map[string][]int // see shapes
	batch     int64            // the batch size that the model insists on; -1 without one
}

// layer reads n if it is a dense layer in canonical form; nil otherwise.
func (f *finder) layer(n *graph.Node) (*LayerInfo, error) {
	w, b := f.inits[n.Input(1)], f.inits[n.Input(2)]
	if !n.PlainGemm() || w == nil || w.DType != graph.Float || len(w.Dims) != 2 || w.Len() == 0 {
		return nil, nil
	}
	if n.Input(2) != "" && (b == nil || b.DType != graph.Float || len(b.Dims) != 1 || b.Dims[0] != w.Dims[0]) {
		return nil, nil
	}
	l := &LayerInfo{
		Node: n.Name, Weight: n.Input(1), Bias: n.Input(2), Input: n.Input(0), Output: n.Outputs[0],
		Out: int(w.Dims[0]), In: int(w.Dims[1]), Positions: 1,
	}
	l.Columns = l.In
	return l, f.numbers(l, w, b)
}

// numbers reads the weights w and the bias b, nil when there is none, of l.
func (f *finder) numbers(l *LayerInfo, w, b *graph.Tensor) error {
	var err error
	if l.W, err = w.Floats(); err != nil {
		return fmt.Errorf("weight of layer %q: %w", l.Node, err)
	}
	l.B = make([]float32, l.Out)
	if b != nil {
		if l.B, err = b.Floats(); err != nil {
			return fmt.Errorf("bias of layer %q: %w", l.Node, err)
		}
	}
	switch {
	case f.outputs[l.Weight]:
		l.Fixed = fmt.Sprintf("its weight %q is also an output of the model", l.Weight)
	case !finite(l.W) || !finite(l.B):
		l.Fixed = "its weights are not all finite"
	}
	return nil
}

// foreign describes n if it has stored weights in a form that Canonical does not
// know; nil when it has none.
func (f *finder) foreign(n *graph.Node) *LayerInfo {
	side := 1
	if f.stored[n.Input(1)] == nil {
		side = 0
	}
	w := f.stored[n.Input(side)]
	if w == nil || !w.DType.IsFloat() || w.Len() == 0 || len(w.Dims) == 0 {
		return nil
	}
	l := &LayerInfo{Node: n.Name, Weight: n.Input(side), Bias: n.Input(2), Input: n.Input(1 - side), Output: n.Outputs[0], Positions: 1}
	if l.Node == "" {
		l.Node = l.Output
	}
	// The inputs of the layer are summed over: the last dimension but one of a
	// right factor, the last of a left one or a transposed.
	last := len(w.Dims) - 1
	transposed := side == 0 && n.Int("transA", 0) == 0 || side == 1 && n.Int("transB", 0) != 0
	if !transposed && last > 0 {
		last--
	}
	l.In = int(w.Dims[last])
	l.Out = w.Len() / l.In
	l.Fixed = f.reason(n, w, side)
	return l
}

// reason says what keeps n, with the stored weights w, from the canonical form.
func (f *finder) reason(n *graph.Node, w *graph.Tensor, side int) string {
	bias := f.inits[n.Input(2)]
	switch {
	case side == 0:
		return "its weights are the left factor of the product"
	case w.DType != graph.Float:
		return fmt.Sprintf("its weights are %s, not float32", w.DType)
	case f.inits[n.Input(1)] == nil:
		return "its weights are converted by a Cast"
	case len(w.Dims) != 2:
		return fmt.Sprintf("its weights have %d dimensions, not 2", len(w.Dims))
	case n.Is("MatMul"):
		return "its input is not known to have 2 dimensions"
	case n.Input(2) != "" && bias == nil:
		return fmt.Sprintf("its bias %q is computed", n.Input(2))
	case n.Input(2) != "" && bias.DType != graph.Float:
		return fmt.Sprintf("its bias is %s, not float32", bias.DType)
	case n.Input(2) != "":
		return fmt.Sprintf("its bias has the shape %v, not one number for each output", bias.Dims)
	}
	return "it is not in canonical form"
}

func finite(v []float32) bool {
	for _, x := range v {
		if x-x != 0 {
			return false
		}
	}
	return true
}
