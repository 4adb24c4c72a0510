package certify

import (
	"math"
	"slices"
)

// collapse returns the first layer's weights by model inputs, dim of them, and the bias that goes with them: w x + b is what
// the layer computes where the lanes neither round nor are at a bound. offsets are what the lanes of an input then add
// up to, each over its gain, beyond the input. ok is false where lanes of the same input have different weights.
func (c *chain) collapse(dim int) (w, b, offsets []float64, ok bool) {
	s := &c.stages[0] // the only one that is looked at
	w, b, offsets = make([]float64, s.rows*dim), slices.Clone(s.b), make([]float64, dim)
	lanes := c.lanes(dim)
	for j, l := range c.front {
		if l.from < 0 {
			for o := range s.rows {
				b[o] += s.w[o*s.cols+j] * l.off
			}
		}
	}
	for i, of := range lanes {
		if len(of) == 0 {
			continue
		}
		start := math.Inf(1)
		for _, j := range of {
			l := c.front[j]
			if l.gain == 0 {
				return nil, nil, nil, false
			}
			edge := l.lo
			if l.gain < 0 {
				edge = l.hi
			}
			start = math.Min(start, (edge-l.off)/l.gain)
			for o := range s.rows {
				v := s.w[o*s.cols+j] * l.gain
				if j == of[0] {
					w[o*dim+i] = v
				} else if math.Abs(w[o*dim+i]-v) > 1e-6*math.Abs(v) {
					return nil, nil, nil, false
				}
			}
		}
		if math.IsInf(start, 0) {
			start = 0
		}
		offsets[i] = c.sum(of, start) - start
		for o := range s.rows {
			b[o] += w[o*dim+i] * offsets[i]
		}
	}
	return w, b, offsets, true
}

// lanes lists, for each model input, the numbers that it is read as.
func (c *chain) lanes(dim int) [][]int {
	out := make([][]int, dim)
	for j, l := range c.front {
		if l.from >= 0 {
			out[l.from] = append(out[l.from], j)
		}
	}
	return out
}

// sum is what the lanes add up to for the input x, each over its gain.
func (c *chain) sum(of []int, x float64) float64 {
	v := 0.0
	for _, j := range of {
		v += c.front[j].at(x) / c.front[j].gain
	}
	return v
}
