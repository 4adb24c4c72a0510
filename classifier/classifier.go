// Package classifier shows a model as the method sees it: logits, the margin of
// the favourable class, its gradient by the input, and what flows between layers.
//
// In: an ONNX model with one data input and a decision head (logits, softmax,
// sigmoid, argmax). Out: numbers for rows of inputs, computed by ONNX Runtime;
// gradients are ONNX graphs made by package autodiff. The invariant: a row's
// numbers do not depend on how many workers compute them, and the margin is that
// of the very graph that was given, heads included.
//
// References: target margin m_f of section Theory; L_cf of section Core idea.
package classifier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/autodiff"
	"cfq/engine"
	"cfq/graph"
	"cfq/onnxio"
)

// Options of a classifier. The zero value decides for class 1 and runs one
// batch of 4096 rows at a time.
type Options struct {
	// Target is the index of the favourable class among the logits, 0 or 1 for a
	// single logit (1: the logit itself speaks for the favourable class).
	Target *int
	// Batch is the number of rows of one run (4096); a model with a fixed batch
	// size is run at that. Results may differ in the last bit between batch sizes,
	// never between numbers of workers.
	Batch int
	// Workers is how many batches run at once (1).
	Workers int
	Engine  engine.Options
}

// Model is a classifier ready to run. It is safe for concurrent use.
type Model struct {
	o       Options
	m       *graph.Model // as given, upgraded when gradients need it
	head    Head
	types   autodiff.Types
	input   graph.Value
	sizes   []int64 // input dimensions behind the batch axis
	fixed   int     // the batch size that the model insists on, or 0
	dim     int
	classes int // number of logits per row, 1 for a single one
	target  int

	mu       sync.Mutex
	sessions map[string]*engine.Session
}

// rows of the probe batches: two sizes, so that the batch axis shows itself.
const probeA, probeB = 2, 3

// New prepares m: it finds the head, runs two probe batches with every value
// exposed to learn types and shapes, and checks that the target class exists.
func New(m *graph.Model, o Options) (*Model, error) {
	if o.Batch <= 0 {
		o.Batch = 4096
	}
	if o.Workers <= 0 {
		o.Workers = 1
	}
	c := &Model{o: o, m: m, target: 1, sessions: map[string]*engine.Session{}}
	if o.Target != nil {
		c.target = *o.Target
	}
	if err := c.readInput(); err != nil {
		return nil, err
	}
	var err error
	if c.head, err = FindHead(m.Graph); err != nil {
		return nil, err
	}
	if err := c.probe(); err != nil {
		return nil, err
	}
	return c, c.readLogits()
}

// readInput finds the one data input and its size.
func (c *Model) readInput() error {
	ins := c.m.Graph.DataInputs()
	if len(ins) != 1 {
		names := make([]string, len(ins))
		for i, v := range ins {
			names[i] = v.Name
		}
		return fmt.Errorf("the model has %d data inputs %q; a classifier with one input tensor is needed", len(ins), names)
	}
	c.input = ins[0]
	if c.input.DType != graph.Float && c.input.DType != graph.Double {
		return fmt.Errorf("input %q holds %s; float or double is needed", c.input.Name, c.input.DType)
	}
	if len(c.input.Shape) < 2 {
		return fmt.Errorf("input %q has the shape %v; rows x features is needed", c.input.Name, c.input.Shape)
	}
	c.dim = 1
	for i, d := range c.input.Shape {
		if i == 0 {
			if d.Size >= 0 {
				c.fixed = int(d.Size)
			}
			continue
		}
		if d.Size <= 0 {
			return fmt.Errorf("dimension %d of input %q is %q; only the first may be dynamic", i, c.input.Name, d.Param)
		}
		c.sizes = append(c.sizes, d.Size)
		c.dim *= int(d.Size)
	}
	return nil
}

// readLogits checks the logits' shape and the target against it.
func (c *Model) readLogits() error {
	t, ok := c.types[c.head.Logits]
	if !ok || !t.DType.IsFloat() {
		return fmt.Errorf("the logits %q hold %s; a float tensor is needed", c.head.Logits, t.DType)
	}
	c.classes = 1
	for i, d := range t.Shape {
		if i > 0 {
			if d.Size < 1 {
				return fmt.Errorf("the logits %q have no fixed number of classes", c.head.Logits)
			}
			c.classes *= int(d.Size)
		}
	}
	if len(t.Shape) > 2 || len(t.Shape) == 0 || (c.fixed == 0 && t.Shape[0].Size >= 0) {
		return fmt.Errorf("the logits %q do not have the form rows x classes", c.head.Logits)
	}
	limit := max(c.classes, 2)
	if c.target < 0 || c.target >= limit {
		return fmt.Errorf("target class %d does not exist: the model has %d classes (0 to %d)", c.target, limit, limit-1)
	}
	return nil
}

// Dim returns the number of inputs of one row.
func (c *Model) Dim() int { return c.dim }

// Classes returns the number of classes (2 for a single logit).
func (c *Model) Classes() int { return max(c.classes, 2) }

// Head returns how the model decides.
func (c *Model) Head() Head { return c.head }

// Close frees the sessions.
func (c *Model) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.sessions {
		errs = append(errs, s.Close())
	}
	c.sessions = nil
	return errors.Join(errs...)
}

// Logits returns rows x classes values in front of the head; a single logit is
// one value per row.
func (c *Model) Logits(ctx context.Context, x []float32) (logits []float32, classes int, err error) {
	out, err := c.run(ctx, "forward", x, []want{{c.head.Logits, c.classes}})
	if err != nil {
		return nil, 0, err
	}
	return out[0], c.classes, nil
}

// Margins returns the target margin of each row: the target's logit less the
// largest other one; positive means that the row is decided for the target.
func (c *Model) Margins(ctx context.Context, x []float32) ([]float32, error) {
	z, k, err := c.Logits(ctx, x)
	if err != nil {
		return nil, err
	}
	m := make([]float32, len(z)/k)
	for i := range m {
		m[i] = margin(z[i*k:(i+1)*k], c.target)
	}
	return m, nil
}

// margin of one row of logits. A single logit z stands for [0, z].
func margin(z []float32, target int) float32 {
	if len(z) == 1 {
		if target == 0 {
			return -z[0]
		}
		return z[0]
	}
	other := float32(math.Inf(-1))
	for j, v := range z {
		if j != target && v > other {
			other = v
		}
	}
	return z[target] - other
}

// want names a value and its size per row.
type want struct {
	name string
	size int
}

// run feeds x, with the extra inputs if there are any, through the session called
// key, batch by batch, and returns each wanted value as rows x size. Extra inputs
// belong to one batch: x must then be no longer than that.
func (c *Model) run(ctx context.Context, key string, x []float32, wants []want, extra ...*graph.Tensor) ([][]float32, error) {
	if c.dim == 0 || len(x)%c.dim != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of %d inputs", len(x), c.dim)
	}
	n := len(x) / c.dim
	out := make([][]float32, len(wants))
	for i, w := range wants {
		out[i] = make([]float32, n*w.size)
	}
	s, err := c.session(key)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Workers)
	for from := 0; from < n; from += c.o.Batch {
		to := min(from+c.o.Batch, n)
		group.Go(func() error { return c.runBatch(ctx, s, x, from, to, wants, out, extra) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Model) runBatch(ctx context.Context, s *engine.Session, x []float32, from, to int, wants []want, out [][]float32, extra []*graph.Tensor) error {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.name
	}
	in := append([]*graph.Tensor{c.Feed(x[from*c.dim : to*c.dim])}, extra...)
	res, err := s.RunBatched(ctx, in, 0, names...)
	if err != nil {
		return err
	}
	for i, w := range wants {
		v, err := res[i].Floats()
		if err != nil {
			return err
		}
		if len(v) != (to-from)*w.size {
			return fmt.Errorf("value %q has %d numbers for %d rows of %d", w.name, len(v), to-from, w.size)
		}
		copy(out[i][from*w.size:to*w.size], v)
	}
	return nil
}

// Feed makes the model's input tensor of rows of inputs.
func (c *Model) Feed(x []float32) *graph.Tensor {
	dims := append([]int64{int64(len(x) / c.dim)}, c.sizes...)
	if c.input.DType == graph.Double {
		v := make([]float64, len(x))
		for i, f := range x {
			v[i] = float64(f)
		}
		return graph.FromDoubles(c.input.Name, v, dims...)
	}
	return graph.FromFloats(c.input.Name, x, dims...)
}

// forward returns a copy of the model whose outputs are the named values.
func (c *Model) forward(names ...string) *graph.Model {
	m := c.m.Clone()
	m.Graph.Outputs = nil
	for _, name := range names {
		t := c.types[name]
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: name, DType: t.DType, Shape: t.Shape})
	}
	return m
}

// session opens the session called key once.
func (c *Model) session(key string) (*engine.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		return nil, errors.New("the classifier is closed")
	}
	if s := c.sessions[key]; s != nil {
		return s, nil
	}
	var m *graph.Model
	var err error
	switch key {
	case "forward":
		m = c.forward(c.head.Logits)
	default:
		m, err = c.build(key)
	}
	if err != nil {
		return nil, err
	}
	s, err := engine.Open(m, c.o.Engine)
	if err != nil {
		return nil, err
	}
	c.sessions[key] = s
	return s, nil
}

// upgraded returns the model at an operator set that autodiff's rules speak.
func (c *Model) upgraded() (*graph.Model, error) {
	m := c.m.Clone()
	if m.Opset("") < 18 {
		if err := onnxio.Upgrade(m, 18); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Fixed returns the only batch size that the model takes, 0 when it takes any.
func (c *Model) Fixed() int { return c.fixed }

// Target returns the index of the favourable class.
func (c *Model) Target() int { return c.target }

// With returns the classifier of another model of the same graph (other weights)
// with the same options, without probing it again.
func (c *Model) With(m *graph.Model) *Model {
	return &Model{
		o: c.o, m: m, head: c.head, types: c.types, input: c.input, sizes: c.sizes, fixed: c.fixed,
		dim: c.dim, classes: c.classes, target: c.target, sessions: map[string]*engine.Session{},
	}
}
