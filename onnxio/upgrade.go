// Package onnxio brings ONNX models into the form that the method works on.
//
// In: a model of any operator set. Out: the same function at a newer operator
// set. The invariant: the numbers that a model computes do not change.
package onnxio

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// The operator sets that Upgrade knows.
const (
	minOpset = 9
	maxOpset = 25
)

// Upgrade raises the standard operator set of m, and of its functions, to opset
// (9 to 25), rewriting the nodes whose operators changed their form or meaning on
// the way, so that the model computes what it did. A model that is there
// already keeps its nodes. The IR version is raised to the least that goes with
// the operator set and the tensors' types. On the way past IR version 3,
// initializers cease to be listed as inputs: there they were constants, later
// they would be defaults that a caller may replace.
//
// Nodes that cannot be upgraded are collected into one error that names each
// of them; m is then unchanged.
func Upgrade(m *graph.Model, opset int64) error { return upgrade(m, opset, nil) }

// upgrade is Upgrade for a model some of whose values are known to have the given types.
func upgrade(m *graph.Model, opset int64, types autodiff.Types) error {
	if opset < minOpset || opset > maxOpset {
		return fmt.Errorf("upgrade: opset %d is not within %d to %d", opset, minOpset, maxOpset)
	}
	c := m.Clone()
	rules := changes()
	var errs []error
	u := upgrader{rules: rules, graph: c.Graph, nodes: &c.Graph.Nodes, types: typesOf(c.Graph, types)}
	if version := c.Opset(""); version == 0 && u.standard() {
		errs = append(errs, errors.New("the model has standard operators, but imports no standard operator set"))
	} else if version < opset {
		errs = append(errs, u.run(version, opset)...)
		c.SetOpset("", opset)
	}
	for _, f := range c.Functions {
		u := upgrader{rules: rules, nodes: &f.Nodes, place: fmt.Sprintf("function %q: ", f.Name), function: f}
		version := functionOpset(f)
		if version == 0 || version >= opset {
			continue
		}
		errs = append(errs, u.run(version, opset)...)
		f.Opsets = slices.Clone(f.Opsets)
		for i, o := range f.Opsets {
			if o.Domain == "" || o.Domain == "ai.onnx" {
				f.Opsets[i].Version = opset
			}
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("upgrade to opset %d: %w", opset, errors.Join(errs...))
	}
	raiseIR(c, max(irVersion(c.Opset("")), irNeeded(c)))
	*m.Graph = *c.Graph // callers may hold m.Graph
	c.Graph = m.Graph
	*m = *c
	return nil
}

// typesOf returns the types of g's values that are given, declared or follow from those.
func typesOf(g *graph.Graph, given autodiff.Types) autodiff.Types {
	types := autodiff.Types{}
	for _, v := range slices.Concat(g.Inputs, g.Outputs, g.Values) {
		if v.Shape != nil && v.DType != graph.Undefined {
			types[v.Name] = autodiff.Type{DType: v.DType, Shape: v.Shape}
		}
	}
	maps.Copy(types, given)
	_ = autodiff.Infer(g, types) // what stays unknown matters only to rewrites that ask for it
	return types
}

func functionOpset(f *graph.Function) int64 {
	return (&graph.Model{Opsets: f.Opsets}).Opset("")
}

// irVersion is the IR version that appeared with an operator set.
// References: the table of released versions in ONNX's Versioning.md.
func irVersion(opset int64) int64 {
	switch {
	case opset >= 25:
		return 13
	case opset >= 23:
		return opset - 12
	case opset >= 21:
		return 10
	case opset >= 19:
		return 9
	case opset >= 15:
		return 8
	case opset >= 12:
		return 7
	case opset >= 9:
		return opset - 5
	}
	return 3
}

// irNeeded is the least IR version that has what m consists of.
func irNeeded(m *graph.Model) int64 {
	need := int64(3)
	if len(m.Functions) > 0 {
		need = 8
	}
	tensor := func(t *graph.Tensor) {
		switch t.DType {
		case graph.Int2, graph.Uint2:
			need = max(need, 13)
		case graph.Int4, graph.Uint4:
			need = max(need, 10)
		}
	}
	for _, t := range m.Graph.Inits {
		tensor(t)
	}
	all := slices.Clone(m.Graph.Nodes)
	for _, f := range m.Functions {
		all = append(all, f.Nodes...)
	}
	for _, n := range all {
		for _, a := range n.Attrs {
			if a.T != nil {
				tensor(a.T)
			}
		}
	}
	return need
}

func raiseIR(m *graph.Model, version int64) {
	if version <= m.IRVersion {
		return
	}
	if m.IRVersion <= 3 && version > 3 {
		m.Graph.Inputs = m.Graph.DataInputs()
	}
	m.IRVersion = version
}

// upgrader upgrades the nodes of one graph or function.
type upgrader struct {
	rules    map[string][]change
	place    string
	nodes    *[]*graph.Node
	graph    *graph.Graph    // nil in a function
	function *graph.Function // nil in the graph
	taken    map[string]bool
	types    autodiff.Types // of the values, as far as they are known
	before   []*graph.Node  // what a rule puts before its node
	after    []*graph.Node  // and after it
}

// standard reports whether any node is of the standard domain.
func (u *upgrader) standard() bool {
	return slices.ContainsFunc(*u.nodes, (*graph.Node).Standard)
}

// run takes the nodes from one version to the next until they are at to.
func (u *upgrader) run(from, to int64) []error {
	if !u.standard() {
		return nil
	}
	if from < minOpset {
		return []error{fmt.Errorf("%sopset %d is older than %d, the oldest that can be upgraded", u.place, from, minOpset)}
	}
	u.take()
	var errs []error
	failed := map[*graph.Node]bool{}
	for _, n := range *u.nodes {
		if err := u.usable(n); err != nil {
			errs = append(errs, fmt.Errorf("%s%s %w", u.place, n.Label(), err))
			failed[n] = true
		}
	}
	for version := from + 1; version <= to; version++ {
		var out []*graph.Node
		for _, n := range *u.nodes {
			u.before, u.after = nil, nil
			label := n.Label()
			if err := u.node(n, version); err != nil && !failed[n] {
				errs = append(errs, fmt.Errorf("%s%s %w", u.place, label, err))
				failed[n] = true
			}
			out = append(append(append(out, u.before...), n), u.after...)
		}
		*u.nodes = out
	}
	return errs
}

func (u *upgrader) usable(n *graph.Node) error {
	if !n.Standard() {
		return nil
	}
	if _, ok := u.rules[n.Op]; !ok {
		return errors.New("is of an operator that cannot be upgraded")
	}
	if n.HasGraphs() {
		return errors.New("has a subgraph, which cannot be upgraded")
	}
	return nil
}

// node applies what changed at version to n.
func (u *upgrader) node(n *graph.Node, version int64) error {
	if !n.Standard() {
		return nil
	}
	for _, c := range u.rules[n.Op] {
		if c.version == version {
			return c.rewrite(u, n)
		}
	}
	return nil
}

// take notes the names that are there.
func (u *upgrader) take() {
	u.taken = map[string]bool{}
	if u.graph != nil {
		for _, v := range append(slices.Clone(u.graph.Inputs), u.graph.Values...) {
			u.taken[v.Name] = true
		}
		for _, t := range u.graph.Inits {
			u.taken[t.Name] = true
		}
	} else {
		for _, in := range u.function.Inputs {
			u.taken[in] = true
		}
	}
	for _, n := range *u.nodes {
		u.taken[n.Name] = true
		for _, o := range n.Outputs {
			u.taken[o] = true
		}
	}
}

// name makes a fresh name for something that belongs to n.
func (u *upgrader) name(n *graph.Node, hint string) string {
	base := n.Name
	if base == "" && len(n.Outputs) > 0 {
		base = n.Outputs[0]
	}
	base += "_" + hint
	name := base
	for i := 1; u.taken[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	u.taken[name] = true
	return name
}

// constant makes t a value that n can use: an initializer, or in a function,
// which has none, the output of a Constant node.
func (u *upgrader) constant(n *graph.Node, hint string, t *graph.Tensor) string {
	t.Name = u.name(n, hint)
	if u.graph != nil {
		u.graph.Inits = append(u.graph.Inits, t)
		return t.Name
	}
	out := t.Name
	t.Name = ""
	c := &graph.Node{Op: "Constant", Outputs: []string{out}, Attrs: []graph.Attr{graph.TensorAttr("value", t)}}
	u.put(c, true)
	return out
}

// put adds a node of a new value before or after the node at hand.
func (u *upgrader) put(n *graph.Node, before bool) {
	if before {
		u.before = append(u.before, n)
	} else {
		u.after = append(u.after, n)
	}
}

// used reports whether anything uses value.
func (u *upgrader) used(value string) bool {
	if value == "" {
		return false
	}
	if u.graph != nil && slices.ContainsFunc(u.graph.Outputs, func(v graph.Value) bool { return v.Name == value }) {
		return true
	}
	if u.function != nil && slices.Contains(u.function.Outputs, value) {
		return true
	}
	return slices.ContainsFunc(*u.nodes, func(n *graph.Node) bool { return slices.Contains(n.Inputs, value) })
}
