package certify

import "math"

// form is a linear form of the numbers of some slots that is never above what it stands for: backward substitution
// (CROWN, Zhang et al., NeurIPS 2018; DeepPoly, Singh et al., POPL 2019) replaces numbers by linear bounds in terms of
// those that they are computed from, of which a form takes the lower one where its coefficient is positive and the
// upper one where it is negative.
type form struct {
	p     *pass // the bounds of all numbers
	of    [][]float64
	least float64 // the constant, less all errors
}

// coefficients returns those of a slot, to be added to.
func (f *form) coefficients(slot int) []float64 {
	if f.of[slot] == nil {
		f.of[slot] = f.p.floats(len(f.p.values[slot].c))
	}
	return f.of[slot]
}

// constant adds w times b with an error.
func (f *form) constant(w, b, e float64) {
	f.least += w*b - math.Abs(w)*(e+doubleError*math.Abs(b))
}

// substituted bounds the sum of the logits with these weights from below, after a run of the program.
func (g *program) substituted(p *pass, weights []float64) float64 {
	f := &form{p: p, of: make([][]float64, g.slots)}
	copy(f.coefficients(g.logits), weights)
	for i := len(g.steps) - 1; i >= 0; i-- {
		g.steps[i].back(f)
	}
	x := p.values[g.input]
	size := math.Abs(f.least)
	for j, w := range f.coefficients(g.input) {
		v := w * x.lo[j]
		if w < 0 {
			v = w * x.hi[j]
		}
		f.least += v
		size += math.Abs(v)
	}
	return f.least - doubleError*size - underflow
}

func (d *linear) back(f *form) {
	w := f.of[d.out]
	if w == nil {
		return
	}
	y := f.p.values[d.out]
	for i, n := range d.numbers {
		if w[i] == 0 {
			continue
		}
		f.constant(w[i], n.b, d.rounding(y, i)+doubleError*y.mag[i])
		for _, t := range n.terms {
			f.coefficients(t.slot)[t.of] += w[i] * t.a
		}
	}
}

func (d *dense) back(f *form) {
	w := f.of[d.out]
	if w == nil {
		return
	}
	x, y := f.coefficients(d.in), f.p.values[d.out]
	for o, v := range w {
		if v == 0 {
			continue
		}
		mag := y.mag[o]
		if d.exact { // which is the reach there
			mag = math.Abs(d.b[o])
			for j, a := range d.w[o*d.cols : (o+1)*d.cols] {
				mag += math.Abs(a) * f.p.values[d.in].reach(j)
			}
		}
		f.constant(v, d.b[o], d.rounding(y, o, d.cols)+doubleError*mag)
		axpy(v, d.w[o*d.cols:(o+1)*d.cols], x)
	}
}

func (d *activation) back(f *form) {
	w := f.of[d.out]
	if w == nil {
		return
	}
	x, y, to := f.p.values[d.in], f.p.values[d.out], f.coefficients(d.in)
	for i, v := range w {
		if v == 0 {
			continue
		}
		lo, hi := x.lo[i], x.hi[i]
		slope, shift := line(d.of[i], lo, hi, v > 0)
		reach := x.reach(i)
		f.constant(v, shift, d.of[i].rounding(reach)+doubleError*(math.Abs(slope)*reach+y.reach(i)))
		to[i] += v * slope
	}
}

// line returns a linear bound of a function between lo and hi, from below or from above. The bound of a bent line by
// one of its two arms is that which leaves the smaller area.
func line(of function, lo, hi float64, below bool) (slope, shift float64) {
	if h, ok := of.(piecewiseLinear); ok && lo < h.knee && h.knee < hi && below == (h.right > h.left) {
		slope = h.left
		if hi-h.knee > h.knee-lo {
			slope = h.right
		}
		return slope, (1 - slope) * h.knee
	}
	if c, ok := of.(curve); ok {
		return c.tangent(lo, hi, below)
	}
	slope, from, to := of.relax(lo, hi)
	if below {
		return slope, from
	}
	return slope, to
}

func (d *quantize) back(f *form) {
	w := f.of[d.out]
	if w == nil {
		return
	}
	x, y, to := f.p.values[d.in], f.p.values[d.out], f.coefficients(d.in)
	for i, v := range w {
		if v == 0 {
			continue
		}
		lo, hi := x.lo[i]/d.scale, x.hi[i]/d.scale
		slack := quotientError*math.Max(math.Abs(lo), math.Abs(hi)) + underflow
		slope, least, most := d.clamped(lo-slack, hi+slack)
		least, most = d.zero+least-0.5-slack, d.zero+most+0.5+slack
		if first, last := y.lo[i], y.hi[i]; most-least >= last-first { // the codes are closer than the lines
			slope, least, most = 0, first, last
		}
		shift := least
		if v < 0 {
			shift = most
		}
		f.constant(v, shift, doubleError*(math.Abs(slope)*(math.Abs(lo)+math.Abs(hi))+math.Abs(shift)))
		to[i] += v * slope / d.scale
	}
}
