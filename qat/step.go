package qat

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"cfq/internal/lists"
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

const warmUp = 200

// trainStep is one step of training as a graph: forward, loss, gradient and optimizer. All parameters are one vector,
// since the number of nodes, not of multiplications, is what a step of a small network costs.
type trainStep struct {
	optimizerState

	job     *trainingJob
	slots   []paramSlot
	cost    float64              // of the bit widths in the last step of a search
	drawn   map[string][]float32 // in a search: the noise of the step, its temperature, the weight of the bit cost
	session *ort.Session
	student *ort.Session   // gradient by the inputs; nil where the objective has no use for it
	reader  *ort.Session   // codes and scales, layer by layer; nil where all layers are in float
	widths  map[string]int // of the columns
}

type optimizerState struct {
	Params, First, Second []float32
	Rates                 []float32 // how fast each parameter moves, relative to the learning rate
	Steps, Begun          int       // steps done, in all and before the optimizer restarted
	Start                 float64   // loss of the first batch
}

type stepBuilder struct {
	*graph.Builder
	t      *classifier.Training
	policy map[string]autodiff.Rule
	codes  []string // values that hold codes and scale of each layer
	noise  int      // numbers of Gumbel noise that the widths of layers take
	costs  []string // what the widths of layers cost
	job    *trainingJob
	whole  graph.Types // of the network, for any number of rows
	widths map[string]int
	err    error
}

func compile(j *trainingJob) (*trainStep, error) {
	s := &trainStep{job: j}
	s.slots, s.optimizerState = layout(j)
	return s, s.open()
}

func (s *trainStep) open() error {
	s.close()
	b, err := s.build()
	if err != nil {
		return err
	}
	s.session, s.student, s.reader, s.widths = nil, nil, nil, b.widths
	if s.job.objective.unrolled() {
		s.student, err = s.openStudent(b)
	}
	if err == nil {
		s.session, err = s.train(b)
	}
	if err == nil && b.codes != nil {
		r := b.t.Graph.Clone()
		r.Graph.Inputs = slices.DeleteFunc(r.Graph.Inputs, func(v graph.Value) bool { return v.Name != paramsName })
		r.Graph.Outputs = floatValues(b.codes...)
		s.reader, err = ort.Open(r, s.job.net.Model.Engine())
	}
	if err != nil {
		s.close()
	}
	return err
}

func floatValues(names ...string) []graph.Value {
	return lists.Map(names, func(v string) graph.Value { return graph.Value{Name: v, DType: graph.Float} })
}

// build starts the graph of a step: the network with its parameters.
func (s *trainStep) build() (*stepBuilder, error) {
	t, err := s.job.net.Model.Training()
	if err != nil {
		return nil, err
	}
	b := &stepBuilder{
		Builder: graph.NewBuilder(t.Graph.Graph, "qat."), t: t, policy: maps.Clone(t.Policy), job: s.job,
		whole: maps.Clone(t.Types), widths: map[string]int{},
	}
	fixBatch(t.Types, t.Types[s.job.net.Model.Input().Name].Shape[0], s.job.rows)
	if b.policy == nil {
		b.policy = map[string]autodiff.Rule{}
	}
	if s.job.pact {
		quant.ClipScales(b.policy)
	}
	if n := noiseOf(s.slots); n > 0 {
		b.value(noiseName, int64(n))
		b.value(coldName, 1)
		b.value(lambdaName, 1)
	}
	return b, b.parameters(s.slots)
}

func (s *trainStep) train(b *stepBuilder) (*ort.Session, error) {
	loss := b.charged(b.loss())
	if b.err != nil {
		return nil, b.err
	}
	grads, err := autodiff.Gradients(b.G, b.t.Types, loss, []string{paramsName}, autodiff.Options{
		Prefix: "qat.d.", Policy: b.policy,
	})
	if err != nil {
		return nil, err
	}
	b.optimizer(b.decayed(grads[0], s.slots), int64(len(s.Params)))
	return ort.Open(b.t.Graph, s.job.net.Model.Engine())
}

func (s *trainStep) close() {
	for _, session := range []*ort.Session{s.session, s.student, s.reader} {
		if session != nil {
			session.Close() //nolint:errcheck // there is nothing to lose
		}
	}
}

// fixBatch gives the dimension that the batch decides its size: gradients then need no shapes at run time.
func fixBatch(types graph.Types, batch graph.Dim, size int) {
	for name, v := range types {
		v.Shape = slices.Clone(v.Shape)
		for i, d := range v.Shape {
			if name, times := d.Multiple(); d == batch || d.Size < 0 && batch.Param != "" && name == batch.Param {
				v.Shape[i] = graph.Dim{Size: int64(size) * times}
			}
		}
		types[name] = v
	}
}

func (b *stepBuilder) value(name string, dims ...int64) string {
	v := graph.Value{Name: name, DType: graph.Float, Shape: graph.Fixed(dims...)}
	b.G.Inputs = append(b.G.Inputs, v)
	b.t.Types[name] = graph.Type{DType: v.DType, Shape: v.Shape}
	return name
}

func (b *stepBuilder) column(name string, rows, width int) string {
	b.widths[name] = width
	return b.value(name, int64(rows), int64(width))
}

func (b *stepBuilder) scalar(v float64) string {
	return b.Const(graph.FromFloats("c", []float32{float32(v)}))
}

func (b *stepBuilder) ints(v ...int64) string { return b.Const(graph.FromInts("n", v, int64(len(v)))) }

func (b *stepBuilder) reshape(value string, dims ...int64) string {
	return b.known(b.Op("Reshape", []string{value, b.ints(dims...)}), dims...)
}

func (b *stepBuilder) known(value string, dims ...int64) string {
	b.t.Types[value] = graph.Type{DType: graph.Float, Shape: graph.Fixed(dims...)}
	return value
}

func (b *stepBuilder) decayed(grad string, slots []paramSlot) string {
	if b.job.Decay == 0 {
		return grad
	}
	decay := make([]float32, slots[len(slots)-1].end)
	for i, at := range slots {
		if b.job.net.Layers[i].Plan.Float {
			for k := at.weights; k < at.scales; k++ {
				decay[k] = float32(b.job.Decay * float64(b.job.Batch)) // the loss is summed over the batch
			}
		}
	}
	c := b.Const(graph.FromFloats("decay", decay, int64(len(decay))))
	return b.Op("Add", []string{grad, b.Op("Mul", []string{paramsName, c})})
}

// optimizer appends Adam and makes the outputs.
//
// Reference: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; the corrections of the first steps are
// part of the rate, see step.run.
func (b *stepBuilder) optimizer(grad string, size int64) {
	op := func(name string, in ...string) string { return b.Op(name, in) }
	first, second := b.value(firstName, size), b.value(secondName, size)
	sum := op("Add", op("Mul", first, b.scalar(beta1)), grad)
	squares := op("Add", op("Mul", second, b.scalar(beta2)), op("Mul", grad, grad))
	move := op("Div", op("Mul", sum, b.value(rateName, 1)),
		op("Add", op("Sqrt", squares), b.scalar(tiny/math.Sqrt(1-beta2))))
	next := op("Sub", paramsName, op("Mul", move, b.value(ratesName, size)))
	b.G.Outputs = floatValues(next, sum, squares, lossName)
	if b.costs != nil {
		b.G.Outputs = append(b.G.Outputs, floatValues(costName)...)
	}
}

// trainBatch is what a step looks at: rows of the model's input and, by name, columns with some numbers for each of
// these rows, or for each person.
type trainBatch struct {
	x       []float32
	columns map[string][]float32
}

// run does one step at a learning rate and returns the loss, summed over the batch.
func (s *trainStep) run(ctx context.Context, b *trainBatch, rate float64) (float64, error) {
	t := float64(s.Steps - s.Begun + 1)
	rate *= math.Sqrt((1-math.Pow(beta2, t))/(1-beta2)) * (1 - beta1) / (1 - math.Pow(beta1, t))
	size := int64(len(s.Params))
	in := []*graph.Tensor{
		s.job.net.Model.Feed(b.x), ort.ViewFloats(paramsName, s.Params, size), ort.ViewFloats(ratesName, s.Rates, size),
		ort.ViewFloats(firstName, s.First, size), ort.ViewFloats(secondName, s.Second, size),
		ort.ViewFloats(rateName, []float32{float32(rate)}, 1),
	}
	for name, v := range b.columns {
		in = append(in, ort.ViewFloats(name, v, int64(len(v)/s.widths[name]), int64(s.widths[name])))
	}
	for name, v := range s.drawn {
		in = append(in, ort.ViewFloats(name, v, int64(len(v))))
	}
	out, err := s.session.Run(ctx, in)
	values := make([][]float32, len(out))
	for k := 0; k < len(out) && err == nil; k++ {
		values[k], err = ort.FloatsOf(out[k])
	}
	if err != nil {
		return 0, fmt.Errorf("training step: %w", err)
	}
	s.Params, s.First, s.Second = values[0], values[1], values[2]
	s.Steps++
	if len(values) > 4 {
		s.cost = float64(values[4][0])
	}
	return float64(values[3][0]), nil
}

func (s *trainStep) sound() bool {
	for _, at := range s.slots {
		for k, v := range s.Params[at.weights:at.end] {
			isScale := k >= at.scales-at.weights && k < at.bias-at.weights || k >= at.act-at.weights
			if v-v != 0 || isScale && (v < -80 || v > 80) { // a scale is the exponential, in float32
				return false
			}
		}
	}
	return true
}
