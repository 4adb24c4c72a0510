package certify

import (
	"errors"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// product compiles a Mul of two values that depend on the model's input, where both are functions of one number whose
// product is an activation function written out: Silu, Gelu or HardSwish.
func (k *compiler) product(n *graph.Node) error {
	for _, source := range k.sources(n.Input(0), nil) {
		if k.values[source].Len() != k.values[n.Outputs[0]].Len() {
			continue
		}
		f := func(x float64) float64 {
			return k.evaluate(n.Input(0), source, x) * k.evaluate(n.Input(1), source, x)
		}
		for _, c := range []curve{
			{kind: curveSilu, alpha: 1}, {kind: curveSilu, alpha: 1.702}, {kind: curveGelu}, {kind: curveHardSwish},
		} {
			c.factor = 1
			if c.factor = f(8) / c.at(8); c.equals(f) {
				k.activate(n, k.slot[source], [][]function{slices.Repeat([]function{c}, k.values[source].Len())})
				return nil
			}
		}
	}
	return errors.New("both of its inputs depend on the model's, and are no activation function that certificates know")
}

// equals reports whether f is the curve, up to the rounding of constants in float32.
func (c curve) equals(f func(x float64) float64) bool {
	if !(math.Abs(c.factor) > 0) || math.IsInf(c.factor, 0) {
		return false
	}
	for x := -15.0; x <= 15; x += 0.01 {
		if !(math.Abs(f(x)-c.at(x)) <= 1e-6*math.Abs(c.factor)*(1+math.Abs(x))) {
			return false
		}
	}
	return true
}

// sources are the values that depend on the model's input from which a value is computed number by number, the nearest
// first.
func (k *compiler) sources(value string, seen []string) []string {
	n := k.producers[value]
	if _, varies := k.slot[value]; !varies || slices.Contains(seen, value) {
		return seen
	}
	seen = append(seen, value)
	if n != nil && n.Standard() && slices.Contains(pointwise(), n.Op) {
		for _, in := range n.Inputs {
			seen = k.sources(in, seen)
		}
	}
	return seen
}

// pointwise are the operators of which activation functions are written out.
func pointwise() []string {
	return []string{"Add", "Sub", "Mul", "Div", "Neg", "Sigmoid", "Erf", "HardSigmoid", "Clip", "Relu", "Identity"}
}

// evaluate computes a value as a function of another one; NaN when it is not such a function.
func (k *compiler) evaluate(value, source string, x float64) float64 {
	if value == source {
		return x
	}
	n := k.producers[value]
	if _, varies := k.slot[value]; !varies {
		v, _, err := k.constant(value)
		if err != nil || len(v) == 0 || slices.Min(v) != slices.Max(v) {
			return math.NaN()
		}
		return v[0]
	}
	if n == nil || !n.Standard() || !slices.Contains(pointwise(), n.Op) {
		return math.NaN()
	}
	of := func(i int) float64 { return k.evaluate(n.Input(i), source, x) }
	switch n.Op {
	case "Add":
		return of(0) + of(1)
	case "Sub":
		return of(0) - of(1)
	case "Mul":
		return of(0) * of(1)
	case "Div":
		return of(0) / of(1)
	case "Neg":
		return -of(0)
	case "Identity":
		return of(0)
	}
	list, err := k.functions(n, 0, 1)
	y := of(0)
	if err != nil {
		return math.NaN()
	}
	for _, f := range list {
		y = f[0].at(y)
	}
	return y
}
