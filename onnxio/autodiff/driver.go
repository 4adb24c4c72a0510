package autodiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// Gradients appends to g the nodes that compute the gradient of sum(y), or the vector-Jacobian product with o.Seed, by
// each value of wrt. The names that it returns, in the order of wrt, are distinct values of the types of wrt; where y
// does not depend on a value, its gradient is a zero tensor. Values of wrt may be inputs, initializers or
// intermediates, also of one another.
//
// types must hold the values between wrt and y and the inputs of the nodes there, as measured by running the model;
// what it lacks is inferred where the table can. Every value that is appended is added to types, so the result can be
// differentiated again. Composite operators between wrt and y are expanded in g.
//
// One error names all nodes that cannot be differentiated; g and types are then unchanged. Where the gradient of a
// function does not exist, the conventions of Operators hold. The same arguments always give the same graph.
func Gradients(g *graph.Graph, types graph.Types, y string, wrt []string, o Options) ([]string, error) {
	if o.Prefix == "" {
		o.Prefix = "grad_"
	}
	d := &driver{gradientBuilder: newBuilder(g, types, o.Prefix), policy: o.Policy, sums: map[string][]string{}}
	d.prepare(y, wrt)
	if err := d.check(y, wrt, o.Seed); err != nil {
		return nil, fmt.Errorf("autodiff: %w", errors.Join(append(d.errs, err)...))
	}
	var out []string
	err := attempt(func() {
		d.sweep(y, o.Seed)
		out = d.results(wrt)
	})
	if err = errors.Join(append(d.errs, err)...); err != nil {
		return nil, fmt.Errorf("autodiff: %w", err)
	}
	d.declare(g.Producers())
	g.Nodes, g.Inits, g.Values = d.g.Nodes, d.g.Inits, d.g.Values
	maps.Copy(types, d.types)
	return out, nil
}

// declare states the types of new values. ONNX Runtime gives each size that it cannot infer a name of its own; it then
// finds no memory to use again, and takes the square of the number of nodes to look for it.
func (d *driver) declare(old map[string]*graph.Node) {
	d.g.Values = slices.Clone(d.g.Values)
	for _, n := range d.g.Nodes {
		for _, o := range n.Outputs {
			if t, known := d.types[o]; known && old[o] == nil {
				d.g.Values = append(d.g.Values, graph.Value{Name: o, DType: t.DType, Shape: t.Shape})
			}
		}
	}
}

// Stop returns a node at which the gradient of y by x is lost, where each way from x to y has one: y is constant but
// for steps. It is nil where a way has none, or an operator that is not known. y must depend on x.
func Stop(g *graph.Graph, types graph.Types, y, x string, policy map[string]Rule) *graph.Node {
	d := &driver{gradientBuilder: newBuilder(g, types, "grad_"), policy: policy}
	d.trace(y, []string{x})
	if d.active[x] {
		return nil
	}
	needed, moving := g.Needed(y), map[string]bool{x: true}
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if !needed[n] || !moving[in] {
				continue
			}
			if r, known := d.rule(n, i); known && r == nil {
				return n
			}
			lists.Mark(moving, n.Outputs...)
		}
	}
	return nil
}

type driver struct {
	*gradientBuilder
	policy map[string]Rule
	active map[string]bool // values that depend on wrt and that y depends on
	path   []*graph.Node   // nodes that make them, in graph order
	sums   map[string][]string
}

func (d *driver) rule(n *graph.Node, i int) (Rule, bool) {
	if r := d.policy[key(n)]; r != nil {
		return r, true
	}
	op := d.table[key(n)]
	if op == nil {
		return nil, false
	}
	if op.Kind == Composite {
		return pass, true // for finding dependencies; it is expanded before use
	}
	return op.rule(i), true
}

func (d *driver) prepare(y string, wrt []string) {
	for _, n := range d.g.Nodes {
		_ = d.complete(n) // what stays unknown matters only on the path, and is reported there
	}
	d.trace(y, wrt)
	composites := map[*graph.Node]*Operator{}
	for _, n := range d.path {
		if op := d.table[key(n)]; op != nil && op.Kind == Composite && d.policy[key(n)] == nil {
			composites[n] = op
		}
	}
	if len(composites) > 0 {
		d.expand(composites)
		d.trace(y, wrt)
		clear(d.fresh)
	}
}

func (d *driver) trace(y string, wrt []string) {
	depends := map[string]bool{}
	lists.Mark(depends, wrt...)
	for _, n := range d.g.Nodes {
		for i, in := range n.Inputs {
			if r, known := d.rule(n, i); !depends[in] || (known && r == nil) {
				continue
			}
			for _, o := range n.Outputs {
				if t, known := d.types[o]; !known || t.DType.IsFloat() {
					depends[o] = o != ""
				}
			}
		}
	}
	d.active, d.path = map[string]bool{y: depends[y]}, nil
	for _, n := range slices.Backward(d.g.Nodes) {
		if !slices.ContainsFunc(n.Outputs, func(o string) bool { return d.active[o] }) {
			continue
		}
		onPath := false
		for i, in := range n.Inputs {
			if r, known := d.rule(n, i); depends[in] && (!known || r != nil) {
				d.active[in], onPath = true, true
			}
		}
		if onPath {
			d.path = append(d.path, n)
		}
	}
	slices.Reverse(d.path)
}

func (d *driver) check(y string, wrt []string, seed string) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	need := func(name, what string) graph.Type {
		t, ok := d.types[name]
		if !ok {
			bad("the type of %s %q is not known", what, name)
		} else if !t.DType.IsFloat() {
			bad("%s %q is %v, and only floating-point values have gradients", what, name, t)
		}
		return t
	}
	ty := need(y, "the function")
	for _, x := range wrt {
		need(x, "the variable")
	}
	if seed != "" {
		if t := need(seed, "the seed"); t.DType != ty.DType || !sameShape(t.Shape, ty.Shape) {
			bad("the seed %q is %v, but %q is %v", seed, t, y, ty)
		}
	}
	var unknown []*graph.Node
	for _, n := range d.path {
		_, known := d.rule(n, 0)
		if !known {
			unknown = append(unknown, n)
			continue
		}
		if err := d.sound(n); err != nil {
			bad("%s: %w", n.Label(), err)
		}
	}
	if len(unknown) > 0 {
		bad("no gradient rule for %s, on the way to %q", missing(unknown), y)
	}
	return errors.Join(errs...)
}

func (d *driver) sound(n *graph.Node) error {
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		if _, ok := d.types[v]; v != "" && !ok {
			return fmt.Errorf("the type of %q is not known", v)
		}
	}
	op := d.table[key(n)]
	if op == nil || d.policy[key(n)] != nil {
		return nil
	}
	types, err := op.types(d.call(n))
	if errors.Is(err, errVariable) {
		return nil
	} else if err != nil {
		return err
	}
	for i, o := range n.Outputs {
		if i >= len(types) {
			return fmt.Errorf("output %q is one too many", o)
		}
		fit := func(x, y graph.Dim) bool { return x.Size < 0 || y.Size < 0 || x.Size == y.Size }
		t := d.types[o]
		if o != "" && (t.DType != types[i].DType || !slices.EqualFunc(types[i].Shape, t.Shape, fit)) {
			return fmt.Errorf("output %q is said to be %v, but must be %v", o, t, types[i])
		}
	}
	return nil
}

func (d *driver) sweep(y, seed string) {
	if !d.active[y] {
		return
	}
	if seed == "" {
		seed = d.filled(y, 1)
	}
	d.sums[y] = []string{seed}
	for _, n := range slices.Backward(d.path) {
		c := d.call(n)
		c.grads = make([]string, len(n.Outputs))
		reached := false
		for i, o := range n.Outputs {
			c.grads[i] = d.total(o)
			reached = reached || c.grads[i] != ""
			if i > 0 && c.grads[i] != "" && !n.Is("Split") {
				d.fail(n, fmt.Errorf("the gradient of output %q is not known", o))
			}
		}
		if !reached || c.grads[0] == "" && !n.Is("Split") {
			continue
		}
		for i, in := range n.Inputs {
			if r, _ := d.rule(n, i); d.active[in] && r != nil {
				err := attempt(func() {
					if gx := r(c, i); gx != "" {
						d.sums[in] = append(d.sums[in], d.unbroadcast(in, gx))
					}
				})
				if err != nil {
					d.fail(n, err)
				}
			}
		}
	}
}

func (d *driver) total(name string) string {
	parts := d.sums[name]
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	}
	sum := parts[0]
	for _, p := range parts[1:] { // a Sum of three takes longer than two Adds
		sum = d.op("Add", []string{sum, p})
	}
	d.sums[name] = []string{sum}
	return sum
}

func (d *driver) unbroadcast(in, g string) string {
	want, have := d.types[in].Shape, d.types[g].Shape
	lead := len(have) - len(want)
	if lead < 0 {
		panic(failf("gradient %v of %q, which is %v", d.types[g], in, d.types[in]))
	}
	switch {
	case lead == 1 && len(have) == 2 && fixed(have):
		// A product with ones takes a tenth of the time of the sum.
		n := have[0].Size
		g = d.op("MatMul", []string{d.numbers(g, slices.Repeat([]float64{1}, int(n)), n), g})
	case lead > 0:
		leading := d.vector(axesFrom(0, d.types[g])[:lead]...)
		g = d.op("ReduceSum", []string{g, leading}, graph.IntAttr("keepdims", 0))
	}
	var axes []int64
	for i, w := range want {
		switch h := have[lead+i]; {
		case sameDim(w, h):
		case w == one():
			axes = append(axes, int64(i))
		default:
			panic(failf("it is not known whether the size %s of %q along axis %d is the %s of the gradient", w, in, i, h))
		}
	}
	if len(axes) > 0 {
		g = d.op("ReduceSum", []string{g, d.vector(axes...)}, graph.IntAttr("keepdims", 1))
	}
	return g
}

// results returns a value of its own for each variable's gradient: not one that the graph had, nor the same one twice.
func (d *driver) results(wrt []string) []string {
	out := make([]string, len(wrt))
	for i, x := range wrt {
		v := d.total(x)
		if v == "" {
			v = d.filled(x, 0)
		}
		if !d.fresh[v] {
			clear(d.shared)
			v = d.op("Identity", []string{v})
		}
		delete(d.fresh, v)
		out[i] = v
	}
	return out
}
