package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cfq/task"
)

// Better says where a metric's good values are.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Zero    Better = "near 0"
	neither Better = "as the original's"
)

// Requirement is what a metric needs of an evaluation in addition to f's promises. What was not asked for has no value.
type Requirement int

// The requirements.
const (
	RequiresNothing      Requirement = iota
	RequiresMirrored                 // g's own recourse, or the first valid iterates: not with Options.OneSided
	RequiresNoise                    // Options.Noise
	RequiresProofs                   // Options.Prove
	RequiresPerturbation             // Options.Perturb
	RequiresFile                     // DataFile
	RequiresTiming                   // Result.Timing, which the caller measures
	RequiresFootprint                // Result.Footprint, likewise
	RequiresBatches                  // Result.Batches, likewise
	RequiresIssued                   // Options.Promises
	RequiresDecoder                  // a model behind a decoder, as Distances of the classifier has it
)

// optional says that the JSON report has no key of the metrics when nobody has what they require.
func (q Requirement) optional() bool {
	return q == RequiresNoise || q == RequiresProofs || q == RequiresPerturbation || q == RequiresDecoder
}

// Metric is one thing that eval measures: its definition, and how it is computed from people.
type Metric struct {
	ID         string // on command lines and in gate files
	Name       string // for readers who do not know the symbols; "" for a number that only the JSON report has
	Symbol     string
	Unit       string
	Better     Better
	Requires   Requirement
	Source     string // section or equation of the paper, or one of the constants below
	Definition string
	Instead    string // ID of what a gate has in its place, where no bound holds for any distribution; or ""
	// Reverse are the IDs of metrics that a limit on this one holds for, too: it counts what goes wrong in one direction
	// alone, and these what does in the other.
	Reverse []string
	computation
}

type computation struct {
	in string // the object of the JSON report that it is in, see Key
	// From people: the statistic of the sample; without one [Result.Repeat] adds the value. Otherwise read takes it out of
	// another part of the result.
	sample    *sample
	statistic statistic
	read      func(r *Result) Value
	pairs     pairedBy // how models are compared by it
	groups    bool     // groups of people are compared by it
}

// Sources of the metrics that the paper does not have.
const (
	OwnMetric      = "this project"
	standardMetric = "standard"
)

// Objects of the JSON report.
const (
	perMargin   = "margins[]."
	inDecisions = "decisions."
)

// Key is the path of the metric in the JSON report; "[]" steps into a list.
func (m *Metric) Key() string { return m.in + m.ID }

// PerMargin says that the metric has a value for each required margin.
func (m *Metric) PerMargin() bool { return m.in == perMargin }

// places are the positions of the margins at which the metric has a value, of n; -1 for one that has no margin.
func (m *Metric) places(n int) []int {
	if !m.PerMargin() {
		return []int{-1}
	}
	return task.AllRows(n)
}

// Kind is how certain a metric's value is.
type Kind int

// The kinds.
const (
	KindShare    Kind = iota // of people: counts, whose bounds are exact
	KindEstimate             // a number with an interval
	KindExact                // nothing was sampled: the value is what it is
	kindCount                // of people
)

// Kind says how certain the metric's values are.
func (m *Metric) Kind() Kind { return m.none().Kind }

func (m *Metric) none() Value {
	switch {
	case m.read != nil:
		return m.read(&Result{})
	case m.statistic.kind == KindShare:
		return NewRate(0, 0, 0.95).AsValue()
	case m.statistic.kind == kindCount:
		return Value{Kind: kindCount}
	}
	return Value{Estimate: unknown(), Kind: m.statistic.kind}
}

// In returns the metric's value in r, for those that are PerMargin at the at-th of its margins. It is undefined where r
// does not have what the metric requires.
func (m *Metric) In(r *Result, at int) Value {
	values := r.Values
	switch {
	case m.read != nil:
		return m.read(r)
	case m.PerMargin() && at < len(r.Margins):
		values = r.Margins[at].Values
	case m.PerMargin():
		values = nil
	}
	if v, ok := values[m.ID]; ok {
		return v
	}
	return m.none()
}

// MetricBy returns the metric with the ID, and false when there is none.
func MetricBy(id string) (Metric, bool) {
	if m := metricRow(id); m != nil && m.Name != "" {
		return *m, true
	}
	return Metric{}, false
}

func metricRow(id string) *Metric {
	all := metricTable()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// MustMetric is MetricBy of an ID that is written in code: it panics when there is no such metric.
func MustMetric(id string) Metric {
	m, ok := MetricBy(id)
	if !ok {
		panic("eval: no metric " + id)
	}
	return m
}

// Metrics returns the table of all metrics, in the order in which reports show them. In its definitions f is the
// full-precision model, g the quantized one, m their logit margin for the favourable class, x a person, and u the point
// where the person's minimal-cost recourse ends.
func Metrics() []Metric {
	return slices.DeleteFunc(slices.Clone(metricTable()), func(m Metric) bool { return m.Name == "" })
}

// metricTable is made once: reports and gates look up every number that they show, and metrics of the same sample
// share it.
//
//nolint:gochecknoglobals // constant
var metricTable = sync.OnceValue(func() (all []Metric) {
	for _, s := range sections() {
		all = append(all, s.Metrics...)
	}
	return all
})

// MetricSection is a part of the table of metrics.
type MetricSection struct {
	Title   string
	Metrics []Metric
}

// MetricSections returns the table of all metrics in sections.
func MetricSections() []MetricSection {
	all := sections()
	for i := range all {
		all[i].Metrics = slices.DeleteFunc(all[i].Metrics, func(m Metric) bool { return m.Name == "" })
	}
	return all
}

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num  int // of a share: Num of N
	Kind Kind
}

// Rate is the value of a share.
func (v Value) Rate() Rate { return Rate{Value: v.Value, Num: v.Num, Den: v.N, Lo: v.Lo, Hi: v.Hi} }

// AsValue is r as the value of a share.
func (r Rate) AsValue() Value {
	return Value{Estimate: Estimate{Value: r.Value, N: r.Den, Lo: r.Lo, Hi: r.Hi}, Num: r.Num, Kind: KindShare}
}

// AsValue is e as the value of a metric.
func (e Estimate) AsValue() Value { return Value{Estimate: e, Kind: KindEstimate} }

func exactValue(x float64) Value {
	return Value{Estimate: exactly(x), Kind: KindExact}
}

// measured is a number that was not sampled; 0 stands for one that is not known.
func measured(x float64) Value {
	if !(x > 0) {
		return Value{Estimate: unknown(), Kind: KindExact}
	}
	return exactValue(x)
}

func exactly(x float64) Estimate { return Estimate{Value: Float(x), N: 1, Lo: Float(x), Hi: Float(x)} }

// MarshalJSON writes what the kind of the value has.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case KindShare:
		return json.Marshal(v.Rate())
	case KindEstimate:
		return json.Marshal(v.Estimate)
	case kindCount:
		return json.Marshal(v.N)
	}
	return json.Marshal(v.Value)
}

func readValue(kind Kind, data []byte) (v Value, err error) {
	switch kind {
	case KindShare:
		var x Rate
		err = json.Unmarshal(data, &x)
		return x.AsValue(), err
	case KindEstimate:
		err = json.Unmarshal(data, &v.Estimate)
	case kindCount:
		err = json.Unmarshal(data, &v.N)
	default:
		v.N = 1
		err = json.Unmarshal(data, &v.Value)
		v.Lo, v.Hi = v.Value, v.Value
	}
	v.Kind = kind
	return v, err
}

// Values are values of metrics by Metric.ID, and of the other numbers of the JSON report by their path there. The
// methods panic when there is no such metric: IDs are written in code.
type Values map[string]Value

// Of is a value, undefined where there is none.
func (x Values) Of(id string) Value {
	if v, ok := x[id]; ok {
		return v
	}
	if m := metricRow(id); m != nil {
		return m.none()
	}
	panic("eval: no metric " + id)
}

// Rate is the value of a share.
func (x Values) Rate(id string) Rate { return x.Of(id).Rate() }

// Estimate is the value of a metric that is not a share.
func (x Values) Estimate(id string) Estimate { return x.Of(id).Estimate }

func (x Values) addTo(fields any, margins bool) ([]byte, error) {
	data, err := json.Marshal(fields)
	if err != nil || len(x) == 0 {
		return data, err
	}
	type object = map[string]any
	tree := object{}
	all := metricTable()
	for i := range all {
		m := &all[i]
		v, ok := x[m.ID]
		if !ok || m.read != nil || m.PerMargin() != margins {
			continue
		}
		at, path := tree, m.path()
		for _, name := range path[:len(path)-1] {
			if at[name] == nil {
				at[name] = object{}
			}
			at = at[name].(object)
		}
		at[path[len(path)-1]] = v
	}
	if len(tree) == 0 {
		return data, nil
	}
	values, err := json.Marshal(tree)
	return append(append(data[:len(data)-1], ','), values[1:]...), err
}

func (m *Metric) path() []string { return strings.Split(strings.TrimPrefix(m.Key(), perMargin), ".") }

func readValues(data []byte, margins bool) (Values, error) {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	values := Values{}
	all := metricTable()
	for i := range all {
		m := &all[i]
		if m.read != nil || m.PerMargin() != margins {
			continue
		}
		at := tree
		for _, name := range m.path() {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if at == nil {
			continue
		}
		v, err := json.Marshal(at)
		if err == nil {
			values[m.ID], err = readValue(m.Kind(), v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Key(), err)
		}
	}
	return values, nil
}
