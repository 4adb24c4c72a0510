package qat

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
)

// ratioRate is how much faster than scales and biases weights move that are in units of their scale.
const ratioRate = 3

// typical is the root mean square of weights for which the learning rate is meant.
const typical = 0.1

// slot is where the parameters of a layer stand in the vector: the weights (Out x In), the logarithms of the scales,
// which keeps those positive, and the biases (Out).
type slot struct{ weights, scales, bias, end int }

// layout places the parameters of the layers and fills in their first values.
func layout(layers []Layer, o *Options) (slots []slot, s state) {
	for i := range layers {
		info, p := &layers[i].Info, &layers[i].Plan
		at := slot{weights: len(s.Params)}
		for k, w := range info.W {
			scale := p.Scales[k/info.In%len(p.Scales)]
			switch {
			case p.Codes != nil && o.LSQ:
				w = quant.Dequantize(p.Codes[k], scale)
			case p.Codes != nil:
				w = float32(p.Codes[k])
			case !o.LSQ:
				w /= scale
			}
			s.Params = append(s.Params, w)
		}
		at.scales = len(s.Params)
		for _, v := range p.Scales {
			s.Params = append(s.Params, float32(math.Log(float64(v))))
		}
		at.bias = len(s.Params)
		if p.Bias != nil {
			s.Params = append(s.Params, p.Bias...)
		} else {
			s.Params = append(s.Params, info.B...)
		}
		at.end = len(s.Params)
		slots = append(slots, at)
		var squares float64
		for _, w := range info.W {
			squares += float64(w) * float64(w)
		}
		relative := float32(math.Sqrt(squares/float64(len(info.W))) / typical)
		if !o.LSQ {
			relative = ratioRate
		}
		s.Rates = append(s.Rates, slices.Repeat([]float32{relative}, at.scales-at.weights)...)
		s.Rates = append(s.Rates, slices.Repeat([]float32{1}, at.end-at.scales)...)
	}
	s.First, s.Second = make([]float32, len(s.Params)), make([]float32, len(s.Params))
	return slots, s
}

// parameters takes the vector of parameters apart and makes the layers compute with them: weights through fake
// quantizers, biases as they are.
func (b *builder) parameters(slots []slot, layers []Layer) error {
	params := b.value(paramsName, int64(slots[len(slots)-1].end))
	var sizes []int64
	split := &graph.Node{Op: "Split", Name: b.Name("split")}
	for _, s := range slots {
		for _, n := range []int{s.scales - s.weights, s.bias - s.scales, s.end - s.bias} {
			sizes = append(sizes, int64(n))
			split.Outputs = append(split.Outputs, b.Name("part"))
		}
	}
	split.Inputs = []string{params, b.Const(graph.FromInts("sizes", sizes, int64(len(sizes))))}
	old := b.G.Nodes
	b.G.Nodes = nil // what the layers read comes before them
	b.Append(split)
	nodes := map[string]*graph.Node{}
	for _, n := range slices.Backward(old) { // of nodes with the same name the first is the layer's
		if quant.IsLayer(n) {
			nodes[quant.NodeName(n)] = n
		}
	}
	for i := range layers {
		l, parts := &layers[i], split.Outputs[3*i:3*i+3]
		n := nodes[l.Info.Node]
		if n == nil {
			return fmt.Errorf("the model has no layer %q", l.Info.Node)
		}
		w, err := b.weights(l, n, parts[0], parts[1], slots[i].bias-slots[i].scales)
		if err != nil {
			return err
		}
		n.Inputs = []string{n.Inputs[0], w, parts[2]}
	}
	b.G.Nodes = append(b.G.Nodes, old...)
	return nil
}

// weights makes the quantized weights of a layer with some number of scales, in the form in which its node reads them.
func (b *builder) weights(l *Layer, node *graph.Node, weights, scales string, n int) (string, error) {
	info := &l.Info
	var lo, hi []float32
	for o := range info.Out {
		f, err := quant.FormatOf(l.Plan.Width(o), l.Plan.Reduced)
		if err != nil {
			return "", fmt.Errorf("layer %q: %w", info.Node, err)
		}
		lo, hi = append(lo, float32(f.QMin)), append(hi, float32(f.QMax))
	}
	scale := b.Op("Exp", []string{b.reshape(scales, int64(n), 1)})
	ratio := b.reshape(weights, int64(info.Out), int64(info.In))
	if b.o.LSQ {
		w := ratio
		ratio = b.Op("Div", []string{w, scale})
		b.t.Types[ratio] = b.t.Types[w]
	}
	w, codes, rules := quant.FakeQuantWeights(b.t.Graph, b.Builder, b.t.Types, ratio, scale, lo, hi)
	maps.Copy(b.policy, rules)
	b.codes = append(b.codes, codes, scale)
	switch {
	case info.Conv != nil:
		return b.reshape(w, b.dims(node.Inputs[1])...), nil
	case l.Sources != nil:
		at := make([]int64, len(l.Sources))
		for j, s := range l.Sources {
			at[j] = int64(s)
		}
		return b.Op("Gather", []string{w, b.Const(graph.FromInts("sources", at, int64(len(at))))},
			graph.IntAttr("axis", 1)), nil
	}
	return w, nil
}

// dims is the shape of an initializer, or of a value of fixed shape.
func (b *builder) dims(name string) (dims []int64) {
	if t := b.G.Init(name); t != nil {
		return t.Dims
	}
	for _, d := range b.t.Types[name].Shape {
		dims = append(dims, d.Size)
	}
	return dims
}

// freeze keeps the codes as they are from now on: scales and biases alone move, and the optimizer begins anew.
func (s *step) freeze(layers []Layer, plans []quant.Layer, o *Options) error {
	for i, at := range s.slots {
		for k, q := range plans[i].Codes {
			s.Params[at.weights+k], s.Rates[at.weights+k] = float32(q), 0
		}
	}
	clear(s.First)
	clear(s.Second)
	s.Begun = s.Steps
	return s.frozen(layers, o)
}

// frozen opens the step for weights that are codes. In their own units these would change with the scales.
func (s *step) frozen(layers []Layer, o *Options) error {
	if !o.LSQ {
		return nil
	}
	ratios := *o
	ratios.LSQ = false
	return s.open(layers, &ratios)
}

// plans are the layers as the parameters have them now. The codes are those that the graph computes with: a weight
// halfway between two codes, where many end, would fall to either side if it was rounded again.
func (s *step) plans(ctx context.Context, layers []Layer) ([]quant.Layer, error) {
	got, err := s.reader.Run(ctx, []*graph.Tensor{ort.ViewFloats(paramsName, s.Params, int64(len(s.Params)))})
	if err != nil {
		return nil, fmt.Errorf("trained weights: %w", err)
	}
	out := make([]quant.Layer, len(layers))
	for i, at := range s.slots {
		codes, err := got[2*i].Floats()
		if err != nil {
			return nil, err
		}
		p := layers[i].Plan
		if p.Scales, err = got[2*i+1].Floats(); err != nil {
			return nil, err
		}
		quant.HalfScales(p.Scales)
		p.Codes, p.Bias = make([]int8, len(codes)), slices.Clone(s.Params[at.bias:at.end])
		for k, q := range codes {
			p.Codes[k] = int8(q)
		}
		out[i] = p
	}
	return out, nil
}
