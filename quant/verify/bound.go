package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// spread bounds, per channel, how far a value may differ between two correct
// evaluations of a graph. A spread of length 1 holds for every channel.
type spread []float64

func (s spread) max() float64 { return slices.Max(s) }

// bounded is what bounds found: spreads by value name, absent where nothing is known.
type bounded struct {
	values map[string]spread
	step   float64
	convs  map[string]bool // what convolutions make, and activation functions of it
}

// floatRounding is the relative error of sums of products in float32: at most a
// few thousand terms, each within 2^-24.
const floatRounding = 0x1p-18

// bounds follows rounding differences through m: a QuantizeLinear whose input
// is not computed exactly alike adds one code, a layer multiplies by its absolute
// weights (those that ONNX Runtime computes from the file), and activation
// functions with slope at most one pass them on.
func bounds(ctx context.Context, m *graph.Model, o ort.Options, probes []*graph.Tensor) (*bounded, error) {
	weights, err := weightsOf(ctx, m, o, probes)
	if err != nil {
		return nil, err
	}
	b := &bounded{values: map[string]spread{}, convs: map[string]bool{}}
	ranges := map[string]float64{} // largest magnitude of quantized values
	inits := m.Graph.InitMap()
	for name := range inits {
		b.values[name] = spread{0}
	}
	for _, v := range m.Graph.DataInputs() {
		b.values[v.Name] = spread{0}
	}
	for _, n := range m.Graph.Nodes {
		s, ok := b.node(n, weights, inits, ranges)
		for i, out := range n.Outputs {
			if ok && i == 0 {
				b.values[out] = s
			}
		}
	}
	return b, nil
}

// node returns the spread of n's output, false when it cannot be told.
func (b *bounded) node(n *graph.Node, weights map[string]matrix, inits map[string]*graph.Tensor, ranges map[string]float64) (spread, bool) {
	in, ok := b.values[n.Input(0)]
	if !ok && len(n.Inputs) > 0 {
		return nil, false
	}
	op := n.Op
	if !n.Standard() {
		op = ""
	}
	switch op {
	case "Gemm":
		if w, ok := weights[n.Name]; ok {
			return b.gemm(n, w, in, ranges), true
		}
	case "QuantizeLinear":
		s := scale(inits[n.Input(1)])
		b.rounded(n, s)
		if in.max() == 0 {
			return in, true
		}
		out := slices.Clone(in)
		for i := range out {
			out[i] += s
		}
		return out, true
	case "DequantizeLinear":
		ranges[n.Outputs[0]] = 255 * scale(inits[n.Input(1)])
		return in, true
	case "Clip", "Relu", "Tanh", "Sigmoid", "HardSigmoid", "Softplus", "Identity":
		b.passed(n)
		return in, true
	case "LeakyRelu", "Elu":
		if n.Float("alpha", 0.01) <= 1 {
			return in, true
		}
	case "Softmax":
		return spread{in.max()}, true
	case "LogSoftmax":
		return spread{2 * in.max()}, true
	case "Max", "Min":
		// The larger of two numbers moves no farther than those.
		if !slices.ContainsFunc(n.Inputs[1:], func(v string) bool { return inits[v] == nil || inits[v].Len() != 1 }) {
			return in, true
		}
	case "":
	default:
		if s, ok := b.space(n, in, weights, ranges); ok {
			return s, true
		}
	}
	// Any operator gives the same result for the same inputs.
	for _, v := range n.Inputs {
		if s, ok := b.values[v]; v != "" && (!ok || s.max() != 0) {
			return nil, false
		}
	}
	return spread{0}, true
}

// gemm multiplies the spread of a layer's input by its absolute weights.
func (b *bounded) gemm(n *graph.Node, w matrix, in spread, ranges map[string]float64) spread {
	out := make(spread, w.rows)
	reach := ranges[n.Input(0)]
	if reach > 0 {
		b.step = 0
	}
	gain := 0.0
	for o := range w.rows {
		largest, sum := 0.0, 0.0
		for i := range w.cols {
			a := math.Abs(float64(w.v[o*w.cols+i]))
			out[o] += a * in[i%len(in)]
			sum += a
			largest = math.Max(largest, a)
		}
		gain = math.Max(gain, sum)
		out[o] += floatRounding * (sum*math.Max(reach, 1) + math.Abs(float64(w.bias(o))))
		if reach > 0 {
			b.step = math.Max(b.step, largest*reach/255)
		}
	}
	if reach == 0 && in.max() > 0 { // a float layer behind integer ones multiplies their steps
		b.step *= gain
	}
	return out
}

func scale(t *graph.Tensor) float64 {
	if t == nil {
		return math.Inf(1)
	}
	v, err := t.Doubles()
	if err != nil || len(v) == 0 {
		return math.Inf(1)
	}
	return slices.Max(v)
}

// matrix is a layer's weights, rows x cols (outputs x inputs), and bias b, nil when it has none.
type matrix struct {
	rows, cols int
	v, b       []float32
}

func (m matrix) bias(o int) float32 {
	if m.b == nil {
		return 0
	}
	return m.b[o%len(m.b)]
}

// weightsOf returns the weights of all layers with transB=1 as ONNX Runtime
// computes them from the file, by node name.
func weightsOf(ctx context.Context, m *graph.Model, o ort.Options, probes []*graph.Tensor) (map[string]matrix, error) {
	c := m.Clone()
	inits := c.Graph.InitMap()
	c.Graph.Outputs = nil
	var layers []*graph.Node
	asked := map[string]bool{}
	for _, n := range c.Graph.Nodes {
		if !n.Is("Conv") && (!n.Is("Gemm") || n.Int("transB", 0) != 1) {
			continue
		}
		layers = append(layers, n)
		for _, v := range n.Inputs[1:] {
			if v != "" && inits[v] == nil && !asked[v] {
				asked[v] = true
				c.Graph.Outputs = append(c.Graph.Outputs, graph.Value{Name: v, DType: graph.Float})
			}
		}
	}
	if len(asked) > 0 {
		s, err := ort.Open(c, o)
		if err != nil {
			return nil, fmt.Errorf("reading the dequantized weights: %w", err)
		}
		defer s.Close() //nolint:errcheck // nothing was written
		got, err := s.Run(ctx, probes)
		if err != nil {
			return nil, fmt.Errorf("reading the dequantized weights: %w", err)
		}
		for _, t := range got {
			inits[t.Name] = t
		}
	}
	out := map[string]matrix{}
	for _, n := range layers {
		w := inits[n.Input(1)]
		var x matrix
		var err error
		if w == nil {
			continue // computed
		}
		if x.rows, x.cols, err = flat(w.Dims); err != nil {
			continue
		}
		if x.v, err = w.Floats(); err != nil {
			continue
		}
		if t := inits[n.Input(2)]; t != nil {
			x.b, _ = t.Floats()
		}
		out[n.Name] = x
	}
	return out, nil
}
