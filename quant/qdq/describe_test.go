package qdq_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

func use(columns int, output, fixed string) qdq.LayerRole {
	return qdq.LayerRole{Columns: columns, Output: output, Fixed: fixed}
}

func graphOnly() cmp.Option {
	return cmpopts.IgnoreFields(qdq.LayerRole{}, "Activation", "Rows", "Held")
}

// TestDescribe writes a model in every container and checks that bits and bytes are read back from the file alone. The
// bytes are counted by hand: codes, scales, zero points, and for bit planes the worth of each (4 bytes), the shape (16)
// and, with the first layer, the constants of the function (33).
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name      string
		bits      int
		options   qdq.Options
		want      float64
		container string
		note      string
		codes     [2]int
	}{
		{"int8", 8, qdq.Options{}, 8, "int8", "", [2]int{63, 14}},
		{"int4", 4, qdq.Options{}, 4, "int4", "", [2]int{32, 7}},
		{"3 bits in int4", 3, qdq.Options{}, 3, "int4", "", [2]int{32, 7}},
		{"3-bit planes", 3, qdq.Options{Size: preferPlanes}, 3, "packed, cfq.Unpack", "", [2]int{24 + 12 + 16 + 33, 6 + 16}},
		{"int2", 2, qdq.Options{}, 2, "int2", "", [2]int{16, 4}},
	} {
		for _, integers := range []bool{true, false} {
			m := net(3, 9, 7, 2)
			p := planFor(t, m, c.bits, true)
			zeros := 1
			if !integers {
				zeros = 0
				for i := range p.Layers {
					p.Layers[i].Act = nil
				}
			}
			q := write(t, m, p, c.options)
			got := must.Get(qdq.Describe(q))(t)
			l := qdq.LayerNote{Op: "Gemm", Bits: c.want, Container: c.container, Note: c.note}
			first, second := l, l
			first.Node, first.Output, first.In, first.Columns, first.Out, first.Biases = "layer1", "h1", 9, 9, 7, 7
			second.Node, second.Output, second.In, second.Columns, second.Out, second.Biases = "layer2", "y", 7, 7, 2, 2
			first.Stored, second.Stored = c.codes[0]+7*(4+zeros), c.codes[1]+2*(4+zeros)
			must.Same(must.In(t, c.name, integers), []qdq.LayerNote{first, second}, got, graphOnly())
		}
	}
}

func TestDescribeRows(t *testing.T) {
	m := net(3, 9, 40, 2)
	p := planFor(t, m, 8, true)
	p.Layers[0].Act, p.Input = nil, &quant.Input{Scale: 1. / 64}
	for i := range 9 {
		p.Input.Columns = append(p.Input.Columns, column(i, -4, 6, 1, p.Input.Scale)...)
	}
	first := &p.Layers[0]
	first.Bits = 0
	for o := range 40 {
		first.RowBits = append(first.RowBits, []int{2, 4, 8, 4}[o%4])
		first.Scales[o] = 1. / 32 // two bytes each
	}
	got := must.Get(qdq.Describe(write(t, m, p, qdq.Options{})))(t)
	want := []qdq.LayerNote{
		{
			Node: "layer1", Op: "Gemm", In: 9, Out: 40, Biases: 40, Bits: 4.5, Widths: []int{2, 4, 8},
			Container: "int2, int4, int8", LayerRole: use(27, "h1", ""),
			Note: "2,4,8 bits by row; 27 columns",
			// Codes in 2, 4 and 8 bits, scales, zero points, the order of columns; that of rows is free.
			Stored: 90*2/8 + 1 + 180*4/8 + 90 + 40*2 + 40 + 27,
		},
		{
			Node: "layer2", Op: "Gemm", In: 40, Out: 2, Biases: 2, Bits: 8, Container: "int8",
			Stored: 80 + 8 + 2, LayerRole: use(40, "y", ""),
		},
	}
	must.Same(t, want, got, graphOnly())
}

func TestDescribeFloat(t *testing.T) {
	m := net(3, 9, 7, 2)
	m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: "s", DType: graph.Float, Shape: graph.Fixed(1, 4, 6)})
	m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("k", make([]float32, 60), 2, 6, 5),
		&graph.Tensor{Name: "h", DType: graph.Float16, Dims: []int64{5, 3}, Raw: make([]byte, 30)})
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{Op: "MatMul", Inputs: []string{"s", "k"}, Outputs: []string{"a"}},
		&graph.Node{
			Op: "Cast", Inputs: []string{"h"}, Outputs: []string{"f"},
			Attrs: []graph.Attr{graph.IntAttr("to", int64(graph.Float))},
		},
		&graph.Node{Op: "MatMul", Inputs: []string{"a", "f"}, Outputs: []string{"b"}},
		&graph.Node{Op: "MatMul", Inputs: []string{"b", "a"}, Outputs: []string{"c"}})
	p := planFor(t, net(3, 9, 7, 2), 4, true)
	p.Layers = p.Layers[:1]
	got := must.Get(qdq.Describe(write(t, m, p, qdq.Options{})))(t)
	want := []qdq.LayerNote{
		{
			Node: "layer1", Op: "Gemm", In: 9, Out: 7, Biases: 7, Bits: 4, Container: "int4", Stored: 32 + 28 + 7,
			LayerRole: use(9, "h1", ""),
		},
		{Node: "layer2", Op: "Gemm", In: 7, Out: 2, Biases: 2, Bits: 32, Container: "float", LayerRole: use(7, "y", "")},
		{
			Node: "a", Op: "MatMul", In: 6, Out: 10, Bits: 32, Container: "float",
			LayerRole: use(6, "a", "its weights have 3 dimensions, not 2"),
		},
		{
			Node: "b", Op: "MatMul", In: 5, Out: 3, Bits: 16, Container: "float16",
			LayerRole: use(5, "b", "its weights are float16, not float32"),
		},
	}
	must.Same(t, want, got, graphOnly())
}

func TestNamesOfFixedLayers(t *testing.T) {
	m := net(3, 9, 7, 2)
	m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("k", make([]float32, 12), 2, 2, 3))
	matmul := &graph.Node{Name: "layer1", Op: "MatMul", Inputs: []string{"y", "k"}, Outputs: []string{"z"}}
	m.Graph.Nodes = append(m.Graph.Nodes, matmul)
	p := planFor(t, net(3, 9, 7, 2), 4, true)
	q := write(t, m, p, qdq.Options{})
	if n := q.Graph.Producers()["h1"]; n.Input(1) == "w1" {
		t.Error("layer1 is not quantized")
	}
	layers, err := quant.FindLayers(m)
	if err != nil || len(layers) != 3 || layers[2].Fixed == "" {
		t.Errorf("%+v, %v", layers, err)
	}
}
