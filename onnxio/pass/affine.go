package pass

import (
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

func (r *canonicalizer) foldBack(n *graph.Node) bool {
	for i, x := range n.Inputs {
		g := r.Producers[x]
		if g == nil || len(r.Consumers[x]) != 1 || r.G.IsOutput(x) {
			continue
		}
		w, wv, bv := r.layer(g)
		if w == nil {
			continue
		}
		s, t := r.affine(n, i, len(bv), len(w.Dims)-2)
		if s == nil {
			continue
		}
		in := len(wv) / len(bv)
		for o := range bv {
			for k := o * in; k < (o+1)*in; k++ {
				wv[k] *= s[o]
			}
			bv[o] = bv[o]*s[o] + t[o]
		}
		r.setLayer(g, w, wv, bv)
		r.Fold(n, i)
		g.Outputs[0] = n.Outputs[0]
		return true
	}
	return false
}

// foldForward folds n into the layers that read it, unless it is what brings the model's inputs to one scale: in the
// weights of a row, no grid has room for numbers of years and of dollars.
func (r *canonicalizer) foldForward(n *graph.Node) bool {
	if len(n.Outputs) == 0 || r.G.IsOutput(n.Outputs[0]) || len(r.Consumers[n.Outputs[0]]) == 0 {
		return false
	}
	y := n.Outputs[0]
	for i, x := range n.Inputs {
		if r.raw[x] {
			continue
		}
		width, wide := r.width(x) // a narrower x would be broadcast
		var s, t []float64
		for _, g := range r.Consumers[y] {
			w, _, _ := r.layer(g)
			if w == nil || !g.Is("Gemm") || !wide || width != w.Dims[1] || g.Input(0) != y || g.Input(1) == y ||
				g.Input(2) == y {
				s = nil
				break
			}
			if s, t = r.affine(n, i, int(w.Dims[1]), 0); s == nil {
				break
			}
		}
		if s == nil {
			continue
		}
		for _, g := range r.Consumers[y] {
			w, wv, bv := r.layer(g)
			for k := range wv {
				bv[k/len(s)] += wv[k] * t[k%len(s)]
				wv[k] *= s[k%len(s)]
			}
			r.setLayer(g, w, wv, bv)
			g.Inputs[0] = x
		}
		r.Fold(n, i)
		return true
	}
	return false
}

// fold folds operators s*x+t into the layer in front, or those behind.
func (r *canonicalizer) fold() {
	r.raw = map[string]bool{}
	for _, v := range r.G.DataInputs() {
		r.raw[v.Name] = true
	}
	layers := []string{"Gemm", "MatMul", "Conv", "ConvTranspose", "Einsum"}
	for _, n := range r.G.Nodes {
		if !n.Standard() || !slices.Contains(layers, n.Op) {
			if slices.ContainsFunc(n.Inputs, func(in string) bool { return r.raw[in] }) {
				lists.Mark(r.raw, n.Outputs...)
			}
		}
	}
	r.Repeat(func(n *graph.Node) bool { return r.foldBack(n) || r.foldForward(n) })
}

// affine returns s and t of length width when n computes s*x+t of its i-th input x, nil otherwise: [N, width], or with
// space further dimensions the channels of a convolution's output.
func (r *canonicalizer) affine(n *graph.Node, i, width, space int) (s, t []float64) {
	if !n.Standard() {
		return nil, nil
	}
	switch n.Op {
	case "BatchNormalization":
		if i != 0 || n.Int("training_mode", 0) != 0 || len(n.Outputs) != 1 {
			return nil, nil
		}
		var p [4][]float64 // scale, bias, mean, variance
		for k := range p {
			if p[k] = r.perChannel(n.Input(k+1), width, 0); p[k] == nil {
				return nil, nil
			}
		}
		s, t = p[0], p[1]
		for c := range s {
			s[c] /= math.Sqrt(p[3][c] + float64(n.Float("epsilon", 1e-5)))
			t[c] -= p[2][c] * s[c]
		}
	case "Add", "Sub", "Mul", "Div":
		c := r.perChannel(n.Input(1-i), width, space)
		if c == nil || (n.Op == "Div" && i == 1) {
			return nil, nil
		}
		s, t = make([]float64, width), make([]float64, width)
		for k, v := range c {
			switch {
			case n.Op == "Add":
				s[k], t[k] = 1, v
			case n.Op == "Sub" && i == 0:
				s[k], t[k] = 1, -v
			case n.Op == "Sub":
				s[k], t[k] = -1, v
			case n.Op == "Mul":
				s[k] = v
			default:
				s[k] = 1 / v
			}
		}
	}
	for k := range s {
		if s[k]-s[k] != 0 || t[k]-t[k] != 0 { // infinite or not a number
			return nil, nil
		}
	}
	return s, t
}
