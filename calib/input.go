package calib

import (
	"math"
	"slices"

	"cfq/quant"
)

// extraShare bounds what the segments of wide input columns may add to the
// weights: a tenth of them.
const extraShare = 0.10

// finestGrid is the largest number of grid steps per unit of a model input.
const finestGrid = 255

// column is what the set shows of one model input.
type column struct {
	lo, hi float64
	step   float64 // the values are lo + n x step; 0 when they have no such lattice
}

// FitInput lays the columns of a tabular input on one uint8 grid. A tabular input
// mixes columns 13 standard deviations wide with one-hots, so one scale for its
// whole range would be the largest error of an 8-bit model. Here the grid is as
// fine as the columns of ordinary width allow, wider columns are split into
// segments that share their weights, and each column whose values form a lattice
// (whole years, one-hots) is stretched a little so that they fall on grid points
// exactly. out is the number of outputs of the first layer, weights the number of
// weights of the model: together they bound the number of extra columns.
func FitInput(set *Set, out, weights int) *quant.Input {
	cols := make([]column, set.Dim)
	for j := range cols {
		cols[j] = look(set, j)
	}
	extra := max(2, int(extraShare*float64(weights)/float64(out)))
	for k := finestGrid; k > 1; k-- {
		if in := layGrid(cols, k); len(in.Columns) <= set.Dim+extra || k == 2 {
			return in
		}
	}
	return nil
}

// look finds the range and the lattice of column j.
func look(set *Set, j int) column {
	values := make([]float32, 0, set.Rows())
	for i := j; i < len(set.X); i += set.Dim {
		values = append(values, set.X[i])
	}
	slices.Sort(values)
	values = slices.Compact(values)
	c := column{lo: float64(values[0]), hi: float64(values[len(values)-1])}
	width := c.hi - c.lo
	if width == 0 {
		// A category that the set never shows may still come: leave it room.
		return column{lo: c.lo, hi: c.lo + 1, step: 1}
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

// layGrid lays the columns on a grid of k steps per unit.
func layGrid(cols []column, k int) *quant.Input {
	in := &quant.Input{Scale: float32(1 / float64(k))}
	for j, c := range cols {
		gain := 1.0
		if n := math.Round(c.step * float64(k)); n >= 1 && n < 256 {
			gain = n / (c.step * float64(k))
		}
		// A segment holds 255 grid steps; on a lattice it ends on a lattice point,
		// so that every value stays a sum of whole lattice steps.
		segment := 255 / float64(k) / gain
		if c.step > 0 && c.step <= segment {
			segment = c.step * math.Floor(segment/c.step*(1+1e-6))
		}
		lo := c.lo
		for n := max(1, math.Ceil((c.hi-c.lo)/segment*(1-1e-6))); n > 0; n-- {
			hi := min(lo+segment, c.hi)
			in.Columns = append(in.Columns, quant.InputColumn{Source: j, Lo: float32(lo), Hi: float32(hi), Gain: float32(gain)})
			lo = hi
		}
	}
	return in
}
