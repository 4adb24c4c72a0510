package certify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// dense is y = W x + b, as Gemm and MatMul compute it.
type dense struct {
	in, out    int // slots
	w          []float64
	b          []float64
	rows, cols int
	exact      bool    // an integer kernel: sums are exact, only their scaling rounds
	biasError  float64 // of an integer kernel that rounds the bias
}

// minOwnShare is how large, relative to the largest one, the own error of a number must be to get a symbol behind the
// layer. The rest is added up in absolute value; either is sound.
const minOwnShare = 1e-3

func (d *dense) run(p *pass) {
	x := p.values[d.in]
	follow := withSymbols(x)
	k, first := x.k, p.symbols
	if len(follow) > 0 {
		p.symbols += len(follow)
		k = p.symbols
	}
	y := p.newZonotope(d.rows, k)
	var nonzero, uncertain []int                          // of x: not 0, with symbols
	reach, loose := p.floats(d.cols), slices.Clone(x.own) // loose: own errors that get no symbol
	for _, j := range follow {
		loose[j] = 0
	}
	for j := range d.cols {
		if reach[j] = x.reach(j); reach[j] != 0 {
			nonzero = append(nonzero, j)
		}
		if slices.ContainsFunc(x.row(j), func(v float64) bool { return v != 0 }) {
			uncertain = append(uncertain, j)
		}
	}
	for o := range d.rows {
		w, to := d.w[o*d.cols:(o+1)*d.cols], y.row(o)
		c, mag, own := d.b[o], math.Abs(d.b[o]), 0.0
		for _, j := range nonzero {
			c += w[j] * x.c[j]
			mag += math.Abs(w[j]) * reach[j]
		}
		for _, j := range uncertain {
			axpy(w[j], x.row(j), to)
		}
		for f, j := range follow {
			to[first+f] = w[j] * x.own[j]
		}
		for j, e := range loose {
			own += math.Abs(w[j]) * e
		}
		y.c[o], y.own[o], y.mag[o] = c, own, mag
	}
	if !d.exact {
		for o := range d.rows {
			y.own[o] += float64(len(nonzero)+8)*roundoff*y.mag[o] + underflow
		}
	}
	y.tighten()
	if d.exact {
		for o := range d.rows {
			y.mag[o] = y.reach(o)
			e := 8*roundoff*(y.mag[o]+math.Abs(d.b[o])) + doubleError*y.mag[o] + d.biasError*1.01 + underflow
			y.own[o] += e
			y.lo[o], y.hi[o] = y.lo[o]-e, y.hi[o]+e
		}
	}
	p.values[d.out] = y
}

// withSymbols returns, in ascending order, the numbers of x whose own error gets a symbol behind the layer.
func withSymbols(x *zonotope) []int {
	largest := slices.Max(x.own)
	var out []int
	for j, e := range x.own {
		if e > 0 && e >= minOwnShare*largest && e >= minSymbolShare*x.reach(j) {
			out = append(out, j)
		}
	}
	return out
}

// compileDense compiles Gemm and MatMul with constant weights.
func compileDense(_ context.Context, k *compiler, n *graph.Node, varying []int) error {
	x, out := k.values[n.Input(0)], k.values[n.Outputs[0]]
	if len(x.Dims) == 0 || int64(x.Len()) != x.Dims[len(x.Dims)-1] || n.Int("transA", 0) != 0 {
		return fmt.Errorf("one row of its input has the dimensions %v: want a vector", x.Dims)
	}
	d := &dense{in: k.slot[n.Input(0)], rows: out.Len(), cols: x.Len()}
	w := k.values[n.Input(1)]
	if w.Len() != d.rows*d.cols {
		return fmt.Errorf("its weights have the dimensions %v: want %d x %d", w.Dims, d.cols, d.rows)
	}
	q, err := k.integerCodes(n)
	if err != nil {
		return err
	}
	if q == nil {
		if err := k.refuseRounding(n); err != nil {
			return err
		}
	}
	alpha, beta := 1.0, 1.0
	if n.Op == "Gemm" {
		alpha, beta = float64(n.Float("alpha", 1)), float64(n.Float("beta", 1))
	}
	var v []float64
	if q != nil && alpha == 1 && beta == 1 {
		d.exact, v = true, q.weights
	} else if v, _, err = k.constant(n.Input(1)); err != nil {
		return err
	}
	d.w = make([]float64, len(v))
	for i, x := range v {
		o, j := i%d.rows, i/d.rows
		if n.Op == "Gemm" && n.Int("transB", 0) != 0 {
			o, j = i/d.cols, i%d.cols
		}
		d.w[o*d.cols+j] = alpha * x
	}
	if d.b, err = k.bias(n, d, q, beta); err != nil {
		return err
	}
	d.out = k.name(n.Outputs[0])
	k.p.steps = append(k.p.steps, d)
	return nil
}

// codes are the weights of a layer that runs on an integer kernel, dequantized in double precision.
type codes struct {
	weights    []float64 // as in the file, code times scale
	scales     []float64 // one, or one for each output
	inputScale float64   // of the codes that the layer reads
}

// halfUnit is half of the largest unit of the integer sums: the error of a bias that is rounded to them.
func (q *codes) halfUnit() float64 { return slices.Max(q.scales) * q.inputScale / 2 }

// integerCodes returns the codes of the node's weights if ONNX Runtime runs it on an integer kernel, and nil if not.
func (k *compiler) integerCodes(n *graph.Node) (*codes, error) {
	kernel := k.kernel(n)
	if kernel == nil || !isInteger(kernel) {
		return nil, nil
	}
	dq, data := k.producers[n.Input(1)], k.producers[n.Input(0)]
	if dq == nil || !dq.Is("DequantizeLinear") {
		return nil, errors.New("its weights are floats that ONNX Runtime rounds to 8 bits, " +
			"since there are quantizers on both sides: remove one of those")
	}
	if data == nil || !data.Is("DequantizeLinear") || dq.Int("block_size", 0) != 0 {
		return nil, nil // the bounds of float arithmetic are wider than those of what runs
	}
	v, dims, err := k.constant(dq.Input(0))
	if err != nil {
		return nil, err
	}
	q := &codes{weights: v}
	if q.scales, _, err = k.constant(dq.Input(1)); err != nil {
		return nil, err
	}
	zeros := []float64{0}
	if dq.Input(2) != "" {
		if zeros, _, err = k.constant(dq.Input(2)); err != nil {
			return nil, err
		}
	}
	if q.inputScale, _, _, err = k.grid(data); err != nil {
		return nil, err
	}
	axis := int(dq.Int("axis", 1))
	if axis < 0 {
		axis += len(dims)
	}
	inner := 1
	for _, d := range dims[min(axis+1, len(dims)):] {
		inner *= int(d)
	}
	for i := range v {
		at := i / inner
		v[i] = (v[i] - zeros[at%len(zeros)]) * q.scales[at%len(q.scales)]
	}
	return q, nil
}

// bias returns the bias of the node, one number for each output, in the units of the output.
func (k *compiler) bias(n *graph.Node, d *dense, q *codes, beta float64) ([]float64, error) {
	b := make([]float64, d.rows)
	name := n.Input(2)
	if name == "" {
		if d.exact && k.biasOf(n) != "" { // the kernel may round the bias of the Add to the units of the sums
			d.biasError = q.halfUnit()
		}
		return b, nil
	}
	v, dims, err := k.constant(name)
	if err != nil {
		return nil, err
	}
	if len(v) != 1 && len(v) != d.rows || len(dims) > 2 {
		return nil, fmt.Errorf("its bias has the dimensions %v: want %d numbers", dims, d.rows)
	}
	for o := range b {
		b[o] = beta * v[o%len(v)]
	}
	if !d.exact {
		return b, nil
	}
	dq := k.producers[name]
	if dq == nil || !dq.Is("DequantizeLinear") { // ONNX Runtime rounds it to the units of the sums
		d.biasError = q.halfUnit()
		return b, nil
	}
	ints, _, err := k.constant(dq.Input(0))
	if err != nil {
		return nil, err
	}
	if k.values[dq.Input(0)].DType != graph.Int32 || len(ints) != d.rows {
		return nil, errors.New("its bias is not one int32 code for each output")
	}
	for o := range b {
		b[o] = ints[o] * q.inputScale * q.scales[o%len(q.scales)]
	}
	return b, nil
}
