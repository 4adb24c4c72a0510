package calib

import (
	"math"
	"slices"

	"cfq/quant"
)

// minExtra is the number of columns that the segments of wide inputs may always add; half the number of inputs if that
// is more. They cost no weights, but time: the first layer multiplies more.
const minExtra = 8

// finestGrid is the largest number of grid steps per unit of a model input.
const finestGrid = 255

type column struct {
	lo, hi float64
	step   float64 // the values are lo + n x step; 0 when they have no such lattice
}

// FitInput lays the columns of a tabular input on one uint8 grid. A tabular input mixes columns 13 standard deviations
// wide with one-hots, so one scale for its whole range would be the largest error of an 8-bit model. Here the grid is
// as fine as the columns of ordinary width allow, wider columns are split into segments that share their weights, and
// each column whose values form a lattice (whole years, one-hots) is stretched a little so that they fall on grid
// points exactly. x holds the rows, dim columns each; domain holds, for each column, values that the grid must cover
// whether the set shows them or not, such as both values of a one-hot; nil for none.
func FitInput(x []float32, dim int, domain [][]float32) *quant.Input {
	cols := make([]column, dim)
	for j := range cols {
		var more []float32
		if domain != nil {
			more = domain[j]
		}
		cols[j] = look(x, dim, j, more)
	}
	k, limit := finestGrid, float64(dim+max(minExtra, dim/2))
	for ; k > 1; k-- {
		var n float64
		for _, c := range cols {
			n += c.segments(k)
		}
		if n <= limit {
			break
		}
	}
	in := &quant.Input{Scale: float32(1 / float64(k))}
	for j, c := range cols {
		gain, segment := c.steps(k)
		lo := c.lo
		for n := c.segments(k); n > 0; n-- {
			hi := min(lo+segment, c.hi)
			in.Columns = append(in.Columns, quant.InputColumn{Source: j, Lo: float32(lo), Hi: float32(hi), Gain: float32(gain)})
			lo = hi
		}
	}
	return in
}

// look finds the range and the lattice of column j and the values in more.
func look(x []float32, dim, j int, more []float32) column {
	values, median := distinct(x, dim, j, more)
	// The far ends would make the grid of all columns coarse for the sake of a few.
	values = slices.DeleteFunc(values, func(v float32) bool { return math.Abs(float64(v)-float64(median)) > widest })
	c := column{lo: float64(values[0]), hi: float64(values[len(values)-1])}
	width := c.hi - c.lo
	if width == 0 {
		// Other values than the only one seen may come: leave them room.
		return column{lo: c.lo - 1, hi: c.lo + 1, step: 1}
	}
	step := width
	for i := 1; i < len(values); i++ {
		// Equal raw values can differ in the last bits when they were computed on
		// different ways; such a difference is not a step.
		if d := float64(values[i]) - float64(values[i-1]); d > 1e-5*(1+math.Abs(c.hi)) {
			step = min(step, d)
		}
	}
	steps := math.Round(width / step)
	step = width / steps
	for _, v := range values {
		n := (float64(v) - c.lo) / step
		if math.Abs(n-math.Round(n)) > 0.01 {
			return c
		}
	}
	c.step = step
	return c
}

// distinct returns the different values of column j and of more in ascending order, and the median of all of them.
func distinct(x []float32, dim, j int, more []float32) (values []float32, median float32) {
	all := slices.Clone(more)
	for i := j; i < len(x); i += dim {
		all = append(all, x[i])
	}
	slices.Sort(all)
	median = all[len(all)/2]
	return slices.Compact(all), median
}

// widest is how far from its median a column may reach, in model-input units; for
// standardised inputs, standard deviations.
const widest = 100

// steps returns the gain of a column on a grid of k steps per unit, and the width of its segments. A segment holds 255
// grid steps. Where the lattice is stretched onto the grid it ends on a lattice point, so that every value stays a sum
// of whole lattice steps; elsewhere it ends on a grid point, so that only the last segment rounds.
func (c column) steps(k int) (gain, segment float64) {
	if n := math.Round(c.step * float64(k)); n >= 1 && n < 256 {
		return n / (c.step * float64(k)), c.step * math.Floor(255/n)
	}
	return 1, 255 / float64(k)
}

// segments is the number of columns that c takes on a grid of k steps per unit.
func (c column) segments(k int) float64 {
	_, segment := c.steps(k)
	return max(1, math.Ceil((c.hi-c.lo)/segment*(1-1e-6)))
}
