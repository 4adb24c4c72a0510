package eval

import (
	"encoding/json"
	"fmt"

	"cfq/eval/metrics"
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
