package qdq

import (
	"fmt"

	"cfq/graph"
	"cfq/quant"
)

// LayerNote says how a dense layer's weights are stored.
type LayerNote struct {
	Node      string `json:"name"` // its output's name when it has none
	Op        string `json:"op"`   // Gemm or MatMul
	In        int    `json:"inputs"`
	Out       int    `json:"outputs"`
	Biases    int    `json:"biases"`
	Bits      int    `json:"bits"`      // per stored weight
	Container string `json:"container"` // element type of the stored tensor, or the function that unpacks it
	Note      string `json:"note,omitempty"`

	Output string `json:"-"` // value that the layer defines
	// Fixed is that of quant.LayerInfo: it says something of canonical models only.
	Fixed string `json:"-"`
}

// Params is the number of weights, without the bias.
func (n *LayerNote) Params() int { return n.In * n.Out }

// Describe lists the Gemm and MatMul nodes of a written model whose weights come,
// perhaps through casts, scales and unpacking, from stored tensors. Float models
// are best given in canonical form, where layers are whole.
func Describe(m *graph.Model) ([]LayerNote, error) {
	infos, err := quant.FindLayers(m)
	if err != nil {
		return nil, err
	}
	float := map[string]*quant.LayerInfo{}
	for i := range infos {
		float[infos[i].Output] = &infos[i]
	}
	t := &tracer{inits: m.Graph.InitMap(), producers: m.Graph.Producers()}
	var notes []LayerNote
	for _, n := range m.Graph.Nodes {
		if len(n.Outputs) == 0 || !n.Is("Gemm") && !n.Is("MatMul") {
			continue
		}
		l := LayerNote{Node: n.Name, Op: n.Op, Output: n.Outputs[0]}
		if l.Node == "" {
			l.Node = l.Output
		}
		weight := n.Input(1)
		info := float[l.Output]
		if info != nil {
			weight, l.In, l.Out, l.Fixed = info.Weight, info.In, info.Out, info.Fixed
		}
		s := t.trace(weight, 0)
		switch {
		case s == nil || info == nil && len(s.dims) != 2:
			continue
		case info == nil && n.Int("transB", 0) != 0:
			l.Out, l.In = int(s.dims[0]), int(s.dims[1])
		case info == nil:
			l.In, l.Out = int(s.dims[0]), int(s.dims[1])
		}
		l.Bits, l.Container, l.Note = s.bits, s.container, s.note
		if n.Input(2) != "" {
			l.Biases = l.Out
		}
		notes = append(notes, l)
	}
	return notes, nil
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
	if p := t.producers[name]; p != nil {
		return p.Constant()
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
	switch {
	case p == nil || depth > deepest:
		return nil
	case p.Is("DequantizeLinear") || p.Is("Cast") || p.Is("Identity") || p.Is("Mul"):
		return t.trace(p.Input(0), depth+1)
	case !p.Standard():
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
	s := &stored{container: fmt.Sprintf("packed, %s.%s", call.Domain, call.Op)}
	var packed *graph.Tensor
	for _, in := range call.Inputs {
		c := t.constant(in)
		switch {
		case c == nil:
			return nil
		case c.DType == graph.Int64 && c.Len() == 2:
			s.dims, _ = c.Ints() // cannot fail for this type
		case c.DType == graph.Uint8 && (packed == nil || len(c.Raw) > len(packed.Raw)):
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
