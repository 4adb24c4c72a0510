package pass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// FunctionDomain is the domain of the functions that files of this project carry: they unpack weights, and stay.
const FunctionDomain = "cfq"

const (
	// maxInlined bounds the nodes of a graph without functions: each of them may call another one twice.
	maxInlined = 50_000
	// maxCalls bounds how deep functions and branches lie within one another.
	maxCalls = 100
	// maxCondition bounds the elements of the values that a condition is computed from.
	maxCondition = 1 << 16
)

// Inlining writes the bodies of functions where they are called, and the branch that an If with a constant condition
// takes. Loop, Scan and an If that depends on the inputs are errors: the nodes of their subgraphs have no gradients.
func Inlining(ctx context.Context, o ort.Options) graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool {
			return slices.ContainsFunc(m.Functions, func(f *graph.Function) bool { return f.Domain != FunctionDomain }) ||
				slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).HasGraphs)
		},
		Run: func(r *graph.Rewriter) error {
			i := &inliner{
				Rewriter: r, ctx: ctx, engine: o, functions: map[functionCall]*graph.Function{}, versions: map[*graph.Node]int64{},
			}
			return i.run()
		},
	}
}

func (r *inliner) run() error {
	for _, f := range r.Model.Functions {
		if f.Domain != FunctionDomain {
			r.functions[functionCall{domain(f.Domain), f.Name, codec.OverloadOf(f)}] = f
		}
	}
	nodes := r.G.Nodes
	r.G.Nodes = nil
	r.emit(nodes, &nameScope{outermost: true, version: r.Model.Opset("")})
	if len(r.errs) > 0 {
		return errors.Join(r.errs...)
	}
	r.Model.Functions = slices.DeleteFunc(r.Model.Functions, func(f *graph.Function) bool {
		return f.Domain != FunctionDomain
	})
	if err := r.align(); err != nil {
		return err
	}
	r.imports()
	if err := r.G.Check(); err != nil {
		return fmt.Errorf("without its functions and branches: %w", err)
	}
	return nil
}

type functionCall struct{ domain, name, overload string }

func (c functionCall) String() string {
	return strings.Trim(c.domain+"."+c.name+" "+c.overload, ". ")
}

func domain(d string) string { return strings.TrimPrefix(d, "ai.onnx") }

type inliner struct {
	*graph.Rewriter
	ctx       context.Context
	engine    ort.Options
	functions map[functionCall]*graph.Function
	versions  map[*graph.Node]int64 // the operator set that a node is written for
	errs      []error
	full      bool // the graph is too large
}

// nameScope is where names mean something: the graph, the body of one call, or a branch.
type nameScope struct {
	outermost bool       // names stay as they are
	parent    *nameScope // what is around a branch
	names     map[string]string
	attrs     map[string]graph.Attr // of the call, by the function's names
	calls     []functionCall        // that are being inlined
	depth     int
	prefix    string
	version   int64
}

func (s *nameScope) lookup(name string) (string, bool) {
	if name == "" || s.outermost {
		return name, true
	}
	v, ok := s.names[name]
	if !ok && s.parent != nil {
		return s.parent.lookup(name)
	}
	return v, ok
}

func (r *inliner) emit(nodes []*graph.Node, s *nameScope) {
	for _, n := range nodes {
		if len(r.G.Nodes) >= maxInlined {
			if !r.full {
				r.errs = append(r.errs, fmt.Errorf("written out, the functions have more than %d nodes", maxInlined))
			}
			r.full = true
			return
		}
		if err := r.node(n, s); err != nil {
			r.errs = append(r.errs, err)
		}
	}
}

func (r *inliner) node(n *graph.Node, s *nameScope) error {
	c := *n
	c.Inputs, c.Outputs, c.Attrs = slices.Clone(n.Inputs), slices.Clone(n.Outputs), r.bound(n, s)
	for i, in := range n.Inputs {
		v, ok := s.lookup(in)
		if !ok {
			return fmt.Errorf("%s%s uses %q, which nothing defines", s.prefix, n.Label(), in)
		}
		c.Inputs[i] = v
	}
	if s.depth > 0 {
		c.Name = r.Name(s.prefix + n.Name)
	}
	for i, out := range n.Outputs {
		if out == "" || s.outermost {
			continue
		}
		if _, ok := s.names[out]; !ok {
			s.names[out] = r.Name(s.prefix + out)
		}
		c.Outputs[i] = s.names[out]
	}
	f := r.functions[functionCall{domain(n.Domain), n.Op, codec.Overload(n)}]
	switch {
	case f != nil:
		return r.inline(&c, f, s)
	case n.Is("If"):
		return r.branch(&c, s)
	case n.HasGraphs():
		return fmt.Errorf("%s repeats a graph of its own, which cannot be differentiated: export the model without %s (a "+
			"fixed number of steps can be written out)", n.Label(), n.Op)
	}
	r.versions[&c] = s.version
	r.G.Nodes = append(r.G.Nodes, &c)
	return nil
}

func (r *inliner) bound(n *graph.Node, s *nameScope) []graph.Attr {
	var out []graph.Attr
	for _, a := range n.Attrs {
		if a.Ref != "" {
			v, given := s.attrs[a.Ref]
			if !given {
				continue // the operator's default
			}
			v.Name = a.Name
			a = v
		}
		out = append(out, a)
	}
	return out
}

func (r *inliner) inline(n *graph.Node, f *graph.Function, s *nameScope) error {
	c := functionCall{domain(f.Domain), f.Name, codec.OverloadOf(f)}
	defaults, err := codec.Defaults(f)
	switch {
	case slices.Contains(s.calls, c):
		return fmt.Errorf("the function %q calls itself", c)
	case s.depth >= maxCalls:
		return fmt.Errorf("functions call one another %d deep", maxCalls)
	case len(n.Inputs) > len(f.Inputs) || len(n.Outputs) > len(f.Outputs):
		return fmt.Errorf("%s has %d inputs and %d outputs, but the function %q has %d and %d", n.Label(), len(n.Inputs),
			len(n.Outputs), c, len(f.Inputs), len(f.Outputs))
	case err != nil:
		return fmt.Errorf("function %q: %w", c, err)
	}
	inner := &nameScope{
		names: map[string]string{}, attrs: map[string]graph.Attr{}, calls: append(slices.Clone(s.calls), c),
		depth: s.depth + 1, prefix: prefix(n), version: s.version,
	}
	for _, o := range f.Opsets {
		if domain(o.Domain) == "" {
			inner.version = o.Version
		}
	}
	for _, a := range append(defaults, n.Attrs...) {
		inner.attrs[a.Name] = a
	}
	for i, in := range f.Inputs {
		inner.names[in] = n.Input(i)
	}
	return r.body(f.Nodes, f.Outputs, n, inner)
}

func prefix(n *graph.Node) string { return cmp.Or(n.Name, n.Outputs[0]) + "/" }

func (r *inliner) body(nodes []*graph.Node, outputs []string, n *graph.Node, s *nameScope) error {
	made := (&graph.Graph{Nodes: nodes}).Producers()
	var copies []int
	for i, out := range n.Outputs {
		if _, taken := s.names[outputs[i]]; made[outputs[i]] != nil && !taken && out != "" {
			s.names[outputs[i]] = out
		} else if out != "" {
			copies = append(copies, i)
		}
	}
	r.emit(nodes, s)
	for _, i := range copies {
		v, ok := s.lookup(outputs[i])
		if !ok || v == "" {
			return fmt.Errorf("%s: its output %q is defined by nothing", n.Label(), outputs[i])
		}
		r.G.Nodes = append(r.G.Nodes, &graph.Node{
			Name: r.Name(s.prefix + "Identity"), Op: "Identity", Inputs: []string{v}, Outputs: []string{n.Outputs[i]},
		})
	}
	return nil
}

func (r *inliner) branch(n *graph.Node, s *nameScope) error {
	if s.depth >= maxCalls {
		return fmt.Errorf("branches lie in one another %d deep", maxCalls)
	}
	if len(r.errs) > 0 {
		return nil // what a condition is computed from may be missing
	}
	taken, err := r.condition(n.Input(0))
	if err != nil {
		return fmt.Errorf("%s: its condition %q is not constant (%w): only one branch can be differentiated and quantized. "+
			"Export the model without it, for inputs of fixed sizes", n.Label(), n.Input(0), err)
	}
	a := n.Attr("else_branch")
	if taken {
		a = n.Attr("then_branch")
	}
	if a == nil {
		return fmt.Errorf("%s has no branch for the condition %t", n.Label(), taken)
	}
	g, err := codec.Subgraph(a)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Label(), err)
	}
	if len(g.Outputs) < len(n.Outputs) || len(g.Inputs) > 0 {
		return fmt.Errorf("%s: the %s has %d inputs and %d outputs", n.Label(), a.Name, len(g.Inputs), len(g.Outputs))
	}
	inner := &nameScope{
		parent: s, names: map[string]string{}, attrs: s.attrs, calls: s.calls, depth: s.depth + 1, prefix: prefix(n),
		version: s.version,
	}
	for _, t := range g.Inits {
		local := t.Name
		t.Name = inner.prefix + local
		inner.names[local] = r.Const(t)
	}
	return r.body(g.Nodes, graph.Names(g.Outputs), n, inner)
}

func (r *inliner) condition(name string) (bool, error) {
	_ = autodiff.Infer(r.G, r.Types) // what stays unknown matters only if the condition needs it
	c := conditional{
		r: r, integers: autodiff.Integers(r.G, r.Types), producers: r.G.Producers(), inits: r.G.InitMap(),
		seen: map[string]bool{}, g: &graph.Graph{Name: "condition"},
	}
	if err := c.need(name); err != nil {
		return false, err
	}
	m := &graph.Model{IRVersion: r.Model.IRVersion, Opsets: []graph.Opset{{Version: r.Model.Opset("")}}, Graph: c.g}
	out, err := ort.Evaluate(r.ctx, m, r.engine, nil, name)
	if err != nil {
		return false, err
	}
	v, err := out[0].Ints()
	if err != nil || len(v) != 1 || out[0].DType != graph.Bool {
		return false, fmt.Errorf("it is %s%v, not one boolean", out[0].DType, out[0].Dims)
	}
	return v[0] != 0, nil
}

type conditional struct {
	r         *inliner
	integers  func(string) ([]int64, bool)
	producers map[string]*graph.Node
	inits     map[string]*graph.Tensor
	seen      map[string]bool
	g         *graph.Graph
}

func (c *conditional) need(name string) error {
	if name == "" || c.seen[name] {
		return nil
	}
	c.seen[name] = true
	if t := c.inits[name]; t != nil {
		c.g.Inits = append(c.g.Inits, t)
		return nil
	}
	n := c.producers[name]
	if n == nil {
		return fmt.Errorf("it depends on the input %q", name)
	}
	t, known := c.r.Types[name]
	dims, ok := sizesOf(t.Shape)
	if size := Elements(t.Shape).Size; n.Constant() == nil && (!known || size < 0 || size > maxCondition) {
		return fmt.Errorf("%q, which it depends on, is not of a known size", name)
	}
	if v, known := c.integers(name); known && ok && t.DType == graph.Int64 {
		if k := graph.FromInts(name, v, dims...); k.Len() == len(v) {
			c.g.Inits = append(c.g.Inits, k)
			return nil
		}
	}
	if !n.Standard() || strings.HasPrefix(n.Op, "Random") || n.Op == "Multinomial" || n.Op == "Bernoulli" {
		return fmt.Errorf("it depends on %s", n.Label())
	}
	if v := c.r.versions[n]; v != 0 && v != c.r.Model.Opset("") {
		return fmt.Errorf("%s is of another operator set, %d", n.Label(), v)
	}
	for _, in := range n.Inputs {
		if err := c.need(in); err != nil {
			return err
		}
	}
	c.g.Nodes = append(c.g.Nodes, n)
	lists.Mark(c.seen, n.Outputs...)
	return nil
}

// align brings nodes of functions that import an older or a newer operator set, and those of the graph, to the newest
// of them.
func (r *inliner) align() error {
	to := r.Model.Opset("")
	for _, n := range r.G.Nodes {
		if n.Standard() {
			to = max(to, r.versions[n])
		}
	}
	u := graph.NewRewriter(r.Model, typesOf(r.G, r.Types))
	err := upgradeNodes(u, func(n *graph.Node) int64 { return cmp.Or(r.versions[n], to) }, to)
	if err != nil {
		return fmt.Errorf("its functions are of different operator sets, and cannot be brought to opset %d: %w", to, err)
	}
	r.Model.SetOpset("", to)
	return nil
}

func (r *inliner) imports() {
	used := map[string]bool{"": true}
	for _, n := range r.G.Nodes {
		used[domain(n.Domain)] = true
	}
	for _, f := range r.functions {
		r.Model.Opsets = slices.DeleteFunc(r.Model.Opsets, func(o graph.Opset) bool {
			return domain(o.Domain) == domain(f.Domain) && !used[domain(o.Domain)]
		})
	}
	wanted := map[string]int64{}
	for _, f := range r.functions {
		for _, o := range f.Opsets {
			wanted[o.Domain] = max(wanted[o.Domain], o.Version)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(wanted)) {
		if used[domain(d)] && r.Model.Opset(d) == 0 {
			r.Model.SetOpset(d, wanted[d])
		}
	}
}
