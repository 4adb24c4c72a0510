package quant_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

type fakeCase struct {
	v, g, s []float32 // ratios or weights, what the loss weights the result with, scales
	lo, hi  []float32
	divide  bool // v are weights, by LearnedSteps
}

const fakeOut, fakeIn = 4, 6

func newFakeCase(scales int, divide bool) *fakeCase {
	r := rand.New(rand.NewPCG(uint64(scales), 8))
	c := &fakeCase{divide: divide, lo: []float32{-2, -4, -8, -128}, hi: []float32{1, 3, 7, 127}}
	for range scales {
		c.s = append(c.s, float32(0.05+0.3*r.Float64()))
	}
	for k := range fakeOut * fakeIn {
		row := k / fakeIn
		// Half as much again as the format holds, so that some are clipped at either end, and never near where rounding
		// jumps, so that float32 and the formulas agree.
		ratio := math.Round(1.5*float64(c.hi[row])*(2*r.Float64()-1)) + 0.8*(r.Float64()-0.5)
		if divide {
			ratio *= float64(c.s[row%scales])
		}
		c.v, c.g = append(c.v, float32(ratio)), append(c.g, float32(r.NormFloat64()))
	}
	// Between the bound and half a step beyond it nothing is clipped, although the ratio is above the bound.
	c.v[0] = 1.4
	if divide {
		c.v[0] *= c.s[0]
	}
	return c
}

// formulas are those of Esser et al., but for where the gradient by the weights ends.
func (c *fakeCase) formulas() (value, byV, byS []float64) {
	byS = make([]float64, len(c.s))
	for k, v := range c.v {
		row := k / fakeIn
		s, g, ratio := float64(c.s[row%len(c.s)]), float64(c.g[k]), float64(v)
		if c.divide {
			ratio /= s
		}
		rounded := math.RoundToEven(ratio)
		code := min(max(rounded, float64(c.lo[row])), float64(c.hi[row]))
		inside := rounded == code
		value = append(value, code*s)
		switch {
		case !inside:
			byV = append(byV, 0)
		case c.divide:
			byV = append(byV, g) // the scale and the quotient's 1/s cancel
		default:
			byV = append(byV, g*s)
		}
		by := code
		if c.divide && inside {
			by = code - ratio
		}
		byS[row%len(c.s)] += g * by
	}
	return value, byV, byS
}

// model is the loss sum(value * g) + sum(round(u) * u), with its value and gradients as outputs.
func (c *fakeCase) model(t *testing.T) *graph.Model {
	t.Helper()
	matrix := graph.Fixed(fakeOut, fakeIn)
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "fake"}}
	types := graph.Types{}
	input := func(name string, shape graph.Shape) {
		m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: name, DType: graph.Float, Shape: shape})
		types[name] = graph.Type{DType: graph.Float, Shape: shape}
	}
	input("v", matrix)
	input("g", matrix)
	input("u", matrix)
	input("s", graph.Fixed(int64(len(c.s)), 1))
	b := graph.NewBuilder(m.Graph, "t.")
	lo, hi := graph.FromFloats("lo", c.lo, fakeOut, 1), graph.FromFloats("hi", c.hi, fakeOut, 1)
	policy := map[string]autodiff.Rule{}
	f := &quant.Fake{Builder: b, Model: m, Types: types, Rules: policy}
	var made quant.FakeWeights
	if c.divide {
		logs := b.Op("Log", []string{"s"})
		types[logs] = types["s"]
		made = f.LearnedSteps("v", logs, lo, hi)
	} else {
		made = f.Weights("v", "s", lo, hi)
	}
	value, codes := made.Value, made.Codes
	user := b.Op("Mul", []string{b.Op("Round", []string{"u"}), "u"})
	y := b.Op("Add", []string{b.Op("Mul", []string{value, "g"}), user})
	axes := b.Const(graph.FromInts("axes", []int64{0, 1}, 2))
	loss := b.Op("ReduceSum", []string{y, axes}, graph.IntAttr("keepdims", 0))
	grads := must.Get(autodiff.Gradients(m.Graph, types, loss, []string{"v", "s", "u"}, autodiff.Options{
		Prefix: "d.", Policy: policy,
	}))(t)
	for _, name := range append([]string{value, codes, loss}, grads...) {
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: name, DType: graph.Float})
	}
	return m
}

func (c *fakeCase) feeds(s, u []float32) []*graph.Tensor {
	return []*graph.Tensor{
		graph.FromFloats("v", c.v, fakeOut, fakeIn), graph.FromFloats("g", c.g, fakeOut, fakeIn),
		graph.FromFloats("u", u, fakeOut, fakeIn), graph.FromFloats("s", s, int64(len(s)), 1),
	}
}

func (c *fakeCase) run(t *testing.T, m *graph.Model, s, u []float32) (out [6][]float32) {
	t.Helper()
	for k, v := range orttest.Run(t, m, orttest.Need(t), c.feeds(s, u)...) {
		got := must.Get(ort.FloatsOf(v))(t)
		out[k] = got
	}
	return out
}

func near(t *testing.T, what string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	must.Same(must.In(t, what), len(want), len(got))
	for k, w := range want {
		if !(math.Abs(float64(got[k])-w) <= tolerance*(1+math.Abs(w))) {
			t.Errorf("%s %d: %v, want %v", what, k, got[k], w)
		}
	}
}

func forFakeCases(t *testing.T, test func(t *testing.T, c *fakeCase)) {
	t.Parallel()
	for name, c := range map[string]*fakeCase{
		"per tensor":             newFakeCase(1, false),
		"per channel":            newFakeCase(fakeOut, false),
		"per tensor, step size":  newFakeCase(1, true),
		"per channel, step size": newFakeCase(fakeOut, true),
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

func TestFakeWeights(t *testing.T) {
	forFakeCases(t, func(t *testing.T, c *fakeCase) {
		value, byV, byS := c.formulas()
		clipped := 0
		for k, v := range value {
			if code := v / float64(c.s[k/fakeIn%len(c.s)]); byV[k] == 0 && code < 0 {
				clipped++
			}
		}
		if clipped == 0 || byV[0] == 0 {
			t.Fatalf("%d weights are clipped below, the gradient by the first is %v: the case is too easy", clipped, byV[0])
		}
		got := c.run(t, c.model(t), c.s, make([]float32, fakeOut*fakeIn))
		near(t, "value", got[0], value, 1e-6)
		near(t, "gradient by the weights", got[3], byV, 1e-5)
		near(t, "gradient by the scale", got[4], byS, 1e-4)
		for k, q := range got[1] {
			must.Same(t, math.Round(value[k]/float64(c.s[k/fakeIn%len(c.s)])), float64(q))
		}
	})
}

// At fixed ratios the loss is linear in the scale: central differences are its gradient.
func TestFakeQuantScaleByDifferences(t *testing.T) {
	t.Parallel()
	for _, scales := range []int{1, fakeOut} {
		c := newFakeCase(scales, false)
		m := c.model(t)
		u := make([]float32, fakeOut*fakeIn)
		grad := c.run(t, m, c.s, u)[4]
		for i := range c.s {
			const h = 0.125
			loss := func(by float32) float64 {
				s := append([]float32{}, c.s...)
				s[i] += by
				return float64(c.run(t, m, s, u)[2][0])
			}
			got := (loss(h) - loss(-h)) / (2 * h)
			near(t, "gradient by the scale", grad[i:i+1], []float64{got}, 1e-3)
		}
	}
}

// The rules are those of the quantizer's own node: Round of the user's model keeps its gradient, which is zero.
func TestFakeQuantLeavesRound(t *testing.T) {
	forFakeCases(t, func(t *testing.T, c *fakeCase) {
		u, want := make([]float32, fakeOut*fakeIn), make([]float64, fakeOut*fakeIn)
		for k := range u {
			u[k] = float32(k)/3 - 4
			want[k] = math.RoundToEven(float64(u[k])) // of round(u) * u, at constant round(u)
		}
		near(t, "gradient by the user's value", c.run(t, c.model(t), c.s, u)[5], want, 1e-6)
	})
}

func TestFakeQuantFunctionOnce(t *testing.T) {
	t.Parallel()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "fake"}}
	types := graph.Types{"v": {DType: graph.Float, Shape: graph.Fixed(1, 2)}}
	b := graph.NewBuilder(m.Graph, "")
	names := map[string]bool{}
	for range 3 {
		f := &quant.Fake{Builder: b, Model: m, Types: types, Rules: map[string]autodiff.Rule{}}
		w := f.Weights("v", "s", graph.FromFloats("lo", []float32{-2}, 1, 1), graph.FromFloats("hi", []float32{1}, 1, 1))
		value, codes := w.Value, w.Codes
		names[value], names[codes] = true, true
		if types[value].DType != graph.Float || len(types[codes].Shape) != 2 {
			t.Errorf("the types of %q and %q are %v and %v", value, codes, types[value], types[codes])
		}
	}
	if len(m.Functions) != 1 || len(names) != 6 || m.Opset("cfq") != 1 {
		t.Errorf("%d functions, names %v, opset %d", len(m.Functions), names, m.Opset("cfq"))
	}
}
