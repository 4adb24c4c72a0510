package quant

import (
	"fmt"

	"cfq/graph"
)

// LayerInfo describes one dense layer of a canonical model: Output = Input W^T + B.
type LayerInfo struct {
	Node          string // name of the Gemm node, unique in the model
	Weight, Bias  string // their initializers; Bias is "" when there is none
	Input, Output string // values, [N, In] and [N, Out]
	In, Out       int
	W             []float32 // Out x In
	B             []float32 // Out; all zero when there is no bias
	// Fixed says why the layer must stay in float; "" when it may be quantized.
	Fixed string
}

// Params is the number of weights, without the bias.
func (l *LayerInfo) Params() int { return l.In * l.Out }

// Row returns the weights of output o.
func (l *LayerInfo) Row(o int) []float32 { return l.W[o*l.In : (o+1)*l.In] }

// FindLayers lists the dense layers of a canonical model in graph order: the
// Gemm nodes with constant float weights in the form that Canonical leaves.
func FindLayers(m *graph.Model) ([]LayerInfo, error) {
	inits := map[string]*graph.Tensor{}
	for _, t := range m.Graph.Inits {
		inits[t.Name] = t
	}
	outputs := map[string]bool{}
	for _, v := range m.Graph.Outputs {
		outputs[v.Name] = true
	}
	var layers []LayerInfo
	for _, n := range m.Graph.Nodes {
		if !isOp(n, "Gemm") {
			continue
		}
		w, b := inits[n.Input(1)], inits[n.Input(2)]
		if !plainGemm(n) || w == nil || w.DType != graph.Float || len(w.Dims) != 2 {
			continue
		}
		l := LayerInfo{Node: n.Name, Weight: n.Input(1), Bias: n.Input(2), Input: n.Input(0), Output: n.Outputs[0]}
		l.Out, l.In = int(w.Dims[0]), int(w.Dims[1])
		if l.Out == 0 || l.In == 0 {
			continue
		}
		var err error
		if l.W, err = w.Floats(); err != nil {
			return nil, fmt.Errorf("weight of %s: %w", n.Label(), err)
		}
		l.B = make([]float32, l.Out)
		if l.Bias != "" {
			if b == nil || b.DType != graph.Float || len(b.Dims) != 1 || b.Dims[0] != int64(l.Out) {
				continue
			}
			if l.B, err = b.Floats(); err != nil {
				return nil, fmt.Errorf("bias of %s: %w", n.Label(), err)
			}
		}
		switch {
		case outputs[l.Weight]:
			l.Fixed = fmt.Sprintf("its weight %q is also an output of the model", l.Weight)
		case !finite(l.W) || !finite(l.B):
			l.Fixed = "its weights are not all finite"
		}
		layers = append(layers, l)
	}
	return layers, nil
}

func isOp(n *graph.Node, op string) bool {
	return n.Op == op && (n.Domain == "" || n.Domain == "ai.onnx")
}

// plainGemm reports whether n computes A B^T + C.
func plainGemm(n *graph.Node) bool {
	return n.Float("alpha", 1) == 1 && n.Float("beta", 1) == 1 && n.Int("transA", 0) == 0 && n.Int("transB", 0) == 1
}

func finite(v []float32) bool {
	for _, x := range v {
		if x-x != 0 {
			return false
		}
	}
	return true
}
