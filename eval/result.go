package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval/metrics"
	"cfq/internal/statistics"
)

// Issued counts the promises of Options.Promises.
type Issued struct {
	Promises  int `json:"promises"`  // to people who are evaluated
	Unsampled int `json:"unsampled"` // to people who are not in the sample
	// Unjudgeable are those of all promises that belong to nobody, see Options.Unmatched.
	Unjudgeable Tally `json:"unjudgeable"`
	Invalid     Tally `json:"invalid"`    // of Promises: f refuses the point, so they are promises at no margin
	Infeasible  Tally `json:"infeasible"` // of Promises: the task does not allow the action; they count in VD all the same
	Approved    Tally `json:"approved"`   // of those to people whom f approves as they are, at no margin: g breaks them
	Needless    Tally `json:"needless"`   // of Promises: f approves the person as they are by as much
}

// Result is what Compare measured: everything in it is a function of Records, Settings and the DataFile, but what the
// caller adds.
type Result struct {
	Settings   Settings   `json:"settings"`
	Population Population `json:"population"`
	Values     `json:"-"` // of the metrics that have no margin, which JSON has under their keys
	Margins    []AtMargin `json:"margins"` // ascending required margin
	Tau01      Tau        `json:"tau01"`
	RTau01     Tau        `json:"rtau01"`
	Issued     *Issued    `json:"issued,omitempty"` // counts of Options.Promises; nil when the solver made f's promises
	Added
	Warnings []string `json:"warnings"` // why a number may not mean what it seems to; never nil
	Records  *Records `json:"-"`        // what it was made of; nil when that was not kept
}

// Added is what the caller adds to a Result: measures of the models' files, and the metrics of some of the people or
// under other rules.
type Added struct {
	Footprint *Footprint `json:"footprint,omitempty"` // nil unless the caller measured the files
	// nil unless the caller took the time: all else is the same on every run
	Timing    *Timing    `json:"timing,omitempty"`
	Batches   *Batches   `json:"batches,omitempty"`   // of Rerun; nil unless the caller ran it
	Groups    []Grouping `json:"groups,omitempty"`    // the same metrics by groups of people, see Groups
	Scenarios []Scenario `json:"scenarios,omitempty"` // the same metrics under other conditions, see Stress
	// the same metrics with other rules of who counts, see Result.Alternatives
	SensitivityToCopies []Scenario `json:"others,omitempty"`
}

// Close frees the records of r and of its scenarios, which may be in temporary files. The numbers stay.
func (r *Result) Close() error {
	if r == nil {
		return nil
	}
	err := r.Records.Close()
	r.Records = nil
	for i := range r.Scenarios {
		err = errors.Join(err, r.Scenarios[i].Result.Close())
	}
	return err
}

type resultFields Result

// MarshalJSON writes every value under the key of its metric.
func (r *Result) MarshalJSON() ([]byte, error) { return r.Values.addTo((*resultFields)(r)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Result) UnmarshalJSON(data []byte) (err error) {
	if err := json.Unmarshal(data, (*resultFields)(r)); err != nil {
		return err
	}
	r.Values, err = readValues(data, false)
	return err
}

// AtMargin holds the values of the metrics that depend on the required margin.
type AtMargin struct {
	Margin float64 `json:"margin"`
	Values `json:"-"`
	// Steps are the distribution functions of the margins of f and of g at the recourse points of f, ascending, of no
	// more margins than a page can show.
	Steps [2][]spreadStep `json:"-"`
}

type marginFields AtMargin

// MarshalJSON writes every value under the key of its metric.
func (a AtMargin) MarshalJSON() ([]byte, error) { return a.Values.addTo(marginFields(a)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *AtMargin) UnmarshalJSON(data []byte) (err error) {
	if err := json.Unmarshal(data, (*marginFields)(a)); err != nil {
		return err
	}
	a.Values, err = readValues(data, true)
	return err
}

// Settings are the options that a Result was made with, defaults filled in.
type Settings struct {
	Margins    []float64 `json:"margins"`
	Sample     int       `json:"sample"` // 0 = everyone refused
	Seed       uint64    `json:"seed"`
	Confidence float64   `json:"confidence"`
	Epsilon    float64   `json:"epsilon"`                   // of CRG, DirSim and ActOverlap
	SupportTau float64   `json:"support_tau"`               // of ActOverlap, in model-input units
	Issued     bool      `json:"issued_promises,omitempty"` // f's promises are Options.Promises
	// g's own recourse was not computed, so nothing mirrored is known
	OneSided bool    `json:"one_sided,omitempty"`
	Radius   float64 `json:"radius,omitempty"` // of the logit perturbation, in model-input units
	// of transfer certificates: changes cost up to so many times the cheapest one
	Factor  float64 `json:"transfer_factor,omitempty"`
	NoProof string  `json:"no_proof,omitempty"` // why there are none, though they were asked for
	Solver  Solver  `json:"solver"`
}

// Solver is what the solver was asked for; 0 stands for its default.
type Solver struct {
	Restarts int    `json:"restarts"`
	Rounds   int    `json:"rounds"`
	Beam     int    `json:"beam"`
	Seed     uint64 `json:"seed"`
}

// DataFile counts rows of the file that people were read from. The zero value stands for: no more than the people.
type DataFile struct {
	Rows       int `json:"rows"`                         // data rows of the file
	Unreadable int `json:"unreadable"`                   // rows that could not be read
	LeftOut    int `json:"left_out"`                     // rows left out by the task's filter or by the choice of rows
	Filtered   int `json:"filtered,omitempty"`           // of them, by the filter
	Unmatched  int `json:"unmatched_promises,omitempty"` // issued promises that belong to none of the people
}

// Population says who was looked at and who was evaluated.
type Population struct {
	DataFile
	Read       int `json:"read"`        // people
	People     int `json:"people"`      // Read, or by how many IDs they go
	Labelled   int `json:"labelled"`    // people with a known outcome
	Favoured   int `json:"favoured"`    // people f approves: nothing to promise
	Refused    int `json:"refused"`     // people f refuses: the evaluated population
	Evaluated  int `json:"evaluated"`   // Refused and those with a promise of Options.Promises, or a sample of them
	BothRefuse int `json:"both_refuse"` // evaluated people that g refuses too: they can get a promise of g

	UnreadableRows Tally `json:"unreadable_rows"` // of the rows that were not left out
	UnlabelledRows Tally `json:"unlabelled_rows"` // of Read
	// UnlikeRows have an input beyond the calibration rows; of none when these are not known. The caller adds it.
	UnlikeRows Tally `json:"unlike_rows"`
	// Encoding is whether people are known to be encoded as the model was trained, see draft.Evidence; "" when nobody
	// asked. The caller adds it.
	Encoding string `json:"encoding,omitempty"`
}

// spreadStep is a margin, and how many people have it or less.
type spreadStep struct {
	Margin float64
	UpTo   int
}

// Headline returns the index of the margin that stands for the curve: 0.1, or
// else the smallest positive one, or else the last.
func (r *Result) Headline() int { return r.Settings.Headline() }

// Headline is that of a Result.
func (s *Settings) Headline() int {
	best := len(s.Margins) - 1
	for i := len(s.Margins) - 1; i >= 0; i-- {
		switch m := s.Margins[i]; {
		case m == HeadlineMargin:
			return i
		case m > 0:
			best = i
		}
	}
	return best
}

// Footprint is the size of a quantized model, and of the full-precision one.
type Footprint struct {
	Full  Weight `json:"full"`
	Quant Weight `json:"quant"`
	// Saturating counts layers of the quantized model that multiply integers with 8-bit weights beyond 64: x64 processors
	// without VNNI cut their sums off, and compute other numbers than the rest.
	Saturating int `json:"saturating_layers,omitempty"`
}

// Weight is the size of a model file and of the work of one decision; 0 is a number that is not known.
type Weight struct {
	Bytes int64 `json:"bytes"` // of the file, external data included
	// StoredBits are the stored bits per weight, with all that the weights need; 32 in float.
	StoredBits float64 `json:"stored_bits_per_weight"`
	// bit operations of one row: multiplications times bits of weight times bits of activation
	BOPs float64 `json:"bops"`
}

// Timing is how fast ONNX Runtime runs the two models on this machine.
type Timing struct {
	Threads int  `json:"threads"`
	One     Pace `json:"batch_1"`   // one row at a time
	Many    Pace `json:"batch_256"` // 256 rows at a time
}

// Pace is the median time of one run, in seconds, over many runs of the two models in turn.
type Pace struct {
	Full       Estimate `json:"full"`
	Quant      Estimate `json:"quant"`
	Throughput Estimate `json:"throughput"` // rows per second of the quantized model in such runs
}

// Set sums up the times of runs of that many rows.
func (p *Pace) Set(rows int, full, quant []float64, confidence float64) {
	median := func(times []float64) Estimate { return rank(slices.Clone(times)).quantile(0.5, confidence).Estimate }
	p.Full, p.Quant = median(full), median(quant)
	n := Float(rows)
	p.Throughput = Estimate{Value: n / p.Quant.Value, N: p.Quant.N, Lo: n / p.Quant.Hi, Hi: n / max(0, p.Quant.Lo)}
}

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num  int // of a share: Num of N
	Kind metrics.Kind
}

// Rate is the value of a share.
func (v Value) Rate() Rate { return Rate{Value: v.Value, Num: v.Num, Den: v.N, Lo: v.Lo, Hi: v.Hi} }

// AsValue is r as the value of a share.
func (r Rate) AsValue() Value {
	return Value{Estimate: Estimate{Value: r.Value, N: r.Den, Lo: r.Lo, Hi: r.Hi}, Num: r.Num, Kind: metrics.Share}
}

// AsValue is e as the value of a metric.
func (e Estimate) AsValue() Value { return Value{Estimate: e, Kind: metrics.Estimate} }

func exactValue(x float64) Value { return Value{Estimate: exactly(x), Kind: metrics.Exact} }

// measured is a number that was not sampled; 0 stands for one that is not known.
func measured(x float64) Value {
	if !(x > 0) {
		return noValue(metrics.Exact)
	}
	return exactValue(x)
}

func exactly(x float64) Estimate { return Estimate{Value: Float(x), N: 1, Lo: Float(x), Hi: Float(x)} }

func noValue(kind metrics.Kind) Value {
	switch kind {
	case metrics.Share:
		return NewRate(0, 0, 0.95).AsValue()
	case metrics.Count:
		return Value{Kind: kind}
	}
	return Value{Estimate: unknown().Estimate, Kind: kind}
}

// form is what JSON has of a value that is no share.
func (v *Value) form() any {
	switch v.Kind {
	case metrics.Estimate:
		return &v.Estimate
	case metrics.Count:
		return &v.N
	}
	return &v.Value
}

// MarshalJSON writes what the kind of the value has.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Kind == metrics.Share {
		return json.Marshal(v.Rate())
	}
	return json.Marshal(v.form())
}

func readValue(kind metrics.Kind, data []byte) (v Value, err error) {
	if v.Kind = kind; kind == metrics.Share {
		var x Rate
		err = json.Unmarshal(data, &x)
		return x.AsValue(), err
	}
	if err = json.Unmarshal(data, v.form()); kind == metrics.Exact {
		v.N, v.Lo, v.Hi = 1, v.Value, v.Value
	}
	return v, err
}

// Metric returns the metric's value, for those that are PerMargin at the at-th of the margins. It is undefined where
// the result does not have what the metric requires.
func (r *Result) Metric(m *metrics.Metric, at int) Value {
	c := computedBy(m.ID)
	switch {
	case c == nil:
		return noValue(m.Kind)
	case c.read != nil:
		return c.read(r)
	case !m.PerMargin():
		return r.Values.Of(m.ID)
	case at < len(r.Margins):
		return r.Margins[at].Of(m.ID)
	}
	return noValue(m.Kind)
}

// Values are values of metrics by their IDs, and of the other numbers of the JSON report by their path there. The
// methods panic when there is no such metric: IDs are written in code.
type Values map[string]Value

// Of is a value, undefined where there is none.
func (x Values) Of(id string) Value {
	if v, ok := x[id]; ok {
		return v
	}
	if c := computedBy(id); c != nil {
		return noValue(c.Kind)
	}
	panic("eval: no metric " + id)
}

// Rate is the value of a share.
func (x Values) Rate(id string) Rate { return x.Of(id).Rate() }

// Estimate is the value of a metric that is not a share.
func (x Values) Estimate(id string) Estimate { return x.Of(id).Estimate }

// addTo adds the values to the JSON object of the fields, each under the key of its metric.
func (x Values) addTo(fields any) ([]byte, error) {
	data, err := json.Marshal(fields)
	if err != nil || len(x) == 0 {
		return data, err
	}
	type object = map[string]any
	tree := object{}
	for id, v := range x {
		c := computedBy(id)
		if c == nil || c.read != nil {
			continue
		}
		at, path := tree, c.Path()
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

func readValues(data []byte, margins bool) (Values, error) {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	values := Values{}
	for _, c := range computedMetrics() {
		if c.read != nil || c.PerMargin() != margins {
			continue
		}
		at := tree
		for _, name := range c.Path() {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if at == nil {
			continue
		}
		v, err := json.Marshal(at)
		if err == nil {
			values[c.ID], err = readValue(c.Kind, v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Key(), err)
		}
	}
	return values, nil
}

// Float is a number that may be undefined.
type Float = statistics.Float

func undefined() Float { return Float(math.NaN()) }

// Rate is a proportion with the counts it is made of and its Wilson interval.
// A rate of nothing (Den 0) has an undefined Value and the interval [0, 1].
type Rate struct {
	Value Float `json:"value"`
	Num   int   `json:"num"`
	Den   int   `json:"den"`
	Lo    Float `json:"lo"`
	Hi    Float `json:"hi"`
}

// NewRate makes the rate num/den with an interval of the confidence.
func NewRate(num, den int, confidence float64) Rate {
	lo, hi := statistics.Wilson(num, den, confidence)
	r := Rate{Value: undefined(), Num: num, Den: den, Lo: Float(lo), Hi: Float(hi)}
	if den > 0 {
		r.Value = Float(float64(num) / float64(den))
	}
	return r
}

// Tally is a share of things that were all counted. Nothing was sampled, so it has no interval; that of nothing is 0.
type Tally struct {
	Value Float `json:"value"`
	Num   int   `json:"num"`
	Den   int   `json:"den"`
}

// NewTally makes the share num of den.
func NewTally(num, den int) Tally {
	return Tally{Value: Float(float64(num) / float64(max(den, 1))), Num: num, Den: den}
}

func (t Tally) value() Value {
	v := noValue(metrics.Exact)
	if v.Num = t.Num; t.Den > 0 {
		v.Estimate = Estimate{Value: t.Value, N: t.Den, Lo: t.Value, Hi: t.Value}
	}
	return v
}

// Estimate is a number computed from N people, with an interval at the two-sided confidence of Settings in which the
// population's lies. An end that these people cannot tell is infinite (null in JSON); Value is undefined when N is 0.
type Estimate struct {
	Value Float `json:"value"`
	N     int   `json:"n"`
	Lo    Float `json:"lo"`
	Hi    Float `json:"hi"`
}

func unknown() Value {
	return Estimate{Value: undefined(), Lo: Float(math.Inf(-1)), Hi: Float(math.Inf(1))}.AsValue()
}

func dropOf(b, c, n int, confidence float64) Value {
	e := unknown()
	if e.N = n; n == 0 {
		return e
	}
	e.Value = Float(float64(b-c) / float64(n))
	each := (3 + confidence) / 4 // four bounds, of which two make an end
	e.Lo = Float(statistics.ClopperPearsonLower(b, n, each) - statistics.ClopperPearsonUpper(c, n, each))
	e.Hi = Float(statistics.ClopperPearsonUpper(b, n, each) - statistics.ClopperPearsonLower(c, n, each))
	return e
}

// meanOfShares estimates the mean of two shares k/n of different people. Undefined when one of them has nobody.
//
// References: Zou and Donner (2008), Construction of Confidence Limits about Effect Measures (MOVER).
func meanOfShares(k, n [2]int, confidence float64) Value {
	e := unknown()
	if e.N = n[0] + n[1]; n[0] == 0 || n[1] == 0 {
		return e
	}
	var value, below, above float64
	for i := range n {
		x, side := float64(k[i])/float64(n[i]), (1+confidence)/2
		value += x / 2
		below += math.Pow(x-statistics.ClopperPearsonLower(k[i], n[i], side), 2)
		above += math.Pow(statistics.ClopperPearsonUpper(k[i], n[i], side)-x, 2)
	}
	e.Value, e.Lo, e.Hi = Float(value), Float(value-math.Sqrt(below)/2), Float(value+math.Sqrt(above)/2)
	return e
}

// aucOf estimates the probability that one of good is larger than one of bad, ties counting one half.
//
// References: DeLong, DeLong and Clarke-Pearson (1988), Comparing the Areas under Two or More Correlated Receiver
// Operating Characteristic Curves.
func aucOf(good, bad ranked, confidence float64) Value {
	e := unknown()
	if len(good) == 0 || len(bad) == 0 {
		return e
	}
	auc, spread := placements(good, bad)
	e.Value, e.N = Float(auc), len(good)+len(bad)
	if len(good) > 1 && len(bad) > 1 {
		_, others := placements(bad, good)
		se := math.Sqrt(spread/float64(len(good)) + others/float64(len(bad)))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		e.Lo, e.Hi = Float(max(0, auc-z*se)), Float(min(1, auc+z*se))
	}
	return e
}

// placements are, for each of xs, the share of ys that is smaller, equal numbers counting one half: their mean and
// variance.
func placements(xs, ys ranked) (mean, variance float64) {
	var m moments
	below, upTo := 0, 0 // of ys, those below x and up to it
	for _, x := range xs {
		for below < len(ys) && ys[below] < x {
			below++
		}
		for upTo < len(ys) && ys[upTo] <= x {
			upTo++
		}
		m.add(float64(below+upTo) / 2 / float64(len(ys)))
	}
	return m.value(), m.variance()
}
