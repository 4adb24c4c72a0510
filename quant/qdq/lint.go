package qdq

import (
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// Rule is one thing that ONNX Runtime does badly with quantized graphs, and
// that can be seen in the graph.
type Rule struct {
	Name string
	Doc  string // what happens where the rule is broken
	// Advice marks rules that a good model may break.
	Advice bool
	// One of these says how it is broken, "" where it is not: by a dense layer, by one whose weights are
	// dequantized, or by a node of the operator op.
	layer, codes func(*view, writtenLayer) string
	node         func(*view, *graph.Node) string
	op           string
}

// Finding is one place where a rule is broken.
type Finding struct {
	Rule    string
	Node    string // its label
	Message string
	Advice  bool
}

// String returns the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.Node, f.Message, f.Rule) }

// Lint checks a quantized model, written by this package or another, and returns where it
// breaks the rules, in the order of the table.
func Lint(m *graph.Model) []Finding {
	v := newView(m)
	var out []Finding
	for _, r := range Rules() {
		add := func(n *graph.Node, message string) {
			if message != "" {
				out = append(out, Finding{r.Name, n.Label(), message, r.Advice})
			}
		}
		for _, d := range v.dense {
			switch {
			case r.layer != nil:
				add(d.node, r.layer(v, d))
			case r.codes != nil && d.weight != nil:
				add(d.node, r.codes(v, d))
			}
		}
		for _, n := range v.m.Graph.Nodes {
			if r.node != nil && n.Is(r.op) {
				add(n, r.node(v, n))
			}
		}
	}
	return out
}

func (d *writtenLayer) integer() bool { return d.data != nil && d.weight != nil }

func allZero(t *graph.Tensor) bool {
	return !slices.ContainsFunc(t.Raw, func(b byte) bool { return b != 0 })
}

func (v *view) quantized(name string) []*graph.Node {
	var out []*graph.Node
	for _, n := range v.consumers[name] {
		switch {
		case n.Is("QuantizeLinear"):
			out = append(out, n)
		case n.Is("Relu") || n.Is("Clip"):
			for _, q := range v.consumers[n.Outputs[0]] {
				if q.Is("QuantizeLinear") {
					out = append(out, q)
				}
			}
		}
	}
	return out
}

func (v *view) zeroPoint(n *graph.Node, t graph.DType) string {
	z, s := v.zeros(n.Input(2)), v.floats(n.Input(1))
	switch {
	case n.Input(2) == "":
		return "it has no zero point"
	case z == nil:
		return "its zero point is not a constant"
	case z.DType != t && z.DType.Bits() >= 8:
		return fmt.Sprintf("its zero point is %s, not %s", z.DType, t)
	case s != nil && z.Len() != len(s):
		return fmt.Sprintf("it has %d scales and %d zero points", len(s), z.Len())
	case !allZero(z):
		return "its zero point is not 0"
	}
	return ""
}

func (v *view) codeTensors(name string) []*graph.Tensor {
	var out []*graph.Tensor
	if s := v.trace(name, 0); s != nil {
		for _, p := range s.parts {
			if t := p.tensor; t != nil && (t.DType == graph.Int8 || t.DType == graph.Int4) {
				out = append(out, t)
			}
		}
	}
	return out
}

// saturating returns the largest absolute value of the codes called name where sums of their products with activations
// of that many bits saturate, see quant.Saturates; 0 where none do.
func (v *view) saturating(bits int, name string) (worst int64) {
	if !quant.Saturates(bits, -math.MinInt8) { // whatever the codes are
		return 0
	}
	for _, t := range v.codeTensors(name) {
		codes, _ := t.Ints() // those of fewer bits are smaller
		for _, q := range codes {
			worst = max(worst, q, -q)
		}
	}
	if !quant.Saturates(bits, worst) {
		return 0
	}
	return worst
}
