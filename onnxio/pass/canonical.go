package pass

import (
	"errors"
	"fmt"
	"slices"

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
	var errs []error
	for _, n := range c.Graph.Nodes {
		if n.HasGraphs() {
			errs = append(errs, fmt.Errorf("%s holds a subgraph", n.Label()))
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	r := &canonicalizer{graph.NewRewriter(c, typesOf(c.Graph, types))}
	for _, step := range []func(){
		r.constants, // Constant nodes, and transposes of constants, become initializers
		// nodes that pass their first input on unchanged go away
		func() { r.Repeat(func(n *graph.Node) bool { return r.passes(n) && r.Bypass(n) }) },
		r.flatten, // products of any rank with stored weights become layers
		r.gemms,   // dense layers get one form
		// operators s*x+t fold into the layer in front, or those behind
		func() { r.Repeat(func(n *graph.Node) bool { return r.foldBack(n) || r.foldForward(n) }) },
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

type canonicalizer struct{ *graph.Rewriter }

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
