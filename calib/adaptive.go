package calib

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"cfq/quant"
)

// Settings of adaptive rounding. The rectified sigmoid reaches from stretchLow to
// stretchHigh before it is cut off at 0 and 1, as in the paper.
const (
	stretchHigh, stretchLow = 1.1, -0.1

	adaptSteps = 400
	adaptRate  = 0.05 // of Adam
	adaptFree  = 0.2  // share of the steps before anything is drawn to 0 or 1
	adaptPull  = 0.3  // weight of the regulariser; the error is in units of the mean variance
	betaStart  = 20.0
	betaEnd    = 2.0
)

// adaptive is AdaRound: each weight is rounded down or up, floor(w/s) + h(v), and
// v is learned by gradient from d^T C d + pull x sum 1 - |2 h - 1|^beta, d being the
// errors in codes. beta falls, so that h is free first and is drawn to 0 or 1 in the
// end. The covariance says all that there is to know of the rows, so a step costs the
// same for any number of them. In the end single codes move where that helps.
//
// Unlike compensated rounding it stays at the two codes beside the weight until
// then, and it may end in a worse place: whichever of the two is better is kept.
// With by, the weights start from where chance moves them, and what is learned stays.
//
// Reference: Nagel et al., Up or Down? Adaptive Rounding for Post-Training
// Quantization, 2020, equations 21 to 24.
func (c *covariance) adaptive(w []float32, scale float32, f quant.Format, codes []int8, by dither, _ float64) float64 {
	n := c.n
	a := newAdaptation(c, w, scale, f, by)
	for step := range adaptSteps {
		a.step(c, step)
	}
	for j := range n {
		codes[j] = int8(a.floor[j])
		if a.h[j] >= 0.5 {
			codes[j]++
		}
	}
	if by != nil {
		return a.error(c, codes, scale)
	}
	sum := c.polish(w, scale, f, codes)
	other := make([]int8, n)
	if least := c.polished(w, scale, f, other, nil, unlimited); least <= sum {
		copy(codes, other)
		return least
	}
	return sum
}

// adaptation is the state of one row.
type adaptation struct {
	target, floor   []float64 // w/s, and the lower of its two codes
	v, h, slope     []float64 // h(v) and its derivative
	d, grad         []float64
	momentum, power []float64 // of Adam
	unit            float64   // mean variance
}

func newAdaptation(c *covariance, w []float32, scale float32, f quant.Format, by dither) *adaptation {
	n := c.n
	all := make([]float64, 9*n)
	part := func(k int) []float64 { return all[k*n : (k+1)*n] }
	a := &adaptation{
		target: part(0), floor: part(1), v: part(2), h: part(3), slope: part(4),
		d: part(5), grad: part(6), momentum: part(7), power: part(8),
	}
	for j, x := range w {
		a.unit += c.matrix[j*n+j] / float64(n)
		a.target[j] = float64(x) / float64(scale)
		from := float64(by.move(x, scale)) / float64(scale)
		a.floor[j] = math.Min(math.Max(math.Floor(from), float64(f.QMin)), float64(f.QMax-1))
		h := math.Min(math.Max(from-a.floor[j], 0.01), 0.99)
		p := (h - stretchLow) / (stretchHigh - stretchLow)
		a.v[j] = math.Log(p / (1 - p))
	}
	a.rectify()
	return a
}

// rectify computes h and its slope from v.
func (a *adaptation) rectify() {
	for j, v := range a.v {
		p := 1 / (1 + math.Exp(-v))
		h := p*(stretchHigh-stretchLow) + stretchLow
		a.slope[j] = p * (1 - p) * (stretchHigh - stretchLow)
		if h <= 0 || h >= 1 {
			a.slope[j] = 0
		}
		a.h[j] = math.Min(math.Max(h, 0), 1)
		a.d[j] = a.floor[j] + a.h[j] - a.target[j]
	}
}

// gradient computes that of d^T C d / unit + pull x sum 1 - |2 h - 1|^beta by v.
func (a *adaptation) gradient(c *covariance, pull, beta float64) {
	for j := range a.grad {
		g := 2 * floats.Dot(a.d, c.row(j)) / a.unit
		if pull > 0 {
			m := 2*a.h[j] - 1
			g -= pull * 2 * beta * math.Copysign(math.Pow(math.Abs(m), beta-1), m)
		}
		a.grad[j] = g * a.slope[j]
	}
}

// step takes one step of Adam.
func (a *adaptation) step(c *covariance, step int) {
	const decay1, decay2 = 0.9, 0.999
	done := float64(step) / adaptSteps
	pull, beta := 0.0, betaStart
	if done >= adaptFree {
		pull = adaptPull
		beta = betaEnd + (betaStart-betaEnd)*(1+math.Cos(math.Pi*(done-adaptFree)/(1-adaptFree)))/2
	}
	a.gradient(c, pull, beta)
	correct1, correct2 := 1-math.Pow(decay1, float64(step+1)), 1-math.Pow(decay2, float64(step+1))
	for j, g := range a.grad {
		a.momentum[j] = decay1*a.momentum[j] + (1-decay1)*g
		a.power[j] = decay2*a.power[j] + (1-decay2)*g*g
		a.v[j] -= adaptRate * a.momentum[j] / correct1 / (math.Sqrt(a.power[j]/correct2) + 1e-8)
	}
	a.rectify()
}

// error is that of codes.
func (a *adaptation) error(c *covariance, codes []int8, scale float32) float64 {
	e := make([]float64, c.n)
	for j, q := range codes {
		e[j] = (a.target[j] - float64(q)) * float64(scale)
	}
	return quadratic(c.matrix, e)
}
