package autodiff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// gradientBuilder appends nodes of table operators to a graph, with their types. Equal
// operations on equal inputs become one node. It works on copies of the lists of
// the graph and of the types, so that a call that fails changes nothing.
type gradientBuilder struct {
	names  *graph.Builder
	g      *graph.Graph
	types  graph.Types
	table  map[string]*Operator
	inits  map[string]*graph.Tensor // and other constants
	made   map[string]*graph.Node   // producer of each value
	shared map[string]string        // operation -> value
	ones   map[string]bool          // values known to hold ones only
	fresh  map[string]bool          // outputs of nodes that op appended
	errs   []error
}

func newBuilder(g *graph.Graph, types graph.Types, prefix string) *gradientBuilder {
	work := *g
	work.Nodes, work.Inits = slices.Clone(g.Nodes), slices.Clone(g.Inits)
	b := &gradientBuilder{
		names:  graph.NewBuilder(&work, prefix),
		g:      &work,
		types:  graph.Types{},
		table:  map[string]*Operator{},
		inits:  g.Constants(),
		made:   g.Producers(),
		shared: map[string]string{},
		ones:   map[string]bool{},
		fresh:  map[string]bool{},
	}
	for _, op := range rules() {
		b.table[op.Name] = &op
	}
	for _, v := range g.Inputs {
		if v.Shape != nil {
			b.types[v.Name] = graph.Type{DType: v.DType, Shape: v.Shape}
		}
	}
	for _, t := range g.Inits {
		b.types[t.Name] = typeOf(t)
	}
	maps.Copy(b.types, types)
	return b
}

// failure is what the functions of the table panic with where a node cannot be handled. attempt returns it to those who
// call them and know the node.
type failure struct{ error }

func failf(format string, a ...any) failure { return failure{fmt.Errorf(format, a...)} }

func attempt(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// fail keeps why n cannot be handled, once where the rules of several of its inputs say the same.
func (b *gradientBuilder) fail(n *graph.Node, err error) {
	err = fmt.Errorf("%s: %w", n.Label(), err)
	if !slices.ContainsFunc(b.errs, func(e error) bool { return e.Error() == err.Error() }) {
		b.errs = append(b.errs, err)
	}
}

func (b *gradientBuilder) op(op string, inputs []string, attrs ...graph.Attr) string {
	return b.ops(op, inputs, 1, attrs...)[0]
}

func (b *gradientBuilder) ops(op string, inputs []string, outs int, attrs ...graph.Attr) []string {
	id := fmt.Sprintf("%s %q %d %v", op, inputs, outs, attrs)
	if n := b.shared[id]; n != "" {
		return b.made[n].Outputs
	}
	n := &graph.Node{Name: b.names.Name("n_" + op), Op: op, Inputs: slices.Clone(inputs), Attrs: attrs}
	for range outs {
		n.Outputs = append(n.Outputs, b.names.Name(strings.ToLower(op)))
	}
	b.add(n)
	if entry := b.table[op]; entry == nil || entry.Kind == Composite {
		panic(failf("a rule emitted %s, which is not an operator that the table can differentiate", op))
	} else if err := b.infer(n); err != nil {
		panic(failure{err})
	}
	b.shared[id] = n.Outputs[0]
	lists.Mark(b.fresh, n.Outputs...)
	switch op {
	case "Expand", "Reshape", "Squeeze", "Unsqueeze", "Transpose":
		b.ones[n.Outputs[0]] = b.ones[inputs[0]]
	}
	return n.Outputs
}

func (b *gradientBuilder) add(n *graph.Node) {
	b.names.Append(n)
	for _, o := range n.Outputs {
		b.made[o] = n
	}
}

func (b *gradientBuilder) constant(t *graph.Tensor) string {
	if t == nil { // see graph.FromNumbers
		panic(failf("cannot make constants of a gradient: elements are neither float nor double"))
	}
	id := fmt.Sprintf("const %d %v %x", t.DType, t.Dims, t.Raw)
	if v, ok := b.shared[id]; ok {
		return v
	}
	t.Name = "const"
	name := b.names.Const(t)
	b.inits[name] = t
	b.types[name] = typeOf(t)
	b.shared[id] = name
	return name
}

// numbers is a constant of the element type of like.
func (b *gradientBuilder) numbers(like string, v []float64, dims ...int64) string {
	return b.constant(graph.FromNumbers("", b.types[like].DType, v, dims...))
}

func (b *gradientBuilder) vector(v ...int64) string {
	return b.constant(graph.FromInts("", v, int64(len(v))))
}

func (b *gradientBuilder) filled(like string, v float64) string {
	t := b.types[like]
	k := scalar(t.DType, v)
	if k == nil {
		panic(failf("cannot make a gradient for %q: elements are %s", like, t.DType))
	}
	var name string
	if n := t.Shape.Elements().Size; n >= 0 && n <= 64 && fixed(t.Shape) {
		k.Raw = []byte(strings.Repeat(string(k.Raw), int(n)))
		k.Dims = sizes(t.Shape)
		name = b.constant(k)
	} else {
		k.Dims = []int64{1}
		name = b.op("ConstantOfShape", []string{b.shapeOf(like)}, graph.TensorAttr("value", k))
	}
	if v == 1 {
		b.ones[name] = true
	}
	return name
}

func (b *gradientBuilder) shapeOf(name string) string {
	if s := b.types[name].Shape; fixed(s) {
		return b.vector(sizes(s)...)
	}
	return b.op("Shape", []string{name})
}

func scalar(t graph.DType, v float64) *graph.Tensor { return graph.FromNumbers("", t, []float64{v}) }

func (b *gradientBuilder) expand(composites map[*graph.Node]*Operator) {
	old := b.g.Nodes
	b.g.Nodes = make([]*graph.Node, 0, len(old))
	for _, n := range old {
		if op := composites[n]; op != nil {
			err := attempt(func() { b.rewrite(n, op) })
			if err == nil {
				continue
			}
			b.fail(n, err)
		}
		b.g.Nodes = append(b.g.Nodes, n) // after a failure, so that others can be found
	}
}

// rewrite appends the expansion of n. Operations are shared within it only: an
// expansion of an earlier node may have given a value its final name.
func (b *gradientBuilder) rewrite(n *graph.Node, op *Operator) {
	clear(b.shared)
	clear(b.fresh)
	before := len(b.g.Nodes)
	outer := b.names.Prefix
	b.names.Prefix = outer + n.Outputs[0] + "/"
	c := b.call(n)
	op.checkInputs(c)
	made, name := op.expand(c), n.Outputs[0]
	b.names.Prefix = outer
	if b.fresh[made] {
		(&graph.Graph{Nodes: b.g.Nodes[before:]}).Rename(made, name)
		b.made[name] = b.made[made]
		delete(b.made, made)
		delete(b.types, made)
	} else { // an input of n: the expansion has nothing to compute
		b.add(&graph.Node{Name: b.names.Name("n_Identity"), Op: "Identity", Inputs: []string{made}, Outputs: []string{name}})
	}
	clear(b.shared)
}

// Call is what a rule sees: the node, the gradients of its outputs, and the
// means to append nodes. Values are named by strings. Inference sees the node and its types.
type Call struct {
	Node  *graph.Node
	b     *gradientBuilder
	types []graph.Type // by input; zero where absent
	grads []string     // by output; "" where y does not depend on it
}

func (b *gradientBuilder) call(n *graph.Node) *Call {
	c := &Call{Node: n, b: b, types: make([]graph.Type, len(n.Inputs))}
	for i, name := range n.Inputs {
		c.types[i] = b.types[name]
	}
	return c
}

// Grad returns the gradient of the node's first output; it has that output's type.
func (c *Call) Grad() string { return c.grads[0] }

// Type returns the type of a value.
func (c *Call) Type(name string) graph.Type { return c.b.types[name] }

// Op appends a node of the standard domain that has one output and returns that
// output's name. The operator must be in the table, and not a composite.
func (c *Call) Op(op string, inputs []string, attrs ...graph.Attr) string {
	return c.b.op(op, inputs, attrs...)
}

func (c *Call) op(op string, inputs ...string) string { return c.b.op(op, inputs) }

func (c *Call) reduce(op, a string, keepdims int64, axes ...int64) string {
	return c.Op(op, []string{a, c.b.vector(axes...)}, graph.IntAttr("keepdims", keepdims))
}

func (c *Call) transpose(a string, perm ...int64) string {
	return c.Op("Transpose", []string{a}, graph.IntsAttr("perm", perm...))
}

// Scalar returns a constant of rank 0 of the element type of like.
func (c *Call) Scalar(like string, v float64) string {
	t := c.Type(like).DType
	if k := scalar(t, v); k != nil {
		return c.b.constant(k)
	}
	return c.cast(c.b.constant(scalar(graph.Float, v)), t)
}

// Fail ends the rule: the node cannot be differentiated. It does not return.
func (c *Call) Fail(format string, a ...any) string { panic(failf(format, a...)) }

// failIf is Fail where wrong is true.
func (c *Call) failIf(wrong bool, format string, a ...any) {
	if wrong {
		c.Fail(format, a...)
	}
}

func (c *Call) in(i int) string { return c.Node.Input(i) }
func (c *Call) x() string       { return c.Node.Input(0) }
func (c *Call) y() string       { return c.Node.Outputs[0] }

func (c *Call) add(a, b string) string { return c.op("Add", a, b) }
func (c *Call) sub(a, b string) string { return c.op("Sub", a, b) }
func (c *Call) div(a, b string) string { return c.op("Div", a, b) }
func (c *Call) neg(a string) string    { return c.op("Neg", a) }

func (c *Call) mul(a, b string) string {
	if sameShape(c.Type(a).Shape, c.Type(b).Shape) {
		if c.b.ones[a] {
			return b
		}
		if c.b.ones[b] {
			return a
		}
	}
	return c.op("Mul", a, b)
}

func (c *Call) scale(a string, k float64) string {
	switch k {
	case 1:
		return a
	case -1:
		return c.neg(a)
	}
	return c.op("Mul", a, c.Scalar(a, k))
}

func (c *Call) where(cond, a, b string) string { return c.op("Where", cond, a, b) }

func (c *Call) keep(cond, a string) string { return c.where(cond, a, c.Scalar(a, 0)) }

// mask is 1 where cond holds and 0 elsewhere, of the type of the gradient: to multiply by it takes less than a choice.
func (c *Call) mask(cond string) string { return c.cast(cond, c.Type(c.Grad()).DType) }

func (c *Call) cast(a string, to graph.DType) string {
	return c.Op("Cast", []string{a}, graph.IntAttr("to", int64(to)))
}

func (c *Call) compare(op, a string, k float64) string {
	return c.op(op, a, c.Scalar(a, k))
}

func (c *Call) reshapeLike(a, like string) string {
	if sameShape(c.Type(a).Shape, c.Type(like).Shape) {
		return a
	}
	return c.op("Reshape", a, c.b.shapeOf(like))
}

func pass(c *Call, _ int) string { return c.Grad() }

func back(c *Call, _ int) string { return c.reshapeLike(c.Grad(), c.x()) }
