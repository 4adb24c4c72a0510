package autodiff_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

func draws() int {
	if os.Getenv("CFQ_LONG") == "1" {
		return 60
	}
	return 4
}

// TestRandom holds every operator of the table against central differences, first and second order, for shapes,
// attributes and values that nobody thought of, the same on every run. What the table refuses must be refused by the
// operator's name.
func TestRandom(t *testing.T) {
	rt := orttest.Need(t)
	generators := generators()
	for _, op := range autodiff.Operators() {
		if op.Kind == autodiff.Constant {
			continue // see TestConstants
		}
		generate, ok := generators[op.Name]
		if !ok {
			t.Errorf("%s has a rule, but nothing draws uses of it", op.Name)
			continue
		}
		delete(generators, op.Name)
		t.Run(op.Name, func(t *testing.T) {
			name := fnv.New32a()
			name.Write([]byte(op.Name))
			all := rapid.Custom(generate)
			for i := range draws() {
				s := all.Example(int(name.Sum32()>>1) + i)
				if s.op != op.Name {
					t.Fatalf("a use of %s", s.op)
				}
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					defer func() {
						if t.Failed() {
							t.Log(s.name(), attributes(&graph.Node{Attrs: s.attrs}))
						}
					}()
					checkSample(t, rt, s, 2)
				})
			}
		})
	}
	for name := range generators {
		t.Errorf("uses of %s are drawn, which is not in the table", name)
	}
}

func shape(t *rapid.T, lo, hi int) string {
	return batched(t, sizes(t, lo, hi))
}

func batched(t *rapid.T, dims []int64) string {
	s := text(dims)
	if len(dims) > 0 && rapid.Bool().Draw(t, "batch") {
		_, rest, _ := strings.Cut(s, " ")
		s = strings.TrimSpace("N " + rest)
	}
	return s
}

func anAxis(t *rapid.T, rank int) int64 {
	return rapid.Int64Range(-int64(rank), int64(rank)-1).Draw(t, "axis")
}

func small(t *rapid.T, name string, lo, hi int64) int64 {
	return rapid.Int64Range(lo, hi).Draw(t, name)
}

func oneOf[T any](t *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(t, name) }

func either(t *rapid.T, name string, of ...float32) (graph.Attr, float64) {
	v := oneOf(t, name, of...)
	return real(name, v), float64(v)
}

func generators() map[string]func(*rapid.T) sample {
	all := map[string]func(*rapid.T) sample{}
	for _, some := range []map[string]func(*rapid.T) sample{
		functionGenerators(), elementwiseGenerators(), shapeGenerators(), placeGenerators(), imageGenerators(),
		normGenerators(), productGenerators(),
	} {
		for name, g := range some {
			all[name] = g
		}
	}
	return all
}

func functionGenerators() map[string]func(*rapid.T) sample {
	type domain struct {
		lo, hi float64
		single bool
		kinks  []float64
	}
	all := map[string]func(*rapid.T) sample{}
	for name, d := range map[string]domain{
		"Neg": {-2, 2, false, nil}, "Abs": {-2, 2, false, []float64{0}}, "Reciprocal": {0.3, 2, false, nil},
		"Exp": {-2, 2, false, nil}, "Log": {0.3, 2, false, nil}, "Sqrt": {0.3, 2, false, nil}, "Erf": {-2, 2, true, nil},
		"Sin": {-3, 3, false, nil}, "Cos": {-3, 3, true, nil}, "Tan": {-1, 1, true, nil}, "Asin": {-0.6, 0.6, true, nil},
		"Acos": {-0.6, 0.6, true, nil}, "Atan": {-2, 2, true, nil}, "Sinh": {-2, 2, true, nil}, "Cosh": {-2, 2, true, nil},
		"Asinh": {-2, 2, true, nil}, "Acosh": {1.5, 3, true, nil}, "Atanh": {-0.6, 0.6, true, nil},
		"Relu": {-2, 2, false, []float64{0}}, "Sigmoid": {-4, 4, false, nil}, "Tanh": {-2, 2, false, nil},
		"Softplus": {-3, 3, false, nil}, "Softsign": {-2, 2, false, []float64{0}}, "Mish": {-3, 3, false, nil},
		"HardSwish": {-5, 5, false, []float64{-3, 3}}, "Identity": {-2, 2, false, nil}, "Dropout": {-2, 2, false, nil},
		"GlobalAveragePool": {}, "GlobalMaxPool": {}, "GlobalLpPool": {},
	} {
		if d.lo < d.hi {
			all[name] = func(t *rapid.T) sample {
				x := in(shape(t, 0, 3)).within(d.lo, d.hi).avoid(d.kinks...)
				return sample{op: name, in: []operand{x}, single: d.single}
			}
		}
	}
	with := func(op string, lo, hi float64, draw func(t *rapid.T) ([]graph.Attr, []float64)) {
		all[op] = func(t *rapid.T) sample {
			attrs, kinks := draw(t)
			return sample{op: op, in: []operand{in(shape(t, 0, 3)).within(lo, hi).avoid(kinks...)}, attrs: attrs}
		}
	}
	for _, op := range []string{"LeakyRelu", "Elu", "Celu"} {
		with(op, -2, 2, func(t *rapid.T) ([]graph.Attr, []float64) {
			a, _ := either(t, "alpha", 0.01, 0.3, 1.2)
			return attrs(a), []float64{0}
		})
	}
	with("Selu", -2, 2, func(t *rapid.T) ([]graph.Attr, []float64) {
		a, _ := either(t, "alpha", 0.5, 1.6732632)
		b, _ := either(t, "gamma", 0.7, 1.050701)
		return attrs(a, b), []float64{0}
	})
	with("HardSigmoid", -4, 4, func(t *rapid.T) ([]graph.Attr, []float64) {
		a, slope := either(t, "alpha", 0.2, 0.5)
		b, at := either(t, "beta", 0.5, 0.3)
		return attrs(a, b), []float64{-at / slope, (1 - at) / slope}
	})
	with("ThresholdedRelu", -2, 2, func(t *rapid.T) ([]graph.Attr, []float64) {
		a, at := either(t, "alpha", 1, 0, -0.5)
		return attrs(a), []float64{at}
	})
	with("Shrink", -2, 2, func(t *rapid.T) ([]graph.Attr, []float64) {
		a, at := either(t, "lambd", 0.5, 1)
		b, _ := either(t, "bias", 0, 0.3)
		return attrs(a, b), []float64{at, -at}
	})
	with("Swish", -3, 3, func(t *rapid.T) ([]graph.Attr, []float64) {
		a, _ := either(t, "alpha", 1, 0.5, -1.5)
		return attrs(a), nil
	})
	with("Gelu", -2, 2, func(t *rapid.T) ([]graph.Attr, []float64) {
		return attrs(word("approximate", oneOf(t, "form", "none", "tanh"))), nil
	})
	opset := map[string]int64{"Swish": 24, "Gelu": 20}
	for op, version := range opset {
		draw := all[op]
		all[op] = func(t *rapid.T) sample {
			s := draw(t)
			s.opset = version
			s.single = op == "Gelu" && string(s.attrs[0].S) == "none"
			return s
		}
	}
	return all
}

func elementwiseGenerators() map[string]func(*rapid.T) sample {
	all := map[string]func(*rapid.T) sample{}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"} {
		all[op] = func(t *rapid.T) sample {
			full := sizes(t, 0, 4)
			a, b := broadcastable(t, full), broadcastable(t, full)
			s := sample{op: op, in: []operand{in(text(a)).within(0.5, 2), in(text(b)).within(0.52, 2)}}
			if slices.Contains([]string{"Max", "Min", "Sum", "Mean"}, op) && rapid.Bool().Draw(t, "third") {
				s.in = append(s.in, in(text(broadcastable(t, full))).within(0.51, 2))
			}
			return s
		}
	}
	all["Mod"] = func(t *rapid.T) sample {
		// 2.3 to 2.7 times the divisor: nowhere near a jump.
		dims := text(sizes(t, 0, 3))
		return sample{
			op: "Mod", attrs: attrs(number("fmod", 1)),
			in: []operand{in(dims).within(2.3, 2.7), in(dims).within(0.95, 1.05)},
		}
	}
	all["PRelu"] = func(t *rapid.T) sample {
		full := sizes(t, 1, 4)
		return sample{op: "PRelu", in: []operand{in(text(full)).avoid(0), in(text(broadcastable(t, full)))}}
	}
	all["Where"] = func(t *rapid.T) sample {
		full := sizes(t, 0, 3)
		of := broadcastable(t, full)
		bits := make([]byte, graph.FromInts("", nil, of...).Len())
		for i := range bits {
			bits[i] = byte(small(t, "bit", 0, 1))
		}
		return sample{op: "Where", in: []operand{
			mask(bits, of...), in(text(broadcastable(t, full))), in(text(broadcastable(t, full))),
		}}
	}
	all["Clip"] = func(t *rapid.T) sample {
		s := sample{op: "Clip", in: []operand{in(shape(t, 0, 3)).avoid(-1, 1), absent(), absent()}}
		if rapid.Bool().Draw(t, "min") {
			s.in[1] = in("").within(-1.03, -0.97)
		}
		if rapid.Bool().Draw(t, "max") {
			s.in[2] = in("").within(0.97, 1.03)
		}
		return s
	}
	for _, op := range []string{"Softmax", "LogSoftmax"} {
		all[op] = func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			return sample{op: op, in: []operand{in(batched(t, dims))}, attrs: attrs(number("axis", anAxis(t, len(dims))))}
		}
	}
	return all
}
