package certify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// function is an increasing function of one number, with its linear relaxations.
type function interface {
	at(x float64) float64
	// relax returns a slope and the range of at(x) - slope*x for x between lo and hi.
	relax(lo, hi float64) (slope, from, to float64)
	// slopes bounds the slopes between any two points between lo and hi.
	slopes(lo, hi float64) (from, to float64)
	// rounding bounds the difference between at and what ONNX Runtime computes, for arguments of magnitude reach.
	rounding(reach float64) float64
}

// piecewiseLinear has the slope left below knee, the slope right above it, and the value knee at knee: Relu,
// LeakyRelu, and bounds from one side.
type piecewiseLinear struct{ knee, left, right float64 }

// atLeast is the function max(x, bound), atMost min(x, bound).
func atLeast(bound float64) piecewiseLinear { return piecewiseLinear{knee: bound, right: 1} }
func atMost(bound float64) piecewiseLinear  { return piecewiseLinear{knee: bound, left: 1} }

func (h piecewiseLinear) at(x float64) float64 {
	if x > h.knee {
		return h.line(h.right, x)
	}
	return h.line(h.left, x)
}

// line is the value at x of the line through the knee. It does not compute with the knee where it need not:
// the knee may be infinite, or so large that x is lost in the sum.
func (h piecewiseLinear) line(slope, x float64) float64 {
	switch slope {
	case 0:
		return h.knee
	case 1:
		return x
	}
	return slope*x + (1-slope)*h.knee
}

// relax is the relaxation of DeepZ: the slope between the ends, which for Relu is hi / (hi - lo).
func (h piecewiseLinear) relax(lo, hi float64) (slope, from, to float64) {
	switch {
	case lo >= h.knee:
		shift := h.line(h.right, 0)
		return h.right, shift, shift
	case hi <= h.knee:
		shift := h.line(h.left, 0)
		return h.left, shift, shift
	}
	slope = (h.at(hi) - h.at(lo)) / (hi - lo)
	a, b, c := h.at(lo)-slope*lo, h.at(hi)-slope*hi, h.knee-slope*h.knee // a and b differ by rounding only
	return slope, min(a, b, c), max(a, b, c)
}

func (h piecewiseLinear) slopes(lo, hi float64) (from, to float64) {
	switch {
	case lo >= h.knee:
		return h.right, h.right
	case hi <= h.knee:
		return h.left, h.left
	}
	return math.Min(h.left, h.right), math.Max(h.left, h.right)
}

func (h piecewiseLinear) rounding(reach float64) float64 {
	for _, s := range []float64{h.left, h.right} {
		if s != 0 && s != 1 {
			return 4*roundoff*(reach+math.Abs(h.knee)) + underflow
		}
	}
	return 0
}

// smooth is Sigmoid or Tanh, whose slope is largest at 0 and falls on both sides.
type smooth struct{ tanh bool }

// smoothError bounds the error of the rational functions by which ONNX Runtime approximates Sigmoid and Tanh.
const smoothError = 0x1p-18

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

// relax is the relaxation of DeepZ: with the smaller of the slopes at the ends, at(x) - slope*x increases.
func (s smooth) relax(lo, hi float64) (slope, from, to float64) {
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

func (s smooth) rounding(float64) float64 { return smoothError }

// activation applies a function to each number. twin is the activation of the full model that computes the
// same functions of the value of the same name, nil when there is none.
type activation struct {
	in, out int
	of      []function
	twin    *activation
}

func (d *activation) run(p *pass) {
	x := p.values[d.in]
	k := x.k
	var fx, fy *zonotope // the twin's
	if p.full != nil && d.twin != nil {
		fx, fy = p.full[d.twin.in], p.full[d.twin.out]
		k = max(k, fx.k, fy.k)
	}
	y := p.newZonotope(len(x.c), k)
	extra := make([]float64, len(x.c)) // errors of the relaxations
	for i, f := range d.of {
		lo, hi := x.lo[i], x.hi[i]
		slope, from, to := f.relax(lo, hi)
		e := math.Max(0, (to-from)/2)
		round := f.rounding(x.reach(i))
		if slope == 0 && e == 0 && round == 0 {
			y.set(i, f.at(lo))
			continue
		}
		y.c[i] = slope*x.c[i] + (from+to)/2
		y.own[i] = math.Abs(slope) * x.own[i]
		if fx != nil && e > 0 && relaxJointly(x, fx, fy, y, f, i, e) {
			e = 0
		} else {
			axpy(slope, x.row(i), y.row(i))
		}
		y.lo[i], y.hi[i] = f.at(lo)-round, f.at(hi)+round
		y.mag[i] = y.reach(i)
		y.own[i] += round + doubleError*(math.Abs(y.c[i])+x.reach(i))
		if slope == 1 && from == 0 && to == 0 && round == 0 {
			y.own[i], y.mag[i] = x.own[i], x.mag[i] // the identity in this box
		}
		extra[i] = e
	}
	if p.full == nil && p.first {
		y = p.addSymbols(y, extra)
	} else {
		for i, e := range extra {
			y.own[i] += e
		}
	}
	y.tighten()
	p.values[d.out] = y
}

// relaxJointly sets number i of y to fy, the output of the full model, plus a slope times x - fx, the
// difference of the two models' inputs, if the error of that is below limit: the idea of ReluDiff. The slope
// lies between the smallest and the largest slope of f over both inputs.
func relaxJointly(x, fx, fy, y *zonotope, f function, i int, limit float64) bool {
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
	from, to := f.slopes(math.Min(x.lo[i], fx.lo[i]), math.Max(x.hi[i], fx.hi[i]))
	mid, e := (from+to)/2, (to-from)/2*(math.Abs(c)+r)*(1+doubleError)
	if e >= limit {
		return false
	}
	y.c[i] = fy.c[i] + mid*c
	y.own[i] = fy.own[i] + mid*(x.own[i]+fx.own[i]) + e
	row := y.row(i)
	copy(row, fy.row(i))
	axpy(mid, a, row)
	axpy(-mid, b, row)
	return true
}

// compileActivation compiles activation functions, and Clip, Min and Max by constants.
func compileActivation(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	out := k.values[n.Outputs[0]]
	if len(varying) != 1 {
		return errors.New("several of its inputs depend on the model's")
	}
	size := out.Len()
	list, err := k.functions(n, varying[0], out.Dims)
	if err != nil {
		return err
	}
	at := k.spread(n.Input(varying[0]), out.Dims)
	for i, of := range list {
		d := &activation{in: at, of: of, out: k.p.slots}
		if len(of) != size {
			return fmt.Errorf("its constants do not broadcast to its %d outputs", size)
		}
		k.p.slots++
		at = d.out
		k.p.steps = append(k.p.steps, d)
		k.p.activations[fmt.Sprintf("%s#%d", n.Outputs[0], i)] = d
	}
	k.slot[n.Outputs[0]] = at
	return nil
}

// functions returns the functions that the node applies one after the other, each as a list with one function
// for each number.
func (k *compiler) functions(n *graph.Node, varying int, dims []int64) ([][]function, error) {
	size := k.values[n.Outputs[0]].Len()
	all := func(f function) [][]function { return [][]function{slices.Repeat([]function{f}, size)} }
	switch n.Op {
	case "Relu":
		return all(atLeast(0)), nil
	case "LeakyRelu":
		a := float64(n.Float("alpha", 0.01))
		if a < 0 {
			return nil, fmt.Errorf("its slope %v is negative", a)
		}
		return all(piecewiseLinear{0, a, 1}), nil
	case "Sigmoid", "Tanh":
		return all(smooth{tanh: n.Op == "Tanh"}), nil
	}
	var out [][]function
	bound := func(name string, of func(float64) piecewiseLinear) error {
		if name == "" {
			return nil
		}
		v, d, err := k.constant(name)
		if err != nil {
			return err
		}
		list := make([]function, 0, size)
		for _, i := range broadcast(d, dims) {
			list = append(list, of(v[i]))
		}
		out = append(out, list)
		return nil
	}
	if n.Op == "Clip" {
		if varying != 0 {
			return nil, errors.New("its bounds depend on the model's input")
		}
		if a := n.Attr("min"); a != nil {
			out = append(out, all(atLeast(float64(a.F)))...)
		}
		if a := n.Attr("max"); a != nil {
			out = append(out, all(atMost(float64(a.F)))...)
		}
		return out, errors.Join(bound(n.Input(1), atLeast), bound(n.Input(2), atMost))
	}
	of := atMost // Min
	if n.Op == "Max" {
		of = atLeast
	}
	for i, in := range n.Inputs {
		if i != varying {
			if err := bound(in, of); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
