package certify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// layer compiles Gemm and MatMul with constant weights.
func layer(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	if err := only(moving); err != nil {
		return err
	}
	x, out := k.values[n.Input(0)], k.values[n.Outputs[0]]
	if len(x.Dims) == 0 || int64(x.Len()) != x.Dims[len(x.Dims)-1] || n.Int("transA", 0) != 0 {
		return fmt.Errorf("what it reads has, in one row, the dimensions %v; certificates need a list of numbers", x.Dims)
	}
	d := &dense{node: n.Name, in: k.slot[n.Input(0)], rows: out.Len(), cols: x.Len()}
	if d.node == "" {
		d.node = n.Outputs[0]
	}
	w := k.values[n.Input(1)]
	if w.Len() != d.rows*d.cols {
		return fmt.Errorf("its weights have the dimensions %v, not %d x %d", w.Dims, d.cols, d.rows)
	}
	q, err := k.integer(n)
	if err != nil {
		return err
	}
	if q == nil {
		if err := k.rounds(n); err != nil {
			return err
		}
	}
	alpha, beta := 1.0, 1.0
	if n.Op == "Gemm" {
		alpha, beta = float64(n.Float("alpha", 1)), float64(n.Float("beta", 1))
	}
	v := []float64(nil)
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

// codes are the weights of a layer that runs on an integer kernel.
type codes struct {
	weights []float64 // as in the file, code times scale
	scales  []float64 // one, or one for each output
	data    float64   // scale of what the layer reads
}

// unit is half of the largest unit of the sums.
func (q *codes) unit() float64 { return slices.Max(q.scales) * q.data / 2 }

// integer returns the codes of the node's weights if ONNX Runtime runs it on an integer kernel, and nil if not.
func (k *compiler) integer(n *graph.Node) (*codes, error) {
	kernel := k.kernel(n)
	if kernel == nil || !isInteger(kernel) {
		return nil, nil
	}
	dq, data := k.producers[n.Input(1)], k.producers[n.Input(0)]
	if dq == nil || !dq.Is("DequantizeLinear") {
		return nil, errors.New("its weights are floats that ONNX Runtime rounds to 8 bits, since there are quantizers on both sides: remove one of those")
	}
	if data == nil || !data.Is("DequantizeLinear") || dq.Int("block_size", 0) != 0 {
		return nil, nil // float arithmetic is further from exact than what runs
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
	if q.data, _, _, err = k.grid(data); err != nil {
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

// bias returns that of the node, in the units of its output.
func (k *compiler) bias(n *graph.Node, d *dense, q *codes, beta float64) ([]float64, error) {
	b := make([]float64, d.rows)
	name := n.Input(2)
	if name == "" {
		if d.exact && k.biasOf(n) != "" { // that of an Add, which the kernel may round to the units of the sums
			d.between = q.unit()
		}
		return b, nil
	}
	v, dims, err := k.constant(name)
	if err != nil {
		return nil, err
	}
	if len(v) != 1 && len(v) != d.rows || len(dims) > 2 {
		return nil, fmt.Errorf("its bias has the dimensions %v", dims)
	}
	for o := range b {
		b[o] = beta * v[o%len(v)]
	}
	if !d.exact {
		return b, nil
	}
	dq := k.producers[name]
	if dq == nil || !dq.Is("DequantizeLinear") {
		// ONNX Runtime rounds it to the units of the sums.
		d.between = q.unit()
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
		b[o] = ints[o] * q.data * q.scales[o%len(q.scales)]
	}
	return b, nil
}
