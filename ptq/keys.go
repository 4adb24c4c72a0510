package ptq

import (
	_ "embed" // the tables of settings and of methods
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"cfq/calib"
	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/qat"
	"cfq/recourse"
)

// Key is one setting of a recipe. Checks, help, recipe files, recipes in models and docs/method.md are made from the
// table that Keys returns. The setting calibrate.rows is the field Calibrate.Rows of a recipe.
type Key struct {
	Name, Doc string
	Source    string      // what the paper calls it
	Choices   []keyChoice // its values; nil where Want describes them
	Want      string

	low, high float64 // bounds of a number
}

// keyChoice is a value that a setting can have.
type keyChoice struct{ Name, Doc string }

// Choices of settings, as the table of settings describes them.
const (
	costBits  = "bits"
	costBytes = "bytes"
	costBOPs  = "bops"

	allocatorUniform = "uniform"
	allocatorExact   = "exact"
	allocatorPaper   = "paper"
	allocatorOptimum = "paper-optimum"
	allocatorHAWQ    = "hawq"
	allocatorLearned = "learned"

	bitWidthsPerLayer = "per-layer"
	bitWidthsPerRow   = "per-row"
	scalesPerTensor   = "per-tensor"
	scalesPerChannel  = "per-channel"

	inputAuto  = "auto"
	inputInt8  = "int8"
	inputFloat = "float"

	computeAuto    = "auto"
	computeInteger = "integer"
	computeFloat   = "float"

	onFactual  = "factual"
	onRecourse = "recourse"

	teacherReach = "reach"
	teacherPaper = "paper"

	untrained = "none"

	pruneMagnitude   = "magnitude"
	pruneSensitivity = "sensitivity"
)

// keyTable has a row for each setting: name, what the paper calls it, interval of a number, what is wanted and what it
// does; a row of two cells is a choice of the setting before it.
//
//go:embed keys.txt
var keyTable string

func tableRows(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		rows = append(rows, strings.Split(strings.TrimSpace(line), " | "))
	}
	return rows
}

// Keys is the table of settings, in the order of the stages.
func Keys() (keys []Key) {
	for _, row := range tableRows(keyTable) {
		if len(row) == 2 {
			last := &keys[len(keys)-1]
			last.Choices = append(last.Choices, keyChoice{row[0], row[1]})
			continue
		}
		k := Key{Name: row[0], Source: row[1], Want: row[3], Doc: row[4]}
		k.low, k.high = bounds(row[2])
		keys = append(keys, k)
	}
	for i := range keys {
		switch k := &keys[i]; k.Name {
		case objectiveKey:
			k.Choices = []keyChoice{{untrained, "nothing: the network is not trained"}}
			for _, o := range trainedBy("") {
				k.Choices = append(k.Choices, keyChoice{string(o.Name), o.Doc})
			}
		default:
			if k.weighs() {
				users := lists.Map(trainedBy(k.Source), func(o qat.ObjectiveDoc) string { return string(o.Name) })
				k.Doc += "; objectives: " + strings.Join(users, ", ")
			}
		}
		if k := &keys[i]; k.Choices != nil {
			k.Want = message.Or(choiceNames(k.Choices))
		}
	}
	return keys
}

func trainedBy(weight string) []qat.ObjectiveDoc {
	return slices.DeleteFunc(qat.Objectives(), func(o qat.ObjectiveDoc) bool {
		return !o.Quantized || weight != "" && !slices.Contains(o.Weights, weight)
	})
}

// bounds are the least and the largest number of an interval such as [2,8] or (0,inf).
func bounds(interval string) (low, high float64) {
	from, to, _ := strings.Cut(strings.Trim(interval, "[]()"), ",")
	low, _ = strconv.ParseFloat(from, 64)
	high, _ = strconv.ParseFloat(to, 64)
	if strings.HasPrefix(interval, "(") {
		low = math.Nextafter(low, math.Inf(1))
	}
	if strings.HasSuffix(interval, ")") {
		high = math.Nextafter(high, math.Inf(-1))
	}
	return low, high
}

func choiceNames(choices []keyChoice) []string {
	return lists.Map(choices, func(c keyChoice) string { return c.Name })
}

// Distinguishing lists the keys that tell methods apart by their choices.
func Distinguishing() []Key {
	methods := Methods()
	return slices.DeleteFunc(Keys(), func(k Key) bool {
		values := map[string]bool{}
		for _, m := range methods {
			if text := k.Get(&m.Recipe); text != "" {
				values[text] = true
			}
		}
		return len(values) < 2 || k.Choices == nil && k.Name != "refine.rounds"
	})
}

const objectiveKey = "train.objective"

func (k *Key) field(r *Recipe) reflect.Value {
	section, name, _ := strings.Cut(k.Name, ".")
	of := func(v reflect.Value, name string) reflect.Value {
		return v.FieldByNameFunc(func(field string) bool {
			return strings.EqualFold(field, strings.ReplaceAll(name, "-", ""))
		})
	}
	v := of(reflect.ValueOf(r).Elem(), section)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return v
	}
	return of(v, name)
}

// Get returns the text of a recipe's value; "" where the recipe does not have it.
func (k *Key) Get(r *Recipe) string {
	at := k.field(r)
	switch {
	case k.Name == objectiveKey:
		return string(r.objective())
	case k.weighs() && r.Train != nil:
		return fmt.Sprint(r.Train.Weights.Of(k.Source))
	case !at.IsValid():
		return ""
	}
	switch v := at.Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

// Check reports a text that is not a value of the key.
func (k *Key) Check(text string) error {
	r := plainest(CFPTQ)
	r.setObjective(qat.Distil)
	r.Target = &Target{}
	return k.set(&r, text)
}

// set gives the key of a recipe the value that a text stands for. train.objective makes a recipe one that trains,
// and target.vd one that searches for a budget.
func (k *Key) set(r *Recipe, text string) error {
	names, weight := choiceNames(k.Choices), 0.0
	switch {
	case k.untrained(r):
		return fmt.Errorf("%s: nothing is trained without an objective; %s=%s trains", k.Name, objectiveKey, qat.Distil)
	case r.Target == nil && k.Name == "target.vd":
		r.Target = &Target{Margin: 0.1, HoldOut: 0.3, Confidence: 0.95, Sample: 4000, Seed: 1}
	case r.Target == nil && strings.HasPrefix(k.Name, "target."):
		return fmt.Errorf("%s: it is of use with target.vd only", k.Name)
	}
	switch {
	case k.Choices != nil && !slices.Contains(names, text):
		return fmt.Errorf("invalid value %q for %s: want %s%s", message.Clip(text), k.Name, k.Want, near(text, names))
	case k.Name == objectiveKey:
		r.setObjective(qat.Objective(text))
	case k.Choices != nil:
		k.field(r).SetString(text)
	case k.weighs() && k.parse(&weight, text):
		r.Train.Weights = r.Train.Weights.With(k.Source, weight)
	case k.weighs() || !k.parse(k.field(r).Addr().Interface(), text):
		return fmt.Errorf("invalid value %q for %s: want %s", message.Clip(text), k.Name, k.Want)
	}
	return nil
}

// weighs reports whether the key is a weight of the objective.
func (k *Key) weighs() bool { return slices.Contains(qat.WeightNames(), k.Source) }

// untrained reports whether the key is of recipes that train, and this one does not.
func (k *Key) untrained(r *Recipe) bool {
	return r.Train == nil && strings.HasPrefix(k.Name, "train.") && k.Name != objectiveKey
}

func (r *Recipe) setObjective(o qat.Objective) {
	switch {
	case o == untrained:
		r.Train = nil
	case r.Train == nil:
		r.Train = &TrainSpec{PruneBy: pruneMagnitude, Spec: qat.Spec{
			Objective: o, Optimizer: qat.Optimizer{Steps: qat.DefaultSteps, LearningRate: qat.DefaultRate, Seed: 1},
		}}
	default:
		r.Train.Objective = o
	}
}

// parse sets what at points to, and reports whether the text is a value.
func (k *Key) parse(at any, text string) bool {
	within := func(v float64) bool { return v >= k.low && v <= k.high }
	number, ok := config.Decimal(text)
	var err error
	switch v := at.(type) {
	case *bool:
		*v = text == "true"
		return *v || text == "false"
	case *int:
		*v, err = strconv.Atoi(text)
		return err == nil && *v <= math.MaxInt32 && within(float64(*v))
	case *uint64:
		*v, err = strconv.ParseUint(text, 10, 64)
		return err == nil && within(float64(*v))
	case *float64:
		*v = number
		return ok && within(number)
	case *[]string:
		*v = strings.Split(text, ",")
		return !slices.Contains(*v, "")
	}
	return false
}

func near(text string, words []string) string {
	if word := message.Nearest(text, words); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

// unused says why the key has no effect on a recipe; "" where it has one.
func (k *Key) unused(r *Recipe) string {
	is := func(names ...string) bool { return slices.Contains(names, k.Name) }
	switch {
	case strings.HasPrefix(k.Name, "calibrate.teacher") && !r.LooksAtRecourse():
		return fmt.Sprintf("the method %s does not look at recourse; cf-ptq does", r.Method)
	case is("write.input", "write.act-bits") && r.Write.Compute != computeInteger:
		return fmt.Sprintf("with write.compute=%s there may be no quantized activations; write.compute=%s quantizes them in "+
			"every layer", r.Write.Compute, computeInteger)
	case is("train.eta-sweep") && !r.teachesInTraining():
		return fmt.Sprintf("the objective %s has no teacher actions; train.objective=validity has", r.Train.Objective)
	case is("train.lambda") && r.Allocate.Rule != allocatorLearned:
		return fmt.Sprintf("the allocator %s has no bit cost to weigh; allocate.rule=%s has one", r.Allocate.Rule,
			allocatorLearned)
	case is("train.prune-by") && !(r.Train.Sparsity > 0):
		return "no weights are pruned; train.sparsity=0.5 makes half of them zero"
	case k.weighs() && !slices.Contains(r.objectiveDoc().Weights, k.Source):
		return fmt.Sprintf("the objective %s has none", r.Train.Objective)
	}
	return ""
}

// CFPTQ is the method that is used where none is named.
const CFPTQ = "cf-ptq"

// Method is one way to quantize. Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name string
	// Paper is the row of the paper that the method is, with the settings that make it so.
	Paper  string
	Doc    string
	Recipe Recipe
}

// methodTable has a row for each method: name, row of the paper and what it does, then lines of the settings in which
// it differs from ptq.
//
//go:embed methods.txt
var methodTable string

// Methods is the table of methods. Those with Paper set are the paper's rows.
func Methods() (list []Method) {
	keys := Keys()
	for _, row := range tableRows(methodTable) {
		if len(row) > 1 {
			list = append(list, Method{row[0], row[1], row[2], plainest(row[0])})
			continue
		}
		r := &list[len(list)-1].Recipe
		for setting := range strings.FieldsSeq(row[0]) {
			name, value, _ := strings.Cut(setting, "=")
			if name == "train.quantizers" { // is for methods alone to set
				r.Train.Quantizers = qat.Quantizers(value)
			}
			for _, k := range keys {
				if k.Name == name {
					_ = k.set(r, value) // a test sets all
				}
			}
		}
	}
	return list
}

// plainest is the recipe of the method ptq, by another name.
func plainest(name string) Recipe {
	return Recipe{
		Method: name,
		Calibrate: CalibrateSpec{
			Points: onFactual, Rows: 4096, Teacher: teacherReach, TeacherSteps: recourse.DefaultSteps, TeacherSeed: 1,
		},
		Allocate: AllocateSpec{
			Budget: 4, Cost: costBits, Rule: allocatorUniform, Unit: bitWidthsPerLayer, Scores: onFactual,
		},
		Round: RoundSpec{Rule: calib.Nearest, Scales: scalesPerTensor},
		Write: WriteSpec{Compute: computeAuto, Input: inputAuto, ActBits: 8},
	}
}

// MethodNames lists the names of Methods.
func MethodNames() []string {
	return lists.Map(Methods(), func(m Method) string { return m.Name })
}

func findMethod(name string) (Method, error) {
	for _, m := range Methods() {
		if m.Name == name {
			return m, nil
		}
	}
	return Method{}, fmt.Errorf("invalid value %q for method: want %s", name, message.Or(MethodNames()))
}
