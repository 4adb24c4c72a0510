package onnxio

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/pass"
)

// Map is a model that makes numbers of numbers and decides nothing: an encoder, or a decoder. It is safe for concurrent
// use.
type Map struct {
	*Model

	Out    int // numbers of a row that it makes
	output string
	s      *ort.Session
}

// OpenMap opens such a model: one input and one output of numbers, both rows of fixed size in batches of any size.
func OpenMap(ctx context.Context, g *graph.Model, o ort.Options) (*Map, error) {
	plain, err := rewritten(pass.Current(g), o, func(m *Model) []graph.Pass {
		return append(m.plainPasses(ctx), pass.Upgrading())
	})
	if err != nil {
		return nil, err
	}
	m := &Map{Model: plain}
	g = m.graph
	if err := m.probe(ctx, func(*ort.Session) error { return nil }); err != nil {
		return nil, err
	}
	if len(g.Graph.Outputs) != 1 {
		return nil, fmt.Errorf("it has %d outputs; one is needed", len(g.Graph.Outputs))
	}
	m.output = g.Graph.Outputs[0].Name
	n, ok := m.PerRow(m.output)
	switch t := m.types[m.output]; {
	case m.fixed > 0:
		return nil, fmt.Errorf("it takes batches of %d rows only; export it with a dynamic batch axis", m.fixed)
	case !ok || n == 0:
		return nil, fmt.Errorf("output %q has the shape %v; rows of numbers are needed", m.output, t.Shape)
	case m.input.DType != graph.Float:
		return nil, fmt.Errorf("input %q holds %s; float is needed", m.input.Name, m.input.DType)
	case t.DType != graph.Float:
		return nil, fmt.Errorf("output %q holds %s; float is needed", m.output, t.DType)
	}
	m.Out = n
	m.s, err = ort.Open(g, o)
	return m, err
}

const mapBatch = 256

// Run returns what the model makes of rows x.
func (m *Map) Run(ctx context.Context, x []float32) ([]float32, error) {
	out := make([]float32, 0, len(x)/m.dim*m.Out)
	for part := range slices.Chunk(x, mapBatch*m.dim) {
		res, err := m.s.Run(ctx, []*graph.Tensor{m.Feed(part)})
		if err != nil {
			return nil, err
		}
		v, err := ort.FloatsOf(res[0])
		if err != nil {
			return nil, err
		}
		if len(v) != len(part)/m.dim*m.Out {
			return nil, fmt.Errorf("%d rows gave %d numbers, and not %d each", len(part)/m.dim, len(v), m.Out)
		}
		out = append(out, v...)
	}
	return out, nil
}

// Close frees the session.
func (m *Map) Close() error { return m.s.Close() }

func (m *Map) append(b *graph.Builder, x string, types graph.Types) string {
	names := map[string]string{m.input.Name: reshaped(b, x, m.sizes...)}
	for _, t := range m.graph.Graph.Inits {
		c := *t
		names[t.Name] = b.Const(&c)
		types[names[t.Name]] = m.types[t.Name]
	}
	for _, n := range m.graph.Graph.Clone().Nodes {
		n.Name = ""
		for i, v := range n.Inputs {
			n.Inputs[i] = names[v]
		}
		for i, v := range n.Outputs {
			if v == "" {
				continue
			}
			n.Outputs[i] = b.Name(v)
			names[v] = n.Outputs[i]
			if t, ok := m.types[v]; ok {
				types[names[v]] = t
			}
		}
		b.Append(n)
	}
	return reshaped(b, names[m.output], int64(m.Out))
}

func reshaped(b *graph.Builder, x string, sizes ...int64) string {
	shape := append([]int64{-1}, sizes...)
	return b.Op("Reshape", []string{x, b.Const(graph.FromInts("shape", shape, int64(len(shape))))})
}

// Decoded is the step in front of a model that decides about images (or other inputs) x of people who move in the space
// of codes z: rows are x and z together, and the model gets D(z), clipped to Low and High, or x itself where z is E(x)
// up to [CodeGrid]: the person as they are.
//
// No action may move D(z) further than Budget from x, by PixelWeights in the l1 norm: [Model.Limit] is below 0 there.
//
// Reference: eq:latent_cf_image and eq:latent_action_set.
type Decoded struct {
	Encoder, Decoder *Map
	Low, High        []float32 // of the model's inputs
	PixelWeights     []float32
	Budget           float64 // 0 is none
	// Always gives the model D(z) of people as they are, too.
	Always bool
}

// CodeGrid is what codes of people as they are, which the encoder makes, are multiples of: rounding differences between
// batches leave them as they are.
const CodeGrid = 1.0 / 4096

// Codes returns what the encoder makes of rows x, on the grid.
func (d *Decoded) Codes(ctx context.Context, x []float32) ([]float32, error) {
	z, err := d.Encoder.Run(ctx, x)
	for i, v := range z {
		z[i] = float32(math.Round(float64(v)/CodeGrid) * CodeGrid)
	}
	return z, err
}

func (d *Decoded) sizes() (from, to int) { return d.Encoder.dim + d.Encoder.Out, d.Encoder.dim }

// The values of a Decoded that have names of their own.
const (
	distanceName = "cfq.front.distance"
	limitName    = "cfq.front.limit"
)

// limitSlope is the limit, in logits, of an action that leaves the whole budget unused: so much that margins of what is
// within the budget are below it.
const limitSlope = 1e4

func (d *Decoded) append(b *graph.Builder, row string, types graph.Types) {
	dim, size := int64(d.Encoder.dim), int64(d.Encoder.Out)
	part := func(from, to int64) string {
		of := func(name string, v int64) string { return b.Const(graph.FromInts(name, []int64{v}, 1)) }
		return b.Op("Slice", []string{row, of("from", from), of("to", to), of("axis", 1)})
	}
	x, z := stopped(b, part(0, dim)), part(dim, dim+size)
	delta := b.Op("Sub", []string{z, d.Encoder.append(b, x, types)})
	image := d.Decoder.append(b, z, types)
	image = b.Op("Max", []string{image, b.Const(graph.FromFloats("low", d.Low, 1, dim))})
	image = b.Op("Min", []string{image, b.Const(graph.FromFloats("high", d.High, 1, dim))})
	column := func(v []float32) string { return b.Const(graph.FromFloats("weights", v, int64(len(v)), 1)) }
	distance := b.Op("MatMul", []string{
		b.Op("Abs", []string{b.Op("Sub", []string{image, x})}), column(d.PixelWeights),
	})
	distance = named(b, distance, distanceName)
	most := b.Op("ReduceMax", []string{
		b.Op("Abs", []string{delta}), b.Const(graph.FromInts("axis", []int64{1}, 1)),
	})
	number := func(v float64) string { return b.Const(graph.FromFloats("c", []float32{float32(v)}, 1, 1)) }
	moved := b.Op("Greater", []string{most, number(2 * CodeGrid)})
	if d.Always {
		moved = b.Op("GreaterOrEqual", []string{most, number(0)})
	}
	if d.Budget > 0 { // what is left of it
		left := b.Op("Mul", []string{distance, number(-limitSlope / d.Budget)})
		left = b.Op("Add", []string{left, number(limitSlope)})
		named(b, b.Op("Where", []string{moved, left, number(limit)}), limitName)
	}
	// The gradient at the person as they are is that at D(z): D(z) less itself is 0.
	same := b.Op("Add", []string{x, b.Op("Sub", []string{image, stopped(b, image)})})
	b.Op("Where", []string{moved, image, same})
}

func named(b *graph.Builder, value, name string) string {
	last := b.G.Nodes[len(b.G.Nodes)-1]
	last.Outputs[slices.Index(last.Outputs, value)] = name
	return name
}

const stopPrefix = "cfq.stop."

func stopped(b *graph.Builder, x string) string {
	n := &graph.Node{Op: "Identity", Name: b.Name(stopPrefix), Inputs: []string{x}, Outputs: []string{b.Name("stopped")}}
	b.Append(n)
	return n.Outputs[0]
}

func (m *Model) decoded() *Decoded {
	if m.transform == nil {
		return nil
	}
	d, _ := m.transform.InputTransform.(*Decoded)
	return d
}

// Limit names the value that says how much of their budget people leave, in logits, below 0 for those who exceed it: a
// search takes the lesser of it and the margin. It is "" where there is no such value.
func (m *Model) Limit() string {
	if d := m.decoded(); d != nil && d.Budget > 0 {
		return limitName
	}
	return ""
}

// Distance names the value that says how far D(z) is from x, see [Decoded]; "" where there is none.
func (m *Model) Distance() string {
	if m.decoded() != nil {
		return distanceName
	}
	return ""
}

// Passes returns rules for gradients that the step in front of the model needs, nil where it needs none.
func (m *Model) Passes() map[string]autodiff.Rule {
	if m.decoded() == nil {
		return nil
	}
	return map[string]autodiff.Rule{"Identity": func(c *autodiff.Call, _ int) string {
		if strings.Contains(c.Node.Name, stopPrefix) {
			return ""
		}
		return c.Grad()
	}}
}
