package classifier

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// straightLine is margin = w x + b over three inputs, in several forms.
func straightLine(form string) *graph.Model {
	return build(graph.Shape{rows(), {Size: 3}}, 17, func(b *graph.Builder) string {
		w := floats32(b, "w", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 3) // logits 0 and 1: margin 2, 0.25, 1
		bias := floats32(b, "b", []float32{0.5, -1}, 2)
		std := floats32(b, "std", []float32{2, 4, 0.5}, 1, 3)
		gemm := func(in string) string { return b.Op("Gemm", []string{in, w, bias}, graph.IntAttr("transB", 1)) }
		cast := func(v string, to graph.DType) string {
			return b.Op("Cast", []string{v}, graph.IntAttr("to", int64(to)))
		}
		switch form {
		case "softmax":
			return b.Op("Softmax", []string{gemm("x")}, graph.IntAttr("axis", 1))
		case "scaler":
			centred := b.Op("Sub", []string{"x", floats32(b, "mean", []float32{1, 2, 4}, 1, 3)})
			wt := b.Op("Transpose", []string{w})
			return b.Op("Add", []string{b.Op("MatMul", []string{b.Op("Div", []string{centred, std}), wt}), bias})
		case "normed", "normed far away":
			mean := map[string]float32{"normed": 1, "normed far away": 1e4}[form] // cancels with what is added before
			of := func(v float32) string { return floats32(b, "p", []float32{v, v, v}, 3) }
			return gemm(b.Op("BatchNormalization", []string{
				b.Op("Add", []string{"x", of(mean)}), of(mean), of(0), of(mean), of(mean * mean),
			}, graph.FloatAttr("epsilon", 0)))
		case "conv":
			kernel := floats32(b, "kernel", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 1, 3)
			c := b.Op("Conv", []string{b.Op("Reshape", []string{"x", int64s(b, -1, 1, 3)}), kernel, bias})
			return b.Op("Flatten", []string{b.Op("GlobalAveragePool", []string{c})})
		case "relu":
			return gemm(b.Op("Relu", []string{"x"}))
		case "square":
			return gemm(b.Op("Mul", []string{"x", "x"}))
		case "inverse":
			return gemm(b.Op("Div", []string{std, "x"}))
		case "integers":
			return gemm(cast(cast("x", graph.Int64), graph.Float))
		}
		return gemm("x")
	})
}

func networkMargin(rows [][]float64, bias []float64, units int, x []float32) float64 {
	v := make([]float64, len(rows[0]))
	for j, a := range x {
		v[j] = float64(a)
	}
	least := math.Inf(1)
	for r, row := range rows {
		sum := bias[r]
		for j, w := range row {
			sum += w * v[j]
		}
		if r < units {
			v[len(x)+r] = max(sum, 0)
		} else {
			least = min(least, sum)
		}
	}
	return least
}

func checkNetwork(t *testing.T, name string, c *Model, want int) {
	t.Helper()
	rows, bias, units, why, err := c.Network(t.Context())
	if err != nil || why != "" || units != want {
		t.Errorf("%s: %d units, %q, %v; want %d", name, units, why, err, want)
		return
	}
	x := normals(3, 50*c.Dim())
	m := must.Get(c.Margins(t.Context(), x))(t)
	for i, v := range m {
		got := networkMargin(rows, bias, units, x[i*c.Dim():(i+1)*c.Dim()])
		if math.Abs(got-float64(v)) > 2e-5*(1+math.Abs(got)) {
			t.Errorf("%s: row %d: margin %v, of the network %v", name, i, v, got)
			return
		}
	}
}

func TestNetwork(t *testing.T) {
	zero := 0
	for _, tt := range []struct {
		form   string
		target *int
		units  int
		w      []float64
		why    string
	}{
		{"gemm", nil, 0, []float64{2, 0.25, 1}, ""},
		{"gemm", &zero, 0, []float64{-2, -0.25, -1}, ""},
		{"softmax", nil, 0, []float64{2, 0.25, 1}, ""},
		{"scaler", nil, 0, []float64{1, 0.0625, 2}, ""},
		{"normed", nil, 0, []float64{2, 0.25, 1}, ""},
		{"normed far away", nil, 0, nil, "BatchNormalization"}, // off by 1e-3
		{"conv", nil, 0, []float64{2, 0.25, 1}, ""},
		{"relu", nil, 3, []float64{0, 0, 0, 2, 0.25, 1}, ""},
		{"square", nil, 0, nil, "Mul"},
		{"inverse", nil, 0, nil, "Div"},
		{"integers", nil, 0, nil, "Cast"},
	} {
		c := open(t, straightLine(tt.form), Options{Target: tt.target})
		if tt.why == "" {
			checkNetwork(t, tt.form, c, tt.units)
		}
		rows, _, _, why, err := c.Network(t.Context())
		if err != nil || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q, %v", tt.form, why, err)
			continue
		}
		for j, w := range tt.w {
			must.Near(must.In(t, tt.form, j), w, rows[len(rows)-1][j], 1e-7*math.Abs(w))
		}
	}
}

func TestNetworkOfThreeClasses(t *testing.T) {
	m := straightLine("gemm")
	m.Graph.Inits[0] = graph.FromFloats("w", []float32{1, 2, 3, -1, 0, 2, 0.5, -2, 1}, 3, 3)
	m.Graph.Inits[1] = graph.FromFloats("b", []float32{0, 1, 0.5}, 3)
	for target := range 3 {
		checkNetwork(t, "three classes", open(t, m, Options{Target: &target}), 0)
	}
}

func TestNetworkOfRealModels(t *testing.T) {
	for name, units := range map[string]int{
		"german/logreg-s0.onnx": 0, "german/mlp2-s0.onnx": 96, "adult/mlp2bn-s0.onnx": 96, "adult/mlp4-s0.onnx": 288,
		"adult/mlp2sigmoid-s0.onnx": 96,
	} {
		m := must.Get(codec.ReadFile(realdata.Dir(t, "models", filepath.FromSlash(name))))(t)
		checkNetwork(t, name, open(t, m, Options{}), units)
	}
}
