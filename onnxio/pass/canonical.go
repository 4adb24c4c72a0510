package pass

import (
	"errors"
	"fmt"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// Canonical returns a model that computes the same function (up to float32
// rounding where constants are folded) with every dense layer in one form:
//
//	Gemm(x, W [out,in], b [out]) with transB=1 and no other attribute
//
// and every Conv as it is, with what follows it folded in. The steps below say how. All else is kept. The operator set
// is raised to 21 at least; m is not changed.
//
// Models with subgraphs (If, Loop, Scan) are refused: values that subgraphs capture are not known here.
//
// types are those of the model's values that are known beyond what it declares; with them come those of the canonical
// form. Without the shape of a MatMul's input, the layer may stay as it is.
func Canonical(m *graph.Model, types graph.Types) (*graph.Model, graph.Types, error) {
	c := m.Clone()
	if err := Upgrade(c, types); err != nil {
		return nil, nil, err
	}
	holders := lists.Filter(c.Graph.Nodes, (*graph.Node).HasGraphs)
	says := func(n *graph.Node) error { return fmt.Errorf("%s holds a subgraph", n.Label()) }
	if err := errors.Join(lists.Map(holders, says)...); err != nil {
		return nil, nil, err
	}
	r := &canonicalizer{Rewriter: graph.NewRewriter(c, typesOf(c.Graph, types))}
	for _, step := range []func(){
		r.constants, // Constant nodes become initializers
		// nodes that pass their first input on unchanged go away
		func() { r.Repeat(func(n *graph.Node) bool { return r.passes(n) && r.Bypass(n) }) },
		r.flatten, // products of any rank with stored weights become layers
		r.gemms,   // dense layers get one form
		r.fold,
		r.pools, // a Relu behind the MaxPool of a Conv goes in front of it, where integer kernels take it in
		r.names, // layers get names of their own; weights are no inputs
		r.Sweep,
	} {
		step()
		r.Index()
	}
	// Values that are new here follow from the others; what does not is reported where it is needed.
	_ = autodiff.Infer(c.Graph, r.Types)
	if err := c.Graph.Check(); err != nil {
		return nil, nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, r.Types, nil
}

type canonicalizer struct {
	*graph.Rewriter
	raw map[string]bool // values that depend on the model's inputs without a layer between
}

func (r *canonicalizer) numbers(hint string, v []float64, dims ...int64) string {
	return r.Const(graph.FromNumbers(hint, graph.Float, v, dims...))
}

func (r *canonicalizer) layer(n *graph.Node) (w *graph.Tensor, wv, bv []float64) {
	if n == nil || !n.PlainGemm() && !n.Is("Conv") {
		return nil, nil, nil
	}
	w = r.Float(n.Input(1))
	if w == nil || w.Len() == 0 || len(w.Dims) < 2 || n.Is("Gemm") != (len(w.Dims) == 2) {
		return nil, nil, nil
	}
	wv, err := w.Doubles()
	if err != nil {
		return nil, nil, nil
	}
	bv = make([]float64, w.Dims[0])
	if c := n.Input(2); c != "" {
		t := r.Float(c)
		if t == nil || !slices.Equal(t.Dims, w.Dims[:1]) {
			return nil, nil, nil
		}
		if bv, err = t.Doubles(); err != nil {
			return nil, nil, nil
		}
	}
	return w, wv, bv
}

func (r *canonicalizer) setLayer(n *graph.Node, w *graph.Tensor, wv, bv []float64) {
	r.Retire(n.Input(1), n.Input(2))
	n.Inputs = []string{n.Inputs[0], r.numbers("w", wv, w.Dims...), r.numbers("b", bv, w.Dims[0])}
}

func (r *canonicalizer) width(v string) (int64, bool) {
	if s := r.Types[v].Shape; len(s) == 2 {
		return s[1].Size, true
	}
	return -1, false
}

// perChannel returns a constant spread over width channels in front of space further dimensions, nil when it is no
// float constant or has another size: one number for each channel or for all.
func (r *canonicalizer) perChannel(name string, width, space int) []float64 {
	c := r.Float(name)
	if c == nil || len(c.Dims) > space+2 {
		return nil
	}
	for i, d := range c.Dims {
		if d != 1 && (i != len(c.Dims)-1-space || d != int64(width)) {
			return nil
		}
	}
	v, err := c.Doubles()
	if err != nil || len(v) == 0 {
		return nil
	}
	return slices.Repeat(v, width/len(v))
}

func (r *canonicalizer) constants() {
	for _, n := range slices.Clone(r.G.Nodes) {
		if t := n.Constant(); t != nil && !r.G.IsOutput(n.Outputs[0]) {
			t.Name = n.Outputs[0]
			r.G.Inits = append(r.G.Inits, t)
			r.Inits[t.Name] = t
			r.Remove(n)
		}
	}
}

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
	return false
}

func (r *canonicalizer) gemms() {
	for _, n := range slices.Clone(r.G.Nodes) {
		_, flat := r.width(n.Input(0))
		w := r.Float(n.Input(1))
		dense := n.Is("Gemm") && n.Int("transA", 0) == 0 || n.Is("MatMul") && flat
		if dense && w != nil && len(w.Dims) == 2 && w.Len() > 0 {
			r.gemm(n, w)
		}
	}
}

func (r *canonicalizer) gemm(n *graph.Node, w *graph.Tensor) {
	wv, err := w.Doubles()
	if err != nil {
		return
	}
	rows, cols := w.Dims[0], w.Dims[1]
	changed := false
	if n.Int("transB", 0) == 0 {
		wv, rows, cols, changed = permuted(wv, w.Dims, []int64{1, 0}), cols, rows, true
	}
	var bias []float64 // nil where it stays
	if c := n.Input(2); c != "" {
		if bias = r.perChannel(c, int(rows), 0); bias == nil {
			return // a bias per example: not a dense layer
		}
		beta := float64(n.Float("beta", 1))
		if t := r.Inits[c]; len(t.Dims) == 1 && t.Dims[0] == rows && beta == 1 {
			bias = nil
		}
		for i := range bias {
			bias[i] *= beta
		}
	}
	if alpha := float64(n.Float("alpha", 1)); alpha != 1 {
		changed = true
		for i := range wv {
			wv[i] *= alpha
		}
	}
	if changed {
		r.Retire(n.Input(1))
		n.Inputs[1] = r.numbers("w", wv, rows, cols)
	}
	if bias != nil {
		r.Retire(n.Input(2))
		n.Inputs[2] = r.numbers("b", bias, rows)
	}
	n.Op, n.Attrs = "Gemm", []graph.Attr{graph.IntAttr("transB", 1)}
}

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
		n.Extra, relu.Extra = relu.Extra, n.Extra
		r.Forget(y) // it has another shape now
	}
}

func (r *canonicalizer) names() {
	taken, weights := map[string]bool{}, map[string]bool{}
	for _, n := range r.G.Nodes {
		if n.Is("Gemm") || n.Is("Conv") {
			if n.Name == "" || taken[n.Name] {
				n.Name = r.Name(n.Op)
			}
			weights[n.Input(1)], weights[n.Input(2)] = true, true
		}
		taken[n.Name] = true
	}
	r.G.Inputs = slices.DeleteFunc(r.G.Inputs, func(v graph.Value) bool {
		return weights[v.Name] && r.Inits[v.Name] != nil
	})
}
