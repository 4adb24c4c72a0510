package quant

import (
	"errors"
	"fmt"

	"cfq/onnxio/graph"
)

// Canonical returns a model that computes the same function (up to float32
// rounding where constants are folded) with every dense layer in one form:
//
//	Gemm(x, W [out,in], b [out]) with transB=1 and no other attribute
//
// and every Conv as it is, with what follows it folded in. Constant nodes become initializers; Identity, Dropout and Flatten or Reshape
// that change nothing go away; MatMul with constant weights becomes Gemm; alpha,
// beta, transA and transposed weights are folded; so are per-channel affine
// operators around a dense layer, and behind a Conv (BatchNormalization, Add, Sub,
// Mul, Div by constants), except those on the model's input; a Relu behind the
// MaxPool of a Conv goes in front of it, where integer kernels take it in. Folded initializers that were listed as
// inputs are no longer inputs. All else is kept. m, of opset 21 or later, is not changed.
//
// Models with subgraphs (If, Loop, Scan) are refused: values that subgraphs
// capture are not known here.
func Canonical(m *graph.Model) (*graph.Model, error) {
	if v := m.Opset(""); v < 21 {
		return nil, fmt.Errorf("the model has opset %d: canonical form needs 21 or later", v)
	}
	var errs []error
	for _, n := range m.Graph.Nodes {
		if n.HasGraphs() {
			errs = append(errs, fmt.Errorf("%s holds a subgraph", n.Label()))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c := m.Clone()
	r := &rewriter{g: c.Graph, names: graph.NewBuilder(c.Graph, ""), retired: map[string]bool{}}
	r.index()
	r.constants()
	r.identities()
	r.gemms()
	r.affines()
	r.pools()
	r.clean()
	if err := c.Graph.Check(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, nil
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
	declared  map[string]graph.Value // types of intermediates that the file states
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
	for _, v := range append(append([]graph.Value(nil), r.g.Values...), r.g.Outputs...) {
		r.declared[v.Name] = v
	}
	r.producers, r.consumers = r.g.Producers(), r.g.Consumers()
}

// remove takes n out of the graph.
func (r *rewriter) remove(n *graph.Node) {
	for i, k := range r.g.Nodes {
		if k == n {
			r.g.Nodes = append(r.g.Nodes[:i:i], r.g.Nodes[i+1:]...)
			return
		}
	}
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
	for _, n := range append([]*graph.Node(nil), r.g.Nodes...) {
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
	var inits []*graph.Tensor
	for _, t := range r.g.Inits {
		if r.retired[t.Name] && len(r.consumers[t.Name]) == 0 && !r.outputs[t.Name] {
			gone[t.Name] = true
			continue
		}
		inits = append(inits, t)
	}
	r.g.Inits = inits
	r.g.Inputs = filter(r.g.Inputs, func(v graph.Value) bool {
		return !gone[v.Name] && !(weights[v.Name] && r.inits[v.Name] != nil)
	})
	r.g.Values = filter(r.g.Values, func(v graph.Value) bool {
		return r.producers[v.Name] != nil || (r.inits[v.Name] != nil && !gone[v.Name])
	})
}

func filter(in []graph.Value, keep func(graph.Value) bool) []graph.Value {
	var out []graph.Value
	for _, v := range in {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}
