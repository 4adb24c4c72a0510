package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/eval"
	"cfq/onnxio/ort"
	"cfq/qat"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/task"
)

// Options of Quantize. The zero value is the tool's default: cf-ptq at four bits
// per weight, one scale per output channel.
type Options struct {
	// Method gives every option below that is "" or 0 its value, unless another default is stated (CFPTQ).
	Method MethodName
	// Budget is what a weight may cost on average, in the unit of Cost, 2 to 8 (4).
	Budget float64
	Cost   Cost // what a budget counts (CostBits)
	// Allocator chooses bit widths within the budget, for whole layers or for each of their rows as BitWidths says.
	Allocator Allocator
	BitWidths BitWidths
	// Scales says whether a layer has one weight scale or one for each output channel.
	Scales Scales
	// WeightRange and ActRange say how scales are fitted.
	WeightRange, ActRange Range
	// CalibrateOn chooses the rows, and their weights, that everything is fitted on.
	CalibrateOn CalibrateOn
	Rounding    Rounding
	// Refine is the number of rounds of end-to-end refinement; negative = none.
	Refine int
	// Objective is what training minimises; Untrained leaves the layers as they were calibrated. Train has the other
	// settings of training; its own objective is set by Objective.
	Objective Objective
	Train     qat.Spec
	// EtaSweep chooses Train.Eta by the accuracy of people who are held out from short trainings: the paper's validation
	// sweep.
	EtaSweep bool
	// Sparsity is the share of the weights that are zero from the beginning of training, chosen by PruneBy.
	Sparsity float64
	PruneBy  PruneBy
	// KeepMetadata writes the metadata and doc strings of the exporter, stack traces with paths among them, to the file.
	KeepMetadata bool
	// AllowLarger does not count it as a problem when the written model is no smaller than the original.
	AllowLarger bool
	// CrossLayerEqualization balances the channel ranges of neighbouring layers before anything is fitted.
	CrossLayerEqualization bool
	// ActBits is the bit width of the activations between layers, 2 to 8 (8).
	ActBits int
	// Input says how the model's input is quantized (InputAuto).
	Input Input
	// Only and KeepFloat are patterns of layer names (path.Match). Layers that match KeepFloat stay in float,
	// and so do those that match nothing of Only, unless Only is empty.
	Only, KeepFloat []string
	// Compute says which layers do their arithmetic on integers (ComputeAuto); the others store weights in few bits and
	// compute in float.
	Compute Compute
	// Runtime is the oldest ONNX Runtime that must read the file, such as "1.22"; "" = 1.24.
	Runtime string
	// FullRange lets 8-bit weights of layers on integers have all codes of int8. x64 processors without VNNI add two of
	// their products in 16 bits, which saturate: there the file computes other numbers. Without FullRange these codes stay
	// within 64, quant.ReducedMax, and every processor computes the same sums.
	FullRange bool
	// Teacher are the settings of the teacher recourse (K = 3). Its Margin defaults to the
	// task's and its Workers to those below; its Progress is this one's.
	Teacher recourse.TeacherOptions
	// TeacherSteps says how the teacher moves (TeacherReach; TeacherPaper for objective match).
	TeacherSteps TeacherSteps
	// TeacherActions is how many teacher actions of each refused person are trained on, from different starts; of those
	// behind the first one, the valid ones count (1). With noise, the actions of each round have noise of their own; with
	// TeacherOnline, each batch has noise and starts of its own.
	TeacherActions int
	TeacherOnline  bool
	// Promises is recourse that people have been given already, one action for each
	// person; those that are Found replace the teacher's. nil computes the teacher's.
	Promises []recourse.Action
	// Rows is the largest number of people to calibrate on, evenly spread (4096); negative =
	// all. If fewer than a quarter of these are refused, refused people are added. The range
	// of the model's input is that of all people.
	Rows int
	// Overrides state what single people can change where it differs from the task, by the
	// row of the data file that People.Rows gives; the teacher respects it. Rows of people
	// who are not given make no difference.
	Overrides []task.Override
	// Checkpoint is a file that keeps the state of the training, which goes on from it if it exists; "" keeps none. It
	// stays when the training ends. It is of one training: a search for a target and a sweep take none.
	Checkpoint string
	// Recipe is added to the model's metadata, such as hashes of the inputs.
	Recipe  map[string]string
	Workers int // parallel runs (1)
	// Progress receives the steps of the work; nil = none.
	Progress func(Event)
}

// Event is a step of the work: Done of Total (0 when unknown) of a stage.
type Event = eval.Event

func (o *Options) tell(stage string, done, total int) {
	if o.Progress != nil {
		o.Progress(Event{Stage: stage, Done: done, Total: total})
	}
}

// Bounds of a budget, in bits per weight: those of quant.Formats.
const minBudget, maxBudget = 2.0, 8.0

// resolve fills in the method's values and reports every invalid option.
func (o Options) resolve() (Options, Method, error) {
	o.Method = cmp.Or(o.Method, CFPTQ)
	method, err := FindMethod(o.Method)
	if err != nil {
		return o, method, err
	}
	o.Budget, o.ActBits, o.Rows = cmp.Or(o.Budget, 4), cmp.Or(o.ActBits, 8), cmp.Or(o.Rows, 4096)
	o.Sparsity = cmp.Or(o.Sparsity, method.Defaults.Sparsity)
	o.Refine = max(cmp.Or(o.Refine, method.Defaults.Refine), 0)
	o.Train.Seed, o.TeacherActions = cmp.Or(o.Train.Seed, 1), cmp.Or(o.TeacherActions, 1)
	o.Train.Quantizers = cmp.Or(o.Train.Quantizers, method.Defaults.Train.Quantizers)
	_, err = qdq.RuntimeOf(o.Runtime)
	errs := []error{checkBudget(o.Budget), err, o.Train.Check()}
	if o.ActBits < 2 || o.ActBits > 8 {
		errs = append(errs, fmt.Errorf("invalid bit width %d of activations: want 2 to 8", o.ActBits))
	}
	if slices.Contains(o.Only, "") || slices.Contains(o.KeepFloat, "") {
		errs = append(errs, errors.New("empty layer pattern"))
	}
	if o.Objective == qat.Match && o.TeacherSteps == "" {
		o.TeacherSteps = TeacherPaper // no gradient knows how lengths that are searched for depend on the network
	}
	given := o.BitWidths
	if o.Cost == CostBOPs {
		o.Compute = cmp.Or(o.Compute, ComputeInteger)
	}
	for _, s := range Settings() {
		value := s.Of(&o)
		if *value == "" {
			*value = *s.Of(&method.Defaults)
		}
		errs = append(errs, checkChoice(s.Name, *value, s.Choices))
	}
	errs = append(errs, o.checkTeacher())
	errs = append(errs, checkSparsity(&o))
	if o.Allocator == AllocatorLearned && o.Objective == Untrained {
		errs = append(errs, fmt.Errorf("allocator %s learns by training: it needs an objective, such as %s", o.Allocator,
			qat.Distil))
	}
	if o.Cost == CostBOPs && o.Compute != ComputeInteger {
		errs = append(errs, fmt.Errorf("cost %s counts operations on integers: it needs compute %s",
			CostBOPs, ComputeInteger))
	}
	exact := o.Allocator == AllocatorExact || o.Allocator == AllocatorLearned
	switch {
	case o.BitWidths != BitWidthsPerRow || o.Scales == ScalesPerChannel && exact:
	case given == "":
		o.BitWidths = BitWidthsPerLayer // the method's own does not go with the other options
	case o.Scales != ScalesPerChannel:
		errs = append(errs, fmt.Errorf("bit-widths %s needs scales %s; bit-widths %s does not", BitWidthsPerRow,
			ScalesPerChannel, BitWidthsPerLayer))
	default:
		errs = append(errs, fmt.Errorf("bit-widths %s needs the allocator %s or %s; bit-widths %s works with any",
			BitWidthsPerRow, AllocatorExact, AllocatorLearned, BitWidthsPerLayer))
	}
	return o, method, errors.Join(errs...)
}

// checkTeacher reports what is wrong with the teacher actions to train on.
func (o *Options) checkTeacher() error {
	doc, _ := qat.FindObjective(o.Objective) // none has no weights
	switch {
	case o.EtaSweep && !(doc.Labels && slices.Contains(doc.Weights, "eta")):
		return fmt.Errorf("eta-sweep: the objective %s has no eta", o.Objective)
	case o.EtaSweep && o.Train.Eta != nil:
		return fmt.Errorf("eta is %v: eta-sweep would choose another one", *o.Train.Eta)
	case o.Teacher.StepSize > 0 && o.TeacherSteps != TeacherPaper && !o.Teacher.Plain:
		return fmt.Errorf("teacher-step %v: teacher %s finds the lengths of its steps; it is for teacher %s",
			o.Teacher.StepSize, TeacherReach, TeacherPaper)
	case o.TeacherActions < 1:
		return fmt.Errorf("invalid teacher-actions %d: want 1 or more", o.TeacherActions)
	case o.TeacherActions > 1 && o.Objective == qat.Match:
		return fmt.Errorf("objective %s compares one action of each person: want teacher-actions 1", o.Objective)
	case o.Promises != nil && (o.TeacherActions > 1 || o.TeacherOnline):
		return errors.New("promises take the place of teacher actions: teacher-actions and teacher-online have no use")
	case o.Promises != nil && o.Teacher.Noise > 0:
		return errors.New("promises are kept as they are: teacher-noise has no use")
	case o.Train.Quantizers == qat.PACT && o.Compute != ComputeInteger:
		return fmt.Errorf("method %s learns the ranges of activations: it needs compute %s; method %s trains weights",
			PACT, ComputeInteger, LSQ)
	}
	return nil
}

func checkBudget(bits float64) error {
	if !(bits >= minBudget && bits <= maxBudget) {
		return fmt.Errorf("invalid budget %v: want 2 to 8 bits per weight", bits)
	}
	return nil
}

// Check reports everything that is wrong with the options by themselves, without a model,
// a task or people.
func (o Options) Check() error {
	_, _, err := o.resolve()
	return inputError(err)
}

// InputError is an error in what was given: options, model, task or people.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the error behind.
func (e *InputError) Unwrap() error { return e.Err }

// inputError marks an error as an InputError, unless the library is missing or the work was cancelled.
func inputError(err error) error {
	if err == nil || errors.Is(err, ort.ErrNotFound) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &InputError{err}
}
