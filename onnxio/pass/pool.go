package pass

// pools moves a Relu that alone reads the MaxPool of a Conv in front of the pool:
// the largest of the positive parts is the positive part of the largest.
func (r *canonicalizer) pools() {
	for _, n := range r.G.Nodes {
		if !n.Is("MaxPool") || len(n.Outputs) != 1 {
			continue
		}
		x, y := n.Input(0), n.Outputs[0]
		conv, readers := r.Producers[x], r.Consumers[y]
		if conv == nil || !conv.Is("Conv") || len(r.Consumers[x]) != 1 || r.G.IsOutput(x) || r.G.IsOutput(y) ||
			len(readers) != 1 || !readers[0].Is("Relu") {
			continue
		}
		// The two change places: each node takes the other's operator.
		relu := readers[0]
		n.Op, relu.Op = relu.Op, n.Op
		n.Name, relu.Name = relu.Name, n.Name
		n.Attrs, relu.Attrs = relu.Attrs, n.Attrs
		n.Doc, relu.Doc = relu.Doc, n.Doc
		n.Extra, relu.Extra = relu.Extra, n.Extra
		r.Forget(y) // it has another shape now
	}
}
