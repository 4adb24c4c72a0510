package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

const maxShown = 4

// Text lists g in a readable form: one line for each input, initializer, node and output, in the order of the file. The
// same graph gives the same text. Small numeric tensors show their elements; names that are not plain are quoted.
//
//	input x float[N,3]
//	init w float[2,3]
//	init eps float[] = [0.001]
//	node y = Gemm(x, w, _) {transB=1} "/fc/Gemm"
//	output y float[N,2]
//
// An underscore is an absent optional input or output. A shape is * when its
// rank is unknown, a size is ? when it is unknown and has no symbol.
func (g *Graph) Text() string {
	var b strings.Builder
	for _, v := range g.Inputs {
		fmt.Fprintf(&b, "input %s %s\n", quotedName(v.Name), v.typeText())
	}
	for _, t := range g.Inits {
		fmt.Fprintf(&b, "init %s %s\n", quotedName(t.Name), t.text())
	}
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "node %s\n", n.text())
	}
	for _, v := range g.Outputs {
		fmt.Fprintf(&b, "output %s %s\n", quotedName(v.Name), v.typeText())
	}
	return b.String()
}

func (n *Node) text() string {
	op := quotedName(n.Op)
	if n.Domain != "" {
		op = quotedName(n.Domain) + "::" + op
	}
	s := fmt.Sprintf("%s = %s(%s)", names(n.Outputs), op, names(n.Inputs))
	if len(n.Attrs) > 0 {
		attrs := make([]string, len(n.Attrs))
		for i := range n.Attrs {
			attrs[i] = quotedName(n.Attrs[i].Name) + "=" + n.Attrs[i].text()
		}
		s += " {" + strings.Join(attrs, ", ") + "}"
	}
	if n.Name != "" {
		s += " " + strconv.Quote(n.Name)
	}
	return s
}

func (a *Attr) text() string {
	switch {
	case a.Ref != "":
		return "@" + quotedName(a.Ref)
	case a.Kind == AttrFloat:
		return fmt.Sprint(a.F)
	case a.Kind == AttrInt:
		return fmt.Sprint(a.I)
	case a.Kind == AttrString:
		return strconv.Quote(string(a.S))
	case a.Kind == AttrTensor && a.T != nil:
		return a.T.text()
	case a.Kind == AttrFloats:
		return list("%v", a.Floats)
	case a.Kind == AttrInts:
		return list("%d", a.Ints)
	case a.Kind == AttrStrings:
		return list("%q", a.Strings)
	case a.Kind == AttrGraph:
		return "graph"
	case a.Kind == AttrGraphs:
		return "graphs"
	}
	return fmt.Sprintf("kind%d", a.Kind)
}

func (t *Tensor) text() string {
	s := t.DType.String() + list("%d", t.Dims)
	if t.Check() != nil || t.Len() > maxShown {
		return s
	}
	if v, err := t.Ints(); err == nil {
		return s + " = " + list("%d", v)
	}
	switch t.DType {
	case Float:
		v, _ := t.Floats()
		return s + " = " + list("%v", v)
	case Double:
		v, _ := t.Doubles()
		return s + " = " + list("%v", v)
	}
	return s
}

func (v *Value) typeText() string {
	if v.DType == Undefined {
		return "?"
	}
	return v.DType.String() + v.Shape.String()
}

func list[T any](format string, s []T) string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = fmt.Sprintf(format, v)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func names(s []string) string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = quotedName(v)
	}
	return strings.Join(parts, ", ")
}

func quotedName(name string) string {
	if name == "" {
		return "_"
	}
	odd := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune("\"(),={}@\uFFFD", r)
	}
	if name == "_" || strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}
