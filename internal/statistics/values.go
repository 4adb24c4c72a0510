package statistics

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

const maxValues = 1 << 20

// Values are any number of numbers, of which mean and quantiles are wanted: the same ones for any order. Beyond a
// million, they are those of the numbers rounded to 17 significant bits, by less than a part in 100,000: there are few
// different ones of these. The zero value has none.
type Values struct {
	n     int
	x     []float64      // up to maxValues
	times map[uint64]int // of more
}

// Add adds a number.
func (v *Values) Add(x float64) {
	v.n++
	if v.times == nil && v.n <= maxValues {
		v.x = append(v.x, x)
		return
	}
	if v.times == nil {
		v.times = map[uint64]int{}
		for _, y := range v.x {
			v.times[math.Float64bits(rounded(y+0))]++
		}
		v.x = nil
	}
	v.times[math.Float64bits(rounded(x+0))]++
}

// rounded is a number rounded to 17 significant bits.
func rounded(x float64) float64 {
	const rest = 52 - 16
	return math.Float64frombits((math.Float64bits(x) + 1<<(rest-1)) &^ (1<<rest - 1))
}

// Len is how many there are.
func (v *Values) Len() int { return v.n }

// Mean is NaN when there are none.
func (v *Values) Mean() float64 {
	if v.times == nil {
		return stat.Mean(slices.Sorted(slices.Values(v.x)), nil)
	}
	sum := 0.0
	for _, r := range v.runs() {
		sum += r.x * float64(r.n)
	}
	return sum / float64(v.n)
}

// Median is the middle value, the mean of the two middle ones of an even number, NaN when there are none.
func (v *Values) Median() float64 {
	runs := v.runs()
	return (ranked(runs, (v.n+1)/2) + ranked(runs, v.n/2+1)) / 2
}

// Quantile is the smallest number that at least a share q of them do not exceed, NaN when there are none.
func (v *Values) Quantile(q float64) float64 { return ranked(v.runs(), Rank(v.n, q)) }

func ranked(runs []run, rank int) float64 {
	for _, r := range runs {
		if rank -= r.n; rank <= 0 {
			return r.x
		}
	}
	return math.NaN()
}

type run struct {
	x float64
	n int
}

// runs are the numbers with how often each occurs, ascending.
func (v *Values) runs() []run {
	runs := make([]run, 0, max(len(v.x), len(v.times)))
	for _, x := range v.x {
		runs = append(runs, run{x, 1})
	}
	for bits, n := range v.times {
		runs = append(runs, run{math.Float64frombits(bits), n})
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.x, b.x) })
	return runs
}

// Float is a number that may be undefined (NaN): the mean of no numbers, the margin of a promise that does not exist.
// JSON knows no NaN and no infinity; both become null there.
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
