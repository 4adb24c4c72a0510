package statistics

import (
	"cmp"
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
			v.times[math.Float64bits(Rounded(y+0))]++
		}
		v.x = nil
	}
	v.times[math.Float64bits(Rounded(x+0))]++
}

// Rounded is a number rounded to 17 significant bits: of many numbers there are few different ones then.
func Rounded(x float64) float64 {
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

// Median is as that of a slice.
func (v *Values) Median() float64 {
	if v.times == nil {
		return Median(v.x)
	}
	low, high := v.ranked((v.n+1)/2), v.ranked(v.n/2+1)
	return low + (high-low)/2
}

// Quantile is as that of a slice.
func (v *Values) Quantile(q float64) float64 {
	if v.times == nil {
		return Quantile(v.x, q)
	}
	return v.ranked(Rank(v.n, q))
}

func (v *Values) ranked(rank int) float64 {
	for _, r := range v.runs() {
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

func (v *Values) runs() []run {
	runs := make([]run, 0, len(v.times))
	for bits, n := range v.times {
		runs = append(runs, run{math.Float64frombits(bits), n})
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.x, b.x) })
	return runs
}
