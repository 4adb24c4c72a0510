package draft

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"cfq/task"
)

const mostCodes = 5

// codes returns the numbers of a column that look like codes for "not known" instead of values, ascending: numbers that
// people take for that, see isCode, which lie apart from all others at an end of the column.
func (p *profile) codes() []float64 {
	low := p.codesAt(true)
	high := p.without(low).codesAt(false)
	return append(p.without(high).codesAt(true), high...)
}

// isCode says whether people take v for "not known": -1 to -9; two nines or more, of which the last may be 5 to 8;
// sevens or eights; the largest whole numbers of 16 and 32 bits.
func isCode(v float64) bool {
	a := math.Abs(v)
	switch {
	case a != math.Trunc(a) || a >= 1e15:
		return false
	case a < 10:
		return v < 0
	}
	s := strconv.FormatFloat(a, 'f', 0, 64)
	last := len(s) - 1
	return strings.Trim(s[:last], "9") == "" && s[last] >= '5' ||
		strings.Trim(s, "8") == "" || strings.Trim(s, "7") == "" ||
		slices.Contains([]float64{math.MaxInt16, math.MaxUint16, math.MaxInt32, math.MaxUint32}, a)
}

func (p *profile) without(numbers []float64) *profile {
	q := *p
	q.points, q.weights, q.whole = nil, nil, true
	for i, v := range p.points {
		if !slices.Contains(numbers, v) {
			q.points, q.weights = append(q.points, v), append(q.weights, p.weights[i])
			q.whole = q.whole && v == math.Trunc(v)
		}
	}
	return &q
}

func (p *profile) rowsOf(numbers []float64) int {
	n := 0.0
	for i, v := range p.points {
		if slices.Contains(numbers, v) {
			n += p.weights[i]
		}
	}
	return int(n)
}

// codesAt finds codes at one end of the column: at most mostCodes, apart from the other numbers.
func (p *profile) codesAt(below bool) []float64 {
	points, weights := slices.Clone(p.points), slices.Clone(p.weights)
	if !below {
		slices.Reverse(points)
		slices.Reverse(weights)
	}
	number := func(v float64) bool { return !isCode(v) || v < 0 != below }
	for k := min(mostCodes, len(points)-2); k > 0; k-- {
		codes := points[:k]
		if !slices.ContainsFunc(codes, number) && p.areCodes(codes, points[k:], floats.Sum(weights[:k]), weights[k:]) {
			slices.Sort(codes)
			return codes
		}
	}
	return nil
}

// areCodes says whether codes at an end of a column, in so many rows, are apart from the others, the nearest of which
// comes first: in three rows or more each, and farther away than the nearest of these are from each other, by a
// multiple, or if they are more frequent, or if numbers as frequent as on both sides would fill the gap with seven rows
// or more. Below counts, of which zero is the most frequent, there need not be a gap.
func (p *profile) areCodes(codes, others []float64, coded float64, weights []float64) bool {
	near := min(5, len(others))
	gap, span, widest := math.Abs(others[0]-codes[len(codes)-1]), math.Abs(others[len(others)-1]-others[0]), 0.0
	for i := 1; i < near; i++ {
		widest = max(widest, math.Abs(others[i]-others[i-1]))
	}
	each := coded / float64(len(codes))
	frequent := each >= 3*slices.Max(weights[:near])
	switch {
	case each < 3:
		return false
	case codes[0] > 0: // prices that end in 9 are none
		other := func(v float64) bool { return math.Mod(codes[0]-v, 5) != 0 }
		return len(others) >= 3 && slices.ContainsFunc(others, other) &&
			(gap >= 3*span || frequent && gap >= max(span/20, 2*widest))
	case others[0] < 0:
		return gap >= span && codes[len(codes)-1] <= -77
	case gap >= 3*widest || frequent && (gap > widest || gap == widest && others[0] == 0) || (gap/widest-1)*min(each, slices.Min(weights[:near])) >= 7:
		return true
	}
	return p.whole && others[0] == 0 && len(others) >= 8*len(codes) && slices.Max(weights) == weights[0] &&
		coded >= max(10, (coded+floats.Sum(weights))/200)
}

func numbers(v []float64) string {
	all := decimals(v)
	if n := len(all) - 1; n > 0 {
		return strings.Join(all[:n], ", ") + " or " + all[n]
	}
	return all[0]
}

func (c *checker) codes(f *task.Feature, n *task.Standardized, p *profile, col *Column) *profile {
	if n.Missing != nil {
		col.Missing += p.rowsOf(n.Missing)
		return p.without(n.Missing)
	}
	codes := p.codes()
	if codes == nil || !f.Mutable {
		return p
	}
	rows, values := p.rowsOf(codes), p.without(codes)
	c.find(Warning, f.Name, rows, "codes", facts{
		"codes": codes, "share": c.share(rows), "values": values.points,
		"last": len(values.points) - 1,
	})
	return values
}

// reach warns of numbers that an action may choose and no row has: beyond 0, beyond the data by half of their range,
// between whole numbers, and of an ordinal feature each.
func (c *checker) reach(f *task.Feature, n *task.Standardized, p *profile) {
	if !f.Actionable || len(p.points) < 2 || n.Missing == nil && p.codes() != nil {
		return
	}
	lo, hi := p.points[0], p.points[len(p.points)-1]
	if n.Levels != nil {
		c.unseen(f, p, n.Levels)
		return
	}
	far := (hi - lo) / 2
	var ways []string
	if to := max(f.Bounds[0], lo-min(f.MaxDecrease, f.MaxChange)); f.Direction != "increase" &&
		(to < 0 && lo >= 0 || to < lo-far) {
		ways = append(ways, "down "+limit(to))
	}
	if to := min(f.Bounds[1], hi+min(f.MaxIncrease, f.MaxChange)); f.Direction != "decrease" &&
		(to > 0 && hi <= 0 || to > hi+far) {
		ways = append(ways, "up "+limit(to))
	}
	if ways != nil {
		c.find(Warning, f.Name, 0, "reach", facts{"ways": ways, "low": lo, "high": hi})
	}
	switch {
	case p.whole && f.Step > 0 && f.Step != math.Trunc(f.Step):
		c.find(Warning, f.Name, 0, "odd step", f)
	case p.whole && !n.Ordinal && f.Step == 0 && len(p.points) <= maxGrades:
		c.find(Warning, f.Name, 0, "no step", p.step())
	case n.Ordinal && f.Step > 0 && (f.Bounds[1]-f.Bounds[0])/f.Step < 2*maxGrades:
		var grid []float64
		for v := f.Bounds[0]; v <= f.Bounds[1]; v += f.Step {
			grid = append(grid, v)
		}
		c.unseen(f, p, grid)
	}
}

func (c *checker) unseen(f *task.Feature, p *profile, grades []float64) {
	none := slices.DeleteFunc(slices.Clone(grades), func(v float64) bool { return slices.Contains(p.points, v) })
	if len(none) > 0 {
		c.find(Warning, f.Name, 0, "unseen", decimals(none))
	}
}

func limit(v float64) string {
	if math.IsInf(v, 0) {
		return "without limit"
	}
	return "to " + task.Decimal(v)
}
