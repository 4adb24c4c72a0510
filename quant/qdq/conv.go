package qdq

import (
	"fmt"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// isLayer reports whether n can be a layer that is written on integers.
func isLayer(n *graph.Node) bool { return n.Is("Gemm") || n.Is("Conv") }

// kernel gives the weights of a convolution, which stand in the file as those of a
// dense layer do, the shape of its kernel; the runtime folds that at load.
func (w *writer) kernel(l *layer, v string) string {
	c := l.info.Conv
	if c == nil {
		return v
	}
	dims := []int64{int64(l.info.Out), int64(c.Channels / c.Group)}
	for _, k := range c.Kernel {
		dims = append(dims, int64(k))
	}
	return w.shared("Reshape", "w", []string{v, w.tensor(graph.FromInts("n", dims, int64(len(dims))))})
}

// results returns the output quantizers of the plan by the values that they stand at.
func (p *prepared) results() map[string]quant.Act {
	out := map[string]quant.Act{}
	for _, l := range p.layers {
		if l.enc != nil && l.info.Conv != nil && l.plan.Result != nil {
			out[l.info.Conv.Behind] = *l.plan.Result
		}
	}
	return out
}

// result puts an output quantizer behind the node that was written last, in place
// of n, if one stands there: all readers of its value read what comes out of that.
func (w *writer) result(n *graph.Node) {
	w.shield()
	if len(n.Outputs) == 0 {
		return
	}
	value := n.Outputs[0]
	a, ok := w.outputs[value]
	if !ok {
		return
	}
	last := w.g.Nodes[len(w.g.Nodes)-1]
	var from string
	if last.Is("Clip") && a.Bits < 8 {
		// The Clip of the codes bounds the value, too; two keep the kernel from fusing.
		from = last.Input(0)
		w.g.Nodes = w.g.Nodes[:len(w.g.Nodes)-1]
	} else {
		from = w.names.Name("c")
		last.Outputs = []string{from}
	}
	w.activation(from, a)
	w.g.Nodes[len(w.g.Nodes)-1].Outputs = []string{value}
	// Layers that quantize the value in the same way read it as it is.
	w.values[fmt.Sprintf("act %q %v", from, a)] = value
	w.values[fmt.Sprintf("act %q %v", value, a)] = value
}

// shield puts a Clip that bounds nothing in front of the node that was written last,
// if that is a layer on float weights behind an output quantizer: between quantizers
// the runtime would silently round the weights to 8 bits.
func (w *writer) shield() {
	if len(w.outputs) == 0 {
		return
	}
	end := len(w.g.Nodes) - 1
	n := w.g.Nodes[end]
	if !isLayer(n) {
		return
	}
	made := w.g.Producers()
	if d := made[n.Input(1)]; d != nil && d.Is("DequantizeLinear") {
		return
	}
	for v := n.Input(0); ; {
		if _, ok := w.outputs[v]; ok {
			break
		}
		p := made[v]
		if p == nil || !quant.Moves(p) {
			return
		}
		v = p.Input(0)
	}
	w.g.Nodes = w.g.Nodes[:end]
	least := w.scalar("s", -unbounded)
	n.Inputs = append([]string{w.op("Clip", "u", []string{n.Inputs[0], least})}, n.Inputs[1:]...)
	w.append(n)
}

// outputsFirst returns the numbers of outputs and of inputs of weights whose first
// dimension is that of the outputs.
func outputsFirst(dims []int64) (out, in int) {
	if len(dims) == 0 {
		return 0, 0
	}
	in = 1
	for _, d := range dims[1:] {
		in *= int(d)
	}
	return int(dims[0]), in
}

// Behind returns the value of the Relu or Clip that alone reads the convolution n,
// "" when there is none: the optimizer makes one node of the two and calls it after
// that value.
func Behind(g *graph.Graph, n *graph.Node) string {
	if !n.Is("Conv") {
		return ""
	}
	readers := g.Consumers()[n.Outputs[0]]
	if len(readers) == 1 && (readers[0].Is("Relu") || readers[0].Is("Clip")) {
		return readers[0].Outputs[0]
	}
	return ""
}
