package certify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"cfq/onnxio/graph"
)

// quotientError is the relative error of x / scale in ONNX Runtime. It also covers integer kernels, which
// multiply their sums by one float32 factor instead.
const quotientError = 0x1p-22

// quantize is QuantizeLinear: y is a code, as a number.
type quantize struct {
	in, out    int
	scale      float64
	zero       float64
	qmin, qmax float64
}

func (d *quantize) run(p *pass) {
	x := p.values[d.in]
	y := p.newZonotope(len(x.c), x.k)
	for i := range x.c {
		lo, hi := x.lo[i]/d.scale, x.hi[i]/d.scale
		slack := quotientError*math.Max(math.Abs(lo), math.Abs(hi)) + underflow
		lo, hi = lo-slack, hi+slack
		first, last := d.code(lo), d.code(hi)
		if first == last {
			y.set(i, first)
			continue
		}
		slope, from, to := d.clamped(lo, hi)
		e := (to-from)/2 + 0.5 + slack
		if !p.first && p.full == nil && (last-first)/2 <= e {
			// This pass is not compared with another model: the interval of the codes is closer than a line.
			y.c[i], y.own[i] = (first+last)/2, (last-first)/2
		} else {
			a := slope / d.scale
			axpy(a, x.row(i), y.row(i))
			y.c[i] = a*x.c[i] + d.zero + (from+to)/2
			y.own[i] = a*x.own[i] + e
			y.own[i] += doubleError * (math.Abs(y.c[i]) + y.own[i])
		}
		y.lo[i], y.hi[i] = first, last
		y.mag[i] = y.reach(i)
	}
	y.tighten()
	p.values[d.out] = y
}

// code returns the code of the quotient t.
func (d *quantize) code(t float64) float64 {
	return math.Max(d.qmin, math.Min(math.RoundToEven(t)+d.zero, d.qmax))
}

// clamped returns a slope and the range of clamp(t) - slope*t for t between lo and hi.
func (d *quantize) clamped(lo, hi float64) (slope, from, to float64) {
	bottom, top := d.qmin-d.zero, d.qmax-d.zero
	if lo >= bottom && hi <= top {
		return 1, 0, 0
	}
	clamp := func(t float64) float64 { return math.Max(bottom, math.Min(t, top)) }
	slope = (clamp(hi) - clamp(lo)) / (hi - lo)
	from, to = math.Inf(1), math.Inf(-1)
	for _, t := range []float64{lo, math.Max(lo, math.Min(bottom, hi)), math.Max(lo, math.Min(top, hi)), hi} {
		v := clamp(t) - slope*t
		from, to = math.Min(from, v), math.Max(to, v)
	}
	return slope, from, to
}

// grid returns the scale, the zero point and the type of the codes of a QuantizeLinear or DequantizeLinear of
// activations.
func (k *compiler) grid(n *graph.Node) (scale, zero float64, codes graph.DType, err error) {
	s, _, err := k.constant(n.Input(1))
	if err != nil {
		return 0, 0, 0, err
	}
	if len(s) != 1 || n.Int("block_size", 0) != 0 || !(s[0] > 0) {
		return 0, 0, 0, errors.New("its scale is not one positive number")
	}
	codes = graph.Uint8
	if n.Input(2) != "" {
		z, _, err := k.constant(n.Input(2))
		if err != nil || len(z) != 1 {
			return 0, 0, 0, errors.New("its zero point is not one constant")
		}
		zero, codes = z[0], k.values[n.Input(2)].DType
	} else if t := n.Int("output_dtype", 0); t != 0 {
		codes = graph.DType(t)
	}
	return s[0], zero, codes, nil
}

func compileQuantizer(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	scale, zero, codes, err := k.grid(n)
	if err != nil {
		return err
	}
	if err := k.refuseRequantize(n); err != nil {
		return err
	}
	d := &quantize{in: k.slot[n.Input(0)], scale: scale, zero: zero, qmax: 255}
	switch codes {
	case graph.Uint8:
	case graph.Int8:
		d.qmin, d.qmax = -128, 127
	default:
		return fmt.Errorf("it makes %s: want uint8 or int8", codes)
	}
	d.out = k.name(n.Outputs[0])
	k.p.steps = append(k.p.steps, d)
	return nil
}

func compileDequantizer(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	scale, zero, _, err := k.grid(n)
	if err != nil {
		return err
	}
	d := k.affine(n, k.slot[n.Input(0)], k.values[n.Input(0)].Len(), func(int) (a, b, terms float64) {
		return scale, -scale * zero, 0
	})
	d.terms = nil // the step behind it allows for the rounding, if there is any
	return nil
}
