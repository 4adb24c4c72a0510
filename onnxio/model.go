// Package onnxio opens ONNX classifiers.
//
// In: a model of any operator set. Out: the same function as package pass writes it, with the types of its values, its
// logits and what its output means. The invariant: what a model computes does not change.
package onnxio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/lower"
	"cfq/onnxio/ort"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
)

// Model is a classifier that was opened: its graph, and what one run in ONNX Runtime has shown of it, that is the type
// of every value, the axis of the batch and the logits in front of the decision. It never changes and is safe for
// concurrent use; for another graph, clone the one of Graph.
type Model struct {
	modelInput
	modelHead

	graph     *graph.Model
	base      *graph.Model // graph without what Declare and WithInputTransform added; the same where they added nothing
	file      *graph.Model // as it was before the first pass that has an inverse; nil where none did
	undo      []graph.Pass // those passes
	elements  *pass.ElementTypes
	signature *lower.Signature
	engine    ort.Options
	types     graph.Types
	transform *inputTransform // nil without one
	canonical func() (*Model, error)
}

type modelInput struct {
	input graph.Value
	sizes []int64 // its dimensions after the batch axis
	fixed int     // the batch size that the model insists on, or 0
	dim   int
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

// FromGraph is Load for a model in memory. A model of several inputs, of texts or of integers is lowered, see package
// lower: what Graph returns has one input then, and File what was loaded. A model of a kind that the method cannot
// quantize is a [refuse.Refusal], as is one that ONNX Runtime does not load, where that is in the way.
func FromGraph(ctx context.Context, g *graph.Model, o ort.Options) (*Model, error) {
	if err := refuse.Check(g); err != nil {
		return nil, err
	}
	g = pass.Current(g)
	for _, in := range g.Graph.DataInputs() {
		if len(in.Shape) > 1 && in.Shape[0].Size > maxFixed {
			return nil, fmt.Errorf("input %q takes exactly %d rows, and %d is the most that is read: export the model with a "+
				"dynamic batch", in.Name, in.Shape[0].Size, maxFixed)
		}
	}
	m, err := fromGraph(ctx, g, o)
	// Of a lowered model, or one in other element types, ONNX Runtime has not seen the file.
	if err == nil && m.signature.Columns == nil && !m.Converted() || ctx.Err() != nil {
		return m, err
	}
	if _, missing := ort.Find(o.Lib); missing != nil { // which says nothing about the file
		return m, err
	}
	o.Level = ort.Disabled
	s, broken := ort.Open(g, o)
	if broken == nil {
		return m, errors.Join(err, s.Close())
	}
	why, before := &ort.Unloaded{Reason: broken.Error()}, (*ort.Unloaded)(nil)
	errors.As(broken, &why)
	if errors.As(err, &before) { // the same once more
		err = nil
	} else if err == nil && m.Converted() && why.Instead == "" {
		why.Instead = "export it in float32, or in float16"
	}
	return nil, refuse.Broken(why.Reason, why.Instead, err)
}

func (m *Model) plainPasses(ctx context.Context) []graph.Pass {
	return []graph.Pass{pass.Inlining(), m.elements.Pass(), pass.Unfusing(), pass.Folding(ctx, m.engine)}
}

func rewritten(g *graph.Model, o ort.Options, passes func(*Model) []graph.Pass) (*Model, error) {
	g = g.Clone()
	m := &Model{graph: g, base: g, engine: o, elements: &pass.ElementTypes{}, signature: &lower.Signature{}}
	for _, p := range passes(m) {
		if p.Needed != nil && !p.Needed(g) {
			continue
		}
		if p.Undo != nil {
			m.undo = append(m.undo, p)
			if m.file == nil {
				m.file = g.Clone()
			}
		}
		if err := p.Run(graph.NewRewriter(g, nil)); err != nil {
			return nil, err
		}
	}
	return m, m.readInput()
}

func fromGraph(ctx context.Context, g *graph.Model, o ort.Options) (*Model, error) {
	upgrade := pass.Upgrading() // lowering writes newer operators
	old := upgrade.Needed
	upgrade.Needed = func(g *graph.Model) bool { return lower.Needed(g.Graph) && old(g) }
	m, err := rewritten(g, o, func(m *Model) []graph.Pass {
		return append(m.plainPasses(ctx), upgrade, m.signature.Pass(ctx, m.engine))
	})
	if err != nil {
		return nil, err
	}
	path, err := findLogits(m.graph.Graph)
	if err != nil {
		return nil, err
	}
	err = m.probe(ctx, func(s *ort.Session) error { return m.readHead(ctx, s, path) })
	if err != nil {
		return nil, err
	}
	m.canonical = sync.OnceValues(m.canonicalize)
	return m, nil
}

// Canonical returns the model in the form of the function [pass.Canonical], with the types of its
// values. It is computed once.
func (m *Model) Canonical() (*Model, error) { return m.canonical() }

func (m *Model) canonicalize() (*Model, error) {
	base := m.base.Clone()
	// As an output, the value that margins are computed from keeps its name and its meaning.
	if from := m.at.value; !base.Graph.IsOutput(from) {
		base.Graph.Outputs = append(base.Graph.Outputs, graph.Value{Name: from})
	}
	g, types, err := pass.Canonical(base, m.types)
	if err != nil {
		return nil, err
	}
	g.Graph.Outputs = g.Graph.Outputs[:len(m.base.Graph.Outputs)]
	added := m.nodes
	if m.transform != nil {
		added = slices.Concat(m.transform.nodes, added)
		types[m.input.Name] = m.types[m.input.Name]
	}
	for _, n := range added {
		for _, o := range n.Outputs {
			types[o] = m.types[o]
		}
	}
	c := m.With(g)
	c.types = types
	c.canonical = func() (*Model, error) { return c, nil }
	return c, nil
}

// With returns the model of another graph with the same values: one with other weights.
func (m *Model) With(g *graph.Model) *Model {
	c := *m
	c.graph, c.base = g, g
	plain := m.transform != nil && g.Graph.Producers()[m.transform.inner.input.Name] == nil
	if plain || m.nodes != nil && g.Graph.Producers()[m.logits] == nil {
		c.graph = m.extended(g)
	}
	c.canonical = sync.OnceValues(c.canonicalize)
	return &c
}

// Graph returns the model's graph. It is shared: Clone it before changing anything.
func (m *Model) Graph() *graph.Model { return m.graph }

// File returns the graph with the inputs and outputs of the file; see FromGraph.
func (m *Model) File() *graph.Model {
	if m.file != nil {
		return m.file
	}
	return m.base
}

// Columns returns the columns of data that the file reads as they are, nil where it has one input of numbers that may
// be encoded columns.
func (m *Model) Columns() []lower.Column { return m.signature.Columns }

// Labels returns what the file calls the classes, nil where it does not say.
func (m *Model) Labels() []string { return m.signature.Labels }

// Restored gives a graph that was made of the model the inputs and outputs of the file.
func (m *Model) Restored(g *graph.Model) *graph.Model {
	g = g.Clone()
	for _, p := range slices.Backward(m.undo) {
		p.Undo(graph.NewRewriter(g, nil))
	}
	return g
}

// Tables returns the values of the graph that are the inputs of one column of categories:
// in Restored a product of constants with them is a look-up.
func (m *Model) Tables() map[string]bool { return m.signature.Tables(m.graph.Graph) }

// FileFeed makes the inputs of the file of rows of inputs, where Feed makes that of the graph.
func (m *Model) FileFeed(x []float32) (in []*graph.Tensor, err error) {
	if in = []*graph.Tensor{m.Feed(x)}; m.signature.Lowered() {
		in, err = m.signature.Feed(x)
	}
	for i := 0; err == nil && i < len(in); i++ {
		in[i], err = m.elements.Feed(in[i])
	}
	return in, err
}

// Unoptimized returns the model as ONNX Runtime runs it without optimizations: it opens large graphs many times faster.
func (m *Model) Unoptimized() *Model {
	c := *m
	c.engine.Level = ort.Disabled
	return &c
}

// Engine returns the options that the model was run with.
func (m *Model) Engine() ort.Options { return m.engine }

// Input returns the declaration of the data input.
func (m *Model) Input() graph.Value { return m.input }

// Dim returns the number of inputs of one row.
func (m *Model) Dim() int { return m.dim }

// Fixed returns the only batch size that the model takes, 0 when it takes any.
func (m *Model) Fixed() int { return m.fixed }

// Head returns the value that holds the logits, rows x perRow; a binary classifier may have a single logit per row.
func (m *Model) Head() (logits string, perRow int) { return m.logits, m.perRow }

// Classes returns the number of classes (2 for a single logit).
func (m *Model) Classes() int { return max(m.perRow, 2) }

// Types returns the types of the model's values. They are shared: clone the map before changing it.
func (m *Model) Types() graph.Types { return m.types }

// PerRow returns how many numbers of a value one row of the input makes; ok is false where that is not known.
func (m *Model) PerRow(value string) (n int, ok bool) {
	t, ok := m.types[value]
	shape := slices.Clone(t.Shape)
	if len(shape) > 0 && shape[0].Size < 0 && shape[0].Param == "" {
		shape[0].Param = batchParam
	}
	d := shape.Elements()
	if m.fixed > 0 && d.Size >= 0 {
		return int(d.Size) / m.fixed, ok && int(d.Size)%m.fixed == 0
	}
	name, times := d.Multiple()
	return int(times), ok && d.Size < 0 && name == batchParam
}

// RowSizes returns how many numbers one row of the input makes of the largest value and of all.
func (m *Model) RowSizes() (largest, all int) {
	for v := range m.types {
		if n, ok := m.PerRow(v); ok {
			largest, all = max(largest, n), all+n
		}
	}
	return max(largest, 1), max(all, 1)
}

// Feed makes the model's input tensor of rows of inputs. A float tensor shares their memory: x must not
// change while the tensor is in use.
func (m *Model) Feed(x []float32) *graph.Tensor {
	dims := append([]int64{int64(len(x) / m.dim)}, m.sizes...)
	if m.input.DType == graph.Float {
		return ort.ViewFloats(m.input.Name, x, dims...)
	}
	return graph.FromNumbers(m.input.Name, m.input.DType, x, dims...)
}

const maxFixed = 1 << 16 // every run of a fixed batch computes all of its rows

// maxFeed bounds the numbers of one run: a file may declare any shape.
const maxFeed = 1 << 28

func (m *Model) readInput() error {
	ins := m.graph.Graph.DataInputs()
	if len(ins) != 1 {
		return fmt.Errorf("the model has %d data inputs %q; a classifier with one input tensor is needed", len(ins),
			graph.Names(ins))
	}
	m.input = ins[0]
	if m.input.DType != graph.Float && m.input.DType != graph.Double {
		return fmt.Errorf("input %q holds %s; float or double is needed", m.input.Name, m.input.DType)
	}
	if len(m.input.Shape) < 2 {
		return fmt.Errorf("input %q has the shape %v; rows x features is needed", m.input.Name, m.input.Shape)
	}
	m.fixed = int(max(m.input.Shape[0].Size, 0))
	m.dim = 1
	for i, d := range m.input.Shape[1:] {
		if d.Size <= 0 {
			return fmt.Errorf("dimension %d of input %q is %q; only the first may be dynamic", i+1, m.input.Name, d.Param)
		}
		if d.Size > maxFeed/int64(m.dim)/int64(max(m.fixed, 1)) {
			return fmt.Errorf("input %q has the absurd shape %v", m.input.Name, m.input.Shape)
		}
		m.sizes = append(m.sizes, d.Size)
		m.dim *= int(d.Size)
	}
	return nil
}

// maxValue bounds the numbers of a value of a probe: a file may multiply any shape.
const maxValue = 1 << 27

func (m *Model) inferred() graph.Types {
	types := graph.Types{m.input.Name: {DType: m.input.DType, Shape: slices.Clone(m.input.Shape)}}
	types[m.input.Name].Shape[0] = graph.Dim{Size: int64(max(m.fixed, probeB))}
	_ = autodiff.Infer(m.graph.Graph, types) // what it cannot know, the run will show
	return types
}

func (m *Model) bounded() error {
	types := m.inferred()
	for _, n := range m.graph.Graph.Nodes {
		for _, out := range n.Outputs {
			size := int64(1)
			for _, d := range types[out].Shape {
				if d.Size > maxValue/size {
					return fmt.Errorf("%s makes a value of shape %v for %d rows: more than %d numbers", n.Label(), types[out].Shape,
						max(m.fixed, probeB), int64(maxValue))
				}
				size *= max(d.Size, 1)
			}
		}
	}
	return nil
}

const batchParam = "N"

const probeA, probeB = 2, 3

// Exposed opens the model with every value of its graph as an output, in the order of the nodes.
func (m *Model) Exposed() (*ort.Session, error) {
	hidden := packed(m.graph.Graph)
	all := lists.Join(m.graph.Graph.Nodes, func(n *graph.Node) []string { return n.Outputs })
	all = lists.Filter(all, func(o string) bool { return o != "" && !hidden[o] })
	o := m.engine
	o.Level = ort.Disabled // an optimized graph no longer computes every value
	s, err := ort.OpenValues(m.graph, o, all...)
	if err == nil {
		s.Expect(m.inferred())
	}
	return s, err
}

func packed(g *graph.Graph) map[string]bool {
	all := map[string]bool{}
	small := func(t graph.DType) bool { return t.Bits() > 0 && t.Bits() < 8 }
	for _, t := range g.Inits {
		all[t.Name] = small(t.DType)
	}
	for _, n := range g.Nodes {
		is := false
		switch n.Op {
		case "QuantizeLinear":
			is = all[n.Input(2)] || small(graph.DType(n.Int("output_dtype", 0)))
		case "Cast":
			is = small(graph.DType(n.Int("to", 0)))
		case "Constant":
			t := n.Constant()
			is = t != nil && small(t.DType)
		case "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose":
			is = all[n.Input(0)]
		}
		for _, o := range n.Outputs {
			all[o] = is
		}
	}
	return all
}

// bakedBatches returns the batch sizes that a model may insist on although it declares none: an exporter that traces
// one batch writes its size into the shapes of Reshapes.
func (m *Model) bakedBatches() []int {
	sizes, stored := []int{1}, m.graph.Graph.Stored()
	for _, n := range m.graph.Graph.Nodes {
		t := stored[n.Input(1)]
		if !n.Is("Reshape") || t == nil || t.DType != graph.Int64 {
			continue
		}
		v, err := t.Ints()
		if err == nil && len(v) > 0 && v[0] > 1 && v[0] <= maxFixed && !slices.Contains(sizes, int(v[0])) {
			sizes = append(sizes, int(v[0]))
		}
	}
	return sizes
}

// probe learns the types of all values, and hands on the session of Exposed: to open one takes long in large graphs.
func (m *Model) probe(ctx context.Context, then func(*ort.Session) error) error {
	s, err := m.Exposed()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := m.bounded(); err != nil { // of a graph that ONNX Runtime has checked
		return err
	}
	var shapes [][]*graph.Tensor
	try := func(runs ...int) error {
		shapes = nil
		for _, rows := range runs {
			in := m.Feed(make([]float32, rows*m.dim))
			out, err := s.Run(ctx, []*graph.Tensor{in})
			if err != nil {
				return fmt.Errorf("the model does not run on a probe of %d rows: %w", rows, err)
			}
			shapes = append(shapes, append(out, in))
		}
		return nil
	}
	if m.fixed > 0 {
		err = try(m.fixed)
	} else if err = try(probeA, probeB); err != nil {
		for _, m.fixed = range m.bakedBatches() {
			if m.bounded() == nil && try(m.fixed) == nil {
				err = nil
				break
			}
		}
	}
	if err != nil {
		return err
	}
	m.types = graph.Types{}
	for i, t := range shapes[0] {
		shape, other := graph.Fixed(t.Dims...), shapes[len(shapes)-1][i].Dims
		if len(other) != len(t.Dims) {
			return fmt.Errorf("value %q has rank %d or %d, depending on the batch", t.Name, len(t.Dims), len(other))
		}
		for k, d := range t.Dims {
			switch {
			case d == other[k]:
			case d%probeA != 0 || other[k] != d/probeA*probeB:
				return fmt.Errorf("dimension %d of value %q is %d for %d rows and %d for %d: it does not follow the batch", k,
					t.Name, d, probeA, other[k], probeB)
			case d == probeA:
				shape[k] = graph.Dim{Size: -1, Param: batchParam}
			default:
				shape[k] = graph.Dim{Size: -1, Param: fmt.Sprintf("%s*%d", batchParam, d/probeA)}
			}
		}
		m.types[t.Name] = graph.Type{DType: t.DType, Shape: shape}
	}
	for _, t := range m.graph.Graph.Inits {
		m.types[t.Name] = graph.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	}
	return then(s)
}
