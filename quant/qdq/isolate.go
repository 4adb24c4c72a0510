package qdq

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// isolate keeps integer layers whose result is needed in float on integer kernels.
//
// The runtime takes the Relu or Clip that alone reads a layer into the layer's kernel,
// together with the QuantizeLinear behind that. Where there is none, because a float layer
// comes next, or where it does not cover what the Clip lets through, or where a
// quantizer is not the only reader, the layer runs on dequantized weights instead. A Max behind
// the layer is nothing that the runtime takes in, so what reads that does not matter.
func (w *writer) isolate() {
	readers := w.readers()
	for _, n := range w.integers {
		y := n.Outputs[0]
		if w.takes(y, readers) {
			continue
		}
		if r := readers[y]; len(r) == 1 && r[0].Is("Relu") && !w.isOutput(y) {
			r[0].Op, r[0].Inputs = "Max", []string{y, w.scalar("z", 0)}
			continue
		}
		n.Outputs = []string{w.names.Name("c")}
		most := &graph.Node{Op: "Max", Inputs: []string{n.Outputs[0], w.scalar("z", -unbounded)}, Outputs: []string{y}}
		w.g.Nodes = slices.Insert(w.g.Nodes, slices.Index(w.g.Nodes, n)+1, most)
	}
}

// readers returns the nodes that read what integer layers make, and what a Relu or
// Clip makes of that, by value.
func (w *writer) readers() map[string][]*graph.Node {
	out := make(map[string][]*graph.Node, 2*len(w.integers))
	for _, n := range w.integers {
		out[n.Outputs[0]] = nil
	}
	for _, n := range w.g.Nodes {
		for i, v := range n.Inputs {
			r, ok := out[v]
			if !ok || slices.Contains(n.Inputs[:i], v) {
				continue
			}
			out[v] = append(r, n)
			if n.Is("Relu") || n.Is("Clip") {
				out[n.Outputs[0]] = nil
			}
		}
	}
	return out
}

// takes reports whether all that stands behind the layer that makes y goes well with an
// integer kernel: a quantizer alone, perhaps behind a Relu or Clip, or none at all.
func (w *writer) takes(y string, all map[string][]*graph.Node) bool {
	readers := all[y]
	quantizes := func(n *graph.Node) bool { return n.Is("QuantizeLinear") }
	bounds := func(n *graph.Node) bool { return n.Is("Relu") || n.Is("Clip") }
	// A quantizer moves in front of what only moves numbers.
	special := func(n *graph.Node) bool { return quantizes(n) || bounds(n) || quant.Moves(n) }
	switch {
	case !slices.ContainsFunc(readers, special):
		return true
	case len(readers) != 1 || w.isOutput(y):
		return false
	case !bounds(readers[0]):
		return true
	}
	behind := readers[0].Outputs[0]
	q := all[behind]
	return len(q) == 1 && quantizes(q[0]) && !w.isOutput(behind) && covers(w.g, readers[0], q[0])
}

// covers reports whether the Relu or Clip n does nothing to what the codes of the
// QuantizeLinear q, uint8 with a scalar scale, stand for.
func covers(g *graph.Graph, n, q *graph.Node) bool {
	zero := g.Init(q.Input(2))
	scale, ok := number(g, q.Input(1))
	if !ok || zero == nil || zero.DType != graph.Uint8 || len(zero.Raw) != 1 {
		return false
	}
	least, most := -float32(zero.Raw[0])*scale, float32(255-int(zero.Raw[0]))*scale
	if n.Is("Relu") {
		return least == 0
	}
	bound := func(name string, fits func(float32) bool) bool {
		v, ok := number(g, name)
		return name == "" || ok && fits(v)
	}
	return bound(n.Input(1), func(lo float32) bool { return lo <= least }) && bound(n.Input(2), func(hi float32) bool { return hi >= most })
}

// number returns the float constant called name if it is a single number.
func number(g *graph.Graph, name string) (float32, bool) {
	t := g.Init(name)
	if t == nil || t.DType != graph.Float || t.Len() != 1 {
		return 0, false
	}
	v, err := t.Floats()
	if err != nil {
		return 0, false
	}
	return v[0], true
}

func (w *writer) isOutput(name string) bool {
	return slices.ContainsFunc(w.g.Outputs, func(v graph.Value) bool { return v.Name == name })
}

func reluFloat(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data == nil || d.weight == nil || d.node.Op != "Gemm" {
			return ""
		}
		act := v.alone(d.node.Outputs[0])
		if act == nil || !act.Is("Relu") && !act.Is("Clip") {
			return ""
		}
		switch q := v.alone(act.Outputs[0]); {
		case q == nil || quant.Moves(q):
		case !q.Is("QuantizeLinear"):
			return fmt.Sprintf("its %s stays in float", act.Op)
		case act.Is("Clip") && !covers(v.m.Graph, act, q):
			return "its Clip lets less through than the quantizer behind it covers"
		}
		return ""
	})
}

func quantizedBeside(v *view) []Finding {
	return v.each(func(d dense) string {
		y := d.node.Outputs[0]
		reads := func(n *graph.Node) bool { return n.Is("QuantizeLinear") }
		if d.data != nil && d.weight != nil && d.node.Op == "Gemm" && v.alone(y) == nil && slices.ContainsFunc(v.consumers[y], reads) {
			return "its output is quantized, and read by others, too"
		}
		return ""
	})
}

// alone returns the only reader of a value; nil when there are several, or none, or when
// it is an output of the model.
func (v *view) alone(name string) *graph.Node {
	c := v.consumers[name]
	if len(c) != 1 || slices.ContainsFunc(v.m.Graph.Outputs, func(o graph.Value) bool { return o.Name == name }) {
		return nil
	}
	return c[0]
}
