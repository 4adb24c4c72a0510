package ptq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/eval"
	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/ort"
	"cfq/qat"
	"cfq/recourse"
	"cfq/task"
)

// Recipe says how a model is quantized. [NewRecipe] makes one from a method; [Keys] describes each setting.
type Recipe struct {
	Method    string // the method whose recipe this is, but for what was changed
	Calibrate CalibrateSpec
	Allocate  AllocateSpec
	Round     RoundSpec
	Refine    struct{ Rounds int } // of all layers together; 0 = none
	Train     *TrainSpec           // nil: not trained
	Target    *Target              // nil: the budget is given
	Write     WriteSpec
}

// CalibrateSpec chooses the points that everything is fitted on.
type CalibrateSpec struct {
	Points string
	Rows   int // the largest number of people, evenly spread; 0 = all
	// How recourse points are searched for: moves, and their settings.
	Teacher       string
	TeacherSteps  int
	TeacherStep   float64
	TeacherNoise  float64
	TeacherSample int
	TeacherSeed   uint64
}

// AllocateSpec chooses bit widths within a budget.
type AllocateSpec struct {
	Budget    float64 // what a weight may cost on average, in the unit of Cost
	Cost      string
	Rule      string
	Unit      string   // what has a bit width of its own
	Scores    string   // where the importance of layers is measured: onFactual or onRecourse
	KeepFloat []string // patterns of the names of layers that are not quantized
}

// RoundSpec says how weights and activations become codes.
type RoundSpec struct {
	Rule   calib.Rounding
	Scales string // what has a weight scale of its own
	// CrossLayerEqualization balances the channel ranges of neighbouring layers before anything is fitted; without it,
	// only very unequal ones are balanced.
	CrossLayerEqualization bool
}

// TrainSpec says how a network is trained through fake quantizers.
type TrainSpec struct {
	qat.Spec
	EtaSweep bool
	Sparsity float64 // the share of the weights that are zero from the beginning
	PruneBy  string
}

// WriteSpec says what the file computes and holds.
type WriteSpec struct {
	Compute      string
	Input        string
	ActBits      int
	FullRange    bool
	KeepMetadata bool
	AllowLarger  bool // it is not a problem when the file is no smaller than the original
}

// Run is what a quantization is given besides its recipe. The zero value is useful.
type Run struct {
	Workers  int              // parallel runs (1); they do not change the result
	Progress func(eval.Event) // of the stages: Done of Total (0 when unknown)
	// Promises is recourse that people have been given already, one action for each person; those that are Found
	// replace the teacher's. nil computes the teacher's.
	Promises []recourse.Action
	// Overrides state what single people can change where it differs from the task, by the row of the data file that
	// People.Rows gives; the teacher respects it. Rows of people who are not given make no difference.
	Overrides []task.Override
	// Checkpoint is a file that keeps the state of the training, which goes on from it if it exists; "" keeps none. It
	// stays when the training ends. It is of one training: a search for a target takes none.
	Checkpoint string
	// Origin is added to the model's metadata, such as hashes of the inputs.
	Origin map[string]string
}

func (r *Run) tell(stage string, done, total int) {
	if r.Progress != nil {
		r.Progress(eval.Event{Stage: stage, Done: done, Total: total})
	}
}

// Bounds of a budget, in bits per weight: those of quant.Formats.
const minBudget, maxBudget = 2.0, 8.0

func (r *Recipe) objective() qat.Objective {
	if r.Train == nil {
		return untrained
	}
	return r.Train.Objective
}

func (r *Recipe) objectiveDoc() qat.ObjectiveDoc {
	doc, _ := qat.FindObjective(r.objective())
	return doc
}

// LooksAtRecourse reports whether anything depends on recourse points.
func (r *Recipe) LooksAtRecourse() bool {
	return r.Calibrate.Points != onFactual || r.Allocate.Scores != onFactual || r.objectiveDoc().Recourse
}

func (r *Recipe) teachesInTraining() bool {
	doc := r.objectiveDoc()
	return doc.Recourse && !doc.Resamples
}

// Check reports everything that is wrong with a recipe by itself, without a model, a task or people.
func (r Recipe) Check() error {
	if _, err := findMethod(r.Method); err != nil {
		return inputError(err)
	}
	var errs []error
	for _, k := range Keys() {
		if text := k.Get(&r); text != "" {
			errs = append(errs, k.Check(text))
		}
	}
	return inputError(errors.Join(append(errs, r.checkTeacher(), r.checkAllocation())...))
}

func (r *Recipe) checkAllocation() error {
	a := &r.Allocate
	switch {
	case a.Rule == allocatorLearned && r.Train == nil:
		return fmt.Errorf("allocate.rule %s learns by training: it needs a train.objective, such as %s", a.Rule, qat.Distil)
	case a.Cost == costBOPs && r.Write.Compute != computeInteger:
		return fmt.Errorf("allocate.cost %s counts operations on integers: it needs write.compute %s", costBOPs,
			computeInteger)
	case a.Cost == costBytes && !a.sumsErrors():
		return fmt.Errorf("allocate.cost %s needs allocate.rule %s or %s; allocate.cost %s works with any", costBytes,
			allocatorExact, allocatorLearned, costBits)
	case a.Unit != bitWidthsPerRow:
	case r.Round.Scales != scalesPerChannel:
		return fmt.Errorf("allocate.unit %s needs round.scales %s; allocate.unit %s does not", bitWidthsPerRow,
			scalesPerChannel, bitWidthsPerLayer)
	case !a.sumsErrors():
		return fmt.Errorf("allocate.unit %s needs allocate.rule %s or %s; allocate.unit %s works with any",
			bitWidthsPerRow, allocatorExact, allocatorLearned, bitWidthsPerLayer)
	}
	return nil
}

// sumsErrors reports whether the rule sums errors of rows as if they were independent.
func (a *AllocateSpec) sumsErrors() bool {
	return a.Rule == allocatorExact || a.Rule == allocatorLearned
}

func (r *Recipe) checkTeacher() error {
	if step := r.Calibrate.TeacherStep; step > 0 && r.Calibrate.Teacher != teacherPaper {
		return fmt.Errorf("calibrate.teacher-step %v: teacher %s finds the lengths of its steps; it is for teacher %s", step,
			teacherReach, teacherPaper)
	}
	if r.Train == nil {
		return nil
	}
	doc := r.objectiveDoc()
	eta, given := r.Train.Weights["eta"]
	switch {
	case r.Train.EtaSweep && !(doc.Labels && slices.Contains(doc.Weights, "eta")):
		return fmt.Errorf("train.eta-sweep: the objective %s has no eta", r.Train.Objective)
	case r.Train.EtaSweep && given:
		return fmt.Errorf("train.eta is %v: train.eta-sweep would choose another one", eta)
	case r.Train.Quantizers == qat.PACT && r.Write.Compute != computeInteger:
		return fmt.Errorf("method pact learns the ranges of activations: it needs write.compute %s; method lsq trains "+
			"weights", computeInteger)
	}
	return nil
}

// InputError is an error in what was given: recipe, model, task or people.
type InputError struct{ error }

// Unwrap returns the wrapped error.
func (e *InputError) Unwrap() error { return e.error }

// inputError marks an error as an InputError, unless the library is missing or the work was cancelled.
func inputError(err error) error {
	if err == nil || errors.Is(err, ort.ErrNotFound) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &InputError{err}
}

// recipeVersion is that of the keys, of their values and of the methods' recipes.
const recipeVersion = "2"

// originPrefix begins the keys of a written recipe that say what a model was made from; nothing is set by them.
const originPrefix = "origin."

// NewRecipe returns the recipe of a method with settings such as "allocate.budget=3", see [Recipe.Set].
func NewRecipe(method string, settings ...string) (Recipe, error) {
	m, err := findMethod(method)
	if err != nil {
		return Recipe{}, inputError(err)
	}
	r := m.Recipe
	return r, r.Set(settings...)
}

// Set changes settings, each of which is key=value with one of [Keys], whatever order they are in. What has to change
// with them does, unless it is set, too. A setting that has no effect is an error.
func (r *Recipe) Set(settings ...string) error { return r.change(settings, false) }

// change is Set; forSeveral passes over settings without an effect on this one of several methods.
func (r *Recipe) change(settings []string, forSeveral bool) error {
	values, errs := assignments(settings)
	r.apply(values, forSeveral, func(_ string, err error) { errs = append(errs, err) })
	return inputError(errors.Join(errs...))
}

func assignments(settings []string) (values map[string]string, errs []error) {
	values = map[string]string{}
	names := keyNames()
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		switch _, twice := values[key]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is not key=value", message.Quote(s)))
		case twice:
			errs = append(errs, fmt.Errorf("%s is set twice", key))
		case !slices.Contains(names, key):
			errs = append(errs, fmt.Errorf("there is no setting %s%s", message.Quote(key), near(key, names)))
		default:
			values[key] = value
		}
	}
	return values, errs
}

func keyNames() []string { return lists.Map(Keys(), func(k Key) string { return k.Name }) }

func (r *Recipe) apply(values map[string]string, forSeveral bool, fail func(key string, err error)) {
	if r.Train != nil { // a copy of the recipe is left alone
		r.Train = new(*r.Train)
	}
	if r.Target != nil {
		r.Target = new(*r.Target)
	}
	var changed []Key
	for _, k := range Keys() {
		text, ok := values[k.Name]
		if !ok {
			continue
		}
		set := func() error { return k.set(r, text) }
		if forSeveral && k.untrained(r) {
			set = func() error { return k.Check(text) }
		}
		if err := set(); err != nil {
			fail(k.Name, err)
		} else if !forSeveral {
			changed = append(changed, k)
		}
	}
	r.follow(values)
	for _, k := range changed {
		if why := k.unused(r); why != "" {
			fail(k.Name, fmt.Errorf("%s: %s", k.Name, why))
		}
	}
}

func (r *Recipe) follow(values map[string]string) {
	free := func(key string) bool { _, given := values[key]; return !given }
	if r.Allocate.Cost == costBOPs && free("write.compute") {
		r.Write.Compute = computeInteger
	}
	if r.objective() == qat.Match && free("calibrate.teacher") {
		r.Calibrate.Teacher = teacherPaper // no gradient knows how lengths that are searched for depend on the network
	}
	if free("allocate.unit") && (r.Round.Scales != scalesPerChannel || !r.Allocate.sumsErrors()) {
		r.Allocate.Unit = bitWidthsPerLayer
	}
	if free("allocate.cost") && r.Allocate.Cost == costBytes && !r.Allocate.sumsErrors() {
		r.Allocate.Cost = costBits
	}
}

// ParseRecipe reads a recipe: a method and settings by key, in YAML or JSON. What a written recipe says about its
// origin is passed over. The error is of type config.Errors.
func ParseRecipe(file string, data []byte) (r Recipe, err error) {
	d := &config.Decoder{File: file, Kind: "recipe"}
	root := d.Document(data, "a method")
	if root == nil {
		return r, d.Err()
	}
	version, method, lists := recipeVersion, CFPTQ, map[string]*[]string{}
	known := []config.Key{{Name: "version", Value: d.Text(&version)}, {Name: "method", Value: d.Text(&method)}}
	for _, name := range keyNames() {
		lists[name] = new([]string)
		known = append(known, config.Key{Name: name, Value: d.Texts(lists[name])})
	}
	for _, name := range []string{
		"cfq", "model", "data", "task", "rows", "drawn", "promises", "overrides", "calibrated_on", "recourse",
		"deployment", "deployment_seed",
	} {
		known = append(known, config.Key{Name: originPrefix + name})
	}
	m := d.Mapping(root, "a recipe", known)
	if version != recipeVersion {
		d.Errorf(m.Place("version"), "this is a recipe of version %s, and this program reads version %s", version,
			recipeVersion)
		return r, d.Err()
	}
	found, err := findMethod(method)
	if err != nil {
		d.Errorf(m.Place("method"), "%s%s", config.Clause(err.Error()), config.DidYouMean(method, MethodNames()))
		return r, d.Err()
	}
	values := map[string]string{}
	for name, list := range lists {
		if m.Has(name) && !m.Bad[name] {
			values[name] = strings.Join(*list, ",")
		}
	}
	r = found.Recipe
	r.apply(values, false, func(key string, err error) { d.Errorf(m.Place(key), "%s", config.Clause(err.Error())) })
	return r, d.Err()
}

// Texts are the method, the budget and what differs from the method's recipe, by key: what ParseRecipe reads.
func (r Recipe) Texts() map[string]string {
	texts := map[string]string{"version": recipeVersion, "method": r.Method}
	m, err := findMethod(r.Method)
	for _, k := range Keys() {
		text := k.Get(&r)
		if text != "" && k.unused(&r) == "" && (err != nil || text != k.Get(&m.Recipe) || k.Name == "allocate.budget") {
			texts[k.Name] = text
		}
	}
	return texts
}

// MarshalJSON writes Texts.
func (r Recipe) MarshalJSON() ([]byte, error) { return json.Marshal(r.Texts()) }
