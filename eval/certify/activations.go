package certify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// bends compiles activation functions and bounds.
func bends(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	out := k.values[n.Outputs[0]]
	if len(moving) != 1 {
		return errors.New("several of its inputs depend on the model's")
	}
	size := out.Len()
	list, err := k.curves(n, moving[0], out.Dims)
	if err != nil {
		return err
	}
	at := k.spread(n.Input(moving[0]), out.Dims)
	for i, of := range list {
		d := &bend{in: at, of: of, out: k.p.slots}
		if len(of) != size {
			return fmt.Errorf("its constants do not fit %d numbers", size)
		}
		k.p.slots++
		at = d.out
		k.p.steps = append(k.p.steps, d)
		k.p.twins[fmt.Sprintf("%s#%d", n.Outputs[0], i)] = d
	}
	k.slot[n.Outputs[0]] = at
	return nil
}

// curves returns the curves that the node applies one after the other, each for all numbers.
func (k *compiler) curves(n *graph.Node, moving int, dims []int64) ([][]curve, error) {
	size := k.values[n.Outputs[0]].Len()
	all := func(c curve) []curve { return slices.Repeat([]curve{c}, size) }
	var out [][]curve
	bound := func(name string, lower bool) error {
		if name == "" {
			return nil
		}
		v, d, err := k.constant(name)
		if err != nil {
			return err
		}
		of := make([]curve, 0, size)
		for _, i := range broadcast(d, dims) {
			h := hinge{knee: v[i], left: 1}
			if lower {
				h.left, h.right = 0, 1
			}
			of = append(of, h)
		}
		out = append(out, of)
		return nil
	}
	switch n.Op {
	case "Relu":
		return [][]curve{all(hinge{0, 0, 1})}, nil
	case "LeakyRelu":
		a := float64(n.Float("alpha", 0.01))
		if a < 0 {
			return nil, fmt.Errorf("its slope %v is negative", a)
		}
		return [][]curve{all(hinge{0, a, 1})}, nil
	case "Sigmoid", "Tanh":
		return [][]curve{all(smooth{tanh: n.Op == "Tanh"})}, nil
	case "Clip":
		for _, a := range []string{"min", "max"} {
			if at := n.Attr(a); at != nil {
				h := hinge{knee: float64(at.F), left: 1}
				if a == "min" {
					h.left, h.right = 0, 1
				}
				out = append(out, all(h))
			}
		}
		if moving != 0 {
			return nil, errors.New("its bounds depend on the model's input")
		}
		return out, errors.Join(bound(n.Input(1), true), bound(n.Input(2), false))
	}
	for i, in := range n.Inputs {
		if i != moving {
			if err := bound(in, n.Op == "Max"); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// grid reads the scale and zero point of a QuantizeLinear or DequantizeLinear of activations.
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

func quantizer(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	if err := only(moving); err != nil {
		return err
	}
	scale, zero, codes, err := k.grid(n)
	if err != nil {
		return err
	}
	if err := k.doubled(n); err != nil {
		return err
	}
	d := &quantize{in: k.slot[n.Input(0)], scale: scale, zero: zero, qmax: 255}
	switch codes {
	case graph.Uint8:
	case graph.Int8:
		d.qmin, d.qmax = -128, 127
	default:
		return fmt.Errorf("it makes %s", codes)
	}
	d.out = k.name(n.Outputs[0])
	k.p.steps = append(k.p.steps, d)
	return nil
}

func dequantizer(_ context.Context, k *compiler, n *graph.Node, moving []int) error {
	if err := only(moving); err != nil {
		return err
	}
	scale, zero, _, err := k.grid(n)
	if err != nil {
		return err
	}
	k.affine(n, k.slot[n.Input(0)], k.values[n.Input(0)].Len(), func(int) (a, b, terms float64) { return scale, -scale * zero, 0 })
	k.p.steps[len(k.p.steps)-1].(*affine).terms = nil // what reads it accounts for its rounding, if there is any
	return nil
}
