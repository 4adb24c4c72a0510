package onnxio

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// InputTransform stands in front of a model and makes the model's inputs of rows of other numbers: a [Front], or a
// [Decoded].
type InputTransform interface {
	// sizes are the numbers of a row before and after the step.
	sizes() (from, to int)
	// append appends the nodes of the step to those of b; what they make is the output of the last one. It may add the
	// types of values.
	append(b *graph.Builder, x string, types graph.Types)
}

// Front is a step in front of a model: it makes the model's inputs of rows of From numbers x,
//
//	u = min(max(x·Matrix + Shift, Low), High)
//	z = Scale·ln(u) + Offset where Log, else Scale·u + Offset
type Front struct {
	From, To                        int       // numbers of a row before and after it
	Matrix                          []float32 // From x To
	Shift, Low, High, Scale, Offset []float32 // To numbers each
	Log                             []bool
}

// NewFront returns the step that makes of nothing rows of zeros: its matrix is to be filled in.
func NewFront(from, to int) *Front {
	all := func(v float32) []float32 { return slices.Repeat([]float32{v}, to) }
	return &Front{
		From: from, To: to, Matrix: make([]float32, from*to), Shift: all(0), Low: all(-limit), High: all(limit),
		Scale: all(1), Offset: all(0), Log: make([]bool, to),
	}
}

// limit is a bound that no input reaches; float32 has infinities, whose gradients are not numbers.
const limit = 3e38

type inputTransform struct {
	InputTransform

	outer  graph.Value // the input of the graph with it
	inner  modelInput  // of the graph without it
	nodes  []*graph.Node
	consts []*graph.Tensor
}

// WithInputTransform returns the model with t in front: its rows are those of t, and all values of the model keep their
// names. Canonical and With keep t in front.
func (m *Model) WithInputTransform(t InputTransform) (*Model, error) {
	from, to := t.sizes()
	if to != m.dim {
		return nil, fmt.Errorf("the model has %d inputs, and the step in front of it makes %d", m.dim, to)
	}
	b := graph.NewBuilder(m.base.Graph.Clone(), "cfq.front.")
	first, known := len(b.G.Nodes), len(b.G.Inits)
	batch := m.types[m.input.Name].Shape[0]
	c := *m
	f := &inputTransform{InputTransform: t, inner: m.modelInput}
	f.outer = graph.Value{
		Name: b.Name("columns"), DType: graph.Float, Shape: graph.Shape{batch, {Size: int64(from)}},
	}
	c.types = maps.Clone(m.types)
	t.append(b, f.outer.Name, c.types)
	if m.input.DType != graph.Float || len(m.sizes) > 1 {
		z := b.G.Nodes[len(b.G.Nodes)-1].Outputs[0]
		z = b.Op("Cast", []string{z}, graph.IntAttr("to", int64(m.input.DType)))
		reshaped(b, z, m.sizes...)
	}
	b.G.Nodes[len(b.G.Nodes)-1].Outputs[0] = m.input.Name
	f.nodes, f.consts = b.G.Nodes[first:], b.G.Inits[known:]
	c.types[f.outer.Name] = graph.Type{DType: graph.Float, Shape: f.outer.Shape}
	if err := autodiff.Infer(&graph.Graph{Inits: f.consts, Nodes: f.nodes}, c.types); err != nil {
		return nil, fmt.Errorf("the step in front of the model: %w", err)
	}
	c.transform, c.modelInput = f, modelInput{f.outer, []int64{int64(from)}, m.fixed, from}
	c.graph = c.extended(c.base)
	c.canonical = sync.OnceValues(c.canonicalize)
	return &c, nil
}

// WithoutInputTransform returns the model without the step in front of it.
func (m *Model) WithoutInputTransform() *Model {
	if m.transform == nil {
		return m
	}
	c := *m
	c.modelInput, c.transform = m.transform.inner, nil
	c.graph = c.extended(c.base)
	c.canonical = sync.OnceValues(c.canonicalize)
	return &c
}

func (f *Front) sizes() (from, to int) { return f.From, f.To }

func (f *Front) append(b *graph.Builder, x string, _ graph.Types) {
	row := func(v []float32) string { return b.Const(graph.FromFloats("c", v, 1, int64(f.To))) }
	differs := func(v []float32, from float32) bool {
		return slices.ContainsFunc(v, func(a float32) bool { return a != from })
	}
	z := b.Op("MatMul", []string{x, b.Const(graph.FromFloats("matrix", f.Matrix, int64(f.From), int64(f.To)))})
	if differs(f.Shift, 0) {
		z = b.Op("Add", []string{z, row(f.Shift)})
	}
	if differs(f.Low, -limit) {
		z = b.Op("Max", []string{z, row(f.Low)})
	}
	if differs(f.High, limit) {
		z = b.Op("Min", []string{z, row(f.High)})
	}
	if slices.Contains(f.Log, true) {
		mask := make([]float32, f.To)
		for i, log := range f.Log {
			if log {
				mask[i] = 1
			}
		}
		logs := b.Op("Cast", []string{row(mask)}, graph.IntAttr("to", int64(graph.Bool)))
		one := row(slices.Repeat([]float32{1}, f.To))
		z = b.Op("Where", []string{logs, b.Op("Log", []string{b.Op("Where", []string{logs, z, one})}), z})
	}
	if differs(f.Scale, 1) {
		z = b.Op("Mul", []string{z, row(f.Scale)})
	}
	if differs(f.Offset, 0) {
		b.Op("Add", []string{z, row(f.Offset)})
	}
}

func (f *inputTransform) before(g *graph.Graph) {
	g.Nodes = slices.Concat(f.nodes, g.Nodes)
	g.Inits = append(g.Inits, f.consts...)
	i := slices.IndexFunc(g.Inputs, func(v graph.Value) bool { return v.Name == f.inner.input.Name })
	g.Inputs[i] = f.outer
}

// FileInput is the name of the file's own input, whatever stands in front of it.
func (m *Model) FileInput() string {
	if m.transform != nil {
		return m.transform.inner.input.Name
	}
	return m.input.Name
}
