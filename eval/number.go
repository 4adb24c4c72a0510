package eval

import (
	"encoding/json"
	"math"
	"slices"
)

// Float is a number that may be undefined (NaN): the mean of nobody, the
// margin of a promise that does not exist. JSON knows no NaN and no infinity;
// both become null there.
type Float float64

// Defined reports whether x is a finite number.
func (x Float) Defined() bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

// MarshalJSON writes a number, or null when x is not Defined.
func (x Float) MarshalJSON() ([]byte, error) {
	if !x.Defined() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// UnmarshalJSON reads what MarshalJSON wrote; null becomes NaN.
func (x *Float) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*x = Float(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(x))
}

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
	lo, hi := Wilson(num, den, confidence)
	r := Rate{Value: undefined(), Num: num, Den: den, Lo: Float(lo), Hi: Float(hi)}
	if den > 0 {
		r.Value = Float(float64(num) / float64(den))
	}
	return r
}

func sum(xs []float64) float64 {
	var s float64
	for _, x := range xs {
		s += x
	}
	return s
}

// Median returns the middle value, the mean of the two middle ones when there
// is an even number of them, NaN when there is none.
func Median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	h := len(s) / 2
	if len(s)%2 == 1 {
		return s[h]
	}
	return (s[h-1] + s[h]) / 2
}

// Quantile returns the smallest x of xs such that at least a share q of xs is
// <= x (the nearest rank), NaN when xs is empty.
func Quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Clone(xs)
	slices.Sort(s)
	// The slack keeps a product such as 0.99*100 that rounding has put above 99 at rank 99.
	rank := int(math.Ceil(q*float64(len(s)) - 1e-9))
	return s[min(max(rank, 1), len(s))-1]
}
