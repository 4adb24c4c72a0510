package sensitivity

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

func deep(seed uint64) *graph.Model {
	r := rand.New(rand.NewPCG(seed, 1))
	draw := func(name string, dims ...int64) *graph.Tensor {
		return normal(r, 1/math.Sqrt(float64(dims[len(dims)-1])), name, dims...)
	}
	return chain(5, []*graph.Tensor{
		draw("w1", 12, 5), draw("b1", 12), draw("w2", 8, 12), draw("b2", 8), draw("w3", 2, 8), draw("b3", 2),
		draw("w4", 2, 5), draw("b4", 2),
	},
		gemm("x", "h1", "w1", "b1"), unary("Tanh", "h1", "a1"), gemm("a1", "h2", "w2", "b2"), unary("Tanh", "h2", "a2"),
		gemm("a2", "h3", "w3", "b3"), gemm("x", "h4", "w4", "b4"),
		&graph.Node{Op: "Add", Name: "z", Inputs: []string{"h3", "h4"}, Outputs: []string{"z"}})
}

func planned(l quant.LayerInfo, f quant.Format) quant.Layer {
	p := quant.Layer{Node: l.Node, Bits: f.Bits, Reduced: true}
	for o := range l.Out {
		var largest float64
		for _, v := range l.Row(o) {
			largest = max(largest, math.Abs(float64(v)))
		}
		p.Scales = append(p.Scales, float32(largest/float64(f.QMax)))
	}
	act := quant.FitAct(8, -3, 3)
	p.Act = &act
	return p
}

func written(c *classifier.Model, m *graph.Model, plan *quant.Plan) (*classifier.Model, error) {
	q, err := qdq.Write(m, plan, qdq.Options{})
	if err != nil {
		return nil, err
	}
	return c.With(q), nil
}

// The estimate against the measurement, in which the written model is run: equal to rounding where all behind the layer
// is linear, nearly equal at eight bits, and of the same order of widths.
func TestFirstOrderIsNearlyMeasured(t *testing.T) {
	t.Parallel()
	m := deep(7)
	c := open(t, m)
	layers := layersOf(t, m)
	r := rand.New(rand.NewPCG(8, 9))
	x := make([]float32, 300*5)
	for i := range x {
		x[i] = float32(min(max(r.NormFloat64(), -3), 3))
	}
	formats := quant.FormatsFor(true) // what every processor computes
	plans := make([][]quant.Layer, len(layers))
	for i, l := range layers {
		for _, f := range formats {
			plans[i] = append(plans[i], planned(l, f))
		}
	}
	exact := must.Get(Measured(context.Background(), c, x, len(layers), len(formats),
		func(i, f int) (*classifier.Model, error) {
			return written(c, m, &quant.Plan{Layers: plans[i][f : f+1]})
		}))(t)
	last := 0
	got := must.Get(FirstOrder(context.Background(), c, layers, x, func(i int) ([]Change, error) {
		return ChangesOf(plans[i], layers[i], nil)
	}, func(done, total int) { last = done - total }))(t)
	must.Same(t, 0, last)
	for i, l := range layers {
		linear := l.Output == "h3" || l.Output == "h4"
		for f := range formats {
			ratio := got[i][f] / exact[i][f]
			slack := map[int]float64{2: 3, 3: 1.6, 4: 1.3, 8: 1.05}[formats[f].Bits]
			if linear {
				slack = 1.001
			}
			if !(ratio < slack && ratio > 1/slack) {
				t.Errorf("layer %q, %d bits: margin error %.4g to first order, measured %.4g", l.Node, formats[f].Bits, got[i][f],
					exact[i][f])
			}
			if f > 0 && (got[i][f] < got[i][f-1]) != (exact[i][f] < exact[i][f-1]) {
				t.Errorf("layer %q: %d bits and %d are ordered otherwise", l.Node, formats[f-1].Bits, formats[f].Bits)
			}
		}
	}
}

// Behind the integer input, too, a linear layer has its exact margin error.
func TestFirstOrderBehindTheIntegerInput(t *testing.T) {
	t.Parallel()
	m := line([]float32{.5, -1, 2, .25, 1, -.75}, 2)
	c := open(t, m)
	layers := layersOf(t, m)
	input := &quant.Input{Value: "x", Scale: 1. / 64, Columns: []quant.InputColumn{
		{Source: 0, Lo: -2, Hi: 1, Gain: 1},
		{Source: 0, Lo: 1, Hi: 4, Gain: 1},
		{Source: 1, Lo: 0, Hi: 1, Gain: 1.5},
		{Source: 2, Lo: -1, Hi: 1, Gain: 1},
	}}
	x := []float32{.2, .5, 1, -1.51, .3, .613, 3.3, .8, -.2, 2, 0, 0.001}
	plan := quant.Plan{Input: input, Layers: []quant.Layer{{Node: "z", Bits: 3, Scales: []float32{.3, .31}}}}
	compareFirstOrder(t, c, m, layers[0], x, plan, 1e-4)
}

// compareFirstOrder checks the estimate of the plan of one layer against the measurement.
func compareFirstOrder(t *testing.T, c *classifier.Model, m *graph.Model, l quant.LayerInfo, x []float32,
	plan quant.Plan, slack float64,
) {
	t.Helper()
	want := must.Get(Measured(t.Context(), c, x, 1, 1,
		func(int, int) (*classifier.Model, error) { return written(c, m, &plan) }))(t)
	folded := l
	if plan.Input != nil {
		folded = plan.Input.Fold(l)
	}
	got := must.Get(FirstOrder(t.Context(), c, []quant.LayerInfo{l}, x,
		func(int) ([]Change, error) { return ChangesOf(plan.Layers, folded, plan.Input) }, nil))(t)
	if math.Abs(got[0][0]-want[0][0]) > slack*want[0][0] || want[0][0] < 1e-4 {
		t.Errorf("margin error %v to first order, measured %v", got, want)
	}
}

func TestFirstOrderErrors(t *testing.T) {
	t.Parallel()
	m := deep(7)
	c := open(t, m)
	layers, err := quant.FindLayers(m)
	must.Do(t, err)
	x := make([]float32, 5)
	_, err = FirstOrder(context.Background(), c, layers[:1], x, func(int) ([]Change, error) {
		return ChangesOf([]quant.Layer{{Node: "h1", Bits: 5}}, layers[0], nil)
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "h1") || !strings.Contains(err.Error(), "5-bit") {
		t.Errorf("a width that there is not: %v", err)
	}
	wrong := layers[0]
	wrong.In, wrong.Out = 12, 5
	same := func(int) ([]Change, error) { return []Change{{W: wrong.W, B: wrong.B[:5]}}, nil }
	_, err = FirstOrder(context.Background(), c, []quant.LayerInfo{wrong}, x, same, nil)
	must.Fail(t, err, "reads 5 and makes 12")
}

func TestExactRule(t *testing.T) {
	t.Parallel()
	if !Exact(3, 4, 4096, 9000) {
		t.Error("a small network is not measured")
	}
	if Exact(100, 4, 4096, 100_000_000) {
		t.Error("a large network is measured")
	}
	layers := []quant.LayerInfo{
		{In: 3, Out: 4, LayerUse: quant.LayerUse{Positions: 1}}, {In: 9, Out: 2, LayerUse: quant.LayerUse{Positions: 35}},
	}
	must.Same(t, 12+18*35, Multiplications(layers))
}
