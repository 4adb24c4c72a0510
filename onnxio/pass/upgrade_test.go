package pass_test

import (
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
)

func linear() *graph.Model {
	return &graph.Model{
		IRVersion: 8, Opsets: []graph.Opset{{Version: 17}},
		Graph: &graph.Graph{
			Name:    "linear",
			Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}},
			Outputs: []graph.Value{{Name: "y", DType: graph.Float}},
			Inits:   []*graph.Tensor{graph.FromFloats("w", []float32{3, 4}, 2, 1)},
			Nodes:   []*graph.Node{{Name: "mm", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}},
		},
	}
}

func TestUpgradeCollectsErrors(t *testing.T) {
	m := linear()
	m.Opsets[0].Version = 9
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{Name: "odd", Op: "GridSample", Inputs: []string{"y"}, Outputs: []string{"a"}},
		&graph.Node{
			Op: "Clip", Inputs: []string{"a"}, Outputs: []string{"b"},
			Attrs: []graph.Attr{graph.FloatAttr("min", 0)},
		},
		&graph.Node{
			Name: "branch", Op: "If", Inputs: []string{"b"}, Outputs: []string{"c"},
			Attrs: []graph.Attr{{Name: "then_branch", Kind: graph.AttrGraph}},
		},
		&graph.Node{Name: "own", Op: "NoSuchOperator", Domain: "com.example", Inputs: []string{"b"}, Outputs: []string{"d"}},
	)
	err := pass.Upgrade(m, nil)
	must.Fail(t, err, "")
	for _, want := range []string{
		"upgrade to opset 21", `GridSample node "odd" is of an operator that cannot be upgraded`, `If node "branch"`,
		`Clip node "b" has the attribute "min"`,
	} {
		must.Has(t, err.Error(), want)
	}
	if strings.Contains(err.Error(), "own") || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("other nodes or more than one error for one:\n%v", err)
	}
}

func TestUpgradeVersions(t *testing.T) {
	for _, c := range []struct{ ir, from, wantIR, wantOpset int64 }{
		{3, 9, 10, 21},
		{8, 17, 10, 21},
		{12, 17, 12, 21}, // never lowered
		{10, 21, 10, 21},
		{11, 23, 11, 23},
		{3, 7, 10, 21},
		{3, 6, 0, 0}, // refused
	} {
		m := linear()
		m.IRVersion, m.Opsets[0].Version = c.ir, c.from
		g := m.Graph
		err := pass.Upgrade(m, nil)
		if c.wantIR == 0 {
			if err == nil || m.Opset("") != c.from {
				t.Errorf("from %d: error %v, opset %d", c.from, err, m.Opset(""))
			}
			continue
		}
		if err != nil || m.IRVersion != c.wantIR || m.Opset("") != c.wantOpset || m.Graph != g {
			t.Errorf("from %d: IR %d, opset %d, error %v; want %d and %d", c.from, m.IRVersion, m.Opset(""), err,
				c.wantIR, c.wantOpset)
		}
	}
}

func TestUpgradeWithoutStandardSet(t *testing.T) {
	m := linear()
	m.Opsets = []graph.Opset{{Domain: "com.example", Version: 1}}
	must.Fail(t, pass.Upgrade(m, nil), "imports no standard operator set")
	m.Graph.Nodes[0].Domain = "com.example"
	if err := pass.Upgrade(m, nil); err != nil || m.Opset("") != 21 || m.Opset("com.example") != 1 {
		t.Errorf("opsets %v, error %v", m.Opsets, err)
	}
}

func TestUpgradeNames(t *testing.T) {
	m := runs("", 9, "2", node("Clip", "x", "h", graph.FloatAttr("min", 0)), node("Neg", "h", "h_min"),
		node("Add", "h h_min", "y")).model()
	must.Do(t, pass.Upgrade(m, nil))
	must.Do(t, m.Graph.Check())
	if n := m.Graph.Nodes[0]; n.Input(1) == "h_min" || m.Graph.Init(n.Input(1)) == nil {
		t.Errorf("%+v", n)
	}
}

func TestUpgradeDouble(t *testing.T) {
	m := runs("", 9, "2", node("Cast", "x", "d", graph.IntAttr("to", int64(graph.Double))), node("Relu", "d", "r"),
		node("Clip", "r", "c", graph.FloatAttr("max", .5)), node("Cast", "c", "y", graph.IntAttr("to", 1))).model()
	must.Do(t, pass.Upgrade(m, nil))
	want := graph.FromNumbers("c_max", graph.Double, []float64{.5})
	must.Same(t, want, m.Graph.Init("c_max"))
}

func TestUpgradeFunctions(t *testing.T) {
	m := linear()
	m.Functions = []*graph.Function{{Name: "Spread", Domain: "com.example", Opsets: []graph.Opset{{Version: 15}}}}
	must.Fail(t, pass.Upgrade(m, nil), `"Spread": inline them`)
}

// TestUpgradeOldInputs: a model that lists its weights as inputs, as files up to
// IR version 3 and some later ones do, runs as it is and after an upgrade.
func TestUpgradeOldInputs(t *testing.T) {
	options := orttest.Need(t)
	for _, ir := range []int64{3, 4, 8} {
		m := runs("", 9, "2 3", node("Gemm", "x w c", "h"), node("Softmax", "h", "y")).
			with(floats("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2), floats("c", []float32{1, -1}, 2)).model()
		m.IRVersion = ir
		for _, w := range m.Graph.Inits {
			m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: w.Name, DType: w.DType, Shape: graph.Fixed(w.Dims...)})
		}
		in := graph.FromFloats("x", []float32{.1, .2, -.3, .1, 0, 0}, 2, 3)
		want := run(t, m, in, options)
		must.Do(t, pass.Upgrade(m, nil))
		if got := run(t, m, in, options); !same(got, want) {
			t.Errorf("IR version %d: %v, was %v", ir, got, want)
		}
		if inputs := 1; ir == 3 && len(m.Graph.Inputs) != inputs || ir > 3 && len(m.Graph.Inputs) != inputs+2 {
			t.Errorf("IR version %d: inputs %v", ir, m.Graph.Inputs)
		}
	}
}
