package lower

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Restore gives a graph that was made of the lowered model the inputs and outputs of the file.
func (f *Interface) Restore(g *graph.Model) *graph.Model {
	c := g.Clone()
	for _, o := range f.file.Opsets {
		if c.Opset(o.Domain) == 0 {
			c.SetOpset(o.Domain, o.Version)
		}
	}
	if !f.direct {
		c.Graph.Outputs = slices.Concat(c.Graph.Outputs, f.file.Graph.Outputs) // constants among them stay
		c.SetOpset(learning, max(c.Opset(learning), 1))
		if slices.ContainsFunc(f.Columns, func(c Column) bool { return c.Blank != "" }) {
			c.SetOpset(learning, max(c.Opset(learning), 2)) // a LabelEncoder of texts to numbers
		}
		f.front(c.Graph)
	}
	c.Graph.Outputs = slices.Clone(f.file.Graph.Outputs)
	c.Graph.Nodes = append(c.Graph.Nodes, cloned(f.back)...)
	made := c.Graph.Producers()
	for _, v := range c.Graph.Outputs { // constants
		if t := f.file.Graph.Init(v.Name); t != nil && made[v.Name] == nil && c.Graph.Init(v.Name) == nil {
			u := *t
			c.Graph.Inits = append(c.Graph.Inits, &u)
		}
	}
	for _, t := range f.consts {
		if c.Graph.Init(t.Name) == nil {
			u := *t
			c.Graph.Inits = append(c.Graph.Inits, &u)
		}
	}
	return c
}

func cloned(nodes []*graph.Node) []*graph.Node {
	return (&graph.Graph{Nodes: nodes}).Clone().Nodes
}

// part is a value that holds some of the lowered model's inputs.
type part struct {
	value    string
	from, to int
}

// front puts the file's inputs in place of the lowered model's: what a part of the model reads is made of the columns
// that it reads, and of all of them only where that is asked for.
func (f *Interface) front(g *graph.Graph) {
	b := graph.NewBuilder(g, "cfq.inputs.")
	core := g.Nodes
	g.Nodes = nil
	g.Inputs = slices.Concat(f.file.Graph.DataInputs(),
		slices.DeleteFunc(g.Inputs, func(v graph.Value) bool { return v.Name == f.input }))
	var parts []part
	for i := 0; i < len(f.Columns); {
		n := 1
		for i+n < len(f.Columns) && f.Columns[i+n].Input == f.Columns[i].Input {
			n++
		}
		parts = append(parts, f.partsOf(b, f.Columns[i:i+n])...)
		i += n
	}
	join := func(from, to int) string {
		var names []string
		at := from
		for _, p := range parts {
			if p.from >= from && p.to <= to {
				if p.from != at {
					return ""
				}
				names, at = append(names, p.value), p.to
			}
		}
		switch {
		case at != to:
			return ""
		case len(names) == 1:
			return names[0]
		}
		return b.Op("Concat", names, graph.IntAttr("axis", 1))
	}
	whole, stands := "", map[string]string{} // for cuts of the lowered input
	inits := g.InitMap()
	for _, n := range core {
		reads := slices.Contains(n.Inputs, f.input)
		if from, to, ok := f.slice(n, inits); reads && ok {
			if v := join(from, to); v != "" && !g.IsOutput(n.Outputs[0]) {
				stands[n.Outputs[0]] = v
				continue
			}
		}
		if reads && whole == "" {
			whole = join(0, width(f.Columns))
		}
		for i, in := range n.Inputs {
			if in == f.input {
				n.Inputs[i] = whole
			} else if v := stands[in]; v != "" {
				n.Inputs[i] = v
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	uses := used(g.Nodes)
	g.Inits = slices.DeleteFunc(g.Inits, func(t *graph.Tensor) bool { return !uses[t.Name] && !g.IsOutput(t.Name) })
}

// slice returns the columns that a node cuts out of the lowered model's input.
func (f *Interface) slice(n *graph.Node, inits map[string]*graph.Tensor) (from, to int, ok bool) {
	if !n.Is("Slice") || n.Input(0) != f.input || n.Input(4) != "" {
		return 0, 0, false
	}
	var v [3]int64
	for i := range v {
		t := inits[n.Input(i+1)]
		if t == nil || t.Len() != 1 {
			return 0, 0, false
		}
		one, err := t.Ints()
		if err != nil {
			return 0, 0, false
		}
		v[i] = one[0]
	}
	return int(v[0]), int(v[1]), v[2] == 1
}

// partsOf makes the lowered inputs of the columns of one input.
func (f *Interface) partsOf(b *graph.Builder, columns []Column) (parts []part) {
	x := columns[0].Input
	i := slices.IndexFunc(f.file.Graph.Inputs, func(v graph.Value) bool { return v.Name == x })
	if v := f.file.Graph.Inputs[i]; len(v.Shape) != 2 {
		x = b.Op("Reshape", []string{x, b.Const(graph.FromInts("shape", []int64{-1, int64(len(columns))}, 2))})
	}
	cast := func(v string, to graph.DType) string {
		if columns[0].DType == to {
			return v
		}
		return b.Op("Cast", []string{v}, graph.IntAttr("to", int64(to)))
	}
	some := func(from, to int) string {
		if to-from == len(columns) {
			return x
		}
		return cut(b, x, from, to)
	}
	for i := 0; i < len(columns); {
		c, n := &columns[i], 1
		if c.Values == nil {
			for i+n < len(columns) && columns[i+n].Values == nil {
				n++
			}
			parts = append(parts, part{cast(some(i, i+n), graph.Float), c.First, c.First + n})
			i += n
			continue
		}
		attr := graph.Attr{Name: "cats_strings", Kind: graph.AttrStrings}
		v := some(i, i+1)
		for _, s := range c.Values {
			attr.Strings = append(attr.Strings, []byte(s))
		}
		if c.Blank != "" {
			v, attr = c.places(b, v)
		} else if c.DType != graph.String {
			attr = graph.Attr{Name: "cats_int64s", Kind: graph.AttrInts}
			for _, s := range c.Values {
				k, _ := strconv.ParseInt(s, 10, 64) // a look-up of integers has no others
				attr.Ints = append(attr.Ints, k)
			}
			v = cast(v, graph.Int64)
		}
		zeros := int64(1)
		if c.Strict {
			zeros = 0
		}
		hot := b.Name("onehot")
		b.Append(&graph.Node{
			Op: "OneHotEncoder", Domain: learning, Inputs: []string{v}, Outputs: []string{hot},
			Attrs: []graph.Attr{attr, graph.IntAttr("zeros", zeros)},
		})
		all := int64(len(attr.Strings) + len(attr.Ints))
		hot = b.Op("Reshape", []string{hot, b.Const(graph.FromInts("shape", []int64{-1, all}, 2))})
		parts = append(parts, part{hot, c.First, c.First + len(c.Values)})
		i++
	}
	return parts
}

// places makes texts the numbers of their categories, of which the empty text shares one; the attribute lists them.
func (c *Column) places(b *graph.Builder, v string) (string, graph.Attr) {
	keys := graph.Attr{Name: "keys_strings", Kind: graph.AttrStrings, Strings: [][]byte{{}}}
	at := slices.Index(c.Values, c.Blank)
	values := graph.Attr{Name: "values_int64s", Kind: graph.AttrInts, Ints: []int64{int64(at)}}
	all := graph.Attr{Name: "cats_int64s", Kind: graph.AttrInts}
	for i, s := range c.Values {
		keys.Strings, values.Ints = append(keys.Strings, []byte(s)), append(values.Ints, int64(i))
		all.Ints = append(all.Ints, int64(i))
	}
	place := b.Name("place")
	b.Append(&graph.Node{
		Op: "LabelEncoder", Domain: learning, Inputs: []string{v}, Outputs: []string{place},
		Attrs: []graph.Attr{keys, values, graph.IntAttr("default_int64", -1)},
	})
	return place, all
}

// Direct reports whether the input of the lowered model is the file's own.
func (f *Interface) Direct() bool { return f.direct }

// Feed makes the inputs of the file of rows of the lowered model's input. A row without any category of a column has
// one that no look-up knows, or the first where there must be one.
func (f *Interface) Feed(x []float32) ([]*graph.Tensor, error) {
	dim := width(f.Columns)
	var out []*graph.Tensor
	for _, v := range f.file.Graph.DataInputs() {
		t, err := feed(v, f.Columns, len(x)/dim, func(row, column int) string {
			c := &f.Columns[column]
			of := x[row*dim+c.First:][:c.Width()]
			if c.Values == nil {
				return strconv.FormatFloat(float64(of[0]), 'g', -1, 32)
			}
			i := slices.Index(of, 1)
			if i < 0 && c.DType == graph.String && !c.Strict {
				return unknownText
			}
			return c.Values[max(i, 0)]
		})
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// rows makes rows of the lowered model's input: every kind of category, and numbers that show what is cut off.
func (f *Interface) rows(n int) (x []float32, dim int) {
	dim = width(f.Columns)
	r := rand.New(rand.NewPCG(7, 14))
	x = make([]float32, n*dim)
	for i := range n {
		for k := range f.Columns {
			c := &f.Columns[k]
			at := x[i*dim+c.First:]
			bits := c.DType.Bits()
			switch unsigned := strings.HasPrefix(c.DType.String(), "u"); {
			case c.Values != nil:
				if k := r.IntN(len(c.Values)); c.Strict || c.DType != graph.String || i%8 != k%8 { // else one that is not known
					at[k] = 1
				}
			case c.DType == graph.Bool:
				at[0] = float32(r.IntN(2))
			case c.DType.IsFloat():
				at[0] = float32(r.NormFloat64() * math.Exp(3*r.NormFloat64()))
			case i%4 < 2:
				at[0] = float32(r.IntN(20))
			default: // any size that the type, and a float, has exactly
				at[0] = float32(r.IntN(1 << min(bits-1, r.IntN(24)+1)))
				if i%4 == 3 && !unsigned {
					at[0] = -at[0]
				}
			}
		}
	}
	return x, dim
}

// compare runs the file and the lowered model on the same rows.
func (f *Interface) compare(ctx context.Context, low *graph.Model, o ort.Options) error {
	const slack = 1e-4
	batch := 64
	if d := low.Graph.DataInputs()[0].Shape[0].Size; d > 0 {
		batch = int(d)
	}
	x, dim := f.rows(batch)
	file := f.file.Clone()
	file.Graph.Outputs = nil
	var names []string
	produced := file.Graph.Producers()
	for _, v := range low.Graph.Outputs {
		if produced[v.Name] != nil {
			names = append(names, v.Name)
			file.Graph.Outputs = append(file.Graph.Outputs, graph.Value{Name: v.Name})
		}
	}
	if len(names) == 0 {
		return nil
	}
	run := func(m *graph.Model, in []*graph.Tensor) ([]*graph.Tensor, error) {
		o.Level = ort.Disabled
		s, err := ort.Open(m, o)
		if err != nil {
			return nil, fmt.Errorf("the model does not load: %w", err)
		}
		defer s.Close() //nolint:errcheck // nothing was written
		return s.Run(ctx, in, names...)
	}
	lowered := ort.ViewFloats(f.input, x, int64(batch), int64(dim))
	in, err := []*graph.Tensor{lowered}, error(nil)
	if f.direct {
		v := low.Graph.DataInputs()[0]
		dims, _ := sizesOf(v)
		lowered = graph.FromNumbers(v.Name, v.DType, x, append([]int64{int64(batch)}, dims...)...)
		if in[0] = lowered; lowered == nil {
			return nil // 16-bit floats
		}
	} else if in, err = f.Feed(x); err != nil {
		return err
	}
	want, err := run(file, in)
	if err != nil {
		return fmt.Errorf("the model does not run: %w", err)
	}
	got, err := run(low, []*graph.Tensor{lowered})
	if err != nil {
		return fmt.Errorf("the lowered model does not run: %w", err)
	}
	for i, name := range names {
		a, errA := want[i].Numbers()
		b, errB := got[i].Numbers()
		if errA != nil || errB != nil {
			continue // texts
		}
		for k := range a {
			same := k < len(b) && (math.Abs(a[k]-b[k]) <= slack*(1+math.Abs(a[k])) || math.IsNaN(a[k]) && math.IsNaN(b[k]) ||
				a[k] == b[k])
			if !same {
				return fmt.Errorf("the output %q is not what it is when the columns' categories are inputs of their own (%v): the "+
					"model makes something else of its columns than look-ups", name, a[k])
			}
		}
	}
	return nil
}
