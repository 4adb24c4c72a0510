package onnxio

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Model is a classifier that was opened: its graph, and what one run in ONNX Runtime has shown of
// it, that is the type of every value, the axis of the batch and the logits in front of the
// decision. It never changes and is safe for concurrent use; whoever needs another graph clones
// the one of Graph.
type Model struct {
	graph  *graph.Model
	engine ort.Options
	input  graph.Value
	sizes  []int64 // input dimensions behind the batch axis
	fixed  int     // the batch size that the model insists on, or 0
	dim    int
	types  autodiff.Types
	head   head
	logits int // number of logits per row, 1 for a single one

	canonical func() (*Model, error)
}

// Load opens the model at path: it reads and checks the file, finds the data input and the logits,
// and runs two small batches in ONNX Runtime, with every value exposed, to learn types and shapes.
// Errors of the file name it; see [codec.ReadFile].
func Load(ctx context.Context, path string, o ort.Options) (*Model, error) {
	m, err := codec.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return FromGraph(ctx, m, o)
}

// LoadBytes is Load for the bytes of a file without external data.
func LoadBytes(ctx context.Context, onnx []byte, o ort.Options) (*Model, error) {
	m, err := codec.Read(onnx, "")
	if err != nil {
		return nil, err
	}
	return FromGraph(ctx, m, o)
}

// FromGraph is Load for a model in memory, which must not be changed afterwards.
func FromGraph(ctx context.Context, g *graph.Model, o ort.Options) (*Model, error) {
	m := &Model{graph: g, engine: o}
	if err := m.readInput(); err != nil {
		return nil, err
	}
	var err error
	if m.head, err = findHead(g.Graph); err != nil {
		return nil, err
	}
	if err := m.probe(ctx); err != nil {
		return nil, err
	}
	if err := m.readLogits(); err != nil {
		return nil, err
	}
	m.canonical = sync.OnceValues(m.canonicalize)
	return m, nil
}

// Canonical returns the model in the form of the function [Canonical], with the types of its
// values. It is computed once.
func (m *Model) Canonical() (*Model, error) { return m.canonical() }

func (m *Model) canonicalize() (*Model, error) {
	g, types, err := canonical(m.graph, m.types)
	if err != nil {
		return nil, err
	}
	c := m.With(g)
	c.types = types
	if c.head, err = findHead(g.Graph); err != nil {
		return nil, err
	}
	c.canonical = func() (*Model, error) { return c, nil }
	return c, c.readLogits()
}

// With returns the model of another graph with the same values: one with other weights.
func (m *Model) With(g *graph.Model) *Model {
	c := *m
	c.graph = g
	c.canonical = sync.OnceValues(c.canonicalize)
	return &c
}

// Graph returns the model's graph. It is shared: Clone it before changing anything.
func (m *Model) Graph() *graph.Model { return m.graph }

// Engine returns the options that the model was run with.
func (m *Model) Engine() ort.Options { return m.engine }

// Input returns the declaration of the data input.
func (m *Model) Input() graph.Value { return m.input }

// Dim returns the number of inputs of one row.
func (m *Model) Dim() int { return m.dim }

// Fixed returns the only batch size that the model takes, 0 when it takes any.
func (m *Model) Fixed() int { return m.fixed }

// Head returns the value that holds the logits, rows x perRow; a binary classifier may have a
// single logit per row.
func (m *Model) Head() (logits string, perRow int) { return m.head.logits, m.logits }

// Classes returns the number of classes (2 for a single logit).
func (m *Model) Classes() int { return max(m.logits, 2) }

// Types returns the types of the model's values. They are shared: clone the map before changing it.
func (m *Model) Types() autodiff.Types { return m.types }

// Feed makes the model's input tensor of rows of inputs.
func (m *Model) Feed(x []float32) *graph.Tensor {
	return graph.FromNumbers(m.input.Name, m.input.DType, x, append([]int64{int64(len(x) / m.dim)}, m.sizes...)...)
}

// View is Feed without copying: x must not change while the tensor of a float input is in use.
func (m *Model) View(x []float32) *graph.Tensor {
	if m.input.DType != graph.Float {
		return m.Feed(x)
	}
	return ort.ViewFloats(m.input.Name, x, append([]int64{int64(len(x) / m.dim)}, m.sizes...)...)
}

// maxFeed bounds the numbers of one run: a file may declare any shape.
const maxFeed = 1 << 28

// readInput finds the one data input and its size.
func (m *Model) readInput() error {
	ins := m.graph.Graph.DataInputs()
	if len(ins) != 1 {
		names := make([]string, len(ins))
		for i, v := range ins {
			names[i] = v.Name
		}
		return fmt.Errorf("the model has %d data inputs %q; a classifier with one input tensor is needed", len(ins), names)
	}
	m.input = ins[0]
	if m.input.DType != graph.Float && m.input.DType != graph.Double {
		return fmt.Errorf("input %q holds %s; float or double is needed", m.input.Name, m.input.DType)
	}
	if len(m.input.Shape) < 2 {
		return fmt.Errorf("input %q has the shape %v; rows x features is needed", m.input.Name, m.input.Shape)
	}
	m.dim = 1
	for i, d := range m.input.Shape {
		if i == 0 {
			if d.Size >= 0 {
				m.fixed = int(d.Size)
			}
			continue
		}
		if d.Size <= 0 {
			return fmt.Errorf("dimension %d of input %q is %q; only the first may be dynamic", i, m.input.Name, d.Param)
		}
		if d.Size > maxFeed/int64(m.dim) {
			return fmt.Errorf("input %q has the absurd shape %v", m.input.Name, sizes(m.input.Shape))
		}
		m.sizes = append(m.sizes, d.Size)
		m.dim *= int(d.Size)
	}
	if int64(m.fixed) > maxFeed/int64(m.dim) {
		return fmt.Errorf("input %q has the absurd shape %v", m.input.Name, sizes(m.input.Shape))
	}
	return nil
}

func sizes(s graph.Shape) []int64 {
	out := make([]int64, len(s))
	for i, d := range s {
		out[i] = d.Size
	}
	return out
}

// readLogits checks the logits' shape.
func (m *Model) readLogits() error {
	t, ok := m.types[m.head.logits]
	if !ok || !t.DType.IsFloat() {
		return fmt.Errorf("the logits %q hold %s; a float tensor is needed", m.head.logits, t.DType)
	}
	m.logits = 1
	for i, d := range t.Shape {
		if i > 0 {
			if d.Size < 1 {
				return fmt.Errorf("the logits %q have no fixed number of classes", m.head.logits)
			}
			m.logits *= int(d.Size)
		}
	}
	flat := len(t.Shape) > 0 && !slices.ContainsFunc(t.Shape[min(2, len(t.Shape)):],
		func(d graph.Dim) bool { return d.Size != 1 })
	if !flat || (m.fixed == 0 && t.Shape[0].Size >= 0) {
		return fmt.Errorf("the logits %q do not have the form rows x classes", m.head.logits)
	}
	if m.logits == 1 {
		return squashed(m.graph.Graph, m.head.logits)
	}
	return nil
}
