package certify

import "math"

// curve is an increasing function of one number.
type curve interface {
	at(x float64) float64
	// chord returns a slope and the range of at(x) - slope*x between lo and hi.
	chord(lo, hi float64) (slope, from, to float64)
	// slopes bounds the slopes between any two points between lo and hi.
	slopes(lo, hi float64) (from, to float64)
	// rounding bounds how far the computed function is from at.
	rounding(reach float64) float64
}

// hinge has the slope left below knee, right above, and the value knee at knee.
type hinge struct{ knee, left, right float64 }

func (h hinge) at(x float64) float64 {
	if x > h.knee {
		return h.line(h.right, x)
	}
	return h.line(h.left, x)
}

// line is the value at x of the line through the knee. The knee may be infinite, or so large that x vanishes beside it.
func (h hinge) line(slope, x float64) float64 {
	switch slope {
	case 0:
		return h.knee
	case 1:
		return x
	}
	return slope*x + (1-slope)*h.knee
}

func (h hinge) chord(lo, hi float64) (slope, from, to float64) {
	switch {
	case lo >= h.knee:
		shift := h.line(h.right, 0)
		return h.right, shift, shift
	case hi <= h.knee:
		shift := h.line(h.left, 0)
		return h.left, shift, shift
	}
	slope = (h.at(hi) - h.at(lo)) / (hi - lo)
	ends := [...]float64{h.at(lo) - slope*lo, h.at(hi) - slope*hi, h.knee - slope*h.knee} // the first two are the same but for rounding
	return slope, min(ends[0], ends[1], ends[2]), max(ends[0], ends[1], ends[2])
}

func (h hinge) slopes(lo, hi float64) (from, to float64) {
	switch {
	case lo >= h.knee:
		return h.right, h.right
	case hi <= h.knee:
		return h.left, h.left
	}
	return math.Min(h.left, h.right), math.Max(h.left, h.right)
}

func (h hinge) rounding(reach float64) float64 {
	for _, s := range []float64{h.left, h.right} {
		if s != 0 && s != 1 {
			return 4*unit*(reach+math.Abs(h.knee)) + least
		}
	}
	return 0
}

// smooth is Sigmoid or Tanh, whose slope is largest at 0 and falls on both sides.
type smooth struct{ tanh bool }

// approximated is how far the rational functions that ONNX Runtime computes in their place may be from them.
const approximated = 0x1p-18

func (s smooth) at(x float64) float64 {
	if s.tanh {
		return math.Tanh(x)
	}
	return 1 / (1 + math.Exp(-x))
}

func (s smooth) slope(x float64) float64 {
	if s.tanh {
		t := math.Tanh(x)
		return 1 - t*t
	}
	return s.at(x) * s.at(-x)
}

func (s smooth) chord(lo, hi float64) (slope, from, to float64) {
	slope = math.Min(s.slope(lo), s.slope(hi))
	return slope, s.at(lo) - slope*lo, s.at(hi) - slope*hi
}

func (s smooth) slopes(lo, hi float64) (from, to float64) {
	a, b := s.slope(lo), s.slope(hi)
	to = math.Max(a, b)
	if lo < 0 && hi > 0 {
		to = s.slope(0)
	}
	return math.Min(a, b), to
}

func (s smooth) rounding(float64) float64 { return approximated }

// bend applies a curve to each number. twin is the bend of the full model that computes the same function of
// the value of the same name, nil when there is none.
type bend struct {
	in, out int
	of      []curve
	twin    *bend
}

func (d *bend) run(p *pass) {
	x := p.forms[d.in]
	k := x.k
	var fx, fy *form // the twin's
	if p.full != nil && d.twin != nil {
		fx, fy = p.full[d.twin.in], p.full[d.twin.out]
		k = max(k, fx.k, fy.k)
	}
	y := p.form(len(x.c), k)
	extra := make([]float64, len(x.c)) // what bending adds
	for i, g := range d.of {
		lo, hi := x.lo[i], x.hi[i]
		slope, from, to := g.chord(lo, hi)
		bent := math.Max(0, (to-from)/2)
		round := g.rounding(x.reach(i))
		if slope == 0 && bent == 0 && round == 0 {
			y.fix(i, g.at(lo))
			y.mag[i] = math.Abs(g.at(lo))
			continue
		}
		y.c[i] = slope*x.c[i] + (from+to)/2
		y.own[i] = math.Abs(slope) * x.own[i]
		if fx != nil && bent > 0 && beside(x, fx, fy, y, g, i, bent) {
			bent = 0
		} else {
			axpy(slope, x.row(i), y.row(i))
		}
		y.lo[i], y.hi[i] = g.at(lo)-round, g.at(hi)+round
		y.mag[i] = y.reach(i)
		y.own[i] += round + wider*(math.Abs(y.c[i])+x.reach(i))
		if slope == 1 && from == 0 && to == 0 && round == 0 {
			y.own[i], y.mag[i] = x.own[i], x.mag[i] // passed on
		}
		extra[i] = bent
	}
	if p.full == nil && p.first {
		y = p.shared(y, extra)
	} else {
		for i, e := range extra {
			y.own[i] += e
		}
	}
	y.settle()
	p.forms[d.out] = y
}

// beside writes number i of y as that of the full model, fy, plus a slope times the difference of the arguments, if
// that is closer than bent: two networks that bend in the same place bend together.
func beside(x, fx, fy, y *form, g curve, i int, bent float64) bool {
	c, r := x.c[i]-fx.c[i], x.own[i]+fx.own[i]
	a, b := x.row(i), fx.row(i)
	n := min(len(a), len(b))
	for t := range n {
		r += math.Abs(a[t] - b[t])
	}
	for _, v := range a[n:] {
		r += math.Abs(v)
	}
	for _, v := range b[n:] {
		r += math.Abs(v)
	}
	least, most := g.slopes(math.Min(x.lo[i], fx.lo[i]), math.Max(x.hi[i], fx.hi[i]))
	mid, e := (least+most)/2, (most-least)/2*(math.Abs(c)+r)*(1+wider)
	if e >= bent {
		return false
	}
	y.c[i] = fy.c[i] + mid*c
	y.own[i] = fy.own[i] + mid*(x.own[i]+fx.own[i]) + e
	to := y.row(i)
	copy(to, fy.row(i))
	axpy(mid, a, to)
	axpy(-mid, b, to)
	return true
}
