// Package task describes the decision that people face: how the columns of a data file become the model's inputs, which
// outcome is the favourable one, what people can change and at what cost.
//
// In goes a task file (YAML or JSON, see Parse) and a data file (delimited text or Parquet, see Read). Out come a Task
// whose every reference is resolved, and People, the rows as the model sees them.
//
// Invariant: nothing is dropped in silence. Every mistake of a task file is reported with its place, and every row of a
// data file is encoded, or counted as failed with its line and reason, as filtered or as excluded.
//
// The task file states what the paper calls the action set A(x), the cost c(delta) and the sparsity budget k (appendix
// "Recourse Optimization and Constraints", eq. app:eq:A_template and app:eq:weight_std); package recourse computes with
// them.
package task

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/config"
)

// Task is a resolved task file: defaults, Offset and Width of each feature are set, and every reference is checked.
type Task struct {
	Version  int
	Encoded  bool // data files hold model inputs instead of raw columns
	Data     Data
	Target   Target
	Features []Feature // in the order of the model's inputs
	Images   []Feature // entries of the file that stand for many of Features, one for each pixel, see Image
	Latent   *Latent   // nil where people change the model's inputs themselves
	Links    []Link    // changes that move others
	Rules    []Rule    // what must hold between features after an action
	Cost     Cost
	// MaxFeatures is how many features an action may change at most, 0 for no limit; a one-hot group counts once.
	MaxFeatures int
}

// Data says how a data file becomes rows of named text fields and a label.
type Data struct {
	Label       string   // column of the outcome, "" when files never have one
	LabelSuffix string   // removed from the end of label values: Adult's test file ends them in a full stop
	Favourable  string   // label value that is the favourable outcome; any other value is the unfavourable one
	Missing     []string // field values that mean "not known"; the empty field always does
	Delimiter   rune     // ',' by default
	Trim        bool     // remove blanks around fields, before quotes are looked at
	Preamble
	Columns   []string    // names of a headerless file's columns; empty = the first row names them
	ID        string      // column that says who a row is about, "" when every row is a person of its own
	Drop      []string    // columns that must never become features
	Subgroups []string    // columns that are no features but whose values results are reported by
	Filter    []Condition // a row that fails one of them is not a person of this task
}

// Preamble is what a file has besides rows.
type Preamble struct {
	Comment rune // lines that start with it; 0 = none
	Skip    int  // lines before the header (or before the data of a headerless file)
}

// Condition keeps the rows whose Column lies in [Min, Max], if one is finite, and equals none of Not.
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
	// Output is what the model's output holds, "logits" or "probabilities"; "" is what the model shows.
	Output string
	// Threshold is what the favourable class's probability (0: 0.5), or its logit less the other's, must exceed.
	Threshold float64
	// Accuracy is that of the model on such data as its owner knows it, 0 where the file does not say.
	Accuracy float64
}

// Link makes another feature change with one, free of cost. The linked feature is not Actionable. Several links to one
// number add up; the links form no circle.
type Link struct {
	From, To string
	Scale    float64 // raw units of To for each raw unit that From changes; 0 when Map is given
	// Map holds values of From, in their order, each with the value that To takes when From changes to it. When From is a
	// number, an entry holds from its value on up to the next one; below the first, and for values of a category that have
	// no entry, To stays.
	Map [][2]string
}

// Rule is a condition on people after an action. With Then: if all of If hold, all of Then must. With Of: at most
// AtMost of those features change. A person who breaks the rule as they are may take no action that breaks it further:
// an action changes none of its features, or fulfils it, or, for a rule without If, brings every broken inequality no
// further from being fulfilled. With Must they fulfil it after any action, even one that changes none of its features.
type Rule struct {
	Text     string // as written, for messages
	If, Then []Inequality
	Must     bool
	AtMost   int
	Of       []string
}

// RuleCount says for how many people a rule without Of holds as they are.
type RuleCount struct {
	Text    string `json:"text"`
	Applies int    `json:"applies"` // people for whom all of If hold
	Broken  int    `json:"broken"`  // of them, those for whom not all of Then hold
}

// Inequality is sum(Coef x value) <= Bound, or < Bound when Strict, over raw values.
type Inequality struct {
	Text   string // as written, for messages
	Terms  []Term
	Bound  float64
	Strict bool
}

// Term is a feature in an inequality: its raw number, or with Value, 1 when the feature has that value and 0 otherwise.
// The number of a Thermometer with Thresholds is the one it has reached; below the first, that lies as far below it as
// the second lies above it, or 1 when there is no second.
type Term struct {
	Feature, Value string
	Coef           float64
}

// The norms of weighted changes w.
const (
	L1    = "l1"    // sum |w|
	L2    = "l2"    // root of sum w^2
	Mixed = "mixed" // L1Ratio sum |w| + (1-L1Ratio) root of sum w^2
)

// Override is what one person can change instead of what the task says: With is the Action of Features[Feature].
type Override struct {
	Row     int // of the data file, see ReadOptions
	Feature int
	With    Action
}

// Cost is the cost of an action.
type Cost struct {
	Norm    string  // how weighted changes add up
	L1Ratio float64 // Mixed: from 0 to 1; default 0.5
	// Weights is what the weight of an input is, by sigma in its units: inverse_std is Weight/(sigma+Eps), inverse_mad and
	// inverse_range have the MAD of the training rows (1 for categories) and their range instead; uniform is 1, and given
	// Weight alone.
	Weights string
	Eps     float64 // default 1e-3
	// Switches is what a change of a one-hot value costs without SwitchCost: once, that of a change of size 1 at the mean
	// of the weights of the two values, or encoded, that of both inputs that change.
	Switches string
}

// Attributes are what tells groups of people apart: features with Subgroup set, with their values, and then the columns
// Data.Subgroups, whose values the data has.
func (t *Task) Attributes() []Subgroup {
	all := t.subgroups(&People{})
	for _, name := range t.Data.Subgroups {
		all = append(all, Subgroup{Feature: name, Open: true})
	}
	return all
}

// Dim returns the number of model inputs.
func (t *Task) Dim() int {
	if len(t.Features) == 0 {
		return 0
	}
	last := t.Features[len(t.Features)-1]
	return last.Offset + last.Width
}

// Made says whether a step in front of the model has to make its inputs of those of the features.
func (t *Task) Made() bool {
	return t.Latent != nil || slices.ContainsFunc(t.Features, func(f Feature) bool { return f.Encoding.isMade() })
}

// ModelDim returns the number of inputs of the model.
func (t *Task) ModelDim() (n int) {
	for i := range t.Features {
		n += t.Features[i].ModelInputs()
	}
	return n
}

// Require says that the model looks up one of these codes at one of its inputs, one for each code. A category that the
// task makes one number of has them as inputs. strict says that the model refuses a row without a category of the
// one-hot feature, or takes it for a certain category: rows without one cannot be read, unless the feature has Impute.
func (t *Task) Require(input int, codes []string, strict bool, taken string) {
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		if c := f.Category(); c != nil && at == input {
			lookUp(c, codes)
		}
		if hot, ok := f.Encoding.(*OneHot); ok && strict && at == input {
			hot.Required = ", and the model refuses that" + fillIn
			if taken != "" {
				hot.Required = fmt.Sprintf(", and the model takes it for %q: so say with impute", taken)
			}
		}
		at += f.ModelInputs()
	}
}

// JSON returns the canonical form: the task file in JSON with defaults written out, except of keys that were added to
// the format since: a task that does not use them has the form, and so the hash, that it always had. Parse reads it
// back to an equal Task.
func (t *Task) JSON() []byte { return config.JSON(config.Members(newDecoder("", t).taskKeys(t))) }

// Hash returns the SHA-256 of the canonical form in hexadecimal.
func (t *Task) Hash() string { return fmt.Sprintf("%x", sha256.Sum256(t.JSON())) }

// EncodingHash is the SHA-256, in hexadecimal, of what decides how a row becomes the model's inputs.
func (t *Task) EncodingHash() string {
	d := newDecoder("", t)
	of := func(keys []key, names string) config.Members {
		return slices.DeleteFunc(keys, func(k key) bool { return !slices.Contains(strings.Fields(names), k.Name) })
	}
	hashed := []any{t.Encoded, of(d.dataKeys(&t.Data), "missing delimiter trim comment skip columns")}
	for _, f := range t.Entries() {
		keys, _ := d.featureKeys(t, &f)
		hashed = append(hashed, of(keys, "column kind shape layout mean std clip log spread one zero values thresholds "+
			"impute inputs"))
	}
	return fmt.Sprintf("%x", sha256.Sum256(config.JSON(hashed)))
}

// InputNames returns the names of all inputs: "age", "workclass=Private" of a one-hot, "grade>=B" of a thermometer.
func (t *Task) InputNames() []string {
	names := make([]string, 0, t.Dim())
	for i := range t.Features {
		for j := range t.Features[i].Width {
			names = append(names, t.Features[i].Encoding.inputName(t.Features[i].Name, j))
		}
	}
	return names
}

// reference is the reference page of the task file. The schema describes keys by its tables.
//
//go:embed reference.txt
var reference string

// Markdown returns the reference page of the task file.
func Markdown() string { return reference }

// referenceTable returns the cells of a section's table by row: key, what it is, what holds without it, and kinds.
func referenceTable(section string) (rows [][]string) {
	_, text, _ := strings.Cut(reference, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			cells := strings.Split(strings.TrimSuffix(row, " |\n"), " | ")
			cells[0] = strings.TrimSuffix(cells[0], "`")
			rows = append(rows, cells)
		}
	}
	return rows
}

func object(section string, keys []key) func() schema {
	return func() schema {
		for _, row := range referenceTable(section) {
			if i := slices.IndexFunc(keys, func(k key) bool { return k.Name == row[0] }); i >= 0 {
				if keys[i].Doc = row[1]; keys[i].Fallback != required {
					keys[i].Fallback = row[2]
				}
			}
		}
		return config.Object(keys)
	}
}

// Schema returns the JSON Schema (draft 2020-12) of the task file, for editors: from the keys that the decoder reads
// by. A file that it accepts may still have mistakes: names that refer to nothing, numbers that contradict each other.
func Schema() []byte {
	t := &Task{}
	return object("The task file", newDecoder("", t).taskKeys(t))().Document("task", "cfq task file")
}

func pairOf(side func() schema) func() schema {
	return func() schema {
		s := config.ListOf(side)()
		s["minItems"], s["maxItems"] = 2, 2
		return s
	}
}

func percentForm() schema { return schema{"type": "string", "pattern": `^[0-9.]+ ?%$`} }

func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": "object", "additionalProperties": item()} }
}
