package certify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"cfq/onnxio/graph"
)

// compileFunc compiles a node whose inputs at the positions varying depend on the model's input.
type compileFunc func(ctx context.Context, k *compiler, n *graph.Node, varying []int) error

// operator says how a certificate supports an operator.
type operator struct {
	compile  compileFunc
	anyInput bool // inputs but the first may depend on the model's input
}

// operators are those that certificates support.
func operators() map[string]operator {
	table := map[string]operator{}
	for _, of := range []struct {
		operator
		ops []string
	}{
		{operator{compileNormalization, false}, []string{"BatchNormalization"}},
		{operator{compileCast, false}, []string{"Cast"}},
		{operator{compileDense, false}, []string{"Gemm", "MatMul"}},
		{operator{compileArithmetic, true}, []string{"Add", "Sub", "Mul", "Div", "Neg"}},
		{operator{compileActivation, true}, []string{"Relu", "LeakyRelu", "Clip", "Min", "Max", "Sigmoid", "Tanh"}},
		{operator{compileQuantizer, false}, []string{"QuantizeLinear"}},
		{operator{compileDequantizer, false}, []string{"DequantizeLinear"}},
		{operator{compileMove, false}, movers()},
		{operator{compileMove, true}, []string{"Concat"}},
	} {
		for _, op := range of.ops {
			table[op] = of.operator
		}
	}
	return table
}

func compileCast(_ context.Context, k *compiler, n *graph.Node, _ []int) error {
	in, to := k.values[n.Input(0)], graph.DType(n.Int("to", 0))
	switch {
	case to == graph.Double || to == graph.Float && in.DType != graph.Double:
		k.slot[n.Outputs[0]] = k.slot[n.Input(0)]
	case to == graph.Float:
		k.affine(n, k.slot[n.Input(0)], in.Len(), func(int) (a, b, terms float64) { return 1, 0, 0 })
	default:
		return fmt.Errorf("it converts %s to %s: want float or double", in.DType, to)
	}
	return nil
}

// affine adds the step y = a x + b for the size numbers of slot in.
func (k *compiler) affine(n *graph.Node, in, size int, of func(i int) (a, b, terms float64)) *affine {
	d := &affine{in: in, a: make([]float64, size), b: make([]float64, size), terms: make([]float64, size)}
	for i := range size {
		d.a[i], d.b[i], d.terms[i] = of(i)
	}
	d.out = k.name(n.Outputs[0])
	k.p.steps = append(k.p.steps, d)
	return d
}

// compileArithmetic compiles Add, Sub, Mul, Div and Neg.
func compileArithmetic(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	out := k.values[n.Outputs[0]]
	if len(varying) == 2 {
		if n.Op != "Add" && n.Op != "Sub" {
			return errors.New("both of its inputs depend on the model's")
		}
		d := &sum{in: [2]int{k.spread(n.Input(0), out.Dims), k.spread(n.Input(1), out.Dims)}, sign: [2]float64{1, 1}}
		if n.Op == "Sub" {
			d.sign[1] = -1
		}
		d.out = k.name(n.Outputs[0])
		k.p.steps = append(k.p.steps, d)
		return nil
	}
	in := k.spread(n.Input(varying[0]), out.Dims)
	if n.Op == "Neg" {
		k.affine(n, in, out.Len(), func(int) (a, b, terms float64) { return -1, 0, 0 })
		return nil
	}
	if n.Op == "Div" && varying[0] != 0 {
		return errors.New("its divisor depends on the model's input")
	}
	v, dims, err := k.constant(n.Input(1 - varying[0]))
	if err != nil {
		return err
	}
	at := broadcast(dims, out.Dims)
	k.affine(n, in, out.Len(), func(i int) (a, b, terms float64) {
		switch c := v[at[i]]; n.Op {
		case "Add":
			return 1, c, 0
		case "Mul":
			return c, 0, 0
		case "Div":
			return 1 / c, 0, 0
		default:
			if varying[0] == 1 {
				return -1, c, 0
			}
			return 1, -c, 0
		}
	})
	return nil
}

// compileNormalization compiles BatchNormalization in its inference form.
func compileNormalization(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	if n.Int("training_mode", 0) != 0 {
		return errors.New("it is in training mode")
	}
	x := k.values[n.Input(0)]
	if len(x.Dims) < 2 {
		return fmt.Errorf("its input has %d dimensions: want 2 or more", len(x.Dims))
	}
	var p [4][]float64 // scale, bias, mean, variance
	for i := range p {
		var err error
		if p[i], _, err = k.constant(n.Input(i + 1)); err != nil {
			return err
		}
	}
	channels := int(x.Dims[1])
	each := x.Len() / channels
	eps := float64(n.Float("epsilon", 1e-5))
	k.affine(n, k.slot[n.Input(0)], x.Len(), func(i int) (a, b, terms float64) {
		c := i / each
		a = p[0][c] / math.Sqrt(p[3][c]+eps)
		return a, p[1][c] - p[2][c]*a, math.Abs(p[1][c]) + math.Abs(p[2][c]*a)
	})
	return nil
}

// affine is y = a x + b, number by number. terms bounds the terms that b was computed from; it is nil where no float
// arithmetic is done, as from codes to the numbers that they stand for.
type affine struct {
	in, out     int
	a, b, terms []float64
}

func (d *affine) run(p *pass) {
	x := p.values[d.in]
	y := p.newZonotope(len(d.a), x.k)
	for i, a := range d.a {
		to := y.row(i)
		for t, v := range x.row(i) {
			to[t] = a * v
		}
		y.c[i] = a*x.c[i] + d.b[i]
		y.mag[i] = math.Abs(a)*x.mag[i] + math.Abs(d.b[i])
		e := 0.0
		if d.terms != nil {
			y.mag[i] += d.terms[i]
			e = 8*roundoff*y.mag[i] + underflow
		}
		y.own[i] = math.Abs(a)*x.own[i] + e
		lo, hi := a*x.lo[i]+d.b[i], a*x.hi[i]+d.b[i]
		e += doubleError * y.mag[i]
		y.lo[i], y.hi[i] = math.Min(lo, hi)-e, math.Max(lo, hi)+e
	}
	p.values[d.out] = y
}

// sum adds or subtracts the numbers of two slots.
type sum struct {
	in   [2]int
	sign [2]float64
	out  int
}

func (d *sum) run(p *pass) {
	first := p.values[d.in[0]]
	y := p.newZonotope(len(first.c), max(first.k, p.values[d.in[1]].k))
	for j, s := range d.in {
		x := p.values[s]
		for i := range y.c {
			axpy(d.sign[j], x.row(i), y.row(i))
			y.c[i] += d.sign[j] * x.c[i]
			y.own[i] += x.own[i]
			y.mag[i] += x.mag[i]
		}
	}
	for i := range y.c {
		y.own[i] += 4*roundoff*float64(len(d.in))*y.mag[i] + underflow
	}
	y.tighten()
	p.values[d.out] = y
}
