package onnxio

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// canonicalOpset is the least operator set of a canonical model: the first that has INT4 and
// scales per block, which quantized models are written with.
const canonicalOpset = 21

// Canonical returns a model that computes the same function (up to float32
// rounding where constants are folded) with every dense layer in one form:
//
//	Gemm(x, W [out,in], b [out]) with transB=1 and no other attribute
//
// and every Conv as it is, with what follows it folded in. Constant nodes become
// initializers; Identity, Dropout and Flatten or Reshape that change nothing go
// away; MatMul with constant weights becomes Gemm; alpha, beta, transA and
// transposed weights are folded; so are per-channel affine operators around a dense
// layer, and behind a Conv (BatchNormalization, Add, Sub, Mul, Div by constants),
// except those on the model's input; a Relu behind the MaxPool of a Conv goes in
// front of it, where integer kernels take it in. Folded initializers that were
// listed as inputs are no longer inputs. All else is kept. The operator set is
// raised to 21 at least; m is not changed.
//
// Models with subgraphs (If, Loop, Scan) are refused: values that subgraphs
// capture are not known here.
//
// Where the file does not declare the shape of a MatMul's input, the layer may stay
// as it is: [Model.Canonical] has measured the shapes and finds all layers.
func Canonical(m *graph.Model) (*graph.Model, error) {
	c, _, err := canonical(m, nil)
	return c, err
}

// canonical is Canonical for a model whose values have the given types, and returns
// those of the canonical form.
func canonical(m *graph.Model, types autodiff.Types) (*graph.Model, autodiff.Types, error) {
	c := m.Clone()
	if c.Opset("") < canonicalOpset {
		if err := upgrade(c, canonicalOpset, types); err != nil {
			return nil, nil, err
		}
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
	r := &rewriter{g: c.Graph, names: graph.NewBuilder(c.Graph, ""), retired: map[string]bool{}, types: maps.Clone(types)}
	r.index()
	r.constants()
	r.identities()
	r.gemms()
	r.affines()
	r.pools()
	r.clean()
	if types != nil {
		// Values that are new here follow from the others; what does not is reported where it is needed.
		_ = autodiff.Infer(c.Graph, r.types)
	}
	if err := c.Graph.Check(); err != nil {
		return nil, nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, r.types, nil
}

// rewriter holds the graph under change and what is known of it.
type rewriter struct {
	g         *graph.Graph
	names     *graph.Builder
	retired   map[string]bool // initializers that a rewrite replaced: dropped when nothing else uses them
	inits     map[string]*graph.Tensor
	inputs    map[string]graph.Value // those that are fed, not defaults of initializers
	outputs   map[string]bool
	producers map[string]*graph.Node
	consumers map[string][]*graph.Node
	declared  map[string]graph.Value // types of intermediates that the file states, or else were measured
	types     autodiff.Types         // as measured; nil when the model has not been run
}

// index recomputes the tables after the graph has changed.
func (r *rewriter) index() {
	r.inits = r.g.InitMap()
	r.inputs = map[string]graph.Value{}
	for _, v := range r.g.DataInputs() {
		r.inputs[v.Name] = v
	}
	r.outputs = map[string]bool{}
	for _, v := range r.g.Outputs {
		r.outputs[v.Name] = true
	}
	r.declared = map[string]graph.Value{}
	for name, t := range r.types {
		r.declared[name] = graph.Value{Name: name, DType: t.DType, Shape: t.Shape}
	}
	for _, v := range slices.Concat(r.g.Values, r.g.Outputs) {
		r.declared[v.Name] = v
	}
	r.producers, r.consumers = r.g.Producers(), r.g.Consumers()
}

// forget drops what is known of the type of value.
func (r *rewriter) forget(value string) {
	r.g.Values = slices.DeleteFunc(r.g.Values, func(v graph.Value) bool { return v.Name == value })
	delete(r.types, value)
}

// remove takes n out of the graph.
func (r *rewriter) remove(n *graph.Node) {
	i := slices.Index(r.g.Nodes, n)
	r.g.Nodes = slices.Concat(r.g.Nodes[:i], r.g.Nodes[i+1:])
}

// replace makes every reader of value old read value by.
func (r *rewriter) replace(old, by string) {
	for _, n := range r.g.Nodes {
		for i, in := range n.Inputs {
			if in == old {
				n.Inputs[i] = by
			}
		}
	}
}

// constant returns the float32 constant called name, or nil.
func (r *rewriter) constant(name string) *graph.Tensor {
	if t := r.inits[name]; t != nil && t.DType == graph.Float && len(t.Extra) == 0 {
		return t
	}
	return nil
}

// add adds an initializer under a fresh name and returns the name.
func (r *rewriter) add(hint string, v []float32, dims ...int64) string {
	t := graph.FromFloats(r.names.Name(hint), v, dims...)
	r.g.Inits = append(r.g.Inits, t)
	r.inits[t.Name] = t
	return t.Name
}

// constants turns Constant nodes, and transposes of 2-d constants, into initializers.
func (r *rewriter) constants() {
	for _, n := range slices.Clone(r.g.Nodes) {
		var t *graph.Tensor
		switch {
		case len(n.Outputs) != 1 || r.outputs[n.Outputs[0]]:
			continue
		case n.Is("Constant"):
			t = n.Constant()
		case n.Is("Transpose"):
			if t = transposed(r.constant(n.Input(0)), n.Ints("perm")); t != nil {
				r.retired[n.Input(0)] = true
			}
		case n.Is("Identity") && r.constant(n.Input(0)) != nil:
			c := *r.constant(n.Input(0))
			t = &c
			r.retired[n.Input(0)] = true
		}
		if t == nil {
			continue
		}
		t.Name = n.Outputs[0]
		r.g.Inits = append(r.g.Inits, t)
		r.inits[t.Name] = t
		r.remove(n)
	}
	r.index()
}

// transposed returns the transpose of a 2-d float constant, nil when t is none.
func transposed(t *graph.Tensor, perm []int64) *graph.Tensor {
	if t == nil || len(t.Dims) != 2 || (perm != nil && (len(perm) != 2 || perm[0] != 1 || perm[1] != 0)) {
		return nil
	}
	v, err := t.Floats()
	if err != nil {
		return nil
	}
	return graph.FromFloats("", transpose(v, int(t.Dims[0]), int(t.Dims[1])), t.Dims[1], t.Dims[0])
}

// transpose returns the transpose of v, rows x cols.
func transpose(v []float32, rows, cols int) []float32 {
	out := make([]float32, len(v))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = v[i*cols+j]
		}
	}
	return out
}

// identities removes nodes that pass their first input on unchanged.
func (r *rewriter) identities() {
	for again := true; again; {
		again = false
		for _, n := range r.g.Nodes {
			if r.passes(n) && r.bypass(n) {
				r.index()
				again = true
				break
			}
		}
	}
}

// passes reports whether n's first output is its first input.
func (r *rewriter) passes(n *graph.Node) bool {
	if !n.Standard() || len(n.Outputs) == 0 || n.Input(0) == "" {
		return false
	}
	switch n.Op {
	case "Identity":
		return true
	case "Dropout":
		mask := len(n.Outputs) > 1 && n.Outputs[1] != "" && (len(r.consumers[n.Outputs[1]]) > 0 || r.outputs[n.Outputs[1]])
		return !mask && r.isFalse(n.Input(2))
	case "Flatten":
		_, ok := r.width(n.Input(0), 0)
		return ok && n.Int("axis", 1) == 1
	case "Reshape":
		return r.keepsShape(n)
	}
	return false
}

// keepsShape reports whether a Reshape of a rank-2 value gives the same shape.
func (r *rewriter) keepsShape(n *graph.Node) bool {
	t := r.inits[n.Input(1)]
	if t == nil || t.DType != graph.Int64 {
		return false
	}
	shape, err := t.Ints()
	w, ok := r.width(n.Input(0), 0)
	if err != nil || len(shape) != 2 || !ok || n.Int("allowzero", 0) != 0 || shape[0] > 0 {
		return false
	}
	switch {
	case shape[0] == 0:
		return shape[1] == 0 || shape[1] == -1 || (shape[1] == w && w > 0)
	case shape[0] == -1:
		return shape[1] == 0 || (shape[1] == w && w > 0)
	}
	return false
}

// isFalse reports whether the optional boolean constant called name is absent or false.
func (r *rewriter) isFalse(name string) bool {
	if name == "" {
		return true
	}
	t := r.inits[name]
	return t != nil && t.DType == graph.Bool && len(t.Raw) == 1 && t.Raw[0] == 0
}

// bypass connects n's readers with n's input and removes n. It does nothing
// when n's output is an output of the model whose name no other node can take over.
func (r *rewriter) bypass(n *graph.Node) bool {
	in, out := n.Input(0), n.Outputs[0]
	if r.outputs[out] {
		p := r.producers[in]
		if p == nil || r.outputs[in] {
			return false
		}
		for i, o := range p.Outputs {
			if o == in {
				p.Outputs[i] = out
			}
		}
		r.replace(in, out)
	} else {
		r.replace(out, in)
	}
	for _, c := range n.Inputs[1:] {
		r.retired[c] = true
	}
	r.remove(n)
	return true
}

// width returns the size of the second dimension of a value of rank 2, -1 when
// it is not known, and whether the value is known to have rank 2.
func (r *rewriter) width(v string, depth int) (int64, bool) {
	if in, ok := r.inputs[v]; ok {
		return widthOf(in.Shape)
	}
	n := r.producers[v]
	if n == nil || depth > 64 {
		return -1, false
	}
	switch {
	case n.Is("Gemm") || n.Is("MatMul"):
		t := r.inits[n.Input(1)]
		if t == nil || len(t.Dims) != 2 {
			break
		}
		if n.Op == "Gemm" {
			return t.Dims[1-n.Int("transB", 0)&1], true
		}
		if _, ok := r.width(n.Input(0), depth+1); ok {
			return t.Dims[1], true
		}
	case n.Is("Flatten"):
		if w, ok := r.width(n.Input(0), depth+1); ok && n.Int("axis", 1) == 1 {
			return w, true
		}
		return -1, true
	case n.KeepsShape() && n.Outputs[0] == v:
		return r.width(n.Input(0), depth+1)
	case n.Is("Add") || n.Is("Sub") || n.Is("Mul") || n.Is("Div"):
		for i, other := range []int{1, 0} {
			t := r.inits[n.Input(other)]
			if t == nil {
				continue // only one input is followed: both would take 2^depth steps
			}
			if w, ok := r.width(n.Input(i), depth+1); ok && w > 0 && channels(t, int(w)) {
				return w, true
			}
		}
	}
	if d, ok := r.declared[v]; ok {
		return widthOf(d.Shape)
	}
	return -1, false
}

func widthOf(s graph.Shape) (int64, bool) {
	if len(s) != 2 {
		return -1, false
	}
	if s[1].Size <= 0 {
		return -1, true
	}
	return s[1].Size, true
}

// channels reports whether t broadcasts over the rows of a [N, width] value
// without changing its shape.
func channels(t *graph.Tensor, width int) bool {
	if len(t.Dims) > 2 || (len(t.Dims) == 2 && t.Dims[0] != 1) {
		return false
	}
	n := t.Len()
	return n == 1 || n == width
}

// clean names the layers uniquely, drops constants that rewrites replaced and
// nothing uses, takes layers' weights off the list of inputs, and forgets the
// declared types of values that are gone.
func (r *rewriter) clean() {
	r.index()
	taken := map[string]bool{}
	weights := map[string]bool{}
	for _, n := range r.g.Nodes {
		if n.Is("Gemm") || n.Is("Conv") {
			if n.Name == "" || taken[n.Name] {
				n.Name = r.names.Name(n.Op)
			}
			weights[n.Input(1)], weights[n.Input(2)] = true, true
		}
		taken[n.Name] = true
	}
	gone := map[string]bool{}
	r.g.Inits = slices.DeleteFunc(r.g.Inits, func(t *graph.Tensor) bool {
		gone[t.Name] = r.retired[t.Name] && len(r.consumers[t.Name]) == 0 && !r.outputs[t.Name]
		return gone[t.Name]
	})
	r.g.Inputs = slices.DeleteFunc(r.g.Inputs, func(v graph.Value) bool {
		return gone[v.Name] || weights[v.Name] && r.inits[v.Name] != nil
	})
	r.g.Values = slices.DeleteFunc(r.g.Values, func(v graph.Value) bool {
		return r.producers[v.Name] == nil && (r.inits[v.Name] == nil || gone[v.Name])
	})
}
