// Package metrics is the table of what package eval measures: what each metric is called, where it stands in the JSON
// report, which values are good, what it requires and how certain it is. The command's help, the gates, the reports and
// the documentation range over it.
//
// In: metrics.csv, a metric in each line. Out: values that nobody changes. The invariant: every number of a JSON report
// that is made of people has a line, also where it has no name and only the JSON report shows it.
//
// Definitions: sections "Metrics" and "Sensitivity to action constraints" of the paper. In them f is the full-precision
// model, g the quantized one, m their logit margin for the favourable class, x a person, and u the point where the
// person's minimal-cost recourse ends.
package metrics

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Metric is one thing that eval measures.
type Metric struct {
	ID string // on command lines and in gate files
	Doc
	Better   Better
	Kind     Kind
	Requires Requirement
	Compared Pairing
	Groups   bool   // groups of people are compared by it
	Instead  string // ID of what a gate has in its place, where no bound holds for any distribution; or ""
	// Reverse are the IDs of metrics that a limit on this one holds for, too: it counts what goes wrong in one direction
	// alone, and these what does in the other.
	Reverse []string
	object  string // of the JSON report, with the dot behind it
}

// Doc is what a reader is told of a metric.
type Doc struct {
	Section    string
	Name       string // for readers who do not know the symbols; "" for a number that only the JSON report has
	Symbol     string
	Unit       string
	Source     string // section or equation of the paper, or Own, or "standard"
	Definition string
}

// Own is the source of metrics that this project defines.
const Own = "this project"

// Better says where a metric's good values are.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Zero    Better = "near 0"
	Neither Better = "as the original's"
)

// Kind is how certain a metric's value is.
type Kind int

// The kinds.
const (
	Share    Kind = iota // of people: counts, whose bounds are exact
	Estimate             // a number with an interval
	Exact                // nothing was sampled: the value is what it is
	Count                // of people
)

// Requirement is what a metric needs of an evaluation in addition to f's promises. What was not asked for has no value.
type Requirement int

// The requirements.
const (
	Nothing      Requirement = iota
	Mirrored                 // g's own recourse, or the first valid iterates: not with eval.Options.OneSided
	Noise                    // eval.Options.Noise
	Perturbation             // eval.Options.Perturb
	Transfer                 // eval.Options.Factor
	File                     // eval.DataFile
	Timing                   // eval.Result.Timing, which the caller measures
	Footprint                // eval.Result.Footprint, likewise
	Batches                  // eval.Result.Batches, likewise
	Issued                   // promises that were issued
	Decoder                  // a model behind a decoder, as Distances of the classifier has it
	Record                   // the record of calibration, with ranges
)

// Optional says that the JSON report has no key of the metrics when nobody has what they require.
func (q Requirement) Optional() bool {
	return q == Noise || q == Perturbation || q == Transfer || q == Decoder
}

// Pairing says how models are compared by a metric.
type Pairing int

// The pairings.
const (
	NotCompared          Pairing = iota
	Paired                       // on the people who count in both models: shares by McNemar's test of the same trials
	OwnTrials                    // each model has trials of its own: people count who have one in either
	OwnTrialsIfDifferent         // and it is not worth a row where all values are equal
)

const perMargin = "margins[]."

// Key is the path of the metric in the JSON report; "[]" steps into a list.
func (m *Metric) Key() string { return m.object + m.ID }

// Path are the names of its key, at a required margin if it has one.
func (m *Metric) Path() []string { return strings.Split(strings.TrimPrefix(m.Key(), perMargin), ".") }

// PerMargin says that the metric has a value for each required margin.
func (m *Metric) PerMargin() bool { return m.object == perMargin }

//go:embed metrics.csv
var table string

//nolint:gochecknoglobals // constant; reports and gates look up every number that they show
var lines = sync.OnceValue(func() (all []Metric) {
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil {
		panic(fmt.Sprintf("metrics.csv: %v", err))
	}
	place := func(id, word string, words ...string) int {
		i := slices.Index(words, word)
		if i < 0 {
			panic(fmt.Sprintf("metrics.csv: %s: %q is not one of %q", id, word, words))
		}
		return i
	}
	for _, row := range rows[1:] {
		id := row[2]
		all = append(all, Metric{
			ID: id, object: row[1], Better: Better(row[5]), Groups: row[8] != "", Instead: row[9],
			Reverse: strings.Fields(row[10]),
			Kind:    Kind(place(id, row[3], "share", "estimate", "exact", "count")),
			Requires: Requirement(place(id, row[6], "", "mirrored", "noise", "perturbation", "transfer", "file", "timing",
				"footprint", "batches", "issued", "decoder", "record")),
			Compared: Pairing(place(id, row[7], "", "paired", "own trials", "own trials if different")),
			Doc: Doc{
				Section: row[0], Unit: row[4], Symbol: row[11], Name: row[12], Source: row[13], Definition: row[14],
			},
		})
	}
	return all
})

// Lines are all lines of the table, also those of numbers without a name.
func Lines() []Metric { return slices.Clone(lines()) }

// All returns all metrics, in the order in which reports show them.
func All() []Metric { return slices.DeleteFunc(Lines(), func(m Metric) bool { return m.Name == "" }) }

// By returns the metric with the ID, and false when there is none.
func By(id string) (Metric, bool) {
	all := lines()
	for i := range all { // simulations ask often, and metrics are large
		if m := &all[i]; m.ID == id && m.Name != "" {
			return *m, true
		}
	}
	return Metric{}, false
}

// Must is By of an ID that is written in code: it panics when there is no such metric.
func Must(id string) Metric {
	m, ok := By(id)
	if !ok {
		panic("no metric " + id)
	}
	return m
}
