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
	"slices"
	"sync"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
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
	Engine  ort.Options
}

// Model is a classifier ready to run. It is safe for concurrent use.
type Model struct {
	o       Options
	m       *graph.Model // as given
	head    head
	types   autodiff.Types
	input   graph.Value
	sizes   []int64 // input dimensions behind the batch axis
	fixed   int     // the batch size that the model insists on, or 0
	dim     int
	classes int // number of logits per row, 1 for a single one
	target  int

	mu       sync.Mutex
	sessions map[string]*ort.Session
}

// maxFeed bounds the numbers of one run: a file may declare any shape.
const maxFeed = 1 << 28

// rows of the probe batches: two sizes, so that the batch axis shows itself.
const probeA, probeB = 2, 3

// New prepares m: it finds the head, runs two probe batches with every value
// exposed to learn types and shapes, and checks that the target class exists.
func New(ctx context.Context, m *graph.Model, o Options) (*Model, error) {
	if o.Batch <= 0 {
		o.Batch = 4096
	}
	if o.Workers <= 0 {
		o.Workers = 1
	}
	c := &Model{o: o, m: m, target: 1, sessions: map[string]*ort.Session{}}
	if o.Target != nil {
		c.target = *o.Target
	}
	if err := c.readInput(); err != nil {
		return nil, err
	}
	var err error
	if c.head, err = findHead(m.Graph); err != nil {
		return nil, err
	}
	if err := c.probe(ctx); err != nil {
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
		if d.Size > maxFeed/int64(c.dim) {
			return fmt.Errorf("input %q has the absurd shape %v", c.input.Name, sizes(c.input.Shape))
		}
		c.sizes = append(c.sizes, d.Size)
		c.dim *= int(d.Size)
	}
	if int64(c.fixed) > maxFeed/int64(c.dim) {
		return fmt.Errorf("input %q has the absurd shape %v", c.input.Name, sizes(c.input.Shape))
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

// readLogits checks the logits' shape and the target against it.
func (c *Model) readLogits() error {
	t, ok := c.types[c.head.logits]
	if !ok || !t.DType.IsFloat() {
		return fmt.Errorf("the logits %q hold %s; a float tensor is needed", c.head.logits, t.DType)
	}
	c.classes = 1
	for i, d := range t.Shape {
		if i > 0 {
			if d.Size < 1 {
				return fmt.Errorf("the logits %q have no fixed number of classes", c.head.logits)
			}
			c.classes *= int(d.Size)
		}
	}
	flat := len(t.Shape) > 0 && !slices.ContainsFunc(t.Shape[min(2, len(t.Shape)):], func(d graph.Dim) bool { return d.Size != 1 })
	if !flat || (c.fixed == 0 && t.Shape[0].Size >= 0) {
		return fmt.Errorf("the logits %q do not have the form rows x classes", c.head.logits)
	}
	if c.classes == 1 {
		if err := squashed(c.m.Graph, c.head.logits); err != nil {
			return err
		}
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
	out, err := c.run(ctx, "forward", c.forward, x, []want{{c.head.logits, c.classes}})
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

// Values names what the model reads and the logits in front of its head.
func (c *Model) Values() (input, logits string) { return c.input.Name, c.head.logits }

// Fixed returns the only batch size that the model takes, 0 when it takes any.
func (c *Model) Fixed() int { return c.fixed }

// Target returns the index of the favourable class.
func (c *Model) Target() int { return c.target }

// With returns the classifier of another model of the same graph (other weights)
// with the same options, without probing it again.
func (c *Model) With(m *graph.Model) *Model {
	return &Model{
		o: c.o, m: m, head: c.head, types: c.types, input: c.input, sizes: c.sizes, fixed: c.fixed,
		dim: c.dim, classes: c.classes, target: c.target, sessions: map[string]*ort.Session{},
	}
}
