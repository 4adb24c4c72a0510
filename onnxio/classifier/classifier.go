// Package classifier shows a model as the method sees it: logits, the margin of
// the favourable class, its gradient by the input, and what flows between layers.
//
// In: an ONNX model with one data input and a decision head (logits, softmax, sigmoid, argmax). Out: numbers for rows
// of inputs, computed by ONNX Runtime; gradients are ONNX graphs made by package autodiff. The invariant: a row's
// numbers do not depend on how many workers compute them, and the margin is that of the very graph that was given,
// heads included.
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

	"golang.org/x/sync/errgroup"

	"cfq/internal/lists"
	"cfq/internal/ordered"
	"cfq/onnxio"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Options of a classifier. The zero value decides for class 1 and runs one batch at a time.
type Options struct {
	// Target is the index of the favourable class among the logits, 0 or 1 for a
	// single logit (1: the logit itself speaks for the favourable class).
	Target *int
	// Batch is the number of rows of one run; a model with a fixed batch size is run at that. 0 takes 512, and fewer where
	// a value of so many rows would not stay in the processor's cache or all values would take much memory. Results may
	// differ in the last bit between batch sizes, never between numbers of workers.
	Batch int
	// Workers is how many batches run at once (1); where a search or an evaluation works on as many pieces of people, the
	// batches of each piece run one by one.
	Workers int
	// Through makes gradients pass the quantizers of a model: it may rewrite the model in place and returns rules for
	// gradients, as quant.StraightThrough does. Without it, the gradient of a quantized model is an error.
	Through func(*graph.Model) map[string]autodiff.Rule
	// Output and Threshold are what the task declares of the output that decides, see onnxio.Model.Declare.
	Output    onnxio.Meaning
	Threshold float64
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
	network  *reluNetwork // once it has been read
	mixing   *Mixing

	file  *onnxio.Model // without a step in front of it, where margins are the file's; nil where they are the graph's
	apart float64       // the largest difference of both that was seen; -1 without any
}

// New prepares m to be run, and checks that the target class exists.
func New(m *onnxio.Model, o Options) (*Model, error) {
	if o.Batch <= 0 {
		largest, all := m.RowSizes()
		o.Batch = min(max(min(cached/largest, kept/all), minBatch), maxBatch)
	}
	if m.Fixed() > 0 {
		o.Batch = m.Fixed()
	}
	if o.Workers <= 0 {
		o.Workers = 1
	}
	c := &Model{o: o, target: 1, sessions: map[string]*ort.Session{}}
	if o.Target != nil {
		c.target = *o.Target
	}
	if n := m.Classes(); c.target < 0 || c.target >= n {
		return nil, fmt.Errorf("target class %d does not exist: the model has %d classes (0 to %d)", c.target, n, n-1)
	}
	var err error
	c.Model, err = m.Declare(onnxio.Declared{Output: o.Output, Threshold: o.Threshold, Target: c.target})
	if err != nil {
		return nil, err
	}
	c.logits, c.classes = c.Head()
	if c.Converted() {
		c.file, c.apart = c.WithoutInputTransform(), -1
	}
	return c, nil
}

// maxBatch is small because ONNX Runtime keeps up to twice the memory of the largest run, for each session. With
// larger batches neither quantization nor the search for recourse takes measurably less processor time.
const maxBatch, minBatch = 512, 16

// cached is how many numbers of a value may be expected to stay in the cache of a core until the next operator reads
// them. Forward passes of convolutional networks and transformers take 0.85 of the time per row that they take where
// values are ten times as large, and gradients 0.75.
const cached = 1 << 17

// kept bounds the numbers of all values of a run, which a gradient keeps until it comes back to them.
const kept = 1 << 25

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

// Logits returns rows x classes values in front of the head; a single logit is one value per row.
func (c *Model) Logits(ctx context.Context, x []float32) (logits []float32, classes int, err error) {
	out, err := c.run(ctx, "forward", c.forward, x, []want{{name: c.logits, size: c.classes}})
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
	return c.marginsOf(z, k), nil
}

func (c *Model) marginsOf(z []float32, k int) []float32 {
	return lists.Make(len(z)/k, func(i int) float32 { return margin(z[i*k:(i+1)*k], c.target) })
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
		if j != target {
			other = max(other, v) // NaN if there is one
		}
	}
	return z[target] - other
}

// Distances returns how far the model's inputs, as a decoder makes them of rows x, are from the people, see
// [onnxio.Decoded]; nil without a decoder.
func (c *Model) Distances(ctx context.Context, x []float32) ([]float32, error) {
	if c.Distance() == "" {
		return nil, nil
	}
	return c.Value(ctx, x, c.Distance())
}

// Limits returns margins, and what [onnxio.Model.Limit] is for the same rows; nil where it names nothing.
func (c *Model) Limits(ctx context.Context, x []float32) (margins, limits []float32, err error) {
	if c.Limit() == "" {
		margins, err = c.Margins(ctx, x)
		return margins, nil, err
	}
	wants := []want{{name: c.logits, size: c.classes}, {name: c.Limit(), size: 1}}
	out, err := c.run(ctx, "forward", c.forward, x, wants)
	if err != nil {
		return nil, nil, err
	}
	return c.marginsOf(out[0], c.classes), out[1], nil
}

// Large reports whether a run takes long however few its rows are.
func (c *Model) Large() bool { return len(c.Graph().Graph.Nodes) >= ort.LargeGraph }

// Target returns the index of the favourable class.
func (c *Model) Target() int { return c.target }

// With returns the classifier of another graph with the same values (other weights), with the same options.
func (c *Model) With(g *graph.Model) *Model {
	return &Model{
		Model: c.Model.With(g), o: c.o, logits: c.logits, classes: c.classes, target: c.target,
		mixing: c.mixing, sessions: map[string]*ort.Session{},
	}
}

// want names a value and its size per row. The numbers of a row stand together where inner is 0, else so many of them
// do, and those of the other rows follow.
type want struct {
	name        string
	size, inner int
	input       bool // it has the type and shape of the input
}

func (w *want) rows(v []float32, n int) []float32 {
	if w.inner == 0 || w.inner == w.size {
		return v
	}
	out := make([]float32, 0, len(v))
	for r := range n {
		for at := r * w.inner; at < len(v); at += n * w.inner {
			out = append(out, v[at:at+w.inner]...)
		}
	}
	return out
}

func (c *Model) run(ctx context.Context, key string, build buildModel, x []float32, wants []want) ([][]float32, error) {
	n, err := c.count(x)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		_, err := build()
		return make([][]float32, len(wants)), err
	}
	s, err := c.session(key, build)
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(wants))
	if n <= c.o.Batch {
		return out, c.runBatch(ctx, s, x, wants, out)
	}
	for i, w := range wants {
		out[i] = make([]float32, n*w.size)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.o.Workers)
	if ordered.OnOneCore(ctx) {
		group.SetLimit(1)
	}
	for from := 0; from < n; from += c.o.Batch {
		group.Go(func() error {
			to, part := min(from+c.o.Batch, n), make([][]float32, len(wants))
			for i, w := range wants {
				part[i] = out[i][from*w.size : to*w.size]
			}
			return c.runBatch(ctx, s, x[from*c.Dim():to*c.Dim()], wants, part)
		})
	}
	return out, group.Wait()
}

// count returns how many rows x is.
func (c *Model) count(x []float32) (int, error) {
	if c.Dim() == 0 || len(x)%c.Dim() != 0 {
		return 0, fmt.Errorf("%d numbers are not rows of %d inputs", len(x), c.Dim())
	}
	return len(x) / c.Dim(), nil
}

// runBatch is run for one batch, with further inputs. The results go where out says, or to memory of their own that it
// then names.
func (c *Model) runBatch(ctx context.Context, s *ort.Session, x []float32, wants []want, out [][]float32,
	extra ...*graph.Tensor,
) error {
	rows, in := len(x)/c.Dim(), c.feed(x)
	run := max(rows, c.Fixed())
	names, into := make([]string, len(wants)), make([]*graph.Tensor, len(wants))
	for i, w := range wants {
		if names[i] = w.name; w.input && in.DType == graph.Float && run == rows {
			if out[i] == nil {
				out[i] = make([]float32, len(x))
			}
			into[i] = ort.ViewFloats("", out[i], in.Dims...)
		}
	}
	res, err := s.RunInto(ctx, append([]*graph.Tensor{in}, extra...), into, names...)
	if err != nil {
		return err
	}
	for i, w := range wants {
		if into[i] != nil {
			continue
		}
		v, err := ort.FloatsOf(res[i])
		if err != nil {
			return err
		}
		if len(v) != run*w.size {
			return fmt.Errorf("value %q has %d numbers for %d rows of %d", w.name, len(v), run, w.size)
		}
		if v = w.rows(v, run)[:rows*w.size]; out[i] == nil {
			out[i] = v
		} else {
			copy(out[i], v)
		}
	}
	return c.byFile(ctx, x, wants, out)
}

// feed makes the input tensor of one batch. A model with a fixed batch gets rows of zeros behind those
// that there are, and no class for them (see picks): they have no loss.
func (c *Model) feed(x []float32) *graph.Tensor {
	return c.Feed(append(slices.Clip(x), make([]float32, max(0, c.Fixed()*c.Dim()-len(x)))...))
}

func (c *Model) forward() (*graph.Model, error) {
	m := c.Graph().Clone()
	t := c.Types()[c.logits]
	m.Graph.Outputs = []graph.Value{{Name: c.logits, DType: t.DType, Shape: t.Shape}}
	if limit := c.Limit(); limit != "" {
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: limit})
	}
	return m, nil
}

type buildModel func() (*graph.Model, error)

func (c *Model) session(key string, build buildModel) (*ort.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil {
		return nil, errors.New("the classifier is closed")
	}
	if s := c.sessions[key]; s != nil {
		return s, nil
	}
	m, err := build()
	if err != nil {
		return nil, err
	}
	s, err := ort.Open(m, c.Engine())
	if err != nil {
		return nil, err
	}
	c.sessions[key] = s
	return s, nil
}

func affineNode(n *graph.Node, moving []int) bool {
	only := func(i int) bool { return len(moving) == 1 && moving[0] == i }
	switch n.Op {
	case "Add", "Sub", "Sum", "Mean", "Concat", "Identity", "Neg":
		return true
	case "Mul", "MatMul":
		return len(moving) == 1
	case "Gemm", "Conv", "ConvTranspose":
		// The product may have one factor that moves; the addend may move as well.
		factors := 0
		for _, i := range moving {
			if i < 2 {
				factors++
			}
		}
		return factors < 2
	case "Div", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Split",
		"Expand", "ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Pad":
		return only(0)
	case "Cast":
		to := graph.DType(n.Int("to", 0))
		return only(0) && (to == graph.Float || to == graph.Double)
	case "Dropout":
		return only(0) && n.Input(2) == "" // no training mode
	case "BatchNormalization":
		return only(0) && n.Int("training_mode", 0) == 0
	}
	return false
}

// Inputs returns what rows x become in front of the file's own input: x itself, unless there is a step in front of the
// model, see [onnxio.Model.WithInputTransform].
func (c *Model) Inputs(ctx context.Context, x []float32) ([]float32, error) {
	name := c.FileInput()
	if name == c.Input().Name {
		return x, nil
	}
	n, _ := c.PerRow(name)
	build := func() (*graph.Model, error) { return c.withGradients([]string{name}, nil, nil) }
	out, err := c.run(ctx, "inputs", build, x, []want{{name: name, size: n}})
	return slices.Concat(out...), err
}

// SameAnswers fails where labels of the file are not what margins decide of rows x, or are not the original's, of that
// name, although both models decide alike.
func (c *Model) SameAnswers(ctx context.Context, original *Model, x []float32) error {
	var answers [2]onnxio.Answers
	for i, m := range []*Model{original, c} {
		in, err := m.Inputs(ctx, x)
		if err == nil {
			inner := m.WithoutInputTransform()
			answers[i], err = inner.Answers(ctx, in, false)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", []string{"the original", "the quantized model"}[i], err)
		}
	}
	return answers[0].Same(&answers[1])
}

// Value returns what a value of the graph is for rows x, one after the other: x itself of the input.
func (c *Model) Value(ctx context.Context, x []float32, name string) (z []float32, err error) {
	if name == c.Input().Name {
		return x, nil
	}
	err = c.Observe(ctx, x, Probe{Values: []string{name}}, func(_, _ int, values, _ [][]float32) error {
		z = append(z, values[0]...)
		return nil
	})
	return z, err
}
