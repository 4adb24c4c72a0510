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

	"cfq/onnxio"
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
	// Through makes gradients pass the quantizers of a model: it may rewrite the model in
	// place and returns rules for gradients, as quant.StraightThrough does. Without it, the
	// gradient of a quantized model is an error.
	Through func(*graph.Model) map[string]autodiff.Rule
}

// Model is a classifier ready to run. It is safe for concurrent use.
type Model struct {
	*onnxio.Model

	o       Options
	logits  string // the value that holds the logits
	classes int    // number of logits per row, 1 for a single one
	target  int

	mu       sync.Mutex
	sessions map[string]*ort.Session
}

// New prepares m to be run, and checks that the target class exists.
func New(m *onnxio.Model, o Options) (*Model, error) {
	if o.Batch <= 0 {
		o.Batch = 4096
	}
	if o.Workers <= 0 {
		o.Workers = 1
	}
	c := &Model{Model: m, o: o, target: 1, sessions: map[string]*ort.Session{}}
	if o.Target != nil {
		c.target = *o.Target
	}
	c.logits, c.classes = m.Head()
	if n := m.Classes(); c.target < 0 || c.target >= n {
		return nil, fmt.Errorf("target class %d does not exist: the model has %d classes (0 to %d)", c.target, n, n-1)
	}
	return c, nil
}

// Open is New for a model in memory, which must not be changed afterwards.
func Open(ctx context.Context, g *graph.Model, e ort.Options, o Options) (*Model, error) {
	m, err := onnxio.FromGraph(ctx, g, e)
	if err != nil {
		return nil, err
	}
	return New(m, o)
}

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
	out, err := c.run(ctx, "forward", c.forward, x, []want{{c.logits, c.classes}})
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

// Target returns the index of the favourable class.
func (c *Model) Target() int { return c.target }

// With returns the classifier of another graph with the same values (other weights),
// with the same options.
func (c *Model) With(g *graph.Model) *Model {
	return &Model{
		Model: c.Model.With(g), o: c.o, logits: c.logits, classes: c.classes, target: c.target,
		sessions: map[string]*ort.Session{},
	}
}
