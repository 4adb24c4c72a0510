package certify

import (
	"math"
	"slices"
)

// curve is an activation function with a slope that is monotone between a few places, times a factor.
type curve struct {
	kind        curveKind
	alpha, beta float64 // attributes of Elu, HardSigmoid and Silu
	factor      float64
}

// curveKind names a function as ONNX does; Silu is x times Sigmoid(alpha x).
type curveKind string

const (
	curveElu         curveKind = "Elu"
	curveErf         curveKind = "Erf"
	curveGelu        curveKind = "Gelu"
	curveHardSigmoid curveKind = "HardSigmoid"
	curveHardSwish   curveKind = "HardSwish"
	curveSigmoid     curveKind = "Sigmoid"
	curveSilu        curveKind = "Silu"
	curveSoftplus    curveKind = "Softplus"
	curveTanh        curveKind = "Tanh"
)

// siluTurn is where the slope of x Sigmoid(x) is steepest: the root of x tanh(x/2) = 2.
const siluTurn = 2.3993572805154246

// turns are the places between which the slope is monotone.
func (c curve) turns() []float64 {
	switch c.kind {
	case curveElu, curveErf, curveSigmoid, curveTanh:
		return []float64{0}
	case curveGelu:
		return []float64{-math.Sqrt2, math.Sqrt2}
	case curveSilu:
		return []float64{-siluTurn / c.alpha, siluTurn / c.alpha}
	case curveHardSwish:
		return []float64{-3, 3}
	case curveHardSigmoid:
		return []float64{-c.beta / c.alpha, (1 - c.beta) / c.alpha}
	}
	return nil
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func (c curve) at(x float64) float64 { return c.factor * c.plain(x) }

// plain is the function without the factor.
func (c curve) plain(x float64) float64 {
	switch c.kind {
	case curveElu:
		if x > 0 {
			return x
		}
		return c.alpha * math.Expm1(x)
	case curveErf:
		return math.Erf(x)
	case curveSigmoid:
		return sigmoid(x)
	case curveTanh:
		return math.Tanh(x)
	case curveGelu:
		return x * math.Erfc(-x/math.Sqrt2) / 2
	case curveSilu:
		return x * sigmoid(c.alpha*x)
	case curveHardSwish:
		return x * max(0, min(1, (x+3)/6))
	case curveHardSigmoid:
		return max(0, min(1, c.alpha*x+c.beta))
	default: // Softplus
		return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}
}

// slope is the derivative at x by the formula that holds around near.
func (c curve) slope(x, near float64) float64 {
	d := 0.0
	switch c.kind {
	case curveElu:
		if d = 1; near < 0 {
			d = c.alpha * math.Exp(x)
		}
	case curveSigmoid:
		d = sigmoid(x) * sigmoid(-x)
	case curveTanh:
		d = 1 - math.Tanh(x)*math.Tanh(x)
	case curveErf:
		d = 2 / math.Sqrt(math.Pi) * math.Exp(-x*x)
	case curveGelu:
		d = math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	case curveSilu:
		s := sigmoid(c.alpha * x)
		d = s * (1 + c.alpha*x*(1-s))
	case curveHardSwish:
		switch {
		case near > 3:
			d = 1
		case near > -3:
			d = (2*x + 3) / 6
		}
	case curveHardSigmoid:
		if t := c.turns(); near > t[0] && near < t[1] {
			d = c.alpha
		}
	default:
		d = sigmoid(x)
	}
	return c.factor * d
}

// pieces are the parts of an interval on which the slope is monotone.
func (c curve) pieces(lo, hi float64) [][2]float64 {
	ends := []float64{lo}
	for _, t := range c.turns() {
		if t > lo && t < hi {
			ends = append(ends, t)
		}
	}
	ends = append(ends, hi)
	var out [][2]float64
	for i := range len(ends) - 1 {
		out = append(out, [2]float64{ends[i], ends[i+1]})
	}
	return out
}

// less bounds at(x) - slope*x for x between lo and hi. On a piece the function is convex or concave, so the extremes
// are at its ends, or where a tangent has the slope: near that, the tangent itself bounds the rest of the piece.
func (c curve) less(slope, lo, hi float64) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for _, p := range c.pieces(lo, hi) {
		near := (p[0] + p[1]) / 2
		for _, x := range p {
			v := c.at(x) - slope*x
			from, to = min(from, v), max(to, v)
		}
		rise := func(x float64) float64 { return c.slope(x, near) - slope }
		a, b := p[0], p[1]
		if first := rise(a); first*rise(b) < 0 {
			for range 30 {
				m := (a + b) / 2
				r := rise(m)
				if r*first > 0 {
					a = m
				} else {
					b = m
				}
				if math.Abs(r) < 1e-6*math.Abs(first) {
					a = m
					break
				}
			}
			v, off := c.at(a)-slope*a, math.Abs(rise(a))*(p[1]-p[0])
			from, to = min(from, v-off), max(to, v+off)
		}
	}
	slack := doubleError * (math.Abs(slope)*max(math.Abs(lo), math.Abs(hi)) + max(math.Abs(from), math.Abs(to)))
	return from - slack, to + slack
}

// relax takes the slope between the ends or, where that is closer, the smaller one of those at the ends.
func (c curve) relax(lo, hi float64) (slope, from, to float64) {
	if !(hi > lo) {
		from, to = c.less(0, lo, hi)
		return 0, from, to
	}
	slope = (c.at(hi) - c.at(lo)) / (hi - lo)
	from, to = c.less(slope, lo, hi)
	other := min(c.slope(lo, lo), c.slope(hi, hi))
	if a, b := c.less(other, lo, hi); b-a < to-from {
		return other, a, b
	}
	return slope, from, to
}

// tangent returns a linear bound from below or above, of the slope in the middle or that of relax, whichever is closer
// there.
func (c curve) tangent(lo, hi float64, below bool) (slope, shift float64) {
	slope, from, to := c.relax(lo, hi)
	middle := (lo + hi) / 2
	other := c.slope(middle, middle)
	a, b := c.less(other, lo, hi)
	switch {
	case below && other*middle+a > slope*middle+from:
		return other, a
	case below:
		return slope, from
	case other*middle+b < slope*middle+to:
		return other, b
	}
	return slope, to
}

func (c curve) extremes(lo, hi float64) (from, to float64) { return c.less(0, lo, hi) }

func (c curve) slopes(lo, hi float64) (from, to float64) {
	var all []float64
	for _, p := range c.pieces(lo, hi) {
		near := (p[0] + p[1]) / 2
		all = append(all, c.slope(p[0], near), c.slope(p[1], near))
	}
	return slices.Min(all), slices.Max(all)
}

// smoothError bounds the error of the functions by which ONNX Runtime approximates these, relative to the argument
// where they are not bounded.
const smoothError = 0x1p-18

// geluTanh bounds how far the tanh form of Gelu is from the function.
const geluTanh = 6e-4

func (c curve) rounding(reach float64) float64 {
	e := smoothError
	if c.kind != curveSigmoid && c.kind != curveTanh && c.kind != curveErf && c.kind != curveHardSigmoid {
		e *= 1 + reach
	}
	if c.kind == curveGelu && c.alpha != 0 {
		e += geluTanh
	}
	return math.Abs(c.factor) * e
}
