package pass

import (
	"errors"
	"fmt"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// Canonical returns a model that computes the same function (up to float32
// rounding where constants are folded) with every dense layer in one form:
//
//	Gemm(x, W [out,in], b [out]) with transB=1 and no other attribute
//
// and every Conv as it is, with what follows it folded in. Constant nodes become
// initializers; Identity, Dropout and Flatten or Reshape that change nothing go
// away; MatMul with constant weights becomes Gemm, between two Reshapes where it reads a value of more than two axes;
// alpha, beta, transA and transposed weights are folded; so are per-channel affine operators around a dense
// layer, and after a Conv (BatchNormalization, Add, Sub, Mul, Div by constants),
// except those on the model's input; a Relu after the MaxPool of a Conv goes in
// front of it, where integer kernels take it in. Folded initializers that were
// listed as inputs are no longer inputs. All else is kept. The operator set is
// raised to 21 at least; m is not changed.
//
// Models with subgraphs (If, Loop, Scan) are refused: values that subgraphs
// capture are not known here.
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
	r := graph.NewRewriter(c, typesOf(c.Graph, types))
	for _, p := range canonical() {
		if err := p.Run(r); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		r.Index()
	}
	// Values that are new here follow from the others; what does not is reported where it is needed.
	_ = autodiff.Infer(c.Graph, r.Types)
	if err := c.Graph.Check(); err != nil {
		return nil, nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, r.Types, nil
}

func canonical() []graph.Pass {
	return []graph.Pass{
		layered("constants", "Constant nodes, and transposes of constants, become initializers.", (*canonicalizer).constants),
		layered("identities", "Nodes that pass their first input on unchanged go away.", (*canonicalizer).identities),
		layered("flatten", "Products of any rank with stored weights become layers.", (*canonicalizer).flatten),
		layered("gemm", "Dense layers get one form.", (*canonicalizer).gemms),
		layered("affine", "Operators s*x+t fold into the layer in front, or those behind.", (*canonicalizer).affines),
		layered("pool", "A Relu behind the MaxPool of a Conv goes in front of it.", (*canonicalizer).pools),
		layered("names", "Layers get names of their own; weights are no inputs.", (*canonicalizer).names),
		layered("sweep", "Constants that were replaced go away.", func(r *canonicalizer) { r.Sweep() }),
	}
}

func layered(name, doc string, run func(*canonicalizer)) graph.Pass {
	return graph.Pass{Name: name, Doc: doc, Run: func(r *graph.Rewriter) error {
		run(&canonicalizer{r})
		return nil
	}}
}

type canonicalizer struct{ *graph.Rewriter }

func (r *canonicalizer) numbers(hint string, v []float64, dims ...int64) string {
	return r.Const(graph.FromNumbers(hint, graph.Float, v, dims...))
}

func (r *canonicalizer) layer(n *graph.Node) (w *graph.Tensor, wv, bv []float64) {
	if n == nil || !n.PlainGemm() && !n.Is("Conv") {
		return nil, nil, nil
	}
	if w = r.Float(n.Input(1)); w == nil || w.Len() == 0 || n.Is("Gemm") && len(w.Dims) != 2 || n.Is("Conv") &&
		len(w.Dims) < 3 {
		return nil, nil, nil
	}
	var err error
	if wv, err = w.Doubles(); err != nil {
		return nil, nil, nil
	}
	bv = make([]float64, w.Dims[0])
	if c := n.Input(2); c != "" {
		t := r.Float(c)
		if t == nil || len(t.Dims) != 1 || t.Dims[0] != w.Dims[0] {
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

// perChannel returns a constant spread over width channels in front of space
// further dimensions, nil when it is no float constant or has another size.
func (r *canonicalizer) perChannel(name string, width, space int) []float64 {
	c := r.Float(name)
	if c == nil || !channels(c, width, space) {
		return nil
	}
	v, err := c.Doubles()
	if err != nil || len(v) == 0 {
		return nil
	}
	out := make([]float64, width)
	for k := range out {
		out[k] = v[k%len(v)]
	}
	return out
}

// channels reports whether t broadcasts over [N, width, ...] with space further
// dimensions, one number for each channel or for all, without changing the shape.
func channels(t *graph.Tensor, width, space int) bool {
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
