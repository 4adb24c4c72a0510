package onnxio

import (
	"errors"
	"fmt"
	"math"
	"slices"

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
func canonical(m *graph.Model, types graph.Types) (*graph.Model, graph.Types, error) {
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
	r := &rewriter{
		g: c.Graph, names: graph.NewBuilder(c.Graph, ""), retired: map[string]bool{}, types: typesOf(c.Graph, types),
	}
	r.index()
	r.constants()
	// Nodes that pass their first input on unchanged.
	r.repeat(func(n *graph.Node) bool { return r.passes(n) && r.bypass(n) })
	r.flatten()
	r.gemms()
	// Operators s*x+t, with s and t constant per channel, go into the layer in front of them or, where
	// that is not possible, into those behind.
	r.repeat(func(n *graph.Node) bool { return r.foldBack(n) || r.foldForward(n) })
	r.pools()
	r.clean()
	// Values that are new here follow from the others; what does not is reported where it is needed.
	_ = autodiff.Infer(c.Graph, r.types)
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
	producers map[string]*graph.Node
	consumers map[string][]*graph.Node
	types     graph.Types // as measured, or, when the model has not been run, as far as they follow from the file
}

// index recomputes the tables after the graph has changed.
func (r *rewriter) index() {
	r.inits = r.g.InitMap()
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
func (r *rewriter) add(hint string, v []float64, dims ...int64) string {
	t := graph.FromNumbers(r.names.Name(hint), graph.Float, v, dims...)
	r.g.Inits = append(r.g.Inits, t)
	r.inits[t.Name] = t
	return t.Name
}

// constants turns Constant nodes, and transposes of constants, into initializers.
func (r *rewriter) constants() {
	for _, n := range slices.Clone(r.g.Nodes) {
		var t *graph.Tensor
		switch {
		case len(n.Outputs) != 1 || r.g.IsOutput(n.Outputs[0]):
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
		case n.Is("Cast"):
			t = r.stored(n)
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

// stored returns the weights of layers that are stored in another type of numbers and converted by the Cast n; nil when
// it does something else.
func (r *rewriter) stored(n *graph.Node) *graph.Tensor {
	t := r.inits[n.Input(0)]
	weights := func(n *graph.Node) bool { return slices.Contains([]string{"MatMul", "Gemm", "Conv", "Einsum"}, n.Op) }
	if t == nil || !t.DType.IsFloat() || len(t.Extra) > 0 || graph.DType(n.Int("to", 0)) != graph.Float ||
		!slices.ContainsFunc(r.consumers[n.Outputs[0]], weights) {
		return nil
	}
	v, err := t.Floats()
	if err != nil {
		return nil
	}
	r.retired[t.Name] = true
	return graph.FromFloats("", v, t.Dims...)
}

// transposed returns the constant t with its axes in another order, turned around if perm is nil; nil when t is none.
func transposed(t *graph.Tensor, perm []int64) *graph.Tensor {
	if t == nil {
		return nil
	}
	if perm == nil {
		for i := range t.Dims {
			perm = append(perm, int64(len(t.Dims)-1-i))
		}
	}
	v, err := t.Doubles()
	if err != nil || len(perm) != len(t.Dims) {
		return nil
	}
	dims := make([]int64, len(perm))
	for i, p := range perm {
		if p < 0 || p >= int64(len(perm)) || slices.Contains(perm[:i], p) {
			return nil
		}
		dims[i] = t.Dims[p]
	}
	return graph.FromNumbers("", graph.Float, permuted(v, t.Dims, perm), dims...)
}

// permuted returns the elements v of a tensor of the dimensions dims with its axes in the order perm.
func permuted(v []float64, dims, perm []int64) []float64 {
	strides := make([]int, len(dims)) // of v along the axes of the result
	for i, p := range perm {
		strides[i] = 1
		for _, d := range dims[p+1:] {
			strides[i] *= int(d)
		}
	}
	out, at, place := make([]float64, len(v)), 0, make([]int64, len(dims))
	for k := range out {
		out[k] = v[at]
		for i := len(perm) - 1; i >= 0; i-- {
			at += strides[i]
			if place[i]++; place[i] < dims[perm[i]] {
				break
			}
			at -= strides[i] * int(place[i])
			place[i] = 0
		}
	}
	return out
}

// transpose returns the transpose of v, rows x cols.
func transpose(v []float64, rows, cols int) []float64 {
	return permuted(v, []int64{int64(rows), int64(cols)}, []int64{1, 0})
}

// repeat applies rewrite, which reports whether it changed the graph, to the nodes until nothing changes.
func (r *rewriter) repeat(rewrite func(n *graph.Node) bool) {
	for slices.ContainsFunc(r.g.Nodes, rewrite) {
		r.index()
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
	case "Cast":
		t, known := r.types[n.Input(0)]
		return known && t.DType != graph.Undefined && t.DType == graph.DType(n.Int("to", 0))
	case "Dropout":
		mask := len(n.Outputs) > 1 && n.Outputs[1] != "" && (len(r.consumers[n.Outputs[1]]) > 0 || r.g.IsOutput(n.Outputs[1]))
		return !mask && r.isFalse(n.Input(2))
	case "Flatten":
		_, ok := r.width(n.Input(0))
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
	w, ok := r.width(n.Input(0))
	if err != nil || len(shape) != 2 || !ok || n.Int("allowzero", 0) != 0 {
		return false
	}
	same := shape[1] == 0 || shape[1] == w && w > 0
	return shape[0] == 0 && (same || shape[1] == -1) || shape[0] == -1 && same
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
	if r.g.IsOutput(out) {
		p := r.producers[in]
		if p == nil || r.g.IsOutput(in) {
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
func (r *rewriter) width(v string) (int64, bool) {
	if s := r.types[v].Shape; len(s) == 2 {
		return s[1].Size, true
	}
	return -1, false
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

// gemms brings every Gemm, and every MatMul of a rank-2 value, with constant
// float weights into the canonical form. Others are left alone.
func (r *rewriter) gemms() {
	for _, n := range slices.Clone(r.g.Nodes) {
		switch {
		case n.Is("MatMul"):
			if _, ok := r.width(n.Input(0)); !ok {
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
	wv, err := w.Doubles()
	if err != nil {
		return
	}
	rows, cols := w.Dims[0], w.Dims[1]
	changed := false
	if n.Int("transB", 0) == 0 {
		wv, rows, cols, changed = transpose(wv, int(rows), int(cols)), cols, rows, true
	}
	var bias []float64 // nil where it stays
	if c := n.Input(2); c != "" {
		if bias = r.perChannel(c, int(rows), 0); bias == nil {
			return // a bias per example: not a dense layer
		}
		beta := float64(n.Float("beta", 1))
		if t := r.inits[c]; len(t.Dims) == 1 && t.Dims[0] == rows && beta == 1 {
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
	n.Inputs = []string{n.Inputs[0], r.add("w", wv, w.Dims...), r.add("b", bv, w.Dims[0])}
}

// foldBack folds n into the layer that it reads.
func (r *rewriter) foldBack(n *graph.Node) bool {
	for i, x := range n.Inputs {
		g := r.producers[x]
		if g == nil || len(r.consumers[x]) != 1 || r.g.IsOutput(x) {
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

// foldForward folds n into the layers that read it, unless it is what brings the model's inputs to one scale: in the
// weights of a row, no grid has room for numbers of years and of dollars.
func (r *rewriter) foldForward(n *graph.Node) bool {
	if len(n.Outputs) == 0 || r.g.IsOutput(n.Outputs[0]) || len(r.consumers[n.Outputs[0]]) == 0 {
		return false
	}
	y := n.Outputs[0]
	for i, x := range n.Inputs {
		if r.scalesInputs(x) {
			continue
		}
		width, wide := r.width(x) // a narrower x would be broadcast
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

// scalesInputs reports whether a value is made of inputs of the model that no layer has seen.
func (r *rewriter) scalesInputs(value string) bool {
	seen := map[string]bool{}
	for todo := []string{value}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v == "" || seen[v] || r.inits[v] != nil {
			continue
		}
		seen[v] = true
		switch n := r.producers[v]; {
		case n == nil:
			return true
		case n.Is("Gemm") || n.Is("MatMul") || n.Is("Conv") || n.Is("ConvTranspose") || n.Is("Einsum"):
		default:
			todo = append(todo, n.Inputs...)
		}
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

// pools puts a Relu that alone reads the MaxPool behind a Conv in front of that:
// the largest of the positive parts is the positive part of the largest.
func (r *rewriter) pools() {
	for _, n := range r.g.Nodes {
		if !n.Is("MaxPool") || len(n.Outputs) != 1 {
			continue
		}
		x, y := n.Input(0), n.Outputs[0]
		conv, readers := r.producers[x], r.consumers[y]
		if conv == nil || !conv.Is("Conv") || len(r.consumers[x]) != 1 || r.g.IsOutput(x) || r.g.IsOutput(y) ||
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
		gone[t.Name] = r.retired[t.Name] && len(r.consumers[t.Name]) == 0 && !r.g.IsOutput(t.Name)
		return gone[t.Name]
	})
	r.g.Inputs = slices.DeleteFunc(r.g.Inputs, func(v graph.Value) bool {
		return gone[v.Name] || weights[v.Name] && r.inits[v.Name] != nil
	})
	r.g.Values = slices.DeleteFunc(r.g.Values, func(v graph.Value) bool {
		return r.producers[v.Name] == nil && (r.inits[v.Name] == nil || gone[v.Name])
	})
}
