package qdq_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant/qdq"
)

type broken struct {
	rule   string
	change func(t *testing.T, m *graph.Model)
}

func init8(name string, t graph.DType, raw []byte, dims ...int64) *graph.Tensor {
	return &graph.Tensor{Name: name, DType: t, Raw: raw, Dims: dims}
}

func side(t *testing.T, m *graph.Model, name string, i int) *graph.Node {
	t.Helper()
	n := m.Graph.Producers()[node(t, m, name).Inputs[i]]
	if n == nil || n.Op != "DequantizeLinear" {
		t.Fatalf("input %d of %s is not dequantized", i, name)
	}
	return n
}

func quantizer(t *testing.T, m *graph.Model, name string) *graph.Node {
	t.Helper()
	return m.Graph.Producers()[side(t, m, name, 0).Inputs[0]]
}

func breaks() []broken {
	add := func(m *graph.Model, t *graph.Tensor) string {
		m.Graph.Inits = append(m.Graph.Inits, t)
		return t.Name
	}
	// bare feeds a layer with the float value in front of its quantizer.
	bare := func(t *testing.T, m *graph.Model, layer string) *graph.Node {
		n := node(t, m, layer)
		n.Inputs[0] = quantizer(t, m, layer).Inputs[0]
		return n
	}
	return []broken{
		{"weight-type", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[0] = add(m, init8("u", graph.Uint8, make([]byte, 15), 3, 5))
		}},
		{"weight-zero-point", func(t *testing.T, m *graph.Model) {
			d := side(t, m, "layer1", 1)
			d.Inputs = d.Inputs[:2]
		}},
		{"weight-zero-point", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[2] = add(m, init8("zz", graph.Int8, []byte{0}))
		}},
		{"weight-zero-point", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[2] = add(m, init8("zz", graph.Int8, []byte{0, 1, 0}, 3))
		}},
		{"native-sub-byte", func(t *testing.T, m *graph.Model) {
			d := side(t, m, "layer1", 1)
			d.Inputs[0] = m.Graph.Producers()[d.Inputs[0]].Inputs[0]
		}},
		{"int2-opset", func(_ *testing.T, m *graph.Model) {
			two := add(m, init8("two", graph.Int2, []byte{0}, 4))
			m.Graph.Nodes = append(m.Graph.Nodes, &graph.Node{
				Op: "Cast", Inputs: []string{two}, Outputs: []string{"two8"},
				Attrs: []graph.Attr{graph.IntAttr("to", int64(graph.Int8))},
			})
		}},
		{"bias-scale", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 2).Inputs[1] = add(m, graph.FromFloats("ss", []float32{1, 1, 1}, 3))
		}},
		{"bias-scale", func(t *testing.T, m *graph.Model) {
			d := side(t, m, "layer1", 2)
			d.Inputs = d.Inputs[:2]
		}},
		{"bias-range", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 2).Inputs[0] = add(m, graph.FromInt32s("bb", []int32{0, 1<<30 + 1, 0}, 3))
		}},
		{"float-bias", func(t *testing.T, m *graph.Model) {
			node(t, m, "layer2").Inputs[2] = add(m, graph.FromFloats("bb", []float32{0, 0}, 2))
		}},
		{"activation-type", func(t *testing.T, m *graph.Model) {
			quantizer(t, m, "layer1").Inputs[2] = add(m, init8("zz", graph.Uint4, []byte{0}))
		}},
		{"activation-type", func(t *testing.T, m *graph.Model) {
			q := quantizer(t, m, "layer1")
			q.Inputs = q.Inputs[:2]
		}},
		{"relu-zero-point", func(t *testing.T, m *graph.Model) {
			quantizer(t, m, "layer2").Inputs[2] = add(m, init8("zz", graph.Uint8, []byte{128}))
		}},
		{"last-gemm", func(t *testing.T, m *graph.Model) {
			n, q := node(t, m, "layer2"), quantizer(t, m, "layer2")
			n.Outputs[0] = "float"
			m.Graph.Nodes = append(m.Graph.Nodes,
				&graph.Node{Op: "QuantizeLinear", Inputs: []string{"float", q.Inputs[1], q.Inputs[2]}, Outputs: []string{"yq"}},
				&graph.Node{Op: "DequantizeLinear", Inputs: []string{"yq", q.Inputs[1], q.Inputs[2]}, Outputs: []string{"y"}})
		}},
		{"conv-output", func(t *testing.T, m *graph.Model) { node(t, m, "layer2").Op = "Conv" }},
		{"gemm-attributes", func(t *testing.T, m *graph.Model) {
			n := node(t, m, "layer1")
			n.Attrs = append(n.Attrs, graph.FloatAttr("alpha", 2))
		}},
		{"float-layer", func(t *testing.T, m *graph.Model) {
			node(t, m, "layer1").Inputs[1] = add(m, graph.FromFloats("ww", make([]float32, 15), 3, 5))
		}},
		{"weight-only-dq", func(t *testing.T, m *graph.Model) { bare(t, m, "layer2") }},
		{"weight-only-matmul", func(t *testing.T, m *graph.Model) { bare(t, m, "layer2").Attrs = nil }},
		{"shared-scale", func(t *testing.T, m *graph.Model) {
			s := add(m, graph.FromFloats("ss", []float32{1}))
			for _, l := range []string{"layer1", "layer2"} {
				bare(t, m, l)
				side(t, m, l, 1).Inputs[1] = s
			}
		}},
		{"block-size", func(t *testing.T, m *graph.Model) {
			d := side(t, m, "layer1", 1)
			d.Attrs = append(d.Attrs, graph.IntAttr("block_size", 48))
		}},
		{"native-sub-byte", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[0] = add(m, init8("two", graph.Int2, make([]byte, 4), 3, 5))
		}},
		{"float-layer", func(t *testing.T, m *graph.Model) {
			h := add(m, init8("hh", graph.Float16, make([]byte, 30), 3, 5))
			m.Graph.Nodes = append([]*graph.Node{{
				Op: "Cast", Inputs: []string{h}, Outputs: []string{"wf"},
				Attrs: []graph.Attr{graph.IntAttr("to", 1)},
			}}, m.Graph.Nodes...)
			node(t, m, "layer1").Inputs[1] = "wf"
		}},
		{"container", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[0] = add(m, init8("wide", graph.Int8, bytes.Repeat([]byte{7, 0xf8, 0}, 900), 3, 900))
		}},
		{"container", func(t *testing.T, m *graph.Model) {
			wide := add(m, init8("wide", graph.Int4, bytes.Repeat([]byte{0xc3}, 4200), 3, 2800))
			m.Graph.Producers()[side(t, m, "layer1", 1).Inputs[0]].Inputs[0] = wide
		}},
		{"saturation", func(t *testing.T, m *graph.Model) {
			d := side(t, m, "layer1", 1)
			ww := add(m, init8("ww", graph.Int8, append(make([]byte, 14), 0xbf), 3, 5))
			m.Graph.Nodes = append([]*graph.Node{
				{Op: "Concat", Inputs: []string{ww, ww}, Outputs: []string{"cc"}, Attrs: []graph.Attr{graph.IntAttr("axis", 0)}},
				{
					Op: "Gather", Inputs: []string{"cc", add(m, graph.FromInts("order", []int64{1, 0, 2}, 3))},
					Outputs: []string{"gg"},
				},
			}, m.Graph.Nodes...)
			d.Inputs[0] = "gg"
		}},
		{"saturation", func(t *testing.T, m *graph.Model) {
			side(t, m, "layer1", 1).Inputs[0] = add(m, init8("ww", graph.Int8, append(make([]byte, 14), 65), 3, 5))
		}},
	}
}

func TestLint(t *testing.T) {
	m := net(2, 5, 3, 2)
	p := planFor(t, m, 4, true)
	base := write(t, m, p, qdq.Options{})
	if f := qdq.Lint(base); len(f) != 0 {
		t.Fatalf("the written model breaks rules: %v", f)
	}
	tested := map[string]bool{}
	for _, b := range breaks() {
		c := base.Clone()
		b.change(t, c)
		found := false
		for _, f := range qdq.Lint(c) {
			found = found || f.Rule == b.rule
			if f.Node == "" || f.Message == "" || !strings.Contains(f.String(), f.Rule) {
				t.Errorf("%s: empty finding %+v", b.rule, f)
			}
		}
		if !found {
			t.Errorf("%s is not found; lint says %v", b.rule, qdq.Lint(c))
		}
		tested[b.rule] = true
	}
	for _, r := range qdq.Rules() {
		if !tested[r.Name] {
			t.Errorf("no test breaks the rule %s", r.Name)
		}
		if r.Doc == "" {
			t.Errorf("rule %s has no documentation", r.Name)
		}
	}
}

func TestRulesAreTrue(t *testing.T) {
	eng := orttest.Need(t)
	m := net(2, 5, 3, 2)
	p := planFor(t, m, 4, true)
	base := write(t, m, p, qdq.Options{})
	unfused := map[string]bool{
		"weight-zero-point": true, "native-sub-byte": true, "float-bias": true,
		"relu-zero-point": true, "weight-only-dq": true,
	}
	for _, b := range breaks() {
		if !unfused[b.rule] {
			continue
		}
		delete(unfused, b.rule) // the first way of breaking a rule is the usual one
		c := base.Clone()
		b.change(t, c)
		opt, err := ort.Optimized(marshal(t, c), eng)
		if err != nil {
			continue // refusing the model is as bad
		}
		kernels := 0
		for _, n := range opt.Graph.Nodes {
			if n.Op == "QGemm" {
				kernels++
			}
		}
		if kernels < len(p.Layers) {
			continue
		}
		// Some releases fuse what they then cannot run.
		s, err := ort.Open(c, eng)
		if err != nil {
			continue
		}
		_, err = s.Run(context.Background(), []*graph.Tensor{rows(1, 4, 5)})
		s.Close()
		if err == nil {
			t.Errorf("%s: the model fuses nevertheless", b.rule)
		}
	}
}

// checklist is what a writer of quantized models for ONNX Runtime has to heed, with
// the rules that see it in a graph or, where none can, the test that holds it.
func checklist() []checked {
	return []checked{
		{
			"int8 weight codes with zero point 0 of the scale's shape",
			[]string{"weight-type", "weight-zero-point"},
			"",
		},
		{"2 and 4 bits only behind a Cast to int8", []string{"native-sub-byte"}, ""},
		{"INT2 needs opset 25; other containers for older releases", []string{"int2-opset"}, "TestRuntimes"},
		{"3 bits by unpacking; containers by their bytes", []string{"container"}, "TestContainers, TestSmallest"},
		{
			"int32 bias with the product of the scales, zero point 0, within bounds",
			[]string{"bias-scale", "bias-range", "float-bias"},
			"quant.TestBiasWidens",
		},
		{"uint8 activations, zero point 0 behind a Relu", []string{"activation-type", "relu-zero-point"}, ""},
		{"last Gemm without, Conv with an output quantizer", []string{"last-gemm", "conv-output"}, ""},
		{"Gemm without alpha, beta and transA", []string{"gemm-attributes"}, ""},
		{"no quantizers around layers with float weights", []string{"float-layer"}, ""},
		{"no weight-only DequantizeLinear in front of Gemm or Conv", []string{"weight-only-dq"}, "TestMixed"},
		{
			"no equal short scales of weight-only layers, blocks that have a kernel",
			[]string{"shared-scale", "block-size"},
			"",
		},
		{"no weight-only MatMul, which quantizes activations at run time", []string{"weight-only-matmul"}, ""},
		{"evaluated with optimizations and without", nil, "verify.Check, verify.TestRealModels"},
		{"loads in the oldest release", nil, "TestRuntimes; ort.MinVersion in CI"},
		{"8-bit codes within 64 where the CPU is unknown", []string{"saturation"}, "quant.TestFormats"},
		{"histograms are streamed", nil, "package calib"},
		{"small models gain no speed", nil, "verify.TestSmallModels"},
	}
}

type checked struct {
	item  string
	rules []string
	held  string // where no rule, or not only one, holds it
}

func TestChecklist(t *testing.T) {
	in := map[string]bool{}
	for _, c := range checklist() {
		if len(c.rules) == 0 && c.held == "" {
			t.Errorf("nothing holds %q", c.item)
		}
		for _, r := range c.rules {
			in[r] = true
		}
	}
	for _, r := range qdq.Rules() {
		if !in[r.Name] {
			t.Errorf("the rule %s belongs to no item", r.Name)
		}
		delete(in, r.Name)
	}
	for name := range in {
		t.Errorf("there is no rule %s", name)
	}
}

// TestLintDoublingChains: neither a constant nor a value behind a layer that
// each node of a chain reads twice is followed 2^n times.
func TestLintDoublingChains(t *testing.T) {
	m := write(t, net(2, 5, 3, 2), planFor(t, net(2, 5, 3, 2), 4, true), qdq.Options{})
	double := func(v, name string, n int) string {
		for i := range n {
			out := fmt.Sprint(name, i)
			m.Graph.Nodes = append(m.Graph.Nodes, &graph.Node{Op: "Add", Inputs: []string{v, v}, Outputs: []string{out}})
			v = out
		}
		return v
	}
	last := node(t, m, "layer2")
	q := quantizer(t, m, "layer2")
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{
			Op: "QuantizeLinear", Inputs: []string{last.Outputs[0], q.Inputs[1], q.Inputs[2]},
			Outputs: []string{"yq"},
		},
		&graph.Node{Op: "DequantizeLinear", Inputs: []string{"yq", q.Inputs[1], q.Inputs[2]}, Outputs: []string{"yd"}})
	end := double("yd", "a", 60)
	m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats("c", []float32{0}))
	codes := double("c", "b", 60)
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{Op: "DequantizeLinear", Inputs: []string{codes, q.Inputs[1]}, Outputs: []string{"wide"}},
		&graph.Node{Name: "wide", Op: "MatMul", Inputs: []string{end, "wide"}, Outputs: []string{"z"}})
	done := make(chan []qdq.Finding, 1)
	go func() { done <- qdq.Lint(m) }()
	select {
	case found := <-done:
		for _, f := range found {
			if f.Rule == "last-gemm" {
				t.Errorf("a layer reads the last output: %v", f)
			}
		}
		if !slices.ContainsFunc(found, func(f qdq.Finding) bool { return f.Rule == "weight-only-matmul" }) {
			t.Errorf("the constant weights are not seen: %v", found)
		}
	case <-time.After(time.Minute):
		t.Fatal("chains of 60 nodes take more than a minute")
	}
}
