package certify

import "math"

// quotient is the relative error of x / scale in ONNX Runtime, or of the float32 scale that an integer kernel multiplies
// its sums by in place of that.
const quotient = 0x1p-22

// quantize is QuantizeLinear: y is a code, as a number.
type quantize struct {
	in, out    int
	scale      float64
	zero       float64
	qmin, qmax float64
}

func (d *quantize) run(p *pass) {
	x := p.forms[d.in]
	y := p.form(len(x.c), x.k)
	for i := range x.c {
		lo, hi := x.lo[i]/d.scale, x.hi[i]/d.scale
		slack := quotient*math.Max(math.Abs(lo), math.Abs(hi)) + least
		lo, hi = lo-slack, hi+slack
		first, last := d.code(lo), d.code(hi)
		if first == last {
			y.fix(i, first)
			y.mag[i] = math.Abs(first)
			continue
		}
		slope, from, to := d.clamped(lo, hi)
		e := (to-from)/2 + 0.5 + slack
		if !p.first && p.full == nil && (last-first)/2 <= e {
			// Nothing is to be set against another network: the few codes as they are.
			y.c[i], y.own[i] = (first+last)/2, (last-first)/2
		} else {
			a := slope / d.scale
			axpy(a, x.row(i), y.row(i))
			y.c[i] = a*x.c[i] + d.zero + (from+to)/2
			y.own[i] = a*x.own[i] + e
			y.own[i] += wider * (math.Abs(y.c[i]) + y.own[i])
		}
		y.lo[i], y.hi[i] = first, last
		y.mag[i] = y.reach(i)
	}
	y.settle()
	p.forms[d.out] = y
}

// code is that of the quotient t.
func (d *quantize) code(t float64) float64 {
	return math.Max(d.qmin, math.Min(math.RoundToEven(t)+d.zero, d.qmax))
}

// clamped returns a slope and the range of clamp(t) - slope*t for t between lo and hi.
func (d *quantize) clamped(lo, hi float64) (slope, from, to float64) {
	least, most := d.qmin-d.zero, d.qmax-d.zero
	clamp := func(t float64) float64 { return math.Max(least, math.Min(t, most)) }
	if lo >= least && hi <= most {
		return 1, 0, 0
	}
	slope = (clamp(hi) - clamp(lo)) / (hi - lo)
	from, to = math.Inf(1), math.Inf(-1)
	for _, t := range []float64{lo, math.Max(lo, math.Min(least, hi)), math.Max(lo, math.Min(most, hi)), hi} {
		v := clamp(t) - slope*t
		from, to = math.Min(from, v), math.Max(to, v)
	}
	return slope, from, to
}
