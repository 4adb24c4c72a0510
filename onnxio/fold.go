package onnxio

import (
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// gemms brings every Gemm, and every MatMul of a rank-2 value, with constant
// float weights into the canonical form. Others are left alone.
func (r *rewriter) gemms() {
	for _, n := range slices.Clone(r.g.Nodes) {
		switch {
		case n.Is("MatMul"):
			if _, ok := r.width(n.Input(0), 0); !ok {
				continue
			}
		case !n.Is("Gemm"):
			continue
		}
		w := r.constant(n.Input(1))
		if w == nil || len(w.Dims) != 2 || w.Len() == 0 {
			continue
		}
		r.gemm(n, w)
	}
	r.index()
}

func (r *rewriter) gemm(n *graph.Node, w *graph.Tensor) {
	alpha, beta := n.Float("alpha", 1), n.Float("beta", 1)
	wv, err := w.Floats()
	if err != nil {
		return
	}
	rows, cols := w.Dims[0], w.Dims[1]
	changed := false
	if n.Int("transB", 0) == 0 {
		wv, rows, cols, changed = transpose(wv, int(rows), int(cols)), cols, rows, true
	}
	var bias []float32
	if c := n.Input(2); c != "" {
		t := r.constant(c)
		if t == nil || !channels(t, int(rows)) {
			return // a bias per example: not a dense layer
		}
		v, err := t.Floats()
		if err != nil {
			return
		}
		if len(t.Dims) != 1 || len(v) != int(rows) || beta != 1 {
			bias = make([]float32, rows)
			for i := range bias {
				bias[i] = v[i%len(v)] * beta
			}
		}
	}
	if alpha != 1 {
		changed = true
		for i, x := range wv {
			wv[i] = x * alpha
		}
	}
	if changed {
		r.retired[n.Input(1)] = true
		n.Inputs[1] = r.add("w", wv, rows, cols)
	}
	if bias != nil {
		r.retired[n.Input(2)] = true
		n.Inputs[2] = r.add("b", bias, rows)
	}
	if n.Int("transA", 0) != 0 {
		r.transposeInput(n)
	}
	n.Op, n.Attrs = "Gemm", []graph.Attr{graph.IntAttr("transB", 1)}
}

// transposeInput puts a Transpose in front of n's first input.
func (r *rewriter) transposeInput(n *graph.Node) {
	k := &graph.Node{
		Op: "Transpose", Inputs: []string{n.Inputs[0]}, Outputs: []string{r.names.Name("t")},
		Attrs: []graph.Attr{graph.IntsAttr("perm", 1, 0)},
	}
	n.Inputs[0] = k.Outputs[0]
	r.g.Nodes = slices.Insert(slices.Clone(r.g.Nodes), slices.Index(r.g.Nodes, n), k)
}

// layer returns the weights and bias of n if it is a canonical Gemm or a Conv
// (bias all zero when it has none).
func (r *rewriter) layer(n *graph.Node) (w *graph.Tensor, wv, bv []float64) {
	if n == nil || !n.PlainGemm() && !n.Is("Conv") {
		return nil, nil, nil
	}
	if w = r.constant(n.Input(1)); w == nil || w.Len() == 0 || n.Is("Gemm") && len(w.Dims) != 2 || n.Is("Conv") &&
		len(w.Dims) < 3 {
		return nil, nil, nil
	}
	var err error
	if wv, err = w.Doubles(); err != nil {
		return nil, nil, nil
	}
	bv = make([]float64, w.Dims[0])
	if c := n.Input(2); c != "" {
		t := r.constant(c)
		if t == nil || len(t.Dims) != 1 || t.Dims[0] != w.Dims[0] {
			return nil, nil, nil
		}
		if bv, err = t.Doubles(); err != nil {
			return nil, nil, nil
		}
	}
	return w, wv, bv
}

// setLayer gives n new weights and biases, computed in float64, with w's shape.
func (r *rewriter) setLayer(n *graph.Node, w *graph.Tensor, wv, bv []float64) {
	r.retired[n.Input(1)], r.retired[n.Input(2)] = true, true
	n.Inputs = []string{n.Inputs[0], r.add("w", singles(wv), w.Dims...), r.add("b", singles(bv), w.Dims[0])}
}

func singles(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// affines folds operators s*x+t, with s and t constant per channel, into the
// layer in front of them or, where that is not possible, into those behind.
func (r *rewriter) affines() {
	for again := true; again; {
		again = false
		for _, n := range r.g.Nodes {
			if r.foldBack(n) || r.foldForward(n) {
				r.index()
				again = true
				break
			}
		}
	}
}

// foldBack folds n into the layer that it reads.
func (r *rewriter) foldBack(n *graph.Node) bool {
	for i, x := range n.Inputs {
		g := r.producers[x]
		if g == nil || len(r.consumers[x]) != 1 || r.outputs[x] {
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
		r.drop(n, i)
		g.Outputs[0] = n.Outputs[0]
		return true
	}
	return false
}

// foldForward folds n, when it is not on the model's input, into the layers
// that read it.
func (r *rewriter) foldForward(n *graph.Node) bool {
	if len(n.Outputs) == 0 || r.outputs[n.Outputs[0]] || len(r.consumers[n.Outputs[0]]) == 0 {
		return false
	}
	y := n.Outputs[0]
	for i, x := range n.Inputs {
		if r.producers[x] == nil {
			continue
		}
		width, wide := r.width(x, 0) // a narrower x would be broadcast
		var s, t []float64
		for _, g := range r.consumers[y] {
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
		for _, g := range r.consumers[y] {
			w, wv, bv := r.layer(g)
			for k := range wv {
				bv[k/len(s)] += wv[k] * t[k%len(s)]
				wv[k] *= s[k%len(s)]
			}
			r.setLayer(g, w, wv, bv)
			g.Inputs[0] = x
		}
		r.drop(n, i)
		return true
	}
	return false
}

// drop removes n; its constants go with it when nothing else uses them.
func (r *rewriter) drop(n *graph.Node, data int) {
	for i, c := range n.Inputs {
		if i != data {
			r.retired[c] = true
		}
	}
	r.remove(n)
}

// affine returns s and t of length width when n computes s*x+t of its i-th
// input x, nil otherwise: [N, width], or with space further dimensions the channels
// of a convolution's output.
func (r *rewriter) affine(n *graph.Node, i, width, space int) (s, t []float64) {
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

// perChannel returns a constant spread over width channels in front of space
// further dimensions, nil when it is no float constant or has another size.
func (r *rewriter) perChannel(name string, width, space int) []float64 {
	c := r.constant(name)
	if c == nil || space == 0 && !channels(c, width) || space > 0 && !spatialChannels(c, width, space) {
		return nil
	}
	v, err := c.Doubles()
	if err != nil {
		return nil
	}
	if len(v) == 0 {
		return nil
	}
	out := make([]float64, width)
	for k := range out {
		out[k] = v[k%len(v)]
	}
	return out
}

// spatialChannels reports whether t broadcasts over [N, width, ...] with space
// further dimensions, one number for each channel or for all, without changing the shape.
func spatialChannels(t *graph.Tensor, width, space int) bool {
	if len(t.Dims) > space+2 {
		return false
	}
	for i, d := range t.Dims {
		channel := i == len(t.Dims)-1-space
		if d != 1 && !(channel && d == int64(width)) {
			return false
		}
	}
	return true
}

// pools puts a Relu that alone reads the MaxPool behind a Conv in front of that:
// the largest of the positive parts is the positive part of the largest.
func (r *rewriter) pools() {
	for _, n := range r.g.Nodes {
		if !n.Is("MaxPool") || len(n.Outputs) != 1 {
			continue
		}
		x, y := n.Input(0), n.Outputs[0]
		conv, readers := r.producers[x], r.consumers[y]
		if conv == nil || !conv.Is("Conv") || len(r.consumers[x]) != 1 || r.outputs[x] || r.outputs[y] ||
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
		r.forget(y) // it has another shape now
	}
	r.index()
}
