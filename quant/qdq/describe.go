package qdq

import (
	"cfq/onnxio/graph"
	"cfq/quant"
)

// LayerNote says how a layer's weights are stored.
type LayerNote struct {
	Node   string `json:"name"` // its output's name when it has none
	Op     string `json:"op"`   // Gemm, MatMul or Conv
	In     int    `json:"inputs"`
	Out    int    `json:"outputs"`
	Biases int    `json:"biases"`
	// Columns is the number of inputs that the kernel multiplies: In, or more where inputs are split.
	Columns int `json:"-"`
	// Bits of a stored weight, on average; Widths are those that occur, when there are several.
	Bits   float64 `json:"bits"`
	Widths []int   `json:"widths,omitempty"`
	// Container is the element type of the stored tensor, or the function that
	// unpacks it; all of them, when the rows stand in several.
	Container string `json:"container"`
	// Stored is what the weights take in the file; see the function of that name.
	// What several layers share counts for the first of them.
	Stored int    `json:"stored_bytes,omitempty"`
	Note   string `json:"note,omitempty"`

	Output string `json:"-"` // value that the layer defines
	Behind string `json:"-"` // value of a Relu or Clip that follows a convolution
	// Fixed is that of quant.LayerInfo: it says something of canonical models only.
	Fixed string `json:"-"`
}

// Params is the number of weights, without the bias.
func (n *LayerNote) Params() int { return n.In * n.Out }

// Describe lists the Gemm, MatMul and Conv nodes of a written model whose weights come,
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
	t := newTracer(m)
	var notes []LayerNote
	for _, n := range m.Graph.Nodes {
		if len(n.Outputs) == 0 || !isDense(n) {
			continue
		}
		l := LayerNote{Node: n.Name, Op: n.Op, Output: n.Outputs[0], Behind: Behind(m.Graph, n)}
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
		case s == nil || info == nil && len(s.dims) != 2 && !n.Is("Conv"):
			continue
		case info == nil && n.Is("Conv"):
			l.Out, l.In = outputsFirst(s.dims)
		case info == nil && n.Int("transB", 0) != 0:
			l.Out, l.In = int(s.dims[0]), int(s.dims[1])
		case info == nil:
			l.In, l.Out = int(s.dims[0]), int(s.dims[1])
		}
		s.describe(&l)
		l.Stored = t.weigh(s, weight)
		if n.Input(2) != "" {
			l.Biases = l.Out
		}
		notes = append(notes, l)
	}
	return notes, nil
}
