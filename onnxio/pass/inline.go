package pass

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// FunctionDomain is the domain of the functions that files of this project carry: they unpack weights, and stay.
const FunctionDomain = "cfq"

const (
	// maxInlined bounds the nodes of a graph without functions: each of them may call another one twice.
	maxInlined = 50_000
	// maxCalls bounds how deep functions and branches lie within one another.
	maxCalls = 100
)

// Inlining writes the bodies of functions where they are called, and the branch that an If with a constant condition
// takes. Loop, Scan and an If that depends on the inputs are errors: the nodes of their subgraphs have no gradients.
func Inlining() graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool {
			return slices.ContainsFunc(m.Functions, func(f *graph.Function) bool { return f.Domain != FunctionDomain }) ||
				slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).HasGraphs)
		},
		Run: func(r *graph.Rewriter) error {
			i := &inliner{Rewriter: r, functions: map[functionCall]*graph.Function{}}
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
	if err := r.emit(nodes, &nameScope{outermost: true}); err != nil {
		return err
	}
	r.Model.Functions = slices.DeleteFunc(r.Model.Functions, func(f *graph.Function) bool {
		return f.Domain != FunctionDomain
	})
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
	functions map[functionCall]*graph.Function
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

func (r *inliner) emit(nodes []*graph.Node, s *nameScope) error {
	for _, n := range nodes {
		if len(r.G.Nodes) >= maxInlined {
			return fmt.Errorf("written out, the functions have more than %d nodes", maxInlined)
		}
		if err := r.node(n, s); err != nil {
			return err
		}
	}
	return nil
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
	for _, o := range f.Opsets {
		if have := r.Model.Opset(""); domain(o.Domain) == "" && o.Version != have {
			return fmt.Errorf("the function %q is of operator set %d, and the model of %d: export both of one set", c, o.Version,
				have)
		}
	}
	inner := &nameScope{
		names: map[string]string{}, attrs: map[string]graph.Attr{}, calls: append(slices.Clone(s.calls), c),
		depth: s.depth + 1, prefix: prefix(n),
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
	if err := r.emit(nodes, s); err != nil {
		return err
	}
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
	_ = autodiff.Infer(r.G, r.Types) // what stays unknown matters only if the condition needs it
	taken, known := autodiff.Integers(r.G, r.Types, n.Input(0))
	if !known || len(taken) != 1 {
		return fmt.Errorf("%s: its condition %q is not constant: it does not follow from constants and fixed sizes, and "+
			"only one branch can be differentiated and quantized. Export the model without it, for inputs of fixed sizes",
			n.Label(), n.Input(0))
	}
	a := n.Attr("else_branch")
	if taken[0] != 0 {
		a = n.Attr("then_branch")
	}
	if a == nil {
		return fmt.Errorf("%s has no branch for the condition %d", n.Label(), taken[0])
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
	}
	for _, t := range g.Inits {
		local := t.Name
		t.Name = inner.prefix + local
		inner.names[local] = r.Const(t)
	}
	return r.body(g.Nodes, graph.Names(g.Outputs), n, inner)
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
