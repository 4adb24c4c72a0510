package qat

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
)

// Names of the values that a step adds to the model.
const (
	paramsName = "qat.params"
	firstName  = "qat.first"  // Adam's mean gradient, not divided by its weight 1-beta1
	secondName = "qat.second" // Adam's mean squared gradient, not divided by 1-beta2
	ratesName  = "qat.rates"
	rateName   = "qat.rate"
	lossName   = "qat.loss" // sum over the batch
)

// Adam's constants, as published.
const (
	beta1, beta2 = 0.9, 0.999
	tiny         = 1e-8
)

// ratioRate is how much faster than scales and biases weights move that are in units of their scale.
const ratioRate = 3

// warmUp is the number of steps in which the learning rate rises.
const warmUp = 200

// typical is the root mean square of weights for which the learning rate is meant.
const typical = 0.1

// step is one step of training as a graph: forward, loss, gradient and optimizer. All parameters are one vector, since
// the number of nodes, not of multiplications, is what a step of a small network costs.
type step struct {
	model   *classifier.Model
	session *ort.Session
	reader  *ort.Session // codes and scales, layer by layer
	slots   []slot
	state
}

// slot is where the parameters of a layer stand in the vector: the weights (Out x In), the logarithms of the scales,
// which keeps those positive, and the biases (Out).
type slot struct{ weights, scales, bias, end int }

// state is everything that steps change.
type state struct {
	Params, First, Second []float32
	Rates                 []float32 // how fast each parameter moves, relative to the learning rate
	Steps, Begun          int       // steps done, in all and before the optimizer began anew
	Start                 float64   // loss of the first batch
}

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

// builder puts the graph of a step together.
type builder struct {
	*graph.Builder
	t      *classifier.Training
	policy map[string]autodiff.Rule
	codes  []string // values that hold codes and scale of each layer
	o      *Options
}

// compile builds the step that trains the layers of the model for an objective.
func compile(model *classifier.Model, layers []Layer, o *Options) (*step, error) {
	s := &step{model: model}
	s.slots, s.state = layout(layers, o)
	return s, s.open(layers, o)
}

// open opens the sessions, in place of those that are open.
func (s *step) open(layers []Layer, o *Options) error {
	t, err := s.model.Training()
	if err != nil {
		return err
	}
	fixBatch(t.Types, t.Types[s.model.Input().Name].Shape[0], o.Batch)
	b := &builder{Builder: graph.NewBuilder(t.Graph.Graph, "qat."), t: t, policy: maps.Clone(t.Policy), o: o}
	if b.policy == nil {
		b.policy = map[string]autodiff.Rule{}
	}
	b.policy["Relu"] = throughRelu
	if err := b.parameters(s.slots, layers); err != nil {
		return err
	}
	grads, err := autodiff.Gradients(t.Graph.Graph, t.Types, b.loss(), []string{paramsName}, autodiff.Options{
		Prefix: "qat.d.", Policy: b.policy,
	})
	if err != nil {
		return err
	}
	b.optimizer(grads[0], int64(len(s.Params)))
	session, err := ort.Open(t.Graph, s.model.Engine())
	if err != nil {
		return err
	}
	r := t.Graph.Clone()
	r.Graph.Inputs = slices.DeleteFunc(r.Graph.Inputs, func(v graph.Value) bool { return v.Name != paramsName })
	r.Graph.Outputs = nil
	for _, v := range b.codes {
		r.Graph.Outputs = append(r.Graph.Outputs, graph.Value{Name: v, DType: graph.Float})
	}
	reader, err := ort.Open(r, s.model.Engine())
	if err != nil {
		session.Close() //nolint:errcheck // the first error counts
		return err
	}
	s.close()
	s.session, s.reader = session, reader
	return nil
}

func (s *step) close() {
	for _, session := range []*ort.Session{s.session, s.reader} {
		if session != nil {
			session.Close() //nolint:errcheck // there is nothing to lose
		}
	}
}

// fixBatch gives the dimension that the batch decides its size: gradients then need no shapes at run time.
func fixBatch(types autodiff.Types, batch graph.Dim, size int) {
	for name, v := range types {
		v.Shape = slices.Clone(v.Shape)
		for i, d := range v.Shape {
			if d == batch {
				v.Shape[i] = graph.Dim{Size: int64(size)}
			}
		}
		types[name] = v
	}
}

// throughRelu is the gradient of Relu as a product, which takes half the time of a choice.
func throughRelu(c *autodiff.Call, _ int) string {
	y := c.Node.Outputs[0]
	to := graph.IntAttr("to", int64(c.Type(y).DType))
	return c.Op("Mul", []string{c.Grad(), c.Op("Cast", []string{c.Op("Greater", []string{y, c.Scalar(y, 0)})}, to)})
}

// value declares an input.
func (b *builder) value(name string, dims ...int64) string {
	v := graph.Value{Name: name, DType: graph.Float, Shape: graph.Fixed(dims...)}
	b.G.Inputs = append(b.G.Inputs, v)
	b.t.Types[name] = autodiff.Type{DType: v.DType, Shape: v.Shape}
	return name
}

// scalar adds a constant.
func (b *builder) scalar(v float64) string {
	return b.Const(graph.FromFloats("c", []float32{float32(v)}))
}

// reshape gives a value a known shape.
func (b *builder) reshape(value string, dims ...int64) string {
	out := b.Op("Reshape", []string{value, b.Const(graph.FromInts("dims", dims, int64(len(dims))))})
	b.t.Types[out] = autodiff.Type{DType: graph.Float, Shape: graph.Fixed(dims...)}
	return out
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

// optimizer appends Adam and makes the outputs.
//
// Reference: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; the corrections of the first steps are
// part of the rate, see step.run.
func (b *builder) optimizer(grad string, size int64) {
	op := func(name string, in ...string) string { return b.Op(name, in) }
	first, second := b.value(firstName, size), b.value(secondName, size)
	sum := op("Add", op("Mul", first, b.scalar(beta1)), grad)
	squares := op("Add", op("Mul", second, b.scalar(beta2)), op("Mul", grad, grad))
	move := op("Div", op("Mul", sum, b.value(rateName, 1)),
		op("Add", op("Sqrt", squares), b.scalar(tiny/math.Sqrt(1-beta2))))
	next := op("Sub", paramsName, op("Mul", move, b.value(ratesName, size)))
	b.G.Outputs = nil
	for _, v := range []string{next, sum, squares, lossName} {
		b.G.Outputs = append(b.G.Outputs, graph.Value{Name: v, DType: graph.Float})
	}
}

// batch is what a step looks at: rows of the model's input and, by name, columns with some numbers for each row.
type batch struct {
	x       []float32
	columns map[string][]float32
}

// run does one step at a learning rate and returns the loss, summed over the batch.
func (s *step) run(ctx context.Context, b *batch, rate float64) (float64, error) {
	t := float64(s.Steps - s.Begun + 1)
	rate *= math.Sqrt((1-math.Pow(beta2, t))/(1-beta2)) * (1 - beta1) / (1 - math.Pow(beta1, t))
	size, rows := int64(len(s.Params)), len(b.x)/s.model.Dim()
	in := []*graph.Tensor{
		s.model.Feed(b.x), ort.ViewFloats(paramsName, s.Params, size), ort.ViewFloats(ratesName, s.Rates, size),
		ort.ViewFloats(firstName, s.First, size), ort.ViewFloats(secondName, s.Second, size),
		ort.ViewFloats(rateName, []float32{float32(rate)}, 1),
	}
	for name, v := range b.columns {
		in = append(in, ort.ViewFloats(name, v, int64(rows), int64(len(v)/rows)))
	}
	out, err := s.session.Run(ctx, in)
	if err != nil {
		return 0, fmt.Errorf("training step: %w", err)
	}
	var loss []float32
	for k, to := range []*[]float32{&s.Params, &s.First, &s.Second, &loss} {
		if *to, err = ort.FloatsOf(out[k]); err != nil {
			return 0, fmt.Errorf("training step: %w", err)
		}
	}
	s.Steps++
	return float64(loss[0]), nil
}

// sound reports whether the parameters can be used.
func (s *step) sound() bool {
	for _, at := range s.slots {
		for k, v := range s.Params[at.weights:at.end] {
			isScale := k >= at.scales-at.weights && k < at.bias-at.weights
			if v-v != 0 || isScale && (v < -80 || v > 80) { // a scale is the exponential, in float32
				return false
			}
		}
	}
	return true
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
