package classifier

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
)

func quantized(m *graph.Model, step float32, clip bool) *graph.Model {
	q := m.Clone()
	q.SetOpset("", 21)
	q.IRVersion = 10
	b := graph.NewBuilder(q.Graph, "q.")
	nodes := q.Graph.Nodes
	q.Graph.Nodes = nil
	s := b.Const(graph.FromFloats("s", []float32{step}))
	z := b.Const(&graph.Tensor{Name: "z", DType: graph.Uint8, Raw: []byte{128}})
	lo := b.Const(&graph.Tensor{Name: "lo", DType: graph.Uint8, Raw: []byte{1}})
	hi := b.Const(&graph.Tensor{Name: "hi", DType: graph.Uint8, Raw: []byte{254}})
	around := func(v string) string {
		v = b.Op("QuantizeLinear", []string{v, s, z})
		if clip {
			v = b.Op("Clip", []string{v, lo, hi})
		}
		return b.Op("DequantizeLinear", []string{v, s, z})
	}
	for _, n := range nodes {
		n = &graph.Node{Op: n.Op, Name: n.Name, Inputs: slices.Clone(n.Inputs), Outputs: n.Outputs, Attrs: n.Attrs}
		if n.Op == "Gemm" {
			n.Inputs[0] = around(n.Inputs[0])
		}
		b.Append(n)
	}
	return q
}

func TestStraightThrough(t *testing.T) {
	n := newMLP(3, 2, 7)
	float := n.model(graph.Dim{Size: -1, Param: "N"})
	r := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 30)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	x[0] = 50 // far outside the quantizer's range
	for _, clip := range []bool{false, true} {
		q := open(t, quantized(float, 1./24, clip), Options{Through: quant.StraightThrough})
		margins, grads, err := q.MarginGrads(t.Context(), x)
		must.Do(t, err)
		plain := must.Get(q.Margins(t.Context(), x))(t)
		f := open(t, float, Options{})
		want, truth, err := f.MarginGrads(t.Context(), x)
		must.Do(t, err)
		if grads[0] != 0 {
			t.Errorf("clip %v: the gradient by a saturated input is %v", clip, grads[0])
		}
		same := 0
		for i := range margins {
			near(t, "margin beside that without gradients", float64(margins[i]), float64(plain[i]), 0.05)
			if margins[i] == want[i] {
				same++
			}
			if i == 0 {
				continue
			}
			for j := range 3 {
				if d := math.Abs(float64(grads[3*i+j] - truth[3*i+j])); d > 0.15*(1+math.Abs(float64(truth[3*i+j]))) {
					t.Errorf("clip %v, row %d: gradient %v, of the float model %v", clip, i, grads[3*i+j], truth[3*i+j])
				}
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
