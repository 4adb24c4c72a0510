package main

import (
	"slices"
	"strings"

	"cfq/graph"
	"cfq/onnxio"
	"cfq/quant"
)

// layer is a dense or convolution layer with constant weights, as it is stored.
type layer struct {
	Name      string `json:"name"`
	Op        string `json:"op"`
	In        int    `json:"inputs"`
	Out       int    `json:"outputs"`
	Biases    int    `json:"biases"`
	Bits      int    `json:"bits"`      // per stored weight
	Container string `json:"container"` // element type of the stored tensor, or the function that unpacks it
	Kernel    string `json:"kernel"`    // operator that ONNX Runtime runs; "" when not known
	Note      string `json:"note,omitempty"`

	output string // value that the layer's node defines
}

// findLayers lists the layers of m. A float model is looked at in its canonical
// form, as quantize does; a quantized one as it stands.
func findLayers(m *graph.Model) ([]layer, error) {
	quantized := slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return n.Op == "DequantizeLinear" || n.Op == "QuantizeLinear"
	})
	if quantized {
		return storedLayers(m.Graph), nil
	}
	c := m.Clone()
	if c.Opset("") < 21 {
		if err := onnxio.Upgrade(c, 21); err != nil {
			return storedLayers(m.Graph), err
		}
	}
	c, err := quant.Canonical(c)
	if err != nil {
		return storedLayers(m.Graph), err
	}
	infos, err := quant.FindLayers(c)
	layers := []layer{}
	for _, i := range infos {
		l := layer{Name: i.Node, Op: "Gemm", In: i.In, Out: i.Out, Bits: 32, Container: graph.Float.String(), Note: i.Fixed, output: i.Output}
		if i.Bias != "" {
			l.Biases = i.Out
		}
		layers = append(layers, l)
	}
	return layers, err
}

// meanBits is the mean of the stored bits over all weights, 0 without any.
func meanBits(layers []layer) float64 {
	weights, bits := 0, 0
	for _, l := range layers {
		weights += l.In * l.Out
		bits += l.In * l.Out * l.Bits
	}
	if weights == 0 {
		return 0
	}
	return float64(bits) / float64(weights)
}

// weightBits is meanBits of a model, 0 when its layers are not understood.
func weightBits(m *graph.Model) float64 {
	layers, err := findLayers(m)
	if err != nil {
		return 0
	}
	return meanBits(layers)
}

// storedLayers lists the Gemm and MatMul nodes of g whose weights come, perhaps
// through casts, scales and unpacking, from stored tensors.
func storedLayers(g *graph.Graph) []layer {
	t := &tracer{inits: map[string]*graph.Tensor{}, producers: g.Producers()}
	for _, init := range g.Inits {
		t.inits[init.Name] = init
	}
	layers := []layer{}
	for _, n := range g.Nodes {
		if (n.Op != "Gemm" && n.Op != "MatMul") || domain(n.Domain) != "ai.onnx" {
			continue
		}
		s := t.trace(n.Input(1), 0)
		if s == nil || len(s.dims) != 2 {
			continue
		}
		l := layer{Name: n.Name, Op: n.Op, In: int(s.dims[0]), Out: int(s.dims[1]), Bits: s.bits, Container: s.container, Note: s.note, output: n.Outputs[0]}
		if n.Op == "Gemm" && n.Int("transB", 0) == 1 {
			l.In, l.Out = l.Out, l.In
		}
		if n.Input(2) != "" {
			l.Biases = l.Out
		}
		if l.Name == "" {
			l.Name = l.output
		}
		layers = append(layers, l)
	}
	return layers
}

// stored is where a weight comes from.
type stored struct {
	dims      []int64
	bits      int
	container string
	note      string
}

type tracer struct {
	inits     map[string]*graph.Tensor
	producers map[string]*graph.Node
}

// constant returns the tensor behind a name, or nil.
func (t *tracer) constant(name string) *graph.Tensor {
	if c := t.inits[name]; c != nil {
		return c
	}
	if p := t.producers[name]; p != nil && p.Op == "Constant" {
		if a := p.Attr("value"); a != nil {
			return a.T
		}
	}
	return nil
}

// trace follows a value to the tensor that it is made of. It returns nil when
// that is not one stored tensor.
func (t *tracer) trace(name string, depth int) *stored {
	if c := t.constant(name); c != nil {
		s := &stored{dims: c.Dims, bits: c.DType.Bits(), container: c.DType.String()}
		if c.DType == graph.Int4 && threeBits(c.Raw) {
			s.note = "codes of 3 bits"
		}
		return s
	}
	p := t.producers[name]
	const deepest = 20
	if p == nil || depth > deepest {
		return nil
	}
	switch {
	case slices.Contains([]string{"DequantizeLinear", "Cast", "Identity", "Mul"}, p.Op) && domain(p.Domain) == "ai.onnx":
		return t.trace(p.Input(0), depth+1)
	case domain(p.Domain) != "ai.onnx":
		return t.unpacked(p)
	}
	return nil
}

// threeBits reports whether all 4-bit codes lie within -4..3: a small 3-bit layer
// takes fewer bytes in a 4-bit container than with what unpacks it.
func threeBits(raw []byte) bool {
	for _, b := range raw {
		for _, code := range []byte{b & 15, b >> 4} {
			if code > 3 && code < 12 {
				return false
			}
		}
	}
	return true
}

// unpacked reads the call of a function that takes packed bytes and a shape.
func (t *tracer) unpacked(call *graph.Node) *stored {
	s := &stored{container: "packed, " + qualified(call)}
	var packed *graph.Tensor
	for _, in := range call.Inputs {
		c := t.constant(in)
		switch {
		case c == nil:
			return nil
		case c.DType == graph.Int64 && c.Len() == 2:
			s.dims, _ = c.Ints() // cannot fail for this type
		case packed == nil || len(c.Raw) > len(packed.Raw):
			packed = c
		}
	}
	if packed == nil || len(s.dims) != 2 || s.dims[0]*s.dims[1] <= 0 {
		return nil
	}
	groups := (s.dims[0]*s.dims[1] + 7) / 8 // of eight weights, padded
	s.bits = int(int64(len(packed.Raw)) / groups)
	return s
}

// setKernels finds each layer's node in the graph that ONNX Runtime made. Fusion
// keeps the name of the layer's node (an absorbed Relu puts "fused" in front), or else the value that it defines.
func setKernels(layers []layer, optimized *graph.Graph) {
	byName := map[string]*graph.Node{}
	for _, n := range optimized.Nodes {
		if n.Name != "" {
			byName[strings.TrimPrefix(n.Name, "fused ")] = n
		}
	}
	producers := optimized.Producers()
	for i := range layers {
		l := &layers[i]
		n := byName[l.Name]
		if n == nil {
			n = producers[l.output]
		}
		if n != nil {
			l.Kernel = n.Op
		}
	}
}
