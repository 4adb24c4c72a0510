package classifier

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// straightLine is margin = w x + b over three inputs, in several forms.
func straightLine(form string) *graph.Model {
	g := &graph.Graph{
		Name:   "line",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 3}}}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 3), // logits 0 and 1: margin 2, 0.25, 1
			graph.FromFloats("wt", []float32{1, 3, 0.25, 0.5, -2, -1}, 3, 2),
			graph.FromFloats("b", []float32{0.5, -1}, 2),
			graph.FromFloats("mean", []float32{1, 2, 4}, 1, 3), graph.FromFloats("std", []float32{2, 4, 0.5}, 1, 3),
		},
	}
	add := func(op string, in []string, out string, attrs ...graph.Attr) {
		g.Nodes = append(g.Nodes, &graph.Node{Op: op, Name: out, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	gemm := func(in string) { add("Gemm", []string{in, "w", "b"}, "z", graph.IntAttr("transB", 1)) }
	switch form {
	case "gemm":
		gemm("x")
	case "softmax":
		gemm("x")
		add("Softmax", []string{"z"}, "p", graph.IntAttr("axis", 1))
	case "scaler":
		add("Sub", []string{"x", "mean"}, "c")
		add("Div", []string{"c", "std"}, "s")
		add("MatMul", []string{"s", "wt"}, "m")
		add("Add", []string{"m", "b"}, "z")
	case "conv":
		g.Inits = append(g.Inits, graph.FromInts("image", []int64{-1, 1, 3}, 3),
			graph.FromFloats("kernel", []float32{1, 0.25, -2, 3, 0.5, -1}, 2, 1, 3))
		add("Reshape", []string{"x", "image"}, "i")
		add("Conv", []string{"i", "kernel", "b"}, "c")
		add("GlobalAveragePool", []string{"c"}, "p")
		add("Flatten", []string{"p"}, "z")
	case "relu":
		add("Relu", []string{"x"}, "r")
		gemm("r")
	case "square":
		add("Mul", []string{"x", "x"}, "q")
		gemm("q")
	case "inverse":
		add("Div", []string{"std", "x"}, "q")
		gemm("q")
	case "integers":
		add("Cast", []string{"x"}, "i", graph.IntAttr("to", int64(graph.Int64)))
		add("Cast", []string{"i"}, "f", graph.IntAttr("to", int64(graph.Float)))
		gemm("f")
	}
	last := g.Nodes[len(g.Nodes)-1].Outputs[0]
	g.Outputs = []graph.Value{{Name: last, DType: graph.Float}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
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

func opened(t *testing.T, g *graph.Model, target *int) *Model {
	t.Helper()
	c := must.Get(Open(t.Context(), g, orttest.Need(t), Options{Target: target}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func checkNetwork(t *testing.T, name string, c *Model, want int) {
	t.Helper()
	rows, bias, units, why, err := c.Network(t.Context())
	if err != nil || why != "" || units != want {
		t.Errorf("%s: %d units, %q, %v; want %d", name, units, why, err, want)
		return
	}
	rng := rand.New(rand.NewPCG(3, 1))
	x := make([]float32, 50*c.Dim())
	for i := range x {
		x[i] = float32(2 * rng.NormFloat64())
	}
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
		{"conv", nil, 0, []float64{2, 0.25, 1}, ""},
		{"relu", nil, 3, []float64{0, 0, 0, 2, 0.25, 1}, ""},
		{"square", nil, 0, nil, "Mul"},
		{"inverse", nil, 0, nil, "Div"},
		{"integers", nil, 0, nil, "Cast"},
	} {
		c := opened(t, straightLine(tt.form), tt.target)
		if tt.why == "" {
			checkNetwork(t, tt.form, c, tt.units)
		}
		rows, _, _, why, err := c.Network(t.Context())
		if err != nil || (why == "") != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q, %v", tt.form, why, err)
			continue
		}
		for j, w := range tt.w {
			if got := rows[len(rows)-1][j]; math.Abs(got-w) > 1e-7*math.Abs(w) {
				t.Errorf("%s: weight %d is %v, want %v", tt.form, j, got, w)
			}
		}
	}
}

func TestNetworkOfThreeClasses(t *testing.T) {
	m := straightLine("gemm")
	m.Graph.Inits[0] = graph.FromFloats("w", []float32{1, 2, 3, -1, 0, 2, 0.5, -2, 1}, 3, 3)
	m.Graph.Inits[2] = graph.FromFloats("b", []float32{0, 1, 0.5}, 3)
	for target := range 3 {
		checkNetwork(t, "three classes", opened(t, m, &target), 0)
	}
}

func TestNetworkOfRealModels(t *testing.T) {
	for name, units := range map[string]int{
		"german/logreg-s0.onnx": 0, "german/mlp2-s0.onnx": 96, "adult/mlp2bn-s0.onnx": 96, "adult/mlp4-s0.onnx": 288,
		"adult/mlp2sigmoid-s0.onnx": 96,
	} {
		m := must.Get(codec.ReadFile(realdata.Dir(t, "models", filepath.FromSlash(name))))(t)
		checkNetwork(t, name, opened(t, m, nil), units)
	}
}
