package qdq_test

import (
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(m *graph.Model, p *quant.Plan)
	}{
		{"unknown layer", `"layer9"`, func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Node = "layer9" }},
		{"width", "5-bit", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Bits = 5 }},
		{"scales", "2 scales for 3 outputs", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Scales = []float32{1, 2} }},
		{"zero scale", "scale 0", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Scales = []float32{0} }},
		{
			"no number", "not a positive number",
			func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Act.Scale = float32(math.NaN()) },
		},
		{"codes", "4 codes for 3 x 5", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Codes = make([]int8, 4) }},
		{
			"code range", "outside -8..7",
			func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Codes = append(make([]int8, 14), 8) },
		},
		{"bias", "bias", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Bias = []float32{1} }},
		{"activation bits", "9-bit", func(_ *graph.Model, p *quant.Plan) { p.Layers[0].Act.Bits = 9 }},
		{"zero point", "does not fit 4 bits", func(_ *graph.Model, p *quant.Plan) {
			p.Layers[0].Act.Bits, p.Layers[0].Act.Zero = 4, 16
		}},
		{
			"two quantizers", "cannot have an activation quantizer",
			func(_ *graph.Model, p *quant.Plan) { p.Input = inputs()["few plain"] },
		},
		{"input columns", "no column", func(_ *graph.Model, p *quant.Plan) {
			p.Input, p.Layers[0].Act = inputs()["few plain"], nil
		}},
		{"old opset", "opset 13", func(m *graph.Model, _ *quant.Plan) { m.SetOpset("", 13) }},
		{"weight is an output", `weight "w1" is also an output`, func(m *graph.Model, _ *quant.Plan) {
			m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: "w1", DType: graph.Float})
		}},
	} {
		m := net(2, 5, 3, 2)
		p := planFor(t, m, 4, true)
		c.change(m, p)
		_, err := qdq.Write(m, p, qdq.Options{})
		must.Fail(t, err, c.want)
	}
	m := net(2, 5, 3, 2)
	p := planFor(t, m, 4, true)
	p.Layers[0].Bits, p.Layers[1].Bits = 5, 7
	if _, err := qdq.Write(m, p, qdq.Options{}); err == nil || !strings.Contains(err.Error(), "layer1") ||
		!strings.Contains(err.Error(), "layer2") {
		t.Errorf("not all layers are reported: %v", err)
	}
}

func TestMixed(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for kinds := range 27 {
		m := net(7, 6, 10, 9, 3)
		p := planFor(t, m, []int{2, 3, 4, 8}[kinds%4], kinds%2 == 0)
		for i, k := 0, kinds; i < 3; i, k = i+1, k/3 {
			switch k % 3 {
			case 1:
				p.Layers[i].Float = true
			case 2:
				p.Layers[i].Act = nil
			}
		}
		q := write(t, m, p, qdq.Options{Size: preferPlanes})
		wantSimulated(t, q, m, p, eng)
	}
}

func TestSharedWeights(t *testing.T) {
	eng := orttest.Need(t)
	m := net(7, 12, 12, 12, 2)
	node(t, m, "layer2").Inputs[1] = "w1"
	p := planFor(t, m, 4, true)
	q := write(t, m, p, qdq.Options{})
	wantFused(t, q, p, eng)
	packed := 0
	for _, v := range q.Graph.Inits {
		if v.DType == graph.Int4 {
			packed++
		}
	}
	must.Same(t, 2, packed)
	// One of the two in float: the float weight must stay.
	p.Layers[1].Float = true
	q = write(t, m, p, qdq.Options{})
	if q.Graph.Init("w1") == nil {
		t.Error("the float weight of a layer that stays in float is gone")
	}
	run(t, q, eng, rows(1, 3, 12))
}
