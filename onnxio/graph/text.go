package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxShown is the number of elements up to which Text shows a tensor's contents.
const maxShown = 4

// Text lists g in a readable form: one line for each input, initializer, node
// and output, in the order of the file. The same graph gives the same text.
// Small numeric tensors show their elements; names that are not plain are quoted.
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
		fmt.Fprintf(&b, "input %s %s\n", plain(v.Name), v.typeText())
	}
	for _, t := range g.Inits {
		fmt.Fprintf(&b, "init %s %s\n", plain(t.Name), t.text())
	}
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "node %s\n", n.text())
	}
	for _, v := range g.Outputs {
		fmt.Fprintf(&b, "output %s %s\n", plain(v.Name), v.typeText())
	}
	return b.String()
}

func (n *Node) text() string {
	op := plain(n.Op)
	if n.Domain != "" {
		op = plain(n.Domain) + "::" + op
	}
	s := fmt.Sprintf("%s = %s(%s)", names(n.Outputs), op, names(n.Inputs))
	if len(n.Attrs) > 0 {
		attrs := make([]string, len(n.Attrs))
		for i := range n.Attrs {
			attrs[i] = plain(n.Attrs[i].Name) + "=" + n.Attrs[i].text()
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
		return "@" + plain(a.Ref)
	case a.Kind == AttrFloat:
		return float(float64(a.F), 32)
	case a.Kind == AttrInt:
		return strconv.FormatInt(a.I, 10)
	case a.Kind == AttrString:
		return strconv.Quote(string(a.S))
	case a.Kind == AttrTensor && a.T != nil:
		return a.T.text()
	case a.Kind == AttrFloats:
		return list(a.Floats, func(v float32) string { return float(float64(v), 32) })
	case a.Kind == AttrInts:
		return list(a.Ints, func(v int64) string { return strconv.FormatInt(v, 10) })
	case a.Kind == AttrStrings:
		return list(a.Strings, func(v []byte) string { return strconv.Quote(string(v)) })
	case a.Kind == AttrGraph:
		return "graph"
	case a.Kind == AttrGraphs:
		return "graphs"
	}
	return fmt.Sprintf("kind%d", a.Kind)
}

func (t *Tensor) text() string {
	s := t.DType.String() + list(t.Dims, func(d int64) string { return strconv.FormatInt(d, 10) })
	if t.Check() != nil || t.Len() > maxShown {
		return s
	}
	if v, err := t.Doubles(); err == nil {
		return s + " = " + list(v, func(x float64) string { return float(x, t.DType.Bits()) })
	}
	if v, err := t.Ints(); err == nil {
		return s + " = " + list(v, func(x int64) string { return strconv.FormatInt(x, 10) })
	}
	return s
}

func (v *Value) typeText() string {
	if v.DType == Undefined {
		return "?"
	}
	return v.DType.String() + v.Shape.String()
}

func float(v float64, bits int) string { return strconv.FormatFloat(v, 'g', -1, bits) }

func list[T any](s []T, text func(T) string) string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = text(v)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func names(s []string) string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = plain(v)
	}
	return strings.Join(parts, ", ")
}

// plain is name, quoted when it could be mistaken for something else.
func plain(name string) string {
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
