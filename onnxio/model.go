package onnxio

import (
	"context"
	"errors"
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
// decision. It never changes and is safe for concurrent use; for another graph, clone
// the one of Graph.
type Model struct {
	graph  *graph.Model
	engine ort.Options
	input  graph.Value
	sizes  []int64 // input dimensions behind the batch axis
	fixed  int     // the batch size that the model insists on, or 0
	dim    int
	types  autodiff.Types
	logits string // the value that holds them
	perRow int    // number of logits per row, 1 for a single one

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
	if m.logits, err = findLogits(g.Graph); err != nil {
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
	if c.logits, err = findLogits(g.Graph); err != nil {
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
func (m *Model) Head() (logits string, perRow int) { return m.logits, m.perRow }

// Classes returns the number of classes (2 for a single logit).
func (m *Model) Classes() int { return max(m.perRow, 2) }

// Types returns the types of the model's values. They are shared: clone the map before changing it.
func (m *Model) Types() autodiff.Types { return m.types }

// Feed makes the model's input tensor of rows of inputs. A float tensor shares their memory: x must not
// change while the tensor is in use.
func (m *Model) Feed(x []float32) *graph.Tensor {
	dims := append([]int64{int64(len(x) / m.dim)}, m.sizes...)
	if m.input.DType == graph.Float {
		return ort.ViewFloats(m.input.Name, x, dims...)
	}
	return graph.FromNumbers(m.input.Name, m.input.DType, x, dims...)
}

// maxFeed bounds the numbers of one run: a file may declare any shape.
const maxFeed = 1 << 28

// readInput finds the one data input and its size.
func (m *Model) readInput() error {
	ins := m.graph.Graph.DataInputs()
	if len(ins) != 1 {
		var names []string
		for _, v := range ins {
			names = append(names, v.Name)
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

// readLogits checks the logits' shape.
func (m *Model) readLogits() error {
	t, ok := m.types[m.logits]
	if !ok || !t.DType.IsFloat() {
		return fmt.Errorf("the logits %q hold %s; a float tensor is needed", m.logits, t.DType)
	}
	m.perRow = 1
	for _, d := range t.Shape[min(1, len(t.Shape)):] {
		if d.Size < 1 {
			return fmt.Errorf("the logits %q have no fixed number of classes", m.logits)
		}
		m.perRow *= int(d.Size)
	}
	flat := len(t.Shape) > 0 && !slices.ContainsFunc(t.Shape[min(2, len(t.Shape)):],
		func(d graph.Dim) bool { return d.Size != 1 })
	if !flat || (m.fixed == 0 && t.Shape[0].Size >= 0) {
		return fmt.Errorf("the logits %q do not have the form rows x classes", m.logits)
	}
	if m.perRow == 1 {
		return squashed(m.graph.Graph, m.logits)
	}
	return nil
}

// batchParam is the symbol of the batch axis in the types that a probe learns.
const batchParam = "N"

// rows of the probe batches: two sizes, so that the batch axis shows itself.
const probeA, probeB = 2, 3

// Exposed opens the model with every value of its graph as an output, in the order of the nodes.
func (m *Model) Exposed() (*ort.Session, error) {
	all := m.graph.Clone()
	all.Graph.Outputs = nil
	for _, n := range all.Graph.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				all.Graph.Outputs = append(all.Graph.Outputs, graph.Value{Name: o})
			}
		}
	}
	o := m.engine
	o.Level = ort.Disabled // an optimized graph no longer computes every value
	s, err := ort.Open(all, o)
	if err != nil {
		return nil, fmt.Errorf("the model does not load: %w", err)
	}
	return s, nil
}

// probe runs the model with every value exposed and learns each value's element
// type and shape. Two batch sizes tell which axis is the batch: shapes come from
// running the model, for every operator there is.
func (m *Model) probe(ctx context.Context) error {
	s, err := m.Exposed()
	if err != nil {
		return err
	}
	defer s.Close()
	runs := []int{probeA, probeB}
	if m.fixed > 0 {
		runs = []int{m.fixed}
	}
	var shapes [][]*graph.Tensor
	for _, rows := range runs {
		in := m.Feed(make([]float32, rows*m.dim))
		out, err := s.Run(ctx, []*graph.Tensor{in})
		if err != nil {
			return fmt.Errorf("the model does not run on a probe of %d rows: %w", rows, err)
		}
		shapes = append(shapes, append(out, in))
	}
	m.types = autodiff.Types{}
	for i, t := range shapes[0] {
		shape := graph.Fixed(t.Dims...)
		if len(shapes) > 1 {
			other := shapes[1][i].Dims
			if len(other) != len(t.Dims) {
				return fmt.Errorf("value %q has rank %d or %d, depending on the batch", t.Name, len(t.Dims), len(other))
			}
			for k, d := range t.Dims {
				switch {
				case d == other[k]:
				case d == probeA && other[k] == probeB:
					shape[k] = graph.Dim{Size: -1, Param: batchParam}
				case d%probeA == 0 && other[k] == d/probeA*probeB:
					shape[k] = graph.Dim{Size: -1, Param: fmt.Sprintf("%s*%d", batchParam, d/probeA)}
				default:
					return fmt.Errorf("dimension %d of value %q is %d for %d rows and %d for %d: it does not follow the batch", k,
						t.Name, d, probeA, other[k], probeB)
				}
			}
		}
		m.types[t.Name] = autodiff.Type{DType: t.DType, Shape: shape}
	}
	for _, t := range m.graph.Graph.Inits {
		m.types[t.Name] = autodiff.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	}
	return nil
}

// findLogits walks back from the outputs of g to the logits. Of several outputs those
// that are labels (no floats) are left aside where another is there, and the rest
// must lead to the same logits.
func findLogits(g *graph.Graph) (string, error) {
	producers := g.Producers()
	labels := func(v graph.Value) bool { return v.DType != graph.Undefined && !v.DType.IsFloat() }
	outputs := slices.DeleteFunc(slices.Clone(g.Outputs), labels)
	if len(outputs) == 0 {
		outputs = g.Outputs
	}
	var logits, output string
	for _, out := range outputs {
		v, err := behind(producers, out.Name)
		switch {
		case err != nil:
			return "", err
		case logits == "":
			logits, output = v, out.Name
		case v != logits:
			return "", fmt.Errorf("the outputs %q and %q come from different values (%q, %q): keep the output that decides "+
				"and remove the others", output, out.Name, logits, v)
		}
	}
	if logits == "" {
		return "", errors.New("the model has no outputs")
	}
	return logits, nil
}

// behind walks back from one output to the logits, through operators that turn logits into a decision or
// probabilities (each is increasing in its input, or picks the largest, so the decision is the same in
// front of it) and those that may stand behind them without changing what they say.
func behind(producers map[string]*graph.Node, output string) (string, error) {
	logits := output
	for at := output; ; {
		n := producers[at]
		if n == nil || len(n.Inputs) == 0 || !n.Standard() && n.Op != "ZipMap" {
			return logits, nil
		}
		switch at = n.Inputs[0]; n.Op {
		case "ZipMap":
			return "", fmt.Errorf("output %q is a ZipMap, a list of dictionaries; export the model with its probabilities as "+
				"a tensor (zipmap=False)", output)
		case "Softmax", "LogSoftmax", "Sigmoid", "ArgMax":
			logits = at
		case "Identity", "Cast", "Dropout", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Clip":
		default:
			return logits, nil
		}
	}
}

// squashed looks for a probability that is about to be taken for a single logit: an
// operator behind the last dense layer whose values lie on one side of zero.
func squashed(g *graph.Graph, logits string) error {
	producers := g.Producers()
	seen := map[string]bool{}
	var look func(string) *graph.Node
	look = func(v string) *graph.Node {
		n := producers[v]
		if n == nil || seen[v] {
			return nil
		}
		seen[v] = true
		switch n.Op {
		case "Gemm", "MatMul", "Conv":
			return nil
		case "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Softplus":
			return n
		}
		for _, in := range n.Inputs {
			if found := look(in); found != nil {
				return found
			}
		}
		return nil
	}
	if n := look(logits); n != nil {
		return fmt.Errorf("the single output %q comes from %s by way of other operators, so it seems to be a probability, "+
			"not a logit; end the model in that operator, or in front of it", logits, n.Label())
	}
	return nil
}
