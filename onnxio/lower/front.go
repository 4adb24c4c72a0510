package lower

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

type inputRange struct{ from, to int }

func (f *Signature) slice(n *graph.Node, inits map[string]*graph.Tensor) (s inputRange, ok bool) {
	if !n.Is("Slice") || n.Input(0) != f.input || n.Input(4) != "" {
		return s, false
	}
	var bounds []int64 // from, to and the axis
	for _, in := range n.Inputs[1:] {
		if t := inits[in]; t != nil && t.Len() == 1 {
			v, _ := t.Ints()
			bounds = append(bounds, v...)
		}
	}
	if len(bounds) != 3 || bounds[2] != 1 {
		return s, false
	}
	return inputRange{int(bounds[0]), int(bounds[1])}, true
}

func (f *Signature) column(s inputRange) int {
	return slices.IndexFunc(f.Columns, func(c Column) bool {
		return c.Values != nil && s == inputRange{c.First, c.First + len(c.Values)}
	})
}

// Tables returns the values of g, a graph of the lowered model, that are the inputs of one column of categories and
// nothing else: products of constants with them become look-ups in the file.
func (f *Signature) Tables(g *graph.Graph) map[string]bool {
	inits, all := g.InitMap(), map[string]bool{}
	if !f.lowered {
		return all
	}
	all[f.input] = f.column(inputRange{0, width(f.Columns)}) >= 0
	for _, n := range g.Nodes {
		if s, ok := f.slice(n, inits); ok {
			all[n.Outputs[0]] = f.column(s) >= 0
		}
	}
	return all
}

type inputWriter struct {
	*Signature
	b     *graph.Builder
	inits map[string]*graph.Tensor
	fixed map[string]bool   // values that are made of constants alone
	made  map[string]string // values by what they are
}

// once returns the value that is described by a key; it is made when it is first asked for.
func (w *inputWriter) once(key string, make func() string) string {
	v, ok := w.made[key]
	if !ok {
		v = make()
		w.made[key] = v
	}
	return v
}

func (w *inputWriter) ints(v ...int64) string {
	return w.once(fmt.Sprint("ints ", v), func() string { return w.b.Const(graph.FromInts("n", v, int64(len(v)))) })
}

func (w *inputWriter) scalar(v int64) string {
	return w.once(fmt.Sprint("scalar ", v), func() string { return w.b.Const(graph.FromInts("n", []int64{v})) })
}

func (w *inputWriter) cut(v string, from, to int) string {
	return w.op("Slice", []string{v, w.ints(int64(from)), w.ints(int64(to)), w.ints(1)})
}

func (w *inputWriter) join(s inputRange) string {
	return w.once(fmt.Sprint("span ", s), func() string {
		var names []string
		for i := 0; i < len(w.Columns); {
			n := w.run(i)
			all := inputRange{w.Columns[i].First, w.Columns[i+n-1].First + w.Columns[i+n-1].Width()}
			if of := (inputRange{max(s.from, all.from), min(s.to, all.to)}); of.from < of.to {
				v := w.columns(i, n)
				if of != all {
					v = w.cut(v, of.from-all.from, of.to-all.from)
				}
				names = append(names, v)
			}
			i += n
		}
		if len(names) == 1 {
			return names[0]
		}
		return w.op("Concat", names, graph.IntAttr("axis", 1))
	})
}

func (w *inputWriter) run(i int) int {
	n := 1
	for c := w.Columns; c[i].Values == nil && i+n < len(c) && c[i+n].Input == c[i].Input && c[i+n].Values == nil; {
		n++
	}
	return n
}

func (w *inputWriter) columns(i, n int) string {
	return w.once(fmt.Sprint("columns ", i), func() string {
		c := &w.Columns[i]
		if c.Values != nil {
			return w.oneHot(i)
		}
		v, first, of := w.input(i)
		if n < of {
			v = w.cut(v, first, first+n)
		}
		return w.cast(v, c.DType, graph.Float)
	})
}

func (w *inputWriter) input(i int) (value string, at, of int) {
	value = w.Columns[i].Input
	for k, c := range w.Columns {
		if c.Input == value {
			of++
			if k < i {
				at++
			}
		}
	}
	in := slices.IndexFunc(w.file.Graph.Inputs, func(v graph.Value) bool { return v.Name == value })
	if len(w.file.Graph.Inputs[in].Shape) != 2 {
		x := value
		value = w.once("rows "+x, func() string { return w.op("Reshape", []string{x, w.ints(-1, int64(of))}) })
	}
	return value, at, of
}

func (w *inputWriter) op(op string, inputs []string, attrs ...graph.Attr) string {
	return w.node(graph.Node{Op: op, Inputs: inputs, Attrs: attrs}, strings.ToLower(op[:1]))
}

func (w *inputWriter) node(n graph.Node, hint string) string {
	n.Outputs = []string{w.b.Name(hint)}
	w.b.Append(&n)
	n.Name = "" // which nodes need not have, and takes bytes
	return n.Outputs[0]
}

func (w *inputWriter) cast(v string, from, to graph.DType) string {
	if from == to {
		return v
	}
	return w.op("Cast", []string{v}, graph.IntAttr("to", int64(to)))
}

// vector makes one number or text for each row of the i-th column. Negative numbers get above all others if that is
// asked for.
func (w *inputWriter) vector(i int, positive bool) string {
	c := &w.Columns[i]
	return w.once(fmt.Sprint("vector ", i, positive), func() string {
		v, at, of := w.input(i)
		if positive { // once for all columns of an input
			v = w.once("positive "+c.Input, func() string {
				return w.op("BitwiseAnd", []string{w.cast(v, c.DType, graph.Int64), w.scalar(math.MaxInt64)})
			})
		}
		if of == 1 {
			return w.op("Reshape", []string{v, w.ints(-1)})
		}
		return w.op("Gather", []string{v, w.scalar(int64(at))}, graph.IntAttr("axis", 1))
	})
}

func (w *inputWriter) key(i int) string {
	if w.Columns[i].DType == graph.String {
		return w.vector(i, false)
	}
	return w.cast(w.vector(i, false), w.Columns[i].DType, graph.Int64)
}

func (w *inputWriter) oneHot(i int) string {
	c, v := &w.Columns[i], w.key(i)
	attr, zeros := c.list("cats"), graph.IntAttr("zeros", 1)
	if c.Blank != "" {
		v, attr = w.place(i), graph.IntsAttr("cats_int64s", places(len(c.Values))...)
	}
	if c.Strict {
		zeros.I = 0
	}
	return w.node(graph.Node{
		Op: "OneHotEncoder", Domain: learning, Inputs: []string{v}, Attrs: []graph.Attr{attr, zeros},
	}, "h")
}

func (c *Column) list(name string) graph.Attr {
	attr := graph.Attr{Name: name + "_strings", Kind: graph.AttrStrings}
	if c.DType == graph.String {
		attr.Strings = lists.Map(c.Values, func(s string) []byte { return []byte(s) })
		return attr
	}
	return graph.Attr{Name: name + "_int64s", Kind: graph.AttrInts, Ints: c.numbers()}
}

func (c *Column) numbers() []int64 {
	all := make([]int64, len(c.Values))
	for i, s := range c.Values {
		all[i], _ = strconv.ParseInt(s, 10, 64)
	}
	return all
}

func places(n int) []int64 { return lists.Make(n, func(i int) int64 { return int64(i) }) }

// place makes the number of the category of each row of the i-th column. What is no category is the number behind the
// last, or any above that or, where the categories count from the end, below.
func (w *inputWriter) place(i int) string {
	return w.once(fmt.Sprint("place ", i), func() string {
		c := &w.Columns[i]
		n := int64(len(c.Values))
		if c.consecutive() {
			lo := c.numbers()[0]
			v := ""
			if lo == 0 && !c.FromEnd {
				v = w.vector(i, true)
			} else {
				v = w.key(i)
			}
			if lo != 0 {
				v = w.op("Sub", []string{v, w.scalar(lo)})
				v = w.op("BitwiseAnd", []string{v, w.scalar(math.MaxInt64)})
			}
			if !c.Strict {
				v = w.op("Min", []string{v, w.scalar(n)})
			}
			return v
		}
		keys, values := c.list("keys"), graph.IntsAttr("values_int64s", places(int(n))...)
		if c.Blank != "" {
			at := slices.Index(c.Values, c.Blank)
			keys.Strings, values.Ints = append(keys.Strings, nil), append(values.Ints, int64(at))
		}
		return w.node(graph.Node{
			Op: "LabelEncoder", Domain: learning, Inputs: []string{w.key(i)},
			Attrs: []graph.Attr{keys, values, graph.IntAttr("default_int64", n)},
		}, "p")
	})
}

func (c *Column) consecutive() bool {
	if c.DType == graph.String || c.Values == nil {
		return false
	}
	all := c.numbers()
	for i, v := range all {
		if v-int64(i) != all[0] {
			return false
		}
	}
	return true
}

// lookUp makes the node n, which reads the inputs s, a look-up if it is the product of one column's categories with a
// table of constants. What is done to the table is done once, when ONNX Runtime loads the file.
func (w *inputWriter) lookUp(n *graph.Node, s inputRange) bool {
	i, table, bias := w.column(s), n.Input(1), n.Input(2)
	t, b := w.inits[table], w.inits[bias]
	plain := n.Is("MatMul") && t != nil && len(t.Dims) == 2 ||
		n.Is("Gemm") && n.Int("transA", 0) == 0 && n.Float("alpha", 1) == 1 && n.Float("beta", 1) == 1
	if i < 0 || !plain || !w.fixed[table] || bias != "" && (b == nil || len(b.Dims) > 1) {
		return false
	}
	c := &w.Columns[i]
	table = w.once(fmt.Sprintf("table %q %d %q %v", table, n.Int("transB", 0), bias, c.Strict), func() string {
		if n.Int("transB", 0) != 0 {
			table = w.op("Transpose", []string{table}, graph.IntsAttr("perm", 1, 0))
		}
		if !c.Strict { // a row of zeros for all others
			table = w.op("Pad", []string{table, w.ints(0, 0, 1, 0)})
		}
		if bias != "" {
			table = w.op("Add", []string{table, bias})
		}
		return table
	})
	n.Op, n.Inputs, n.Attrs = "Gather", []string{table, w.place(i)}, nil
	return true
}
