package lower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

type tables struct {
	z      *preprocessing
	x      string // the input of the lowered model
	rows   []categoryRow
	from   []int        // by column: its first row; row 0 is the first category, or 0, of every column
	fixed  int          // the batch size that the model insists on, or 0
	s      *ort.Session // for the values at the border
	inputs []graph.Value
}

type categoryRow struct {
	column int
	value  string
}

const unknownText = "\x01"

func (c *Column) base() string {
	if c.Values != nil {
		return c.Values[0]
	}
	return "0"
}

func (c *Column) unknown() []string {
	switch {
	case c.Values == nil || c.Strict:
		return nil
	case c.DType == graph.String:
		return []string{unknownText}
	}
	known := c.numbers()
	lo, hi := slices.Min(known), slices.Max(known)
	if lo == math.MinInt64 || hi == math.MaxInt64 || lo == 0 && c.unsigned() {
		return []string{strconv.FormatInt(hi+1, 10)}
	}
	return []string{strconv.FormatInt(hi+1, 10), strconv.FormatInt(lo-1, 10)}
}

func tabulate(ctx context.Context, m *graph.Model, z *preprocessing, o ort.Options) (*tables, error) {
	t := &tables{z: z, rows: []categoryRow{{column: -1}}, inputs: m.Graph.DataInputs()}
	for i := range z.columns {
		t.from = append(t.from, len(t.rows))
		for _, v := range z.columns[i].Values {
			t.rows = append(t.rows, categoryRow{i, v})
		}
	}
	if len(t.rows) > maxColumns {
		return nil, fmt.Errorf("the columns have %d categories, more than %d", len(t.rows), maxColumns)
	}
	for _, v := range t.inputs {
		if len(v.Shape) > 0 && v.Shape[0].Size > 0 {
			t.fixed = int(v.Shape[0].Size)
		}
	}
	return t, t.run(ctx, m, o)
}

func (t *tables) run(ctx context.Context, m *graph.Model, o ort.Options) error {
	g := m.Clone()
	b := graph.NewBuilder(g.Graph, "cfq.table.")
	var names []string
	for _, f := range t.z.boundaries {
		f.rows, f.unknown = nil, map[int][]float64{}
		names = append(names, b.Op("Cast", []string{f.value}, graph.IntAttr("to", int64(graph.Double))))
	}
	if len(names) == 0 {
		return nil
	}
	o.Level = ort.Disabled
	var err error
	if t.s, err = ort.OpenValues(g, o, names...); err != nil {
		return err
	}
	defer t.s.Close() //nolint:errcheck // nothing was written
	for rows := range slices.Chunk(t.rows, cmp.Or(t.fixed, min(len(t.rows), maxTrials))) {
		batch := cmp.Or(t.fixed, len(rows))
		out, err := t.ask(ctx, rows, batch)
		if err != nil {
			return fmt.Errorf("the model does not run on the categories of its columns: %w", err)
		}
		for i, f := range t.z.boundaries {
			if err := f.collect(out[i], batch, len(rows), t.z.numbers(f.value)); err != nil {
				return err
			}
		}
	}
	return t.others(ctx)
}

func (t *tables) ask(ctx context.Context, rows []categoryRow, batch int) ([]*graph.Tensor, error) {
	in := make([]*graph.Tensor, len(t.inputs))
	for i, v := range t.inputs {
		var err error
		in[i], err = feed(v, t.z.columns, batch, func(row, column int) string {
			if r := rows[min(row, len(rows)-1)]; r.column == column {
				return r.value
			}
			return t.z.columns[column].base()
		})
		if err != nil {
			return nil, err
		}
	}
	return t.s.Run(ctx, in)
}

const maxTrials = 4096

// others runs values that are no category. A column whose look-ups refuse one, or take two of them for different
// things, is strict: in what is written another category is an error, and not in silence something else. The empty text
// is a category, or a category of its own, where it is not what any other text is.
func (t *tables) others(ctx context.Context) error {
	for i := range t.z.columns {
		c := &t.z.columns[i]
		var blank, first [][]float64
		var err error
		if c.DType == graph.String && c.Values != nil && !slices.Contains(c.Values, "") {
			if blank, err = t.other(ctx, i, ""); err != nil {
				return err
			}
			c.Blank = t.category(i, blank)
		}
		for k, u := range c.unknown() {
			all, err := t.other(ctx, i, u)
			if err != nil {
				return err
			}
			if k == 0 {
				first = all
			}
			if c.Strict = all == nil || !slices.EqualFunc(first, all, slices.Equal); c.Strict {
				break
			}
		}
		if c.Strict {
			if c.FromEnd, err = t.fromEnd(ctx, i); err != nil {
				return err
			}
		}
		c.blank = blank != nil && c.Blank == "" && (c.Strict || !slices.EqualFunc(first, blank, slices.Equal))
		for k, f := range t.z.boundaries {
			if !c.Strict && first != nil && f.rows != nil {
				f.unknown[i] = first[k]
			}
		}
	}
	return nil
}

// fromEnd reports whether a column's look-ups are those of Gather, as far as n, -n and -1 show: the categories are 0 to
// n-1, which -n to -1 stand for as well, and n is refused.
func (t *tables) fromEnd(ctx context.Context, column int) (bool, error) {
	c := &t.z.columns[column]
	n := len(c.Values)
	if !c.consecutive() || c.Values[0] != "0" || c.unsigned() {
		return false, nil
	}
	for _, v := range []int{n, -n, -1} {
		all, err := t.other(ctx, column, strconv.Itoa(v))
		if err != nil || (v < 0) != (all != nil) || v < 0 && !t.same(t.from[column]+n+v, all) {
			return false, err
		}
	}
	return true, nil
}

func (c *Column) unsigned() bool { return strings.HasPrefix(c.DType.String(), "u") }

func (t *tables) same(row int, given [][]float64) bool {
	for i, f := range t.z.boundaries {
		if f.rows != nil && !slices.Equal(f.rows[row], given[i]) {
			return false
		}
	}
	return true
}

func (t *tables) other(ctx context.Context, column int, given string) (all [][]float64, err error) {
	out, err := t.ask(ctx, []categoryRow{{column, given}}, max(1, t.fixed))
	if err != nil {
		return nil, ctx.Err()
	}
	for k, f := range t.z.boundaries {
		v, err := out[k].Doubles()
		if err != nil {
			return nil, err
		}
		if f.rows != nil {
			if len(v) < len(f.rows[0]) {
				return nil, fmt.Errorf("the value %q has another shape for a category of column %q that is not known", f.value,
					t.z.columns[column].Name)
			}
			v = v[:len(f.rows[0])]
		}
		all = append(all, v)
	}
	return all, nil
}

func (t *tables) category(column int, given [][]float64) string {
	for k, v := range t.z.columns[column].Values {
		if given != nil && t.same(t.from[column]+k, given) {
			return v
		}
	}
	return ""
}

func (f *boundary) collect(out *graph.Tensor, batch, rows int, numbers bool) error {
	v, err := out.Doubles()
	if err != nil {
		return err
	}
	if len(out.Dims) == 0 || out.Dims[0] != int64(batch) {
		return fmt.Errorf("the value %q, which is made of categories, has the shape %v for %d rows", f.value, out.Dims, batch)
	}
	if f.dims = out.Dims[1:]; numbers {
		return nil
	}
	size := len(v) / batch
	for i := range rows {
		f.rows = append(f.rows, v[i*size:(i+1)*size])
	}
	return nil
}

func feed(v graph.Value, columns []Column, rows int, value func(row, column int) string) (*graph.Tensor, error) {
	dims, size := sizesOf(v)
	dims = append([]int64{int64(rows)}, dims...)
	first := slices.IndexFunc(columns, func(c Column) bool { return c.Input == v.Name })
	t := &graph.Tensor{Name: v.Name, DType: v.DType, Dims: dims}
	numbers, whole := make([]float64, rows*size), make([]int64, rows*size)
	exact := v.DType == graph.Int64 // whose large numbers a float64 does not tell apart
	for i := range numbers {
		s := ""
		switch {
		case first >= 0:
			s = value(i/size, first+i%size)
		case v.DType != graph.String: // nothing reads it
			s = "0"
		}
		if v.DType == graph.String {
			t.Strings = append(t.Strings, []byte(s))
			continue
		}
		var err, inexact error
		if numbers[i], err = strconv.ParseFloat(s, 64); err != nil {
			return nil, fmt.Errorf("input %q holds %s, and the model looks up %q in it", v.Name, v.DType, s)
		}
		whole[i], inexact = strconv.ParseInt(s, 10, 64)
		exact = exact && inexact == nil
	}
	switch {
	case exact:
		return graph.FromInts(v.Name, whole, dims...), nil
	case v.DType == graph.String:
		return t, nil
	}
	if t = graph.FromValues(v.Name, v.DType, numbers, dims...); t == nil {
		return nil, fmt.Errorf("input %q holds %s, which cannot be fed", v.Name, v.DType)
	}
	return t, nil
}

type columnBlock struct {
	column   int // -1: constants
	from, to int
}

func (t *tables) blocks(f *boundary) ([]columnBlock, error) {
	elems := t.z.elems[f.value]
	if t.z.numbers(f.value) {
		return join(t.z.columns, lists.Map(elems, func(e elem) int { return e.column })), nil
	}
	owner := make([]int, len(f.rows[0]))
	for e := range owner {
		owner[e] = -1
		if len(elems) == len(owner) && elems[e].column >= 0 && elems[e].shift == 0 &&
			t.z.columns[elems[e].column].Values == nil {
			owner[e] = elems[e].column // a number among categories
		}
	}
	for _, c := range t.z.depends[f.value] {
		if t.z.columns[c].Values == nil && !slices.Contains(owner, c) {
			return nil, fmt.Errorf("column %q holds whole numbers, of which the value %q is not made by looking up: export it "+
				"as float", t.z.columns[c].Name, f.value)
		}
	}
	others := func(column int, row []float64) error {
		for e, v := range row {
			if usual := f.rows[0][e]; v == usual || math.IsNaN(v) && math.IsNaN(usual) || owner[e] == column {
				continue
			}
			if owner[e] >= 0 {
				return fmt.Errorf("the value %q depends on the columns %q and %q together: a table of each is needed",
					f.value, t.z.columns[owner[e]].Name, t.z.columns[column].Name)
			}
			owner[e] = column
		}
		return nil
	}
	for i, r := range t.rows[1:] {
		if err := others(r.column, f.rows[i+1]); err != nil {
			return nil, err
		}
	}
	for i := range t.z.columns {
		if err := others(i, f.unknown[i]); err != nil {
			return nil, err
		}
	}
	return join(t.z.columns, owner), nil
}

func join(columns []Column, owner []int) []columnBlock {
	var out []columnBlock
	category := func(c int) bool { return c >= 0 && columns[c].Values != nil }
	for e, c := range owner {
		last := len(out) - 1
		switch {
		case last >= 0 && (category(c) || c < 0) && out[last].column == c, last >= 0 && c < 0 && category(out[last].column):
			out[last].to = e + 1
		case last >= 0 && out[last].column < 0 && category(c):
			out[last] = columnBlock{c, out[last].from, e + 1}
		default:
			out = append(out, columnBlock{c, e, e + 1})
		}
	}
	return out
}

func (t *tables) rewrite(g *graph.Graph) error {
	b := graph.NewBuilder(g, "")
	nodes := g.Nodes
	g.Nodes = nil
	t.x = b.Name("columns")
	b.Prefix = "cfq.columns."
	batch := graph.Dim{Size: -1, Param: "N"}
	if t.fixed > 0 {
		batch = graph.Dim{Size: int64(t.fixed)}
	}
	inputs := g.DataInputs()
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v graph.Value) bool { return g.Init(v.Name) == nil })
	g.Inputs = append([]graph.Value{{
		Name: t.x, DType: graph.Float, Shape: graph.Shape{batch, {Size: int64(width(t.z.columns))}},
	}}, g.Inputs...)
	w := &lowering{tables: t, b: b, slices: map[[2]int]string{}}
	for _, v := range inputs {
		first := slices.IndexFunc(t.z.columns, func(c Column) bool { return c.Input == v.Name })
		if first >= 0 && v.DType.IsFloat() { // or nothing reads it
			dims, size := sizesOf(v)
			at := t.z.columns[first].First
			w.finish(w.slice(at, at+size), dims, v.DType, v.Name)
		}
	}
	if err := errors.Join(lists.Map(t.z.boundaries, w.boundary)...); err != nil {
		return err
	}
	shapes := map[string]string{}
	for _, v := range t.z.shaped {
		i := slices.IndexFunc(inputs, func(in graph.Value) bool { return in.Name == v })
		if i < 0 || shapes[v] != "" {
			continue
		}
		dims, size := sizesOf(inputs[i])
		shapes[v] = b.Name("shape")
		w.finish(w.slice(0, size), dims, graph.Undefined, shapes[v])
	}
	made, floats := map[string]bool{}, map[string]bool{}
	for _, f := range t.z.boundaries {
		made[f.value] = true
	}
	for _, n := range g.Nodes {
		for _, o := range n.Outputs {
			floats[o] = !n.Is("Cast")
		}
	}
	for _, n := range nodes {
		if slices.ContainsFunc(n.Outputs, func(o string) bool { return made[o] || t.z.class[o] == raw }) {
			continue
		}
		for i, in := range n.Inputs {
			// What counts with integers gets integers; a gradient has no use for it.
			if made[in] && t.z.numbers(in) && !n.Is("Cast") {
				n.Inputs[i] = w.b.Op("Cast", []string{in}, graph.IntAttr("to", int64(t.z.types[in].DType)))
			}
		}
		if n.Is("Cast") && graph.DType(n.Int("to", 0)) == graph.Float && floats[n.Input(0)] {
			n.Op, n.Attrs = "Identity", nil
		}
		if by := shapes[n.Input(0)]; by != "" && (n.Is("Shape") || n.Is("Size")) {
			n.Inputs[0] = by
		}
		g.Nodes = append(g.Nodes, n)
	}
	extractors(g)
	for _, v := range inputs { // what replaces the file's inputs: those come back
		g.Rename(v.Name, b.Name(v.Name))
	}
	return nil
}

type lowering struct {
	*tables
	b      *graph.Builder
	slices map[[2]int]string
}

func (w *lowering) slice(from, to int) string {
	if from == 0 && to == width(w.z.columns) {
		return w.x
	}
	at := [2]int{from, to}
	if w.slices[at] == "" {
		bound := func(name string, v int) string { return w.b.Const(graph.FromInts(name, []int64{int64(v)}, 1)) }
		w.slices[at] = w.b.Op("Slice", []string{w.x, bound("from", from), bound("to", to), bound("axis", 1)})
	}
	return w.slices[at]
}

func (w *lowering) finish(v string, dims []int64, dtype graph.DType, name string) {
	if len(dims) != 1 {
		shape := graph.FromInts("shape", append([]int64{-1}, dims...), int64(len(dims)+1))
		v = w.b.Op("Reshape", []string{v, w.b.Const(shape)})
	}
	last := &graph.Node{Op: "Identity", Inputs: []string{v}, Outputs: []string{name}}
	if dtype != graph.Float && dtype != graph.Undefined {
		last.Op, last.Attrs = "Cast", []graph.Attr{graph.IntAttr("to", int64(dtype))}
	}
	w.b.Append(last)
}

func (w *lowering) boundary(f *boundary) error {
	blocks, err := w.blocks(f)
	if err != nil {
		return err
	}
	var parts []string
	for i := 0; i < len(blocks); i++ {
		p := blocks[i]
		if p.column >= 0 && w.z.columns[p.column].Values == nil {
			from := w.z.columns[p.column].First
			to := from + 1
			for ; i+1 < len(blocks) && blocks[i+1].column == blocks[i].column+1 &&
				w.z.columns[blocks[i+1].column].Values == nil; i++ {
				to++
			}
			parts = append(parts, w.slice(from, to))
			continue
		}
		parts = append(parts, w.category(f, p))
	}
	v := parts[0]
	if len(parts) > 1 {
		v = w.b.Op("Concat", parts, graph.IntAttr("axis", 1))
	}
	dtype := f.dtype
	if !dtype.IsFloat() && !slices.ContainsFunc(blocks, func(p columnBlock) bool {
		return p.column < 0 || w.z.columns[p.column].Values != nil
	}) {
		dtype = graph.Undefined // numbers, which what reads them makes floats of anyway
	}
	w.finish(v, f.dims, dtype, f.value)
	return nil
}

func (w *lowering) category(f *boundary, p columnBlock) string {
	rows, size := f.rows, p.to-p.from
	if p.column < 0 {
		zero := w.b.Op("Mul", []string{w.slice(0, 1), w.b.Const(graph.FromFloats("zero", []float32{0}))})
		row := rows[0][p.from:p.to]
		return w.b.Op("Add", []string{zero, w.b.Const(graph.FromNumbers("row", graph.Float, row, 1, int64(size)))})
	}
	c := &w.z.columns[p.column]
	n := len(c.Values)
	table := make([]float64, 0, n*size)
	unknown := make([]float64, size)
	if u := f.unknown[p.column]; u != nil {
		copy(unknown, u[p.from:p.to])
	}
	identity := n == size
	for i := range n {
		for k, v := range rows[w.from[p.column]+i][p.from:p.to] {
			table = append(table, v-unknown[k])
			identity = identity && (i == k && v == 1 || i != k && v == 0)
		}
	}
	biased := slices.ContainsFunc(unknown, func(u float64) bool { return u != 0 })
	x := w.slice(c.First, c.First+n)
	if identity && !biased {
		return x
	}
	x = w.b.Op("MatMul", []string{x, w.b.Const(graph.FromNumbers("table", graph.Float, table, int64(n), int64(size)))})
	if biased {
		x = w.b.Op("Add", []string{x, w.b.Const(graph.FromNumbers("unknown", graph.Float, unknown, 1, int64(size)))})
	}
	return x
}

func axis(n *graph.Node, rank int) int {
	axis := int(n.Int("axis", 0))
	if axis < 0 {
		axis += rank
	}
	return min(max(axis, 0), rank-1)
}
