package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
	"cfq/quant/qdq"
)

func TestStoredBits(t *testing.T) {
	m, err := codec.ReadFile(filepath.Join("..", "..", "testdata", "loans", "model.onnx"))
	must.Do(t, err)
	if bits := storedBits(openedModel(t, m)); bits != 32 {
		t.Errorf("the float model has %v bits per weight", bits)
	}
	if m, _, err = pass.Canonical(m, nil); err != nil {
		t.Fatal(err)
	}
	infos := must.Get(quant.FindLayers(m))(t)
	plan, weights, bits := &quant.Plan{}, 0, 0
	for i, info := range infos {
		width := []int{8, 4, 2}[i]
		weights, bits = weights+info.Params(), bits+info.Params()*width
		plan.Layers = append(plan.Layers, quant.Layer{
			Node: info.Node, Bits: width, Scales: []float32{1},
			Act: &quant.Act{Bits: 8, Scale: 0.1},
		})
	}
	q := must.Get(qdq.Write(m, plan, qdq.Options{}))(t)
	bytes := must.Get(qdq.Stored(q))(t)
	if got, want := storedBits(openedModel(t, q)), 8*float64(bytes)/float64(weights); got != want || 8*bytes <= bits {
		t.Errorf("%v stored bits per weight, want %v, %v of them codes", got, want, float64(bits)/float64(weights))
	}
}

func openedModel(t *testing.T, g *graph.Model) *onnxio.Model {
	t.Helper()
	orttest.Need(t)
	return must.Get(onnxio.FromGraph(t.Context(), g, ort.Options{}))(t)
}

func TestFixedLayersAreListed(t *testing.T) {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Double, Shape: graph.Fixed(1, 3)}}
	m.Graph.Inits = []*graph.Tensor{graph.FromNumbers("w", graph.Double, make([]float64, 6), 3, 2)}
	m.Graph.Nodes = []*graph.Node{{Name: "fc", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}}
	m.Graph.Outputs = []graph.Value{{Name: "y", DType: graph.Double}}
	got, err := qdq.Layers(m)
	must.Do(t, err)
	want := []qdq.LayerNote{{
		Node: "fc", Op: "MatMul", In: 3, Out: 2, Bits: 64, Container: "double",
		Note: "stays in float: its weights are double, not float32",
		LayerUse: qdq.LayerUse{
			Columns: 3, Output: "y", Activation: 32, Fixed: "its weights are double, not float32",
		},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// A subgraph has no canonical form: the layers are listed as they stand, with the error.
	m.Graph.Nodes = append(m.Graph.Nodes, &graph.Node{Name: "if", Op: "If", Attrs: []graph.Attr{{
		Name: "then_branch",
		Kind: graph.AttrGraph,
	}}})
	if got, err = qdq.Layers(m); err == nil || len(got) != 1 || got[0].Note != "" {
		t.Errorf("%+v, %v", got, err)
	}
}
