package verify

import (
	"cmp"
	"slices"
	"strings"

	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

func (r *Report) kernels(opt, g *graph.Graph, plan *quant.Plan) {
	inits, producers, consumers, kernel, table := opt.InitMap(), g.Producers(), g.Consumers(), Kernels(opt), qdq.Kernels()
	runs := func(w *graph.Node, name string) *graph.Node {
		if w == nil {
			return nil
		}
		return cmp.Or(kernel(name, w.Outputs[0]), kernel("", qdq.Behind(consumers, w)))
	}
	written := map[string]*graph.Node{}
	for _, n := range slices.Backward(g.Nodes) {
		if quant.IsLayer(n) || n.Is("Gather") {
			written[quant.NodeName(n)] = n
		}
	}
	for _, n := range opt.Nodes {
		if n.Is("DequantizeLinear") && inits[n.Input(0)] != nil {
			r.problem("%s dequantizes weights at every inference", n.Label())
		}
	}
	for _, p := range plan.Layers {
		r.Layers = append(r.Layers, Layer{Node: p.Node, Bits: p.MeanBits()})
		l, w := &r.Layers[len(r.Layers)-1], written[p.Node]
		n := runs(w, p.Node)
		if n == nil {
			r.problem("layer %q is not in the graph that ONNX Runtime runs", p.Node)
			continue
		}
		k := table[n.Op]
		l.Kernel, l.Fused = n.Op, !k.Integer()
		if !p.Float { // a layer behind codes is written for integer arithmetic
			data := producers[w.Input(0)]
			integers := data != nil && data.Is("DequantizeLinear")
			l.Fused = k.Planned() && strings.HasSuffix(n.Op, "Conv") == w.Is("Conv") && n.Is("Gather") == w.Is("Gather") &&
				k.Integer() == integers && (integers || inits[n.Input(k.Weights[0])] != nil)
		}
		if !l.Fused {
			r.problem("layer %q runs as %s, not on the planned kernel", p.Node, n.Op)
		}
	}
	// Between quantizers the optimizer rounds float weights to 8 bits, unasked.
	for _, w := range g.Nodes {
		if !quant.IsLayer(w) || w.Name == "" || plan.Layer(w.Name) != nil {
			continue
		}
		if n := runs(w, w.Name); n != nil && table[n.Op].Integer() {
			r.problem("layer %q is to stay in float and runs as %s", w.Name, n.Op)
		}
	}
}

// KernelIndex returns the node of the optimized graph that runs a layer of the written one, given the layer's name and
// the value that it defines ("" when one is not known); nil when there is none.
type KernelIndex func(name, output string) *graph.Node

// Kernels makes the index. Fusion keeps the name of the layer's node, puts a word before it where it takes in an
// activation behind or a number behind it where the layout of a convolution's data changes, or else keeps the value. A
// convolution for blocks of channels is called after the value.
func Kernels(optimized *graph.Graph) KernelIndex {
	named, fused, values := map[string]*graph.Node{}, map[string]*graph.Node{}, optimized.Producers()
	first := func(in map[string]*graph.Node, name string, n *graph.Node) {
		if in[name] == nil && name != "" {
			in[name] = n
		}
	}
	for _, n := range optimized.Nodes {
		first(named, n.Name, n)
		for i, c := range n.Name {
			if c == ' ' {
				first(fused, n.Name[i+1:], n)
			}
		}
		if name, ok := strings.CutSuffix(strings.TrimRight(n.Name, "0123456789"), "_token_"); ok {
			first(fused, name, n)
		}
	}
	return func(name, output string) *graph.Node {
		return cmp.Or(named[name], fused[name], named[output+"_nchwc"], values[output])
	}
}
