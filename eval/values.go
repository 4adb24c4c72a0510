package eval

import (
	"encoding/json"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval/metrics"
	"cfq/internal/statistics"
)

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

// MarshalJSON writes what the kind of the value has.
func (v Value) MarshalJSON() ([]byte, error) {
	switch v.Kind {
	case metrics.Share:
		return json.Marshal(v.Rate())
	case metrics.Estimate:
		return json.Marshal(v.Estimate)
	case metrics.Count:
		return json.Marshal(v.N)
	}
	return json.Marshal(v.Value)
}

func readValue(kind metrics.Kind, data []byte) (v Value, err error) {
	switch kind {
	case metrics.Share:
		var x Rate
		err = json.Unmarshal(data, &x)
		return x.AsValue(), err
	case metrics.Estimate:
		err = json.Unmarshal(data, &v.Estimate)
	case metrics.Count:
		err = json.Unmarshal(data, &v.N)
	default:
		v.N = 1
		err = json.Unmarshal(data, &v.Value)
		v.Lo, v.Hi = v.Value, v.Value
	}
	v.Kind = kind
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
