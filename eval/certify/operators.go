package certify

import (
	"context"
	"errors"
	"fmt"
	"math"

	"cfq/onnxio/graph"
)

// maker compiles a node of which the inputs at moving depend on the model's input.
type maker func(ctx context.Context, k *compiler, n *graph.Node, moving []int) error

// operators are those that certificates know.
func operators() map[string]maker {
	table := map[string]maker{
		"Gemm": layer, "MatMul": layer,
		"Add": arithmetic, "Sub": arithmetic, "Mul": arithmetic, "Div": arithmetic, "Neg": arithmetic,
		"BatchNormalization": normalization,
		"Relu":               bends, "LeakyRelu": bends, "Clip": bends, "Min": bends, "Max": bends, "Sigmoid": bends, "Tanh": bends,
		"QuantizeLinear": quantizer, "DequantizeLinear": dequantizer,
		"Cast": cast,
	}
	for i, op := range movers() {
		table[op] = moves
		if i < inOrder {
			table[op] = same
		}
	}
	return table
}

// inOrder is how many of movers leave numbers in their order.
const inOrder = 6

// movers are the operators that leave numbers as they are.
func movers() []string {
	return []string{"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Slice", "Transpose", "Split", "Expand", "Tile", "Concat"}
}

// only reports whether the first input alone depends on the model's.
func only(moving []int) error {
	if len(moving) != 1 || moving[0] != 0 {
		return errors.New("only its first input may depend on the model's")
	}
	return nil
}

// same is for operators that leave all numbers as they are, in their order.
func same(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	if err := only(moving); err != nil {
		return err
	}
	if n.Op == "Dropout" && n.Input(2) != "" {
		if v, _, err := k.constant(n.Input(2)); err != nil || len(v) != 1 || v[0] != 0 {
			return errors.New("it is in training mode")
		}
	}
	k.slot[n.Outputs[0]] = k.slot[n.Input(0)]
	return nil
}

func cast(_ context.Context, k *compiler, n *graph.Node, _ []int) error {
	in, to := k.values[n.Input(0)], graph.DType(n.Int("to", 0))
	switch {
	case to == graph.Double || to == graph.Float && in.DType != graph.Double:
		k.slot[n.Outputs[0]] = k.slot[n.Input(0)]
	case to == graph.Float:
		k.affine(n, k.slot[n.Input(0)], in.Len(), func(int) (a, b, terms float64) { return 1, 0, 0 })
	default:
		return fmt.Errorf("it makes %s of %s", to, in.DType)
	}
	return nil
}

// affine adds the step y = a x + b for the size numbers of slot in.
func (k *compiler) affine(n *graph.Node, in, size int, of func(i int) (a, b, terms float64)) {
	d := &affine{in: in, a: make([]float64, size), b: make([]float64, size), terms: make([]float64, size)}
	for i := range size {
		d.a[i], d.b[i], d.terms[i] = of(i)
	}
	d.out = k.name(n.Outputs[0])
	k.p.steps = append(k.p.steps, d)
}

// arithmetic compiles Add, Sub, Mul, Div and Neg.
func arithmetic(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	out := k.values[n.Outputs[0]]
	if len(moving) == 2 {
		if n.Op != "Add" && n.Op != "Sub" {
			return errors.New("both of its inputs depend on the model's")
		}
		in := []int{k.spread(n.Input(0), out.Dims), k.spread(n.Input(1), out.Dims)}
		sign := []float64{1, 1}
		if n.Op == "Sub" {
			sign[1] = -1
		}
		k.p.steps = append(k.p.steps, &sum{in: in, sign: sign, out: k.name(n.Outputs[0])})
		return nil
	}
	in := k.spread(n.Input(moving[0]), out.Dims)
	if n.Op == "Neg" {
		k.affine(n, in, out.Len(), func(int) (a, b, terms float64) { return -1, 0, 0 })
		return nil
	}
	v, dims, err := k.constant(n.Input(1 - moving[0]))
	if err != nil {
		return err
	}
	at := broadcast(dims, out.Dims)
	if n.Op == "Div" && moving[0] != 0 {
		return errors.New("its divisor depends on the model's input")
	}
	k.affine(n, in, out.Len(), func(i int) (a, b, terms float64) {
		switch c := v[at[i]]; n.Op {
		case "Add":
			return 1, c, 0
		case "Mul":
			return c, 0, 0
		case "Div":
			return 1 / c, 0, 0
		default:
			if moving[0] == 1 {
				return -1, c, 0
			}
			return 1, -c, 0
		}
	})
	return nil
}

// spread returns the slot of a value broadcast to dims.
func (k *compiler) spread(value string, dims []int64) int {
	from := k.slot[value]
	at := broadcast(k.values[value].Dims, dims)
	if k.values[value].Len() == len(at) {
		return from
	}
	d := &pick{out: k.p.slots}
	k.p.slots++
	for _, i := range at {
		d.at = append(d.at, source{from: from, of: i})
	}
	k.p.steps = append(k.p.steps, d)
	return d.out
}

// broadcast returns, for each element of a tensor of the dimensions to, the element of one of dims that it meets.
func broadcast(dims, to []int64) []int {
	size := 1
	for _, d := range to {
		size *= int(d)
	}
	at := make([]int, size)
	for i := range at {
		rest, step := i, 1
		for axis := len(to) - 1; axis >= 0; axis-- {
			own := axis - (len(to) - len(dims))
			at1 := rest % int(to[axis])
			rest /= int(to[axis])
			if own < 0 {
				continue
			}
			if dims[own] != 1 {
				at[i] += at1 * step
			}
			step *= int(dims[own])
		}
	}
	return at
}

func normalization(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	if err := only(moving); err != nil {
		return err
	}
	if n.Int("training_mode", 0) != 0 {
		return errors.New("it is in training mode")
	}
	x := k.values[n.Input(0)]
	if len(x.Dims) < 2 {
		return fmt.Errorf("it reads a value of %d dimensions", len(x.Dims))
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
