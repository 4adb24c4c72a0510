package graph

import (
	"errors"
	"fmt"
	"slices"
)

// maxErrors bounds the list of a damaged graph's errors.
const maxErrors = 20

// Check reports every way in which g is not a graph: values defined twice,
// inputs that nothing defines, nodes out of order or in a cycle, outputs that
// nothing defines, tensors whose contents do not fit their shape. Errors name
// the node or tensor; after the first 20 they are only counted. The values
// that a subgraph captures are not looked at.
func (g *Graph) Check() error {
	var errs []error
	more := 0
	bad := func(format string, a ...any) {
		if len(errs) == maxErrors {
			more++
			return
		}
		errs = append(errs, fmt.Errorf(format, a...))
	}
	defined := map[string]bool{}
	inputs := map[string]bool{}
	for _, v := range g.Inputs {
		if inputs[v.Name] {
			bad("input %q is listed twice", v.Name)
		}
		inputs[v.Name], defined[v.Name] = true, true
	}
	inits := map[string]bool{}
	for _, t := range g.Inits {
		if inits[t.Name] {
			bad("initializer %q is defined twice", t.Name)
		}
		inits[t.Name], defined[t.Name] = true, true
		if err := t.Check(); err != nil {
			bad("initializer %w", err)
		}
	}
	producer := map[string]*Node{}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" && (producer[o] != nil || defined[o]) {
				bad("%s defines %q, which is defined already", n.Label(), o)
			}
			producer[o] = n
		}
	}
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			switch {
			case in == "" || defined[in]:
			case producer[in] != nil:
				bad("%s uses %q before %s defines it: the nodes are out of order or in a cycle", n.Label(), in,
					producer[in].Label())
			default:
				bad("%s uses %q, which nothing defines", n.Label(), in)
			}
		}
		for _, o := range n.Outputs {
			defined[o] = true
		}
	}
	for _, v := range g.Outputs {
		if !defined[v.Name] {
			bad("graph output %q is defined by nothing", v.Name)
		}
	}
	if more > 0 {
		errs = append(errs, fmt.Errorf("and %d errors more", more))
	}
	return errors.Join(errs...)
}

// Check reports whether the contents of t fit its type and shape.
func (t *Tensor) Check() error {
	n := int64(1)
	for _, d := range t.Dims {
		if d < 0 {
			return fmt.Errorf("%q has the negative dimension %d", t.Name, d)
		}
		if d > 0 && n > (1<<40)/d {
			return fmt.Errorf("%q has the absurd shape %v", t.Name, t.Dims)
		}
		n *= d
	}
	if t.DType == String {
		if int64(len(t.Strings)) != n {
			return fmt.Errorf("%q has shape %v, %d strings, but holds %d", t.Name, t.Dims, n, len(t.Strings))
		}
		return nil
	}
	if bits := t.DType.Bits(); bits > 0 {
		if want := RawSize(t.DType, int(n)); want != len(t.Raw) {
			return fmt.Errorf("%q is %s%v, %d bytes, but holds %d bytes", t.Name, t.DType, t.Dims, want, len(t.Raw))
		}
	}
	return nil
}

// Label names the node in messages: its operator and its name, or its first
// output when it has no name. Very long names are cut.
func (n *Node) Label() string {
	name := n.Name
	if name == "" && len(n.Outputs) > 0 {
		name = n.Outputs[0]
	}
	return fmt.Sprintf("%.100s node %.200q", n.Op, name)
}

// Consumers maps each value to the nodes that use it, in graph order.
func (g *Graph) Consumers() map[string][]*Node {
	c := map[string][]*Node{}
	for _, n := range g.Nodes {
		for i, in := range n.Inputs {
			if in != "" && !slices.Contains(n.Inputs[:i], in) {
				c[in] = append(c[in], n)
			}
		}
	}
	return c
}

// Producers maps each value to the node that defines it.
func (g *Graph) Producers() map[string]*Node {
	p := map[string]*Node{}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			if o != "" {
				p[o] = n
			}
		}
	}
	return p
}
