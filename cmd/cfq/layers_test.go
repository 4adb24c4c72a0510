package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cfq/graph"
	"cfq/onnxio"
	"cfq/quant"
	"cfq/quant/qdq"
)

// canonicalLoans is the example model as quantize sees it.
func canonicalLoans(t *testing.T) *graph.Model {
	t.Helper()
	m, err := onnxio.ReadFile(filepath.Join("..", "..", "testdata", "loans", "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := onnxio.Upgrade(m, 21); err != nil {
		t.Fatal(err)
	}
	if m, err = quant.Canonical(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestStoredLayers writes the model in every container and checks that inspect
// reads the bits back from the file alone.
func TestStoredLayers(t *testing.T) {
	m := canonicalLoans(t)
	infos, err := quant.FindLayers(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		bits      int
		options   qdq.Options
		want      int
		container string
		note      string
	}{
		{"int8", 8, qdq.Options{}, 8, "int8", ""},
		{"int4", 4, qdq.Options{}, 4, "int4", ""},
		{"3 bits in int4", 3, qdq.Options{}, 4, "int4", "codes of 3 bits"},
		// A file whose size grows with 4-bit tensors forces bit planes.
		{"3-bit planes", 3, qdq.Options{Size: func(m *graph.Model) int { return countType(m, graph.Int4) }}, 3, "packed, cfq.Unpack", ""},
		{"int2", 2, qdq.Options{}, 2, "int2", ""},
		{"2-bit planes", 2, qdq.Options{NoInt2: true}, 2, "packed, cfq.Unpack", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := quant.FormatOf(c.bits, false)
			if err != nil {
				t.Fatal(err)
			}
			plan := &quant.Plan{}
			var want []layer
			for _, i := range infos {
				plan.Layers = append(plan.Layers, quant.Layer{
					Node: i.Node, Bits: c.bits, Scales: []float32{f.FitScale(i.W)}, Act: &quant.Act{Bits: 8, Scale: 0.1},
				})
				want = append(want, layer{Name: i.Node, Op: "Gemm", In: i.In, Out: i.Out, Biases: i.Out, Bits: c.want, Container: c.container, Note: c.note})
			}
			q, err := qdq.Write(m, plan, c.options)
			if err != nil {
				t.Fatal(err)
			}
			got, err := findLayers(q)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(layer{}), cmpopts.IgnoreFields(layer{}, "output")); d != "" {
				t.Error(d)
			}
			if bits := weightBits(q); bits != float64(c.want) {
				t.Errorf("%v bits per weight, want %d", bits, c.want)
			}
		})
	}
	if bits := weightBits(m); bits != 32 {
		t.Errorf("the float model has %v bits per weight", bits)
	}
}

func countType(m *graph.Model, want graph.DType) int {
	n := 0
	for _, init := range m.Graph.Inits {
		if init.DType == want {
			n++
		}
	}
	return n
}

// TestKernels checks that kernels are found under the names that fusion leaves.
func TestKernels(t *testing.T) {
	layers := []layer{{Name: "a"}, {Name: "b"}, {Name: "c", output: "y"}, {Name: "d", output: "z"}}
	setKernels(layers, &graph.Graph{Nodes: []*graph.Node{
		{Name: "a", Op: "QGemm", Outputs: []string{"v"}},
		{Name: "fused b", Op: "FusedGemm", Outputs: []string{"w"}},
		{Name: "other", Op: "QLinearMatMul", Outputs: []string{"y"}},
	}})
	for i, want := range []string{"QGemm", "FusedGemm", "QLinearMatMul", ""} {
		if layers[i].Kernel != want {
			t.Errorf("layer %s: kernel %q, want %q", layers[i].Name, layers[i].Kernel, want)
		}
	}
}
