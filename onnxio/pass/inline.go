package pass

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// FunctionDomain is the domain of the functions that files of this project carry: they unpack weights, and stay.
const FunctionDomain = "cfq"

const (
	// maxInlined bounds the nodes of a graph without functions: each of them may call another one twice.
	maxInlined = 200_000
	// maxCalls bounds how deep functions lie within one another.
	maxCalls = 100
)

// Inlining writes the bodies of functions where they are called. If, Loop and Scan are errors: the nodes of their
// subgraphs have no gradients.
func Inlining() graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool {
			return slices.ContainsFunc(m.Functions, func(f *graph.Function) bool { return f.Domain != FunctionDomain }) ||
				slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).HasGraphs)
		},
		Run: func(r *graph.Rewriter) error {
			i := &inliner{Rewriter: r, functions: map[functionCall]*graph.Function{}, versions: map[*graph.Node]int64{}}
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
	r.emit(nodes, &nameScope{version: r.Model.Opset("")})
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
		return fmt.Errorf("without its functions: %w", err)
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
	versions  map[*graph.Node]int64 // the operator set that a node is written for
	errs      []error
	full      bool // the graph is too large
}

// nameScope is where names mean something: the graph, or the body of one call.
type nameScope struct {
	calls   []functionCall // that are being inlined; none in the graph, whose names stay as they are
	names   map[string]string
	attrs   map[string]graph.Attr // of the call, by the function's names
	prefix  string
	version int64
}

func (s *nameScope) lookup(name string) (string, bool) {
	if name == "" || len(s.calls) == 0 {
		return name, true
	}
	v, ok := s.names[name]
	return v, ok
}

func (r *inliner) define(s *nameScope, name string) string {
	if name == "" || len(s.calls) == 0 {
		return name
	}
	if _, ok := s.names[name]; !ok {
		s.names[name] = r.Name(s.prefix + name)
	}
	return s.names[name]
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
	if len(s.calls) > 0 {
		c.Name = r.Name(s.prefix + n.Name)
	}
	for i, out := range n.Outputs {
		c.Outputs[i] = r.define(s, out)
	}
	f := r.functions[functionCall{domain(n.Domain), n.Op, codec.Overload(n)}]
	switch {
	case f != nil:
		return r.inline(&c, f, s)
	case n.HasGraphs():
		return fmt.Errorf("%s has a graph of its own, which can be neither differentiated nor quantized: export the model "+
			"without %s (for inputs of fixed sizes; a fixed number of steps can be written out)", n.Label(), n.Op)
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
	case len(s.calls) >= maxCalls:
		return fmt.Errorf("functions call one another %d deep", maxCalls)
	case len(n.Inputs) > len(f.Inputs) || len(n.Outputs) > len(f.Outputs):
		return fmt.Errorf("%s has %d inputs and %d outputs, but the function %q has %d and %d", n.Label(), len(n.Inputs),
			len(n.Outputs), c, len(f.Inputs), len(f.Outputs))
	case err != nil:
		return fmt.Errorf("function %q: %w", c, err)
	}
	inner := &nameScope{
		names: map[string]string{}, attrs: map[string]graph.Attr{}, calls: append(slices.Clone(s.calls), c),
		prefix: cmp.Or(n.Name, n.Outputs[0]) + "/", version: s.version,
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
	return r.body(f, n, inner)
}

func (r *inliner) body(f *graph.Function, n *graph.Node, s *nameScope) error {
	made := (&graph.Graph{Nodes: f.Nodes}).Producers()
	var copies []int
	for i, out := range n.Outputs {
		if _, taken := s.names[f.Outputs[i]]; made[f.Outputs[i]] != nil && !taken && out != "" {
			s.names[f.Outputs[i]] = out
		} else if out != "" {
			copies = append(copies, i)
		}
	}
	r.emit(f.Nodes, s)
	for _, i := range copies {
		v, ok := s.lookup(f.Outputs[i])
		if !ok || v == "" {
			return fmt.Errorf("%s: its output %q is defined by nothing", n.Label(), f.Outputs[i])
		}
		r.G.Nodes = append(r.G.Nodes, &graph.Node{
			Name: r.Name(s.prefix + "Identity"), Op: "Identity", Inputs: []string{v}, Outputs: []string{n.Outputs[i]},
		})
	}
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
