// Package cfq quantizes ONNX classifiers so that algorithmic recourse survives:
// what people were told to change to get a favourable decision still works after
// the model has been quantized.
//
// In: a model, a task, the rows to calibrate on. Out: a quantized model, written
// and verified in ONNX Runtime, with the plan it was made from. The invariant:
// the same inputs and options give the same bytes, for any number of workers.
//
// References: section Training-Free Counterfactual-Aware PTQ of the paper.
package cfq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/classifier"
	"cfq/engine"
	"cfq/graph"
	"cfq/onnxio"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/task"
	"cfq/verify"
)

// Options of Quantize. The zero value is the tool's default: cf-ptq at four bits
// per weight, scales per output channel.
type Options struct {
	// Method is a name of Methods ("cf-ptq").
	Method string
	// Budget is the mean width of the weights in bits, 2 to 8 (4); scales and
	// biases are not counted.
	Budget float64
	// Allocator is a name of Allocators; "" is the method's own.
	Allocator string
	// Rounding is a name of Roundings; "" is the method's own.
	Rounding string
	// PerTensor gives each layer one weight scale instead of one per output channel.
	PerTensor bool
	// Reduced keeps 8-bit codes within 7 bits, so that CPUs without VNNI compute
	// the same numbers.
	Reduced bool
	// Teacher are the settings of the teacher recourse (K = 3). Its Margin is the
	// task's unless it is set, its Workers are those below unless they are set, and
	// its Progress is this one's.
	Teacher recourse.TeacherOptions
	// Promises are recourse that people have been given already, one action for each
	// of the people; those that are Found take the place of the teacher's. nil computes
	// the teacher's.
	Promises []recourse.Action
	// Overrides are what single people can change where it differs from the task, by the
	// row of the data file that People.Rows gives them; the teacher keeps to it. Rows of
	// nobody among the people make no difference.
	Overrides []task.Override
	// Cache is a folder in which teacher actions are kept from one run to the next,
	// see CacheDir; "" computes them anew. It does not change the result.
	Cache string
	// Recipe is added to the model's metadata, such as hashes of the inputs.
	Recipe  map[string]string
	Engine  engine.Options
	Workers int // parallel runs (1)
	// Progress is told what is going on; nil is silence.
	Progress func(Event)
}

// Event is a step of the work: Done of Total (0 when unknown) of a stage.
type Event struct {
	Stage       string
	Done, Total int
}

// Layer is what was decided for one layer, and why.
type Layer struct {
	Node     string `json:"node"`
	Params   int    `json:"params"`
	Bits     int    `json:"bits"`
	Channels int    `json:"scales"`
	// Score is the gradient score, eq. cfptq_sensitivity or its factual counterpart;
	// 0 when Result.Warnings says why there is none.
	Score float64 `json:"sensitivity,omitempty"`
	// Damage is the mean squared margin error of quantizing this layer alone, per
	// width of quant.Formats; nil for a uniform allocation.
	Damage []float64 `json:"damage,omitempty"`
	Float  string    `json:"float,omitempty"` // why the layer stays in float
}

// Result is a quantized model and how it came about.
type Result struct {
	Model      []byte         `json:"-"`
	Plan       *quant.Plan    `json:"-"`
	Method     string         `json:"method"`
	Allocator  string         `json:"allocator"`
	Rounding   string         `json:"rounding"`
	Budget     float64        `json:"budget"`
	Bits       float64        `json:"bits_per_weight"` // mean width that was given to the quantized weights
	Layers     []Layer        `json:"layers"`
	Factual    int            `json:"calibration_rows"`
	Recourse   int            `json:"recourse_points"`
	Reached    int            `json:"recourse_points_valid"`
	Promised   bool           `json:"promises,omitempty"` // the recourse points are those of Options.Promises
	FloatBytes int            `json:"float_bytes"`
	Bytes      int            `json:"bytes"`
	Verified   *verify.Report `json:"verified"`
	Warnings   []string       `json:"warnings,omitempty"` // what is not as the method's name says
}

// Quantize quantizes the model for the task, calibrated on the people's rows.
// Whether the written model does what it should is in Result.Verified; look at it
// before shipping. An *InputError says that the options, the model or the task
// cannot be used as they are.
func Quantize(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options) (*Result, error) {
	q, choice, err := decide(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	defer q.full.Close()
	return q.finish(ctx, t, people, choice)
}

// decide calibrates and gives every layer its format. The caller closes q.full.
func decide(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options) (q *job, choice []int, err error) {
	q, err = prepare(ctx, m, t, o)
	switch {
	case err != nil:
	case people.N == 0:
		err = errors.Join(errors.New("there are no rows to calibrate on"), q.full.Close())
	case o.Promises != nil && len(o.Promises) != people.N:
		err = errors.Join(fmt.Errorf("%d promises for %d people", len(o.Promises), people.N), q.full.Close())
	default:
		if err = q.personal(people); err != nil {
			err = errors.Join(err, q.full.Close())
		}
	}
	if err != nil {
		return nil, nil, inputError(err)
	}
	if err = q.calibrate(ctx, t, people); err == nil {
		choice, err = q.allocate(ctx, people)
	}
	if err != nil {
		return nil, nil, errors.Join(err, q.full.Close())
	}
	return q, choice, nil
}

// finish writes the file of the chosen formats and looks at it.
func (q *job) finish(ctx context.Context, t *task.Task, people *task.People, choice []int) (*Result, error) {
	plan := q.plan(choice)
	bytes, err := q.write(plan, t, nil)
	if err != nil {
		return nil, err
	}
	q.tell("verify", 0, 0)
	report, err := verify.Check(ctx, bytes, verify.Options{Plan: plan, Engine: q.o.Engine, FloatBytes: q.floatBytes, Probes: q.probes(people)})
	if err != nil {
		return nil, err
	}
	return q.result(bytes, plan, choice, report), nil
}

// write makes the file of a plan; more goes into its recipe.
func (q *job) write(plan *quant.Plan, t *task.Task, more map[string]string) ([]byte, error) {
	out, err := qdq.Write(q.canonical, plan, qdq.Options{Size: size})
	if err != nil {
		return nil, fmt.Errorf("quantized graph: %w", err)
	}
	q.describe(out, t, more)
	return onnxio.Marshal(out)
}

// InputError is an error of what was given, not of the work.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the error behind.
func (e *InputError) Unwrap() error { return e.Err }

// inputError marks err, unless it has to do with the library or a cancellation.
func inputError(err error) error {
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &InputError{err}
}

// job is one run of Quantize.
type job struct {
	o          Options
	method     Method
	warnings   []string
	floatBytes int
	canonical  *graph.Model
	full       *classifier.Model
	set        *recourse.ActionSet
	own        []task.Override   // those of Options.Overrides that are of the people, Row being a position among them
	found      []quant.LayerInfo // all dense layers of the canonical model
	layers     []quant.LayerInfo // those that are quantized
	wide       []quant.LayerInfo // the same with the integer input in front
	cal        *calib.Set
	input      *quant.Input
	fits       [][]quant.Layer // layer, format
	score      []float64
	damage     [][]float64
}

func (q *job) tell(stage string, done, total int) {
	if q.o.Progress != nil {
		q.o.Progress(Event{Stage: stage, Done: done, Total: total})
	}
}

// prepare brings the model into canonical form and opens it.
func prepare(ctx context.Context, m *graph.Model, t *task.Task, o Options) (*job, error) {
	if o.Method == "" {
		o.Method = "cf-ptq"
	}
	if o.Budget == 0 {
		o.Budget = 4
	}
	if !(o.Budget >= 2 && o.Budget <= 8) {
		return nil, fmt.Errorf("a budget of %v bits per weight: the widths go from 2 to 8", o.Budget)
	}
	method, err := FindMethod(o.Method)
	if err != nil {
		return nil, err
	}
	if o.Allocator == "" {
		o.Allocator = method.Allocator
	}
	if o.Rounding == "" {
		o.Rounding = method.Rounding
	}
	if !slices.Contains(Roundings(), o.Rounding) {
		return nil, fmt.Errorf("unknown rounding %q; the roundings are %v", o.Rounding, Roundings())
	}
	if !slices.Contains(Allocators(), o.Allocator) {
		return nil, fmt.Errorf("unknown allocator %q; the allocators are %v", o.Allocator, Allocators())
	}
	q := &job{o: o, method: method}
	q.tell("read the model", 0, 0)
	if q.canonical, err = q.canonicalOf(ctx, m, t); err != nil {
		return nil, err
	}
	if err := q.findLayers(); err != nil {
		return nil, err
	}
	if q.set, err = recourse.Compile(t); err != nil {
		return nil, err
	}
	if q.o.Teacher.Margin == 0 {
		q.o.Teacher.Margin = t.Target.Margin
	}
	q.floatBytes = size(m)
	q.full, err = OpenFor(ctx, q.canonical, t, o.Engine, o.Workers)
	return q, err
}

// findLayers sorts the dense layers into those that can be quantized and those
// that stay in float, and warns of the latter.
func (q *job) findLayers() error {
	var err error
	if q.found, err = quant.FindLayers(q.canonical); err != nil {
		return err
	}
	var reasons []string
	for _, l := range q.found {
		if l.Fixed == "" {
			q.layers = append(q.layers, l)
			continue
		}
		reasons = append(reasons, fmt.Sprintf("layer %q stays in float: %s", l.Node, l.Fixed))
	}
	switch {
	case len(q.layers) == 0 && len(reasons) > 0:
		return fmt.Errorf("the model has no layer that can be quantized: %s", strings.Join(reasons, "; "))
	case len(q.layers) == 0:
		return errors.New("the model has no dense layer: Gemm or MatMul with stored float32 weights")
	}
	q.warnings = append(q.warnings, reasons...)
	return nil
}

// quantOpset is the operator set that the written model needs at least: INT4
// and per-channel scales.
const quantOpset = 21

// Canonical returns the model in the form that layers are found and quantized
// in, at the operator set that the quantized model needs.
func Canonical(m *graph.Model) (*graph.Model, error) {
	m, err := upgraded(m)
	if err != nil {
		return nil, err
	}
	return quant.Canonical(m)
}

// upgraded returns a copy of the model at quantOpset or above.
func upgraded(m *graph.Model) (*graph.Model, error) {
	m = m.Clone()
	if m.Opset("") < quantOpset {
		if err := onnxio.Upgrade(m, quantOpset); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// canonicalOf is Canonical with the shapes of all values known from a probe, so
// that layers are found whatever operators stand around them.
func (q *job) canonicalOf(ctx context.Context, m *graph.Model, t *task.Task) (_ *graph.Model, err error) {
	if m, err = upgraded(m); err != nil {
		return nil, err
	}
	c, err := OpenFor(ctx, m, t, q.o.Engine, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	known := m.Clone()
	c.Declare(known.Graph)
	if known, err = quant.Canonical(known); err != nil {
		return nil, err
	}
	// What the file declared stays, what was learnt does not go into the next one.
	known.Graph.Values = slices.DeleteFunc(known.Graph.Values, func(v graph.Value) bool {
		return !slices.ContainsFunc(m.Graph.Values, func(w graph.Value) bool { return w.Name == v.Name })
	})
	return known, nil
}

// OpenFor opens a model as the classifier of a task, and checks that the two fit.
func OpenFor(ctx context.Context, m *graph.Model, t *task.Task, e engine.Options, workers int) (*classifier.Model, error) {
	c, err := classifier.New(ctx, m, classifier.Options{Target: &t.Target.Index, Engine: e, Workers: workers})
	if err != nil {
		return nil, err
	}
	if c.Dim() != t.Dim() {
		err := fmt.Errorf("the model has %d inputs, but the task's features make %d: each feature is one input, each value of a one-hot feature another, in the model's order", c.Dim(), t.Dim())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// size is the file size of a model, by which the writer chooses containers.
func size(m *graph.Model) int {
	b, err := onnxio.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}
