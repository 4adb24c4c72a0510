package task

import "math"

// Task is a resolved task file: defaults are filled in, every reference is checked, and Offset and Width of each feature are set.
type Task struct {
	Version  int
	Encoded  bool // data files hold model inputs instead of raw columns
	Data     Data
	Target   Target
	Features []Feature // in the order of the model's inputs
	Cost     Cost
	Sparsity Sparsity
}

// Data says how a data file becomes rows of named text fields and a label.
type Data struct {
	Label       string      // column of the outcome, "" when files never have one
	LabelSuffix string      // removed from the end of label values when present (Adult's test file ends them in a full stop)
	Favourable  string      // label value that is the favourable outcome; any other value is the unfavourable one
	Missing     []string    // field values that mean "not known"; the empty field always does
	Delimiter   rune        // ',' by default
	Trim        bool        // remove blanks around fields, before quotes are looked at
	Comment     rune        // lines that start with it are not data; 0 = none
	Skip        int         // lines before the header (or before the data of a headerless file)
	Columns     []string    // names of a headerless file's columns; empty = the first row names them
	Drop        []string    // columns that must never become features
	Subgroups   []string    // columns that are no features but whose values results are reported by
	Filter      []Condition // a row that fails one of them is not a person of this task
}

// Condition keeps the rows whose Column lies in [Min, Max] and equals none of Not. A field that is no number fails a finite Min or Max,
// as a comparison with a missing value does.
type Condition struct {
	Column   string
	Min, Max float64 // -Inf, +Inf when absent
	Not      []string
}

// Target is the outcome that recourse aims at.
type Target struct {
	Class  string  // "favourable"
	Index  int     // class index of the favourable outcome in the model's outputs; default 1
	Margin float64 // logit margin that a recourse point must reach; default 0
}

// Kind is how a column becomes model inputs.
type Kind string

// The kinds of feature.
const (
	Numeric Kind = "numeric" // one input, (value-Mean)/Std
	Ordinal Kind = "ordinal" // as Numeric, but only the raw values Levels (or those a whole number of Steps away) are meaningful
	Binary  Kind = "binary"  // one input, 1 for the value One and 0 for any other
	OneHot  Kind = "onehot"  // len(Values) inputs, at most one of them 1; all zero is a missing value
)

// Direction restricts the sign of a change in raw units.
type Direction string

// The directions.
const (
	Any      Direction = "any"
	Increase Direction = "increase"
	Decrease Direction = "decrease"
)

// Feature is one column with its encoding and what people can change about it. All quantities are in raw units.
type Feature struct {
	Name      string
	Column    string // default: Name
	Kind      Kind
	Mean, Std float64   // Numeric, Ordinal; default 0 and 1
	One, Zero string    // Binary; Zero may be "": then every value but One and missing ones is the zero
	Values    []string  // OneHot: in the order of the inputs. Ordinal: the domain as written, or nil
	Levels    []float64 // Ordinal with Values: the domain, ascending
	Shares    []float64 // OneHot: share of each value in the training rows. Binary: one number, the share of One. nil when not given

	Actionable  bool // default true
	Direction   Direction
	Bounds      [2]float64          // a change may not leave them; -Inf and +Inf when absent
	Step        float64             // changes are whole multiples of it; 0 = any
	MaxIncrease float64             // +Inf when absent
	MaxDecrease float64             // +Inf when absent
	MaxChange   float64             // bound on |change|; +Inf when absent
	Weight      float64             // factor on the cost of changing it; default 1
	Transitions map[string][]string // OneHot: value -> values it may become; nil = any. A value that is no key stays as it is
	Subgroup    bool                // report results by the values of this feature

	Offset int // first model input
	Width  int // number of model inputs: 1, or len(Values) for OneHot
}

// Cost is the cost of an action.
type Cost struct {
	Norm    string  // "l1" or "l2"
	Weights string  // "inverse_std" (1/(sigma+Eps), sigma in model-input units), "uniform" (1) or "given" (Feature.Weight alone)
	Eps     float64 // default 1e-3
}

// Sparsity bounds how many features an action changes.
type Sparsity struct {
	MaxFeatures int // 0 = no limit; a one-hot group counts once
}

// Dim returns the number of model inputs.
func (t *Task) Dim() int {
	if len(t.Features) == 0 {
		return 0
	}
	last := t.Features[len(t.Features)-1]
	return last.Offset + last.Width
}

// FeatureAt returns the feature that the model input belongs to, or nil when there is no such input.
func (t *Task) FeatureAt(input int) *Feature {
	for i := range t.Features {
		if f := &t.Features[i]; input >= f.Offset && input < f.Offset+f.Width {
			return f
		}
	}
	return nil
}

// InputName names a model input for messages: "age", or "workclass=Private" for an input of a one-hot group.
func (t *Task) InputName(input int) string {
	f := t.FeatureAt(input)
	switch {
	case f == nil:
		return ""
	case f.Kind == OneHot:
		return f.Name + "=" + f.Values[input-f.Offset]
	default:
		return f.Name
	}
}

// InputNames returns the names of all model inputs in order.
func (t *Task) InputNames() []string {
	names := make([]string, 0, t.Dim())
	for i := range t.Features {
		f := &t.Features[i]
		if f.Kind != OneHot {
			names = append(names, f.Name)
			continue
		}
		for _, v := range f.Values {
			names = append(names, f.Name+"="+v)
		}
	}
	return names
}

// defaultFeature is what a feature is before its keys are read.
func defaultFeature() Feature {
	inf := math.Inf(1)
	return Feature{
		Std: 1, Actionable: true, Direction: Any, Weight: 1,
		Bounds: [2]float64{-inf, inf}, MaxIncrease: inf, MaxDecrease: inf, MaxChange: inf,
	}
}
