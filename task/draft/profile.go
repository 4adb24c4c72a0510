package draft

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"cfq/task"
)

// profile is what the fields of a column say.
type profile struct {
	name    string
	col     *column
	markers []string // fields that mean "not known", without the empty one
	missing int      // rows whose field is missing
	texts   []string // distinct fields that are not missing, in order of appearance
	counts  []int    // rows per text
	numeric bool
	strange []string  // fields of a numeric column that are no numbers
	whole   bool      // all numbers are whole
	points  []float64 // distinct numbers, ascending
	weights []float64 // rows per number
	rows    float64   // rows with a number
}

// anywhere are fields that mean "not known" in any column, inNumbers those that do so among numbers only.
func anywhere() []string {
	return []string{"", "?", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "NAN", "NULL", "null", "Null"}
}

func inNumbers() []string {
	return []string{"-", "--", ".", "none", "None", "NONE", "unknown", "Unknown", "UNKNOWN", "missing", "Missing", "n.a.", "not available", "inf", "-inf"}
}

// look profiles a column. A column is numeric when all its fields but missing ones and few others are numbers.
func look(c *column) *profile {
	p := &profile{name: c.name, col: c, whole: true}
	numbers, others := 0, 0
	for i, s := range c.values {
		if _, ok := task.Number(s); ok {
			numbers += c.counts[i]
		} else if !slices.Contains(anywhere(), s) && !slices.Contains(inNumbers(), s) {
			others += c.counts[i]
		}
	}
	p.numeric = numbers > 0 && others*20 <= numbers
	byValue, first := map[float64]float64{}, map[float64]int{}
	for i, s := range c.values {
		v, ok := task.Number(s)
		switch {
		case p.numeric && ok:
			byValue[v] += float64(c.counts[i])
			p.whole = p.whole && v == math.Trunc(v)
		case slices.Contains(anywhere(), s) || (p.numeric && slices.Contains(inNumbers(), s)):
			p.missing += c.counts[i]
			if s != "" {
				p.markers = append(p.markers, s)
			}
			continue
		case p.numeric:
			p.strange = append(p.strange, s)
			continue
		}
		if j, again := first[v]; ok && again { // 1 and 1.0 are the same value
			p.counts[j] += c.counts[i]
			continue
		}
		if ok {
			first[v] = len(p.texts)
		}
		p.texts, p.counts = append(p.texts, s), append(p.counts, c.counts[i])
	}
	p.tally(byValue)
	return p
}

// tally takes the rows of each number.
func (p *profile) tally(byValue map[float64]float64) {
	p.points = slices.Sorted(maps.Keys(byValue))
	for _, v := range p.points {
		p.weights = append(p.weights, byValue[v])
		p.rows += byValue[v]
	}
}

// moments returns the mean and the standard deviation of the population, as scikit-learn's StandardScaler has them.
func (p *profile) moments() (mean, std float64) {
	mean, variance := stat.PopMeanVariance(p.points, p.weights)
	return mean, math.Sqrt(variance)
}

// quantile returns the value at rank ceil(q n) of the sorted values; the least one for q = 0.
func (p *profile) quantile(q float64) float64 {
	return stat.Quantile(q, stat.Empirical, p.points, p.weights)
}

// ranks is the number of quantiles that are written.
const ranks = 21

// quantiles returns the values at equally spaced ranks from the least to the greatest.
func (p *profile) quantiles() []float64 {
	out := make([]float64, ranks)
	for i := range out {
		out[i] = p.quantile(float64(i) / (ranks - 1))
	}
	return out
}

// mad returns the median of the absolute deviations from the median.
func (p *profile) mad() float64 {
	middle := p.quantile(0.5)
	type deviation struct{ size, weight float64 }
	all := make([]deviation, len(p.points))
	for i, v := range p.points {
		all[i] = deviation{math.Abs(v - middle), p.weights[i]}
	}
	slices.SortFunc(all, func(a, b deviation) int { return cmp.Compare(a.size, b.size) })
	at := 0.0
	for _, d := range all {
		if at += d.weight; 2*at >= p.rows {
			return d.size
		}
	}
	return 0
}

// step returns the largest step whose whole multiples are all differences between values: 1 or more for whole numbers, a decimal such as 0.5 or 0.01
// otherwise, 0 when the values have more places than people would give.
func (p *profile) step() float64 {
	const places = 3
	for k := range places + 1 {
		scale := math.Pow(10, float64(k))
		var common int64
		if fits := p.lattice(scale, &common); fits {
			if common == 0 || len(p.points) < 5 { // few values say little about the steps between them
				common = 1
			}
			return short(float64(common) / scale)
		}
	}
	return 0
}

// lattice says whether all values times scale are whole, and finds the greatest common divisor of their differences.
func (p *profile) lattice(scale float64, common *int64) bool {
	first := int64(math.Round(p.points[0] * scale))
	for _, v := range p.points {
		w := math.Round(v * scale)
		if math.Abs(w) > 1<<52 || math.Abs(v*scale-w) > 1e-6 {
			return false
		}
		a, b := *common, int64(w)-first
		for b != 0 {
			a, b = b, a%b
		}
		*common = max(a, -a)
	}
	return true
}

// bounds returns the 1st and 99th percentile, or the whole range when these are the same.
func (p *profile) bounds() (lo, hi float64, whole bool) {
	lo, hi = p.quantile(0.01), p.quantile(0.99)
	if lo == hi {
		return p.points[0], p.points[len(p.points)-1], true
	}
	return lo, hi, false
}

// sorted returns the texts in alphabetical order, or the distinct numbers.
func (p *profile) sorted() []string {
	if p.numeric {
		return decimals(p.points)
	}
	out := slices.Clone(p.texts)
	slices.SortFunc(out, func(a, b string) int {
		x, okX := task.Number(a)
		y, okY := task.Number(b)
		if okX && okY && x != y {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a, b)
	})
	return out
}

// share returns the share of a field among all rows.
func (p *profile) share(v string) float64 {
	n := 0
	for i, s := range p.col.values {
		if s == v || sameNumber(s, v) {
			n += p.col.counts[i]
		}
	}
	return task.Rounded(float64(n)/float64(max(p.col.rows, 1)), 6)
}

func sameNumber(a, b string) bool {
	x, okX := task.Number(a)
	y, okY := task.Number(b)
	return okX && okY && x == y
}

// digits of numbers that are written: more than a model input has.
const digits = 8

// short rounds v to the digits that are written.
func short(v float64) float64 { return task.Rounded(v, digits) }
