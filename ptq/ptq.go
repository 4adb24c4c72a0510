// Package ptq quantizes ONNX classifiers so that algorithmic recourse survives:
// what people were told to change to get a favourable decision still works after
// the model has been quantized.
//
// In: a model, a task, the rows to calibrate on. Out: a quantized model, written
// and verified in ONNX Runtime, with the plan it was made from. The invariant:
// the same inputs and options give the same bytes, for any number of workers.
//
// References: section Training-Free Counterfactual-Aware PTQ of the paper.
package ptq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/allocate"
	"cfq/calib"
	"cfq/calib/refine"
	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Options of Quantize. The zero value is the tool's default: cf-ptq at four bits
// per weight, scales per output channel.
type Options struct {
	// Method is a name of Methods ("cf-ptq"). What is "" or 0 below is as the method says.
	Method string
	// Budget is what a weight may cost on average, in the unit of Cost, 2 to 8 (4).
	Budget float64
	// Cost is a name of Costs: what a budget counts ("bits").
	Cost string
	// Allocator is a name of Allocators.
	Allocator string
	// Widths is a name of Granularities: whether each layer or each of its rows has a width of its own.
	Widths string
	// Scales is a name of ScaleKinds: one weight scale for each layer or for each output channel.
	Scales string
	// WeightRange and ActRange are names of Ranges: how scales are fitted.
	WeightRange, ActRange string
	// CalibrateOn is a name of Calibrations: the rows, and the weights of the rows, that all is fitted on.
	CalibrateOn string
	// Rounding is a name of Roundings.
	Rounding string
	// Refine is how many rounds of end-to-end refinement are run; negative = none.
	Refine int
	// Equalize evens out the ranges of neighbouring layers' channels before anything is fitted.
	Equalize bool
	// ActBits is the width of the activations between layers, 2 to 8 (8).
	ActBits int
	// Input is a name of InputKinds: how the model's input is quantized ("auto").
	Input string
	// Only and KeepFloat are patterns of layer names (path.Match): layers that match none of
	// Only, if there are any, or one of KeepFloat stay in float.
	Only, KeepFloat []string
	// WeightOnly stores weights in few bits and leaves the arithmetic in float.
	WeightOnly bool
	// Runtime is the oldest ONNX Runtime that must read the file, such as "1.22"; "" = 1.24.
	Runtime string
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
	// Rows is how many of the people are calibrated on at most, evenly spread (4096); negative =
	// all of them. Where few of those are refused, more of the refused come on top. The range
	// of the model's input is that of all people.
	Rows int
	// Overrides are what single people can change where it differs from the task, by the
	// row of the data file that People.Rows gives them; the teacher keeps to it. Rows of
	// nobody among the people make no difference.
	Overrides []task.Override
	// Cache is a folder in which teacher actions and statistics of layers are kept from one
	// run to the next, see TeacherCache; "" computes them anew. It does not change the result.
	Cache string
	// Recipe is added to the model's metadata, such as hashes of the inputs.
	Recipe  map[string]string
	Engine  ort.Options
	Workers int // parallel runs (1)
	// Progress is told what is going on; nil is silence.
	Progress func(Event)
}

// Event is a step of the work: Done of Total (0 when unknown) of a stage.
type Event = eval.Event

func (o *Options) tell(stage string, done, total int) {
	if o.Progress != nil {
		o.Progress(Event{Stage: stage, Done: done, Total: total})
	}
}

// Layer is what was decided for one layer, and why.
type Layer struct {
	Node   string `json:"node"`
	Params int    `json:"params"`
	// Bits is the mean width of the weights; Rows says how many rows have which width where
	// they differ.
	Bits     float64     `json:"bits"`
	Rows     map[int]int `json:"rows_of_width,omitempty"`
	Channels int         `json:"scales"`
	// Score is the gradient score, eq. cfptq_sensitivity or its factual counterpart;
	// 0 when Result.Warnings says why there is none.
	Score float64 `json:"sensitivity,omitempty"`
	// Damage is the mean squared margin error of quantizing this layer alone, per
	// width of quant.Formats; nil where it was not measured.
	Damage []float64 `json:"damage,omitempty"`
	Float  string    `json:"float,omitempty"` // why the layer stays in float
}

// Result is a quantized model and how it came about.
type Result struct {
	Model     []byte      `json:"-"`
	Plan      *quant.Plan `json:"-"`
	Method    string      `json:"method"`
	Allocator string      `json:"allocator"`
	Rounding  string      `json:"rounding"`
	Budget    float64     `json:"budget"`
	Cost      string      `json:"cost"`            // what the budget counts, a name of Costs
	Bits      float64     `json:"bits_per_weight"` // mean width that was given to the quantized weights
	// Stored is what the file stores for those weights in all, in bits per weight: codes, scales,
	// zero points, the order of rows.
	Stored    float64         `json:"stored_bits_per_weight"`
	Refined   *refine.Outcome `json:"refined,omitempty"` // what end-to-end refinement did
	Layers    []Layer         `json:"layers"`
	Equalized []string        `json:"equalized,omitempty"` // pairs of layers whose ranges were evened out
	People    int             `json:"people"`              // who were given
	// Calibrated are the positions, ascending, of the people whom the model was calibrated on or, by Smallest, chosen by. A model
	// of a plan has none.
	Calibrated []int          `json:"-"`
	Factual    int            `json:"calibration_rows"`
	Recourse   int            `json:"recourse_points"`
	Reached    int            `json:"recourse_points_valid"`
	Promised   bool           `json:"promises,omitempty"` // the recourse points are those of Options.Promises
	FloatBytes int            `json:"float_bytes"`
	Bytes      int            `json:"bytes"`
	Verified   *verify.Report `json:"verified"`
	Warnings   []string       `json:"warnings,omitempty"` // what is not as the method's name says

	origin origin // for WritePlan
}

// Quantize quantizes the model for the task, calibrated on the people's rows.
// Whether the written model does what it should is in Result.Verified; look at it
// before shipping. An *InputError says that the options, the model or the task
// cannot be used as they are.
func Quantize(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options) (*Result, error) {
	c, err := Calibrate(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the result is what counts
	return c.Quantize(ctx, c.job.o.Budget)
}

// Calibration is all of Quantize that does not depend on the budget. Close it after use.
type Calibration struct {
	job  *job
	task *task.Task
}

// Calibrate does the part of Quantize that does not depend on the budget, so that a model
// can be quantized at several. Of Options.Budget only Profile takes notice.
func Calibrate(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options) (*Calibration, error) {
	q, err := calibrated(ctx, m, t, people, o)
	if err != nil {
		return nil, err
	}
	return &Calibration{job: q, task: t}, nil
}

// Quantize quantizes the model at a budget: what Quantize returns for the same options.
// It is not safe for concurrent use.
func (c *Calibration) Quantize(ctx context.Context, budget float64) (*Result, error) {
	if err := checkBudget(budget); err != nil {
		return nil, inputError(err)
	}
	q := *c.job
	q.warnings = slices.Clone(q.warnings)
	q.o.Budget = budget
	w, err := q.giveWidths(ctx)
	if err != nil {
		return nil, err
	}
	return q.finish(ctx, c.task, w)
}

// Close frees the model.
func (c *Calibration) Close() error { return c.job.full.Close() }

// calibrated opens the model and fits everything that it may be quantized with.
func calibrated(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, o Options) (*job, error) {
	q, err := prepare(ctx, m, t, o)
	if err != nil {
		return nil, inputError(err)
	}
	if err = q.choosePeople(ctx, people); err != nil {
		err = inputError(err)
	} else if err = q.calibrate(ctx, t); err == nil {
		err = q.measure(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, q.full.Close())
	}
	return q, nil
}

// giveWidths gives the layers or their rows formats within the budget.
func (q *job) giveWidths(ctx context.Context) (w widths, err error) {
	if q.o.Cost == CostBytes {
		w, err = q.fitBytes(ctx)
	} else {
		w, _, err = q.allocate(ctx, 0)
	}
	if errors.Is(err, allocate.ErrBudget) {
		err = inputError(fmt.Errorf("a budget of %v bits per weight (cost: %s): %w", q.o.Budget, q.o.Cost, err))
	}
	return w, err
}

// finish refines the layers in their formats, writes the file and looks at it.
func (q *job) finish(ctx context.Context, t *task.Task, w widths) (*Result, error) {
	layers, outcome, err := q.refine(ctx, q.layersOf(w), q.cal)
	if err != nil {
		return nil, err
	}
	plan := q.planOf(layers)
	out, bytes, err := q.write(plan, t, nil)
	if err != nil {
		return nil, err
	}
	q.tell("verify", 0, 0)
	report, err := verify.Check(ctx, bytes, verify.Options{Plan: plan, Engine: q.o.Engine, FloatBytes: q.floatBytes, Probes: q.probes(q.people)})
	if err != nil {
		return nil, err
	}
	r, err := q.result(out, plan)
	if err != nil {
		return nil, err
	}
	r.Model, r.Bytes, r.Verified, r.Refined = bytes, len(bytes), report, outcome
	r.origin = origin{q.source, q.canonical, q.o.Runtime}
	return r, nil
}

// write makes the model and the file of a plan; more goes into its recipe.
func (q *job) write(plan *quant.Plan, t *task.Task, more map[string]string) (*graph.Model, []byte, error) {
	out, err := qdq.Write(q.canonical, plan, writer(q.o.Runtime))
	if err != nil {
		return nil, nil, fmt.Errorf("quantized graph: %w", err)
	}
	q.describe(out, t, more)
	bytes, err := codec.Marshal(out)
	return out, bytes, err
}

// InputError is an error of what was given, not of the work.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the error behind.
func (e *InputError) Unwrap() error { return e.Err }

// inputError marks err, unless it has to do with the library or a cancellation.
func inputError(err error) error {
	if errors.Is(err, ort.ErrNotFound) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
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
	equalized  []string     // what quant.Equalize did
	source     *graph.Model // canonical as it came from the file, whatever is done to it later
	full       *classifier.Model
	set        *constraint.Set
	all        *task.People      // everybody
	people     *task.People      // those who are calibrated on
	rows       []int             // their positions among all
	own        []task.Override   // those of Options.Overrides that are of the people, Row being a position among them
	found      []quant.LayerInfo // all dense layers of the canonical model
	layers     []quant.LayerInfo // those that are quantized
	wide       []quant.LayerInfo // the same with the integer input in front
	cal        *calib.Set        // what everything is fitted on
	union      *calib.Set        // U_cal: the rows and the recourse points, whichever of them cal has
	input      *quant.Input
	outputs    calib.Outputs   // output quantizers of convolutions
	fits       [][]quant.Layer // layer, format
	score      []float64
	judged     []float32     // the points that damage is measured on
	damage     [][]float64   // layer, format; nil where it was not measured
	rowDamage  [][][]float64 // layer, row, format
}

func (q *job) tell(stage string, done, total int) { q.o.tell(stage, done, total) }

// prepare brings the model into canonical form and opens it.
func prepare(ctx context.Context, m *graph.Model, t *task.Task, o Options) (*job, error) {
	o, method, err := o.resolve()
	if err != nil {
		return nil, err
	}
	q := &job{o: o, method: method}
	q.tell("read the model", 0, 0)
	loaded, err := q.load(ctx, m, t)
	if err != nil {
		return nil, err
	}
	q.source = loaded.Graph()
	q.canonical = q.source
	if err := readable(q.canonical, o.Runtime); err != nil {
		return nil, err
	}
	if o.Equalize {
		if q.canonical, q.equalized, err = quant.Equalize(q.canonical); err != nil {
			return nil, err
		}
	}
	if err := q.findLayers(); err != nil {
		return nil, err
	}
	if q.set, err = constraint.Compile(t); err != nil {
		return nil, err
	}
	if q.o.Teacher.Margin == 0 {
		q.o.Teacher.Margin = t.Target.Margin
	}
	q.floatBytes = size(m)
	q.full, err = openAs(loaded.With(q.canonical), t, o.Workers)
	return q, err
}

// findLayers sorts the dense layers into those that can be quantized and those
// that stay in float, and warns of the latter.
func (q *job) findLayers() error {
	var err error
	if q.found, err = quant.FindLayers(q.canonical); err != nil {
		return err
	}
	kept, err := q.o.selected(q.found)
	if err != nil {
		return err
	}
	var reasons []string
	for i := range q.found {
		switch l := &q.found[i]; {
		case l.Fixed != "":
			reasons = append(reasons, fmt.Sprintf("layer %q stays in float: %s", l.Node, l.Fixed))
		case kept[l.Node] != "":
			l.Fixed = kept[l.Node] // as was asked for: nothing to warn of
		default:
			q.layers = append(q.layers, *l)
		}
	}
	switch {
	case len(q.layers) == 0 && len(kept) > 0:
		return errors.New("nothing is left to quantize: every layer is to stay in float")
	case len(q.layers) == 0 && len(reasons) > 0:
		return fmt.Errorf("the model has no layer that can be quantized: %s", strings.Join(reasons, "; "))
	case len(q.layers) == 0 && isQuantized(q.canonical):
		return errors.New("the model is quantized already: quantize the float model that it was made from")
	case len(q.layers) == 0:
		return errors.New("the model has no dense layer: Gemm or MatMul with stored float32 weights")
	}
	q.warnings = append(q.warnings, reasons...)
	return nil
}

// isQuantized says whether somebody has quantized the model, with whatever tool.
func isQuantized(m *graph.Model) bool {
	return slices.ContainsFunc(m.Metadata, func(e graph.Meta) bool { return e.Key == recipeKey }) ||
		slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "DequantizeLinear" })
}
