package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Levels compares the outputs at the production level with those of the
// unoptimized graph. The two round inner activations in different ways: where a
// value lies within float rounding of the middle between two codes, one takes
// the upper and one the lower. Everything else must agree.
type Levels struct {
	Rows int `json:"rows"` // probes
	// Diff is the largest difference of a float output, where it is a number.
	Diff float64 `json:"diff"`
	// Step is one output step: what one code of the last layer's input moves an
	// output by at most. 0 when the model has no integer layer.
	Step float64 `json:"step"`
	// Bound is the largest difference that rounding explains: every inner
	// activation off by one code, through the absolute weights. 0 when an
	// operator stands behind the layers through which nothing can be said.
	Bound float64 `json:"bound"`
	// Beyond counts the rows that differ by more than one Step. Codes flip
	// rarely, one at a time, so there must be few: at most 1 in 50.
	Beyond int `json:"beyond"`
	// Flipped counts the rows in which an integer output (a class) differs. They
	// may be as few as those Beyond.
	Flipped int `json:"flipped,omitempty"`
	// NaN counts the rows in which an output is not a number, or infinite at one level only.
	NaN int `json:"nan,omitempty"`
}

// beyondShare is the share of rows that may differ by more than one output step,
// or in their class.
const beyondShare = 0.02

func (r *Report) levels(ctx context.Context, onnx []byte, m *graph.Model, o ort.Options, in []*graph.Tensor) error {
	got, err := runBytes(ctx, onnx, o, in)
	if err != nil {
		return err
	}
	plain := o
	plain.Level = ort.Disabled
	want, err := runBytes(ctx, onnx, plain, in)
	if err != nil {
		return err
	}
	b, err := bounds(ctx, m, plain, in)
	if err != nil {
		return err
	}
	l := &r.Levels
	l.Step = b.step
	d := differing{map[int]bool{}, map[int]bool{}, map[int]bool{}}
	for i := range got {
		if err := l.compare(got[i], want[i], d); err != nil {
			return err
		}
		if s, ok := b.values[got[i].Name]; ok && got[i].DType.IsFloat() {
			l.Bound = math.Max(l.Bound, s.max())
		}
	}
	l.Beyond, l.Flipped, l.NaN = len(d.beyond), len(d.flipped), len(d.nan)
	few := math.Max(beyondShare*float64(l.Rows), 1)
	if l.NaN > 0 {
		r.problem("in %d of %d rows an output is not a number, or infinite at one optimization level only", l.NaN, l.Rows)
	}
	if float64(l.Flipped) > few {
		r.problem("%d of %d rows have another class at another optimization level", l.Flipped, l.Rows)
	}
	switch {
	case l.Bound > 0 && l.Diff > l.Bound:
		r.problem("outputs differ by %.3g between optimization levels; rounding explains at most %.3g", l.Diff, l.Bound)
	case l.Step > 0 && float64(l.Beyond) > few:
		r.problem("%d of %d rows differ by more than one output step (%.3g) between optimization levels",
			l.Beyond, l.Rows, l.Step)
	}
	return nil
}

// differing holds the rows in which outputs differ, by the kind of difference.
type differing struct{ beyond, flipped, nan map[int]bool }

// compare compares one output with itself at another level, row by row.
func (l *Levels) compare(a, b *graph.Tensor, d differing) error {
	if len(a.Raw) != len(b.Raw) || a.DType != b.DType {
		return fmt.Errorf("output %q has another shape without optimizations", a.Name)
	}
	rows := 1
	if len(a.Dims) > 0 {
		rows = int(a.Dims[0])
	}
	l.Rows = max(l.Rows, rows)
	if !a.DType.IsFloat() {
		width := len(a.Raw) / max(rows, 1)
		for i := range a.Raw {
			if a.Raw[i] != b.Raw[i] {
				d.flipped[i/width] = true
			}
		}
		return nil
	}
	x, err := a.Doubles()
	if err != nil {
		return err
	}
	y, err := b.Doubles()
	if err != nil {
		return err
	}
	for i := range x {
		row, diff := i*rows/len(x), math.Abs(x[i]-y[i])
		switch {
		case x[i] == y[i]: // also infinities
		case math.IsNaN(diff) || math.IsInf(diff, 0):
			d.nan[row] = true
		default:
			l.Diff = math.Max(l.Diff, diff)
			if diff > l.Step {
				d.beyond[row] = true
			}
		}
	}
	return nil
}

func runBytes(
	ctx context.Context, onnx []byte, o ort.Options, in []*graph.Tensor,
) (out []*graph.Tensor, err error) {
	s, err := ort.OpenBytes(onnx, o)
	if err == nil {
		defer s.Close() //nolint:errcheck // nothing was written
		out, err = s.Run(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("optimizations %s: %w", o.Level, err)
	}
	return out, nil
}

// spread bounds, per channel, how far a value may differ between two correct
// evaluations of a graph. A spread of length 1 holds for every channel.
type spread []float64

func (s spread) max() float64 { return slices.Max(s) }

// bounded is what bounds found: spreads by value name, absent where nothing is known.
type bounded struct {
	values  map[string]spread
	step    float64
	weights map[string]weights
	inits   map[string]*graph.Tensor
	ranges  map[string]float64 // largest magnitude of quantized values
	convs   map[string]bool    // what convolutions make, and activation functions of it
}

// floatRounding is the relative error of sums of products in float32: at most a
// few thousand terms, each within 2^-24.
const floatRounding = 0x1p-18

// bounds follows rounding differences through m: a QuantizeLinear whose input
// is not computed exactly alike adds one code, a layer multiplies by its absolute
// weights (those that ONNX Runtime computes from the file), and activation
// functions with slope at most one pass them on.
func bounds(ctx context.Context, m *graph.Model, o ort.Options, probes []*graph.Tensor) (*bounded, error) {
	w, err := weightsOf(ctx, m, o, probes)
	if err != nil {
		return nil, fmt.Errorf("reading the dequantized weights: %w", err)
	}
	b := &bounded{
		values: map[string]spread{}, weights: w, inits: m.Graph.InitMap(),
		ranges: map[string]float64{}, convs: map[string]bool{},
	}
	for name := range b.inits {
		b.values[name] = spread{0}
	}
	for _, v := range m.Graph.DataInputs() {
		b.values[v.Name] = spread{0}
	}
	for _, n := range m.Graph.Nodes {
		if s, ok := b.node(n); ok && len(n.Outputs) > 0 {
			b.values[n.Outputs[0]] = s
		}
	}
	return b, nil
}

// node returns the spread of n's output, false when it cannot be told. Convolutions do not distinguish channels.
func (b *bounded) node(n *graph.Node) (spread, bool) {
	in, ok := b.values[n.Input(0)]
	if !ok && len(n.Inputs) > 0 {
		return nil, false
	}
	op := n.Op
	if !n.Standard() {
		op = ""
	}
	w, weighted := b.weights[n.Name]
	switch op {
	case "Gemm":
		if weighted {
			return b.layer(n, w, in), true
		}
	case "Conv":
		if weighted {
			b.convs[n.Outputs[0]] = true
			return spread{b.layer(n, w, spread{in.max()}).max()}, true
		}
	case "QuantizeLinear":
		s := scale(b.inits[n.Input(1)])
		if b.convs[n.Input(0)] { // the codes of what a convolution makes are the steps of the outputs
			b.step = max(b.step, s)
		}
		if in.max() == 0 {
			return in, true
		}
		out := slices.Clone(in)
		floats.AddConst(s, out)
		return out, true
	case "DequantizeLinear":
		b.ranges[n.Outputs[0]] = 255 * scale(b.inits[n.Input(1)])
		return in, true
	case "Clip", "Relu", "Tanh", "Sigmoid", "HardSigmoid", "Softplus", "Identity":
		b.convs[n.Outputs[0]] = b.convs[n.Input(0)]
		return in, true
	case "LeakyRelu", "Elu":
		if n.Float("alpha", 0.01) <= 1 {
			return in, true
		}
	case "LogSoftmax":
		return spread{2 * in.max()}, true
	case "Max", "Min":
		// The larger of two numbers moves no farther than those.
		if !slices.ContainsFunc(n.Inputs[1:], func(v string) bool { return b.inits[v] == nil || b.inits[v].Len() != 1 }) {
			return in, true
		}
	case "Softmax", "MaxPool", "GlobalMaxPool", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose":
		return spread{in.max()}, true
	case "AveragePool", "GlobalAveragePool":
		if in.max() != 0 {
			return spread{in.max() + floatRounding*max(b.ranges[n.Input(0)], 1)}, true
		}
	case "Add", "Sub", "Concat":
		return b.joined(n)
	}
	// Any operator gives the same result for the same inputs.
	for _, v := range n.Inputs {
		if s, ok := b.values[v]; v != "" && (!ok || s.max() != 0) {
			return nil, false
		}
	}
	return spread{0}, true
}

// joined is the spread of a sum or of a concatenation.
func (b *bounded) joined(n *graph.Node) (spread, bool) {
	sum, largest := 0.0, 0.0
	for _, name := range n.Inputs {
		s, ok := b.values[name]
		if !ok {
			return nil, false
		}
		sum, largest = sum+s.max(), max(largest, s.max())
	}
	if n.Op == "Concat" {
		return spread{largest}, true
	}
	return spread{sum * (1 + floatRounding)}, true
}

// layer multiplies the spread of a layer's input by its absolute weights.
func (b *bounded) layer(n *graph.Node, w weights, in spread) spread {
	out := make(spread, w.outputs)
	reach := b.ranges[n.Input(0)]
	if reach > 0 {
		b.step = 0
	}
	gain, cols := 0.0, len(w.w)/w.outputs
	for o := range out {
		largest, sum := 0.0, 0.0
		for i, v := range w.w[o*cols : (o+1)*cols] {
			a := math.Abs(float64(v))
			out[o] += a * in[i%len(in)]
			sum += a
			largest = math.Max(largest, a)
		}
		gain = math.Max(gain, sum)
		bias := 0.0
		if w.b != nil {
			bias = math.Abs(float64(w.b[o%len(w.b)]))
		}
		out[o] += floatRounding * (sum*math.Max(reach, 1) + bias)
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

// weights are a layer's: w is outputs x inputs, the bias b nil when it has none.
type weights struct {
	outputs int
	w, b    []float32
}

// weightsOf returns the weights of all layers with transB=1 as ONNX Runtime
// computes them from the file, by node name.
func weightsOf(ctx context.Context, m *graph.Model, o ort.Options, probes []*graph.Tensor) (map[string]weights, error) {
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
			return nil, err
		}
		defer s.Close() //nolint:errcheck // nothing was written
		got, err := s.Run(ctx, probes)
		if err != nil {
			return nil, err
		}
		for _, t := range got {
			inits[t.Name] = t
		}
	}
	out := map[string]weights{}
	for _, n := range layers {
		w, bias := inits[n.Input(1)], inits[n.Input(2)]
		if w == nil || len(w.Dims) < 2 {
			continue // computed, or none that a layer can have
		}
		x := weights{outputs: int(w.Dims[0])}
		var err error
		if x.w, err = w.Floats(); err != nil {
			continue
		}
		if bias != nil {
			x.b, _ = bias.Floats()
		}
		out[n.Name] = x
	}
	return out, nil
}
