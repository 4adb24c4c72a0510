package classifier

import (
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
)

func quantized(m *graph.Model, step float32, clip bool) *graph.Model {
	q := m.Clone()
	q.SetOpset("", 21)
	q.IRVersion = 10
	r := graph.NewRewriter(q, nil)
	code := func(v byte) string { return r.Const(&graph.Tensor{Name: "c", DType: graph.Uint8, Raw: []byte{v}}) }
	s, z, lo, hi := r.Const(graph.FromFloats("s", []float32{step})), code(128), code(1), code(254)
	r.Rebuild(func(n *graph.Node) {
		if n.Op == "Gemm" {
			v := r.Op("QuantizeLinear", []string{n.Inputs[0], s, z})
			if clip {
				v = r.Op("Clip", []string{v, lo, hi})
			}
			n.Inputs[0] = r.Op("DequantizeLinear", []string{v, s, z})
		}
		r.Append(n)
	})
	return q
}

func TestStraightThrough(t *testing.T) {
	float := newMLP(3, 2, 7).model(rows())
	x := normals(3, 30)
	x[0] = 50 // far outside the quantizer's range
	want, truth, err := open(t, float, Options{}).MarginGrads(t.Context(), x)
	must.Do(t, err)
	for _, clip := range []bool{false, true} {
		q := open(t, quantized(float, 1./24, clip), Options{Through: quant.StraightThrough})
		margins, grads, err := q.MarginGrads(t.Context(), x)
		must.Do(t, err)
		plain := must.Get(q.Margins(t.Context(), x))(t)
		if grads[0] != 0 {
			t.Errorf("clip %v: the gradient by a saturated input is %v", clip, grads[0])
		}
		same := 0
		for i := range margins {
			near(t, "margin beside that without gradients", float64(margins[i]), float64(plain[i]), 0.05)
			if margins[i] == want[i] {
				same++
			}
			for j := 3 * i; j < 3*i+3 && i > 0; j++ {
				near(t, "gradient", float64(grads[j]), float64(truth[j]), 0.15)
			}
		}
		if same > 1 {
			t.Errorf("clip %v: %d margins are those of the float model: nothing was quantized", clip, same)
		}
	}
}

func TestQuantizersNeedRules(t *testing.T) {
	m := quantized(newMLP(3, 2, 7).model(graph.Dim{Size: -1, Param: "N"}), 1./24, false)
	q := open(t, m, Options{})
	if _, err := q.Margins(t.Context(), make([]float32, 3)); err != nil {
		t.Error(err)
	}
	if _, _, err := q.MarginGrads(t.Context(), make([]float32, 3)); err == nil {
		t.Error("a gradient without rules for quantizers")
	}
}

func TestIntegerOperatorsAreRefused(t *testing.T) {
	m := newMLP(3, 2, 7).model(rows())
	m.Graph.Nodes[1].Op = "QLinearMatMul"
	if err := opaque(m.Graph, m.Graph.Inputs[0].Name, m.Graph.Outputs[0].Name); err == nil {
		t.Error("no error for an integer operator")
	}
}
