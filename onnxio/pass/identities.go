package pass

import (
	"slices"

	"cfq/onnxio/graph"
)

func (r *canonicalizer) passes(n *graph.Node) bool {
	if !n.Standard() || len(n.Outputs) == 0 || n.Input(0) == "" {
		return false
	}
	switch n.Op {
	case "Identity":
		return true
	case "Cast":
		t, known := r.Types[n.Input(0)]
		return known && t.DType != graph.Undefined && t.DType == graph.DType(n.Int("to", 0))
	case "Dropout":
		mask := len(n.Outputs) > 1 && n.Outputs[1] != "" && (len(r.Consumers[n.Outputs[1]]) > 0 || r.G.IsOutput(n.Outputs[1]))
		training := r.Inits[n.Input(2)]
		return !mask && (n.Input(2) == "" || training != nil && slices.Equal(training.Raw, []byte{0}))
	case "Flatten":
		_, ok := r.width(n.Input(0))
		return ok && n.Int("axis", 1) == 1
	case "Reshape":
		return r.keepsShape(n)
	}
	return false
}

func (r *canonicalizer) keepsShape(n *graph.Node) bool {
	t := r.Inits[n.Input(1)]
	if t == nil || t.DType != graph.Int64 {
		return false
	}
	shape, err := t.Ints()
	w, ok := r.width(n.Input(0))
	if err != nil || len(shape) != 2 || !ok || n.Int("allowzero", 0) != 0 {
		return false
	}
	same := shape[1] == 0 || shape[1] == w && w > 0
	return shape[0] == 0 && (same || shape[1] == -1) || shape[0] == -1 && same
}
