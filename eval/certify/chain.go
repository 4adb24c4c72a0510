package certify

import (
	"math"
	"slices"
)

// lane is how one number is made of a single model input: gain x + off within [lo, hi], rounded to multiples of step if
// that is not 0. from is the input, -1 for a constant, which off is.
type lane struct {
	from      int
	gain, off float64
	lo, hi    float64
	step      float64
}

// at is the number before it is rounded, which leaves bounds where they are.
func (l lane) at(x float64) float64 { return math.Max(l.lo, math.Min(l.gain*x+l.off, l.hi)) }

// scaled is a times the lane, plus b.
func (l lane) scaled(a, b float64) lane {
	lo, hi := a*l.lo+b, a*l.hi+b
	if a < 0 {
		lo, hi = hi, lo
	}
	return lane{l.from, a * l.gain, a*l.off + b, lo, hi, math.Abs(a) * l.step}
}

// clamped bounds the lane from below and above.
func (l lane) clamped(lo, hi float64) lane {
	l.lo, l.hi = math.Min(math.Max(l.lo, lo), hi), math.Max(math.Min(l.hi, hi), lo)
	return l
}

// stage is a layer, what is applied to each of its numbers, and the grid that they are rounded on behind.
type stage struct {
	node       string
	w, b       []float64 // rows x cols
	rows, cols int
	curves     [][]curve
	grid       *quantize // nil without one
	coded      bool      // numbers stand for codes
}

// chain is a model in which one layer follows the other.
type chain struct {
	front  []lane // what the first layer reads
	stages []stage
}

// fronts returns the slots whose numbers are each made of a single model input.
func (g *program) fronts() map[int][]lane {
	input := make([]lane, g.width)
	for i := range input {
		input[i] = lane{from: i, gain: 1, lo: math.Inf(-1), hi: math.Inf(1)}
	}
	known := map[int][]lane{g.input: input}
	for _, s := range g.steps {
		if d, ok := s.(*pick); ok {
			if to := picked(d, known); to != nil {
				known[d.out] = to
			}
			continue
		}
		in, out, each := single(s)
		if each == nil || known[in] == nil {
			continue
		}
		to := make([]lane, len(known[in]))
		all := true
		for i, l := range known[in] {
			var ok bool
			to[i], ok = each(l, i)
			all = all && ok
		}
		if all {
			known[out] = to
		}
	}
	return known
}

// follow returns the model as a chain; nil when it is none.
func (g *program) follow() *chain {
	c := &chain{}
	fronts := g.fronts()
	at := -1
	for _, s := range g.steps {
		switch d := s.(type) {
		case *pick:
			switch {
			case passes(d, at):
				at = d.out
			case fronts[d.out] == nil:
				return nil
			}
		case *dense:
			switch {
			case at < 0 && fronts[d.in] != nil:
				c.front = fronts[d.in]
			case d.in != at || at < 0 || c.last().coded:
				return nil
			}
			c.stages = append(c.stages, stage{node: d.node, w: slices.Clone(d.w), b: slices.Clone(d.b), rows: d.rows, cols: d.cols})
			at = d.out
		default:
			in, out, each := single(s)
			switch {
			case each == nil:
				return nil
			case in == at && at >= 0 && c.last().take(s):
				at = out
			case fronts[out] == nil:
				return nil
			}
		}
	}
	if at != g.logits || len(c.stages) == 0 {
		return nil
	}
	return c
}

func (c *chain) last() *stage { return &c.stages[len(c.stages)-1] }

// picked applies a pick to lanes; nil where not all that it moves is known.
func picked(d *pick, known map[int][]lane) []lane {
	to := make([]lane, len(d.at))
	for i, s := range d.at {
		switch {
		case s.from < 0:
			to[i] = lane{from: -1, off: s.v, lo: s.v, hi: s.v}
		case known[s.from] == nil:
			return nil
		default:
			to[i] = known[s.from][s.of]
		}
	}
	return to
}

// passes reports whether a pick leaves the numbers of slot at as they are.
func passes(d *pick, at int) bool {
	for i, s := range d.at {
		if s.from != at || s.of != i {
			return false
		}
	}
	return at >= 0
}

// single returns the slots of a step from one slot to another, and what it does to lane i, false where it cannot tell; nil for
// other steps.
func single(s step) (in, out int, each func(l lane, i int) (lane, bool)) {
	switch d := s.(type) {
	case *affine:
		return d.in, d.out, func(l lane, i int) (lane, bool) { return l.scaled(d.a[i], d.b[i]), true }
	case *bend:
		return d.in, d.out, func(l lane, i int) (lane, bool) {
			h, ok := d.of[i].(hinge)
			switch {
			case ok && h.left == 0 && h.right == 1:
				return l.clamped(h.knee, math.Inf(1)), true
			case ok && h.left == 1 && h.right == 0:
				return l.clamped(math.Inf(-1), h.knee), true
			}
			return l, false
		}
	case *quantize:
		return d.in, d.out, func(l lane, _ int) (lane, bool) {
			if l.step != 0 {
				return l, false
			}
			l = l.scaled(1/d.scale, d.zero).clamped(d.qmin, d.qmax)
			l.step = 1
			return l, true
		}
	}
	return 0, 0, nil
}

// take takes a step behind the layer in; false where it does not fit.
func (s *stage) take(by step) bool {
	switch d := by.(type) {
	case *affine:
		switch {
		case s.coded: // back from codes to what they stand for
			s.coded = false
			return !slices.ContainsFunc(d.a, func(a float64) bool { return a != s.grid.scale }) && d.terms == nil
		case len(s.curves) > 0 || s.grid != nil:
			return false
		}
		for o, a := range d.a {
			for j := range s.cols {
				s.w[o*s.cols+j] *= a
			}
			s.b[o] = a*s.b[o] + d.b[o]
		}
		return true
	case *quantize:
		if s.grid != nil {
			return false
		}
		grid := *d
		s.grid, s.coded = &grid, true
		return true
	case *bend:
		switch {
		case s.coded:
			for _, c := range d.of {
				h, ok := c.(hinge)
				switch {
				case ok && c == d.of[0] && h.left == 0 && h.right == 1:
					s.grid.qmin = math.Max(s.grid.qmin, h.knee)
				case ok && c == d.of[0] && h.left == 1 && h.right == 0:
					s.grid.qmax = math.Min(s.grid.qmax, h.knee)
				default:
					return false
				}
			}
		case s.grid != nil:
			return false
		case !slices.ContainsFunc(d.of, func(c curve) bool { h, ok := c.(hinge); return !ok || h.right != 1 || h.knee > -1e38 }):
			// Bounds nothing.
		default:
			s.curves = append(s.curves, d.of)
		}
		return true
	}
	return false
}
