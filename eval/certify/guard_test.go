package certify

import (
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// tiny is a network of one operator, or, for Gemm, one layer.
func tiny(op string) *graph.Model {
	rows := graph.Shape{{Size: -1, Param: "N"}, {Size: 1}}
	g := &graph.Graph{
		Name: "tiny", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows}},
		Inits:   []*graph.Tensor{graph.FromFloats("w", []float32{2}, 1, 1)},
		Nodes:   []*graph.Node{{Op: op, Inputs: []string{"x"}, Outputs: []string{"y"}}},
	}
	if op == "Gemm" {
		g.Nodes[0].Inputs = append(g.Nodes[0].Inputs, "w")
	}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
}

// A machine that computes something else than the file says is found out.
func TestHold(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	k := must.Get(Open(t.Context(), loaded(t, tiny("Gemm"), o), loaded(t, tiny("Gemm"), o), 1))(t)
	defer k.Close() //nolint:errcheck // nothing was written
	point, half := []float32{1}, []float32{0.25}
	got, err := k.Prove(t.Context(), point, half, 1)
	if err != nil || math.Abs(float64(got[0].Lower)-1.5) > 1e-5 || got[0].Apart > 1e-5 {
		t.Fatalf("2x is at least %v for x in [0.75, 1.25], and %v from itself: %v", got[0].Lower, got[0].Apart, err)
	}
	k.quant.p.steps[0].(*dense).w[0] = 3 // as if the file said so
	got, err = k.Prove(t.Context(), point, half, 1)
	if err == nil || !strings.Contains(err.Error(), "without --full-range") {
		t.Errorf("got %v, %v", got, err)
	}
}

// A quantizer's line and remainder cover its staircase, at its ends and beyond them.
func TestQuantizeCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		q         quantize
		from, to  float64
		pointwise bool
	}{
		{quantize{scale: 0.5, qmax: 255}, 0.3, 7, false},
		{quantize{scale: 0.5, qmax: 255}, -3, 2, false},
		{quantize{scale: 0.5, zero: 7, qmax: 15}, -9, 9, false},
		{quantize{scale: 0.5, zero: 3, qmin: -128, qmax: 127}, 60, 70, false},
		{quantize{scale: 0.5, qmax: 255}, 0.9, 1.1, true},
	} {
		for _, p := range []pass{{first: true}, {}} {
			p.noiseSymbols, p.values = &noiseSymbols{}, make([]*zonotope, 2)
			x := p.box([]float32{float32(c.from+c.to) / 2}, []float32{float32(c.to-c.from) / 2})
			p.values[0] = x
			q := c.q
			q.out = 1
			q.run(&p)
			y := p.values[1]
			for i := range 2001 {
				s := float64(i)/1000 - 1
				got := q.code((x.c[0] + s*x.row(0)[0]) / q.scale)
				if want := y.c[0] + s*y.row(0)[0]; math.Abs(got-want) > y.own[0] || got < y.lo[0] || got > y.hi[0] {
					t.Fatalf("%+v at %v: code %v, said to be within %v of %v, and in [%v, %v]", c, s, got, y.own[0], want, y.lo[0],
						y.hi[0])
				}
			}
			if c.pointwise && y.own[0] != 0 {
				t.Errorf("%+v: one code, and yet uncertain by %v", c, y.own[0])
			}
		}
	}
}

// Nothing is proved where a number between the layers may be too large for float32, though the margin is not.
func TestOverflow(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	m := tiny("Gemm")
	m.Graph.Inits = []*graph.Tensor{
		graph.FromFloats("w", []float32{-1e30}, 1, 1),
		graph.FromFloats("v", []float32{1e-30}, 1, 1),
	}
	m.Graph.Nodes = []*graph.Node{
		{Name: "first", Op: "Gemm", Inputs: []string{"x", "w"}, Outputs: []string{"h"}},
		{Name: "second", Op: "Gemm", Inputs: []string{"h", "v"}, Outputs: []string{"y"}},
	}
	k := must.Get(Open(t.Context(), loaded(t, m, o), loaded(t, m, o), 1))(t)
	defer k.Close() //nolint:errcheck // nothing was written
	got := must.Get(k.Prove(t.Context(), []float32{1e8, 1e8}, []float32{5e8, 1e8}, 2))(t)
	if !math.IsInf(float64(got[0].Lower), -1) || !math.IsInf(float64(got[0].Apart), 1) {
		t.Errorf("6e8 times -1e30 is -Inf in float32, and %v was proved", got[0])
	}
	if math.IsInf(float64(got[1].Lower), -1) {
		t.Error("nothing is proved where nothing overflows")
	}
}

// loaded opens a model in memory.
func loaded(t *testing.T, g *graph.Model, o ort.Options) *onnxio.Model {
	t.Helper()
	return must.Get(onnxio.FromGraph(t.Context(), g, o))(t)
}
