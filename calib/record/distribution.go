package record

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"cfq/task"
)

// Distribution is how a feature is distributed among the people of the calibration data.
type Distribution struct {
	Feature string `json:"feature"`
	// Cuts divide a number into bins, ascending and in raw units: they lie between two values that people have, near the
	// deciles.
	Cuts   []float64 `json:"cuts,omitempty"`
	Values []string  `json:"values,omitempty"` // of a category: each is a bin
	// Counts are the people of each bin, then those whose value is missing, then those with another value than Values.
	Counts []int `json:"counts"`
}

// deciles is how many bins a number has, at most.
const deciles = 10

// Distributions are those of a task's features among people; of several rows with one ID, the first counts.
func Distributions(t *task.Task, people *task.People) []Distribution {
	p := eachOnce(people)
	all := make([]Distribution, len(t.Features))
	for i := range t.Features {
		f := &t.Features[i]
		all[i].Feature = f.Name
		if f.Kind.IsNumber() {
			all[i].Cuts = cuts(f, p)
		} else {
			all[i].Values = slices.Clone(f.Groups(p.Subset(nil)).Values)
		}
		all[i].Counts = all[i].count(f, p)
	}
	return all
}

// Pair is how a feature is distributed among the people of the calibration data and among others, in the same bins.
type Pair struct {
	Feature    string
	Calibrated []int
	Read       []int // nil when the record does not have the feature
}

// Pairs compares people with those of the calibration data, feature by feature of the task; of several rows with one
// ID, the first counts. It is an error when the record says nothing about that.
func (r *Rows) Pairs(t *task.Task, people *task.People) ([]Pair, error) {
	if len(r.Distributions) == 0 {
		return nil, errors.New("the record of calibration rows was written by an earlier version of cfq, without " +
			"distributions: quantize the model again")
	}
	p := eachOnce(people)
	all := make([]Pair, len(t.Features))
	for i := range t.Features {
		f := &t.Features[i]
		all[i].Feature = f.Name
		at := slices.IndexFunc(r.Distributions, func(d Distribution) bool { return d.Feature == f.Name })
		if at >= 0 && (r.Distributions[at].Values == nil) == f.Kind.IsNumber() {
			d := &r.Distributions[at]
			all[i].Calibrated, all[i].Read = d.Counts, d.count(f, p)
		}
	}
	return all, nil
}

// eachOnce are the people, the first row of each ID.
func eachOnce(p *task.People) *task.People {
	if p.IDs == nil {
		return p
	}
	var first []int
	seen := map[string]bool{}
	for i, id := range p.IDs {
		if !seen[id] {
			first = append(first, i)
		}
		seen[id] = true
	}
	return p.Subset(first)
}

// count counts the people of each bin.
func (d *Distribution) count(f *task.Feature, p *task.People) []int {
	if f.Kind.IsNumber() {
		counts := make([]int, len(d.Cuts)+3)
		for i := range p.N {
			x := p.X[i*p.Dim+f.Offset]
			at := len(d.Cuts) + 1
			if !f.IsMissing(x) {
				at = sort.SearchFloat64s(d.Cuts, f.FromInput(x))
			}
			counts[at]++
		}
		return counts
	}
	missing, other := len(d.Values), len(d.Values)+1
	counts, groups := make([]int, other+1), f.Groups(p)
	bins := make([]int, len(groups.Values)) // of the task's values
	for k, v := range groups.Values {
		if bins[k] = task.Find(d.Values, v); bins[k] < 0 {
			bins[k] = other
		}
	}
	for _, code := range groups.Codes {
		if code < 0 {
			counts[missing]++
		} else {
			counts[bins[code]]++
		}
	}
	return counts
}

// cuts divide a number at its deciles; where many people have one value, beside it. A number that is the same for
// everybody has a bin of its own.
func cuts(f *task.Feature, p *task.People) (all []float64) {
	var values []float32 // as the model gets them: raw ones take long to find
	for i := range p.N {
		if x := p.X[i*p.Dim+f.Offset]; !f.IsMissing(x) {
			values = append(values, x)
		}
	}
	slices.Sort(values)
	n := len(values)
	if n > 0 && values[0] == values[n-1] {
		const beside = 1e-6
		raw := f.Raw(values[0])
		by := beside * max(1, math.Abs(raw))
		return []float64{raw - by, raw + by}
	}
	for k := 1; k < deciles; k++ {
		at := k * n / deciles
		if at == 0 {
			continue
		}
		last := values[at-1]
		from, _ := slices.BinarySearch(values, last) // the people from here to upTo have the same value
		upTo := from + sort.Search(n-from, func(i int) bool { return values[from+i] > last })
		if upTo == n || from > 0 && at-from < upTo-at {
			upTo = from
		}
		if x := between(f.Raw(values[upTo-1]), f.Raw(values[upTo])); len(all) == 0 || x > all[len(all)-1] {
			all = append(all, x)
		}
	}
	return all
}

// between is a number with few digits between two: no person's own value.
func between(lo, hi float64) float64 {
	mid := lo + (hi-lo)/2
	for digits := 1; digits < 17; digits++ {
		if x := task.Rounded(mid, digits); lo < x && x < hi {
			return x
		}
	}
	return mid
}

// check says why the distribution cannot be one.
func (d *Distribution) check() error {
	bins := len(d.Cuts) + 3
	if d.Values != nil {
		bins = len(d.Values) + 2
	}
	switch {
	case d.Cuts != nil && d.Values != nil, len(d.Counts) != bins:
		return fmt.Errorf("%d counts of %.40q: want %d", len(d.Counts), d.Feature, bins)
	case !slices.IsSorted(d.Cuts):
		return fmt.Errorf("the cuts of %.40q are not in order", d.Feature)
	case slices.ContainsFunc(d.Counts, func(n int) bool { return n < 0 }):
		return fmt.Errorf("a count of %.40q is below 0", d.Feature)
	}
	return nil
}
