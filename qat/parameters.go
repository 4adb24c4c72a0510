package qat

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
)

// ratioRate is how much faster than scales and biases weights move that are in units of their scale.
const ratioRate = 3

// settling is how much of its way to the nearest code a weight in units of its scale is moved after each step.
const settling = 3e-4

// typical is the root mean square of weights for which the learning rate is meant.
const typical = 0.1

// paramSlot is where the parameters of a layer stand in the vector: the weights (Out x In), the logarithms of the
// scales, which keeps those positive, for layers whose bit widths are learned the scores of the widths, the biases
// (Out), and the logarithm of the scale of the activations that the layer reads through a quantizer of its own. Layers
// in float have no scales.
type paramSlot struct{ weights, scales, policy, bias, act, end int }

func layout(j *trainingJob) (slots []paramSlot, s optimizerState) {
	layers, scaleRate := j.net.Layers, float32(1) // relative to the learning rate
	if j.pact {
		scaleRate = 0
	}
	for i := range layers {
		l := &layers[i]
		info, p := &l.Info, &l.Plan
		weights, bias := slices.Clone(info.W), p.Bias
		logs := lists.Map(l.scales(), func(v float32) float32 { return float32(math.Log(math.Abs(float64(v)))) })
		for k, w := range weights {
			if !p.Float && l.Widths == nil { // widths that are learned share weights in their own units
				weights[k] = first(p, k, w, p.Scales[k/info.In%len(p.Scales)], j.lsq)
			}
		}
		if bias == nil {
			bias = info.B
		}
		at := paramSlot{weights: len(s.Params)}
		at.scales = s.add(weightRate(l, j.lsq), weights)
		at.policy = s.add(scaleRate, logs)
		at.bias = s.add(policyRate, l.firstScores(j.budget))
		at.act = s.add(1, bias)
		if at.end = at.act; actOf(layers, i) == i {
			at.end = s.add(1, []float32{float32(math.Log(float64(p.Act.Scale)))})
		}
		slots = append(slots, at)
		for k, zero := range l.Pruned {
			if zero {
				s.Params[at.weights+k], s.Rates[at.weights+k] = 0, 0
			}
		}
	}
	s.First, s.Second = make([]float32, len(s.Params)), make([]float32, len(s.Params))
	return slots, s
}

func (s *optimizerState) add(rate float32, params []float32) (end int) {
	s.Params = append(s.Params, params...)
	s.Rates = append(s.Rates, slices.Repeat([]float32{rate}, len(params))...)
	return len(s.Params)
}

// actOf is the layer that has the scale of the activations that layer i reads: the first one that reads them through
// the same quantizer; -1 where that is not trained. Output quantizers of convolutions are not: in what follows one,
// nothing is rounded twice.
func actOf(layers []Layer, i int) int {
	l := &layers[i]
	if l.Plan.Float || l.Plan.Act == nil || l.Info.Source != "" {
		return -1
	}
	return slices.IndexFunc(layers, func(o Layer) bool {
		return o.Info.Input == l.Info.Input && o.Plan.Act != nil && *o.Plan.Act == *l.Plan.Act && o.Info.Source == ""
	})
}

func first(p *quant.Layer, k int, w, scale float32, lsq bool) float32 {
	switch {
	case p.Codes != nil && lsq:
		return quant.Dequantize(p.Codes[k], scale)
	case p.Codes != nil:
		return sign(scale) * float32(p.Codes[k])
	case !lsq:
		return w / scale
	}
	return w
}

// sign is that of a scale. Parameters have positive ones, and the codes that go with them.
func sign(scale float32) float32 { return float32(math.Copysign(1, float64(scale))) }

func weightRate(l *Layer, lsq bool) float32 {
	switch {
	case l.Plan.Float:
		return 1 // the learning rate is that of Adam, as everyone states it
	case !lsq && l.Widths == nil:
		return ratioRate
	}
	var squares float64
	for _, w := range l.Info.W {
		squares += float64(w) * float64(w)
	}
	return float32(math.Sqrt(squares/float64(len(l.Info.W))) / typical)
}

// parameters takes the vector of parameters apart and makes the layers compute with them: weights through fake
// quantizers, or as they are, biases as they are.
func (b *stepBuilder) parameters(slots []paramSlot) error {
	layers := b.job.net.Layers
	params := b.value(paramsName, int64(slots[len(slots)-1].end))
	var sizes []int64
	split := &graph.Node{Op: "Split", Name: b.Name("split")}
	part := func(size int) string { // the next part of the vector; "" where there is none
		if size == 0 {
			return ""
		}
		sizes, split.Outputs = append(sizes, int64(size)), append(split.Outputs, b.Name("part"))
		return split.Outputs[len(split.Outputs)-1]
	}
	old := b.G.Nodes
	b.G.Nodes = nil // what the layers read comes before them
	b.Append(split)
	nodes, producers := map[string]*graph.Node{}, map[string]*graph.Node{}
	for _, n := range slices.Backward(old) { // of nodes with the same name the first is the layer's
		if quant.IsLayer(n) {
			nodes[quant.NodeName(n)] = n
		}
		for _, v := range n.Outputs {
			producers[v] = n
		}
	}
	for i, at := range slots {
		l := &layers[i]
		n := nodes[l.Info.Node]
		if n == nil {
			return fmt.Errorf("the model has no layer %q", l.Info.Node)
		}
		weights, scales, policy := part(at.scales-at.weights), part(at.policy-at.scales), part(at.bias-at.policy)
		bias := part(at.act - at.bias)
		if act := part(at.end - at.act); act != "" {
			scale := b.Op("Exp", []string{b.reshape(act)})
			b.t.Types[scale] = graph.Type{DType: graph.Float}
			if !quant.SetScale(producers[n.Inputs[0]], scale) {
				return fmt.Errorf("layer %q: what it reads has no quantizer", l.Info.Node)
			}
		}
		w := b.reshape(weights, int64(l.Info.Out), int64(l.Info.In))
		if !l.Plan.Float {
			var err error
			if policy != "" {
				w, err = b.mixture(l, w, scales, policy)
			} else {
				w, err = b.quantized(l, w, b.reshape(scales, int64(at.policy-at.scales), 1))
			}
			if err != nil {
				return err
			}
		}
		n.Inputs = []string{n.Inputs[0], b.shaped(l, n, w), bias}
	}
	split.Inputs = []string{params, b.Const(graph.FromInts("sizes", sizes, int64(len(sizes))))}
	b.G.Nodes = append(b.G.Nodes, old...)
	return nil
}

func (b *stepBuilder) quantized(l *Layer, weights, scales string) (string, error) {
	lo, hi, err := bounds(l, &l.Plan)
	if err != nil {
		return "", err
	}
	rows := int64(l.Info.Out)
	least, most := graph.FromFloats("lo", lo, rows, 1), graph.FromFloats("hi", hi, rows, 1)
	var w quant.FakeWeights
	if b.job.lsq {
		w = b.fake().LearnedSteps(weights, scales, least, most)
	} else {
		w = b.fake().Weights(weights, b.Op("Exp", []string{scales}), least, most)
	}
	b.codes = append(b.codes, w.Codes, w.Scale)
	return w.Value, nil
}

func (b *stepBuilder) fake() *quant.Fake {
	return &quant.Fake{Builder: b.Builder, Model: b.t.Graph, Types: b.t.Types, Rules: b.policy}
}

func bounds(l *Layer, p *quant.Layer) (lo, hi []float32, err error) {
	for o := range l.Info.Out {
		f, err := quant.FormatOf(p.Width(o), p.Reduced)
		if err != nil {
			return nil, nil, fmt.Errorf("layer %q: %w", l.Info.Node, err)
		}
		if p.Scales[o%len(p.Scales)] < 0 {
			f.QMin, f.QMax = -f.QMax, -f.QMin
		}
		lo, hi = append(lo, float32(f.QMin)), append(hi, float32(f.QMax))
	}
	return lo, hi, nil
}

func (b *stepBuilder) shaped(l *Layer, node *graph.Node, w string) string {
	switch {
	case l.Info.Conv != nil:
		return b.reshape(w, b.dims(node.Inputs[1])...)
	case l.Sources != nil:
		n := len(l.Sources)
		pick := make([]float32, l.Info.In*n) // a product takes a fifth of the time of Gather and its gradient
		for j, s := range l.Sources {
			pick[s*n+j] = 1
		}
		return b.Op("MatMul", []string{w, b.Const(graph.FromFloats("sources", pick, int64(l.Info.In), int64(n)))})
	}
	return w
}

func (b *stepBuilder) dims(name string) []int64 {
	if t := b.G.Init(name); t != nil {
		return t.Dims
	}
	return lists.Map(b.t.Types[name].Shape, func(d graph.Dim) int64 { return d.Size })
}

// settle moves weights that are in units of their scale towards their codes. Without it most weights of few bits end
// halfway between two codes and change theirs in nearly every step, so that the others never learn next to the
// final ones. What the gradient asks for steadily is stronger.
//
// Reference: Nagel et al., Overcoming Oscillations in Quantization-Aware Training, 2022, oscillation dampening; apart
// from the gradient, as weight decay is in AdamW.
func (s *trainStep) settle() {
	for _, at := range s.slots {
		if at.scales == at.bias {
			continue // in float
		}
		weights := s.Params[at.weights:at.scales]
		for k, v := range weights {
			code := v + 3<<22 - 3<<22 // rounded to even, since a float32 of that size has no fraction
			weights[k] += settling * (code - v)
		}
	}
}

// freeze keeps the codes as they are from now on: scales and biases alone move, and the optimizer begins again.
func (s *trainStep) freeze(now []Trained) error {
	for i, at := range s.slots {
		for k, q := range now[i].Codes {
			scale := now[i].Scales[k/s.job.net.Layers[i].Info.In%len(now[i].Scales)]
			s.Params[at.weights+k], s.Rates[at.weights+k] = sign(scale)*float32(q), 0
		}
	}
	clear(s.First)
	clear(s.Second)
	s.Begun = s.Steps
	return s.openFrozen()
}

// openFrozen opens the step for weights that are codes. In their own units these would change with the scales.
func (s *trainStep) openFrozen() error {
	if !s.job.lsq {
		return nil
	}
	ratios := *s.job
	ratios.lsq = false
	s.job = &ratios
	return s.open()
}

// trained are the layers as the parameters have them now. The codes are those that the graph computes with: a weight
// halfway between two codes, where many end, would fall to either side if it was rounded again.
func (s *trainStep) trained(ctx context.Context) ([]Trained, error) {
	layers := s.job.net.Layers
	var got []*graph.Tensor
	if s.reader != nil {
		var err error
		got, err = s.reader.Run(ctx, []*graph.Tensor{ort.ViewFloats(paramsName, s.Params, int64(len(s.Params)))})
		if err != nil {
			return nil, fmt.Errorf("trained weights: %w", err)
		}
	}
	out := make([]Trained, len(layers))
	for i, at := range s.slots {
		p := layers[i].Plan
		half := p.Bias != nil && quant.AreHalf(p.Bias...)
		if p.Bias = slices.Clone(s.Params[at.bias:at.act]); half {
			quant.HalfBiases(p.Bias)
		}
		if k := actOf(layers, i); k >= 0 {
			act := *p.Act
			act.Scale = float32(math.Exp(float64(s.Params[s.slots[k].act])))
			p.Act = &act
		}
		if p.Float {
			out[i] = Trained{p, slices.Clone(s.Params[at.weights:at.scales])}
			continue
		}
		codes, err := got[0].Floats()
		if err != nil {
			return nil, err
		}
		if p.Scales, err = got[1].Floats(); err != nil {
			return nil, err
		}
		got = got[2:]
		if l := &layers[i]; l.Widths != nil {
			p, codes = l.chosen(p, codes, s.Params[at.policy:at.bias])
		}
		for o, planned := 0, layers[i].Plan.Scales; o < len(p.Scales); o++ {
			p.Scales[o] *= sign(planned[o%len(planned)])
		}
		quant.HalfScales(p.Scales)
		p.Codes = make([]int8, len(codes))
		for k, q := range codes {
			p.Codes[k] = int8(sign(p.Scales[k/layers[i].Info.In%len(p.Scales)]) * float32(q))
		}
		out[i].Layer = p
	}
	return out, nil
}

// Code is what the objectives of autoencoders know of a network from inputs by a code to as many logits. The sigmoid
// of a logit is the input as a share of its range.
type Code struct {
	Value      string    // that holds the code
	Attributes int       // numbers of the code, for the objective Attributes
	Low, High  []float32 // the range of each input
}

// reconstructionTerm is the mean over the inputs of softplus(z) - z share, the cross-entropy of a share of the range
// with the sigmoid of the logit z.
func reconstructionTerm() lossTerm {
	return lossTerm{reduced: true, build: func(b *stepBuilder) string {
		code := &b.job.net.Code
		n := len(code.Low)
		low, scale := make([]float32, n), make([]float32, n)
		for i, v := range code.Low {
			low[i], scale[i] = v, 1/(code.High[i]-v)
		}
		op := func(name string, in ...string) string { return b.Op(name, in) }
		constant := func(v []float32) string { return b.Const(graph.FromFloats("range", v, 1, int64(n))) }
		inputs := b.reshape(b.G.Inputs[0].Name, int64(b.job.rows), int64(n))
		share := op("Mul", op("Sub", inputs, constant(low)), constant(scale))
		loss := op("Sub", op("Softplus", b.t.Logits), op("Mul", b.t.Logits, share))
		return op("Mul", loss, b.scalar(1/float64(n)))
	}}
}

// attributeTerm is the mean squared error of the code. What decodes reads the attributes instead of the code: encoder
// and decoder are trained apart, so that the code has no room for anything but the attributes.
func attributeTerm() lossTerm {
	const name = "qat.attributes"
	return lossTerm{
		reduced: true,
		columns: []lossColumn{{
			name: name, width: func(j *trainingJob) int { return j.net.Code.Attributes },
			fill: func(to []float32, p *Points, i int, _ *trainingJob) { copy(to, p.Attributes[i*len(to):]) },
		}},
		build: func(b *stepBuilder) string {
			code := &b.job.net.Code
			for _, n := range b.G.Nodes {
				if i := slices.Index(n.Inputs, code.Value); i >= 0 {
					n.Inputs = slices.Clone(n.Inputs)
					n.Inputs[i] = name
				}
			}
			e := b.Op("Sub", []string{code.Value, name})
			return b.Op("Mul", []string{b.Op("Mul", []string{e, e}), b.scalar(1 / float64(code.Attributes))})
		},
	}
}
