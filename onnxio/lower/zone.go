package lower

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

type valueClass int8

const (
	computed valueClass = iota // numbers of the data among others: the model's own computation
	fixed                      // constants
	sizes                      // shapes of values
	raw                        // columns of texts or integers, and what is no number of them
)

type preprocessing struct {
	g          *graph.Graph
	constants  map[string]*graph.Tensor
	columns    []Column
	class      map[string]valueClass
	types      graph.Types
	returns    map[string]bool   // floats of raw values that become integers again, as an index counted from the end does
	elems      map[string][]elem // of raw values: what a row of them holds
	depends    map[string][]int  // columns that a raw value is made of
	tables     []tableSizes
	boundaries []*boundary
	shaped     []string // raw values whose shape the computation asks for
	errs       []error
}

// elem is an element of a raw value: a column, with a number added.
type elem struct {
	column int // -1 is something else
	shift  int64
}

type tableSizes struct {
	elems []elem
	rows  int64
}

// boundary is a value that the computation gets of the columns, and what a run shows of it.
type boundary struct {
	value string
	dtype graph.DType // that the computation wants; Undefined is any float
	dims  []int64     // of its row
	rows  [][]float64 // what it is for each of tables.rows; nil where it is numbers of the data
	// unknown is what it is where a column has none of its categories, by column.
	unknown map[int][]float64
}

func preprocessingOf(m *graph.Model, o ort.Options) (z *preprocessing, err error) {
	g := m.Graph
	z = &preprocessing{
		g: g, constants: g.Constants(), class: map[string]valueClass{},
		elems: map[string][]elem{}, depends: map[string][]int{},
	}
	read := used(g.Nodes)
	for _, v := range g.DataInputs() {
		if read[v.Name] { // what only stands in the file is no column
			z.errs = append(z.errs, z.input(v))
		}
	}
	if err = errors.Join(z.errs...); err != nil {
		return nil, err
	}
	if len(z.columns) == 0 {
		return nil, errors.New("the model reads none of its inputs")
	}
	if z.types, err = ort.Types(m, o); err != nil {
		return nil, fmt.Errorf("the model does not run: %w", err)
	}
	for _, t := range g.Inits {
		z.class[t.Name] = fixed
	}
	z.spread()
	for _, n := range g.Nodes {
		z.move(n)
	}
	z.ranges()
	z.categories()
	categorical := func(c int) bool { return len(z.columns[c].domain) > 0 }
	z.classify(func(n *graph.Node) bool {
		return z.leaves(n) || !slices.ContainsFunc(z.depends[n.Outputs[0]], categorical) &&
			!slices.ContainsFunc(n.Outputs, z.numbers)
	})
	for _, n := range g.Nodes {
		z.border(n)
	}
	return z, errors.Join(z.errs...)
}

func (z *preprocessing) input(v graph.Value) error {
	if v.DType.Bits() < 8 && v.DType != graph.String {
		return fmt.Errorf("input %q holds %s; texts, integers or floats are needed", v.Name, v.DType)
	}
	if len(v.Shape) == 0 {
		return fmt.Errorf("input %q has the shape %v; rows, or rows x columns, are needed", v.Name, v.Shape)
	}
	n := int64(1)
	for i, d := range v.Shape[1:] {
		if d.Size <= 0 {
			return fmt.Errorf("input %q has the dimension %d %q; only the first may be dynamic", v.Name, i+1, d.Param)
		}
		if n *= d.Size; n > maxColumns {
			return fmt.Errorf("input %q has the absurd shape %v", v.Name, v.Shape)
		}
	}
	var elems []elem
	var columns []int
	for i := range int(n) {
		elems, columns = append(elems, elem{column: len(z.columns)}), append(columns, len(z.columns))
		name := v.Name
		if n > 1 {
			name = fmt.Sprintf("%s[%d]", name, i)
		}
		z.columns = append(z.columns, Column{Input: v.Name, Name: name, DType: v.DType})
	}
	if !v.DType.IsFloat() {
		z.class[v.Name], z.elems[v.Name], z.depends[v.Name] = raw, elems, columns
	}
	return nil
}

const maxColumns = 1 << 20

// spread finds what every value is made of: first as if all that is made of columns were raw, then with floats that
// the computation gets left to it.
func (z *preprocessing) spread() {
	z.returns = map[string]bool{}
	given := maps.Clone(z.class)
	z.classify(func(*graph.Node) bool { return false })
	for _, n := range slices.Backward(z.g.Nodes) {
		back := z.class[n.Outputs[0]] == raw && !z.float(n)
		for _, o := range n.Outputs {
			back = back || z.returns[o]
		}
		if mixes(n) {
			continue // what a layer makes of columns is the computation, whatever is compared behind it
		}
		for _, in := range n.Inputs {
			z.returns[in] = z.returns[in] || back
		}
	}
	z.class = given
	z.classify(z.leaves)
}

func (z *preprocessing) classify(leaves func(n *graph.Node) bool) {
	for _, n := range z.g.Nodes {
		made := z.of(n)
		if made == raw && leaves(n) {
			made = computed
		}
		for _, o := range n.Outputs {
			z.class[o] = made
		}
	}
}

func mixes(n *graph.Node) bool {
	switch n.Op {
	case "MatMul", "Gemm", "Einsum", "Conv", "Attention", "Softmax", "LogSoftmax", "LayerNormalization",
		"InstanceNormalization", "GroupNormalization", "RMSNormalization", "LpNormalization", "ArgMax", "TopK", "CumSum":
		return true
	}
	return strings.HasPrefix(n.Op, "Reduce")
}

func (z *preprocessing) of(n *graph.Node) valueClass {
	var have [4]bool
	for _, in := range n.Inputs {
		c := z.class[in]
		have[c] = have[c] || in != ""
	}
	switch {
	case n.Is("Shape") || n.Is("Size"):
		return sizes
	case have[computed] || have[sizes] && !have[raw] && z.float(n):
		return computed
	case have[raw]:
		return raw
	case have[sizes]:
		return sizes
	}
	return fixed
}

func (z *preprocessing) leaves(n *graph.Node) bool {
	return z.float(n) && !slices.ContainsFunc(n.Outputs, func(o string) bool { return z.returns[o] })
}

func (z *preprocessing) move(n *graph.Node) {
	if slices.ContainsFunc(n.Inputs, func(in string) bool { return z.class[in] == raw }) {
		z.lookup(n)
	}
	columns := lists.Join(n.Inputs, func(in string) []int { return z.depends[in] })
	slices.Sort(columns)
	columns = slices.Compact(columns)
	for i, o := range n.Outputs {
		if columns == nil {
			continue
		}
		z.depends[o] = columns
		if e := z.moved(n, i); len(e) <= maxColumns {
			z.elems[o] = e
		}
	}
}

func (z *preprocessing) border(n *graph.Node) {
	var from []string
	own := false // a part of the computation
	for _, in := range n.Inputs {
		if z.class[in] == raw {
			from = append(from, in)
		} else {
			own = own || in != "" && z.class[in] == computed
		}
	}
	switch made := z.class[n.Outputs[0]]; {
	case len(from) == 0 || made == raw:
	case made == sizes:
		z.shaped = append(z.shaped, from...)
	case !own && slices.ContainsFunc(from, func(in string) bool { return !z.numbers(in) }):
		for _, o := range n.Outputs {
			z.boundaries = append(z.boundaries, &boundary{value: o, dtype: z.types[o].DType})
		}
	default: // numbers become floats in front of the node
		for _, in := range from {
			z.front(in)
		}
	}
}

func (z *preprocessing) front(value string) {
	if slices.ContainsFunc(z.boundaries, func(f *boundary) bool { return f.value == value }) {
		return
	}
	f := &boundary{value: value, dtype: z.types[value].DType}
	if f.dtype == graph.String {
		z.errs = append(z.errs, fmt.Errorf("the texts %q are computed with in a way that is not known", value))
	}
	z.boundaries = append(z.boundaries, f)
}

func (z *preprocessing) numbers(value string) bool {
	elems := z.elems[value]
	return len(elems) > 0 && z.types[value].DType != graph.String && !slices.ContainsFunc(elems, func(e elem) bool {
		return e.column < 0 || e.shift != 0 || len(z.columns[e.column].domain) > 0
	})
}

func (z *preprocessing) float(n *graph.Node) bool { return z.types[n.Outputs[0]].DType.IsFloat() }

func (z *preprocessing) moved(n *graph.Node, i int) (out []elem) {
	x := z.elems[n.Input(0)]
	index := func(at int) []int64 {
		if t := z.constants[n.Input(at)]; t != nil {
			v, _ := t.Ints()
			return v
		}
		return nil
	}
	size := int64(len(x))
	at := func(k int64) int64 { // of a bound, which may count from the end
		if k < 0 {
			k += size
		}
		return min(max(k, 0), size)
	}
	switch n.Op {
	case "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Expand":
		return x
	case "Concat":
		return lists.Join(n.Inputs, func(in string) []elem { return z.elems[in] })
	case "Mul", "Min", "Max", "Clip", "Where", "Mod", "BitwiseAnd":
		// Of a column as it is and something in its place, such as an index counted from the end, the former.
		return z.plainest(n)
	case "Gather", "ArrayFeatureExtractor":
		for _, k := range index(1) {
			if k = at(k); k < size {
				out = append(out, x[k])
			}
		}
	case "Slice":
		if k := sliced(index(1), index(2), index(3), index(4)); k >= 0 {
			from := at(index(1)[k])
			return x[from:max(from, at(index(2)[k]))]
		}
	case "Split":
		parts := index(1)
		if parts == nil {
			parts = slices.Repeat([]int64{size / int64(len(n.Outputs))}, len(n.Outputs))
		}
		from := int64(0)
		for k, part := range parts {
			to := min(max(from+part, from), size)
			if k == i {
				return x[from:to]
			}
			from = to
		}
	case "Add", "Sub":
		if z.class[n.Input(0)] == raw && z.class[n.Input(1)] == raw {
			return z.plainest(n)
		}
		by, sign := index(1), int64(1)
		if x == nil && n.Op == "Add" {
			x, by = z.elems[n.Input(1)], index(0)
		}
		if n.Op == "Sub" {
			sign = -1
		}
		if len(x) == 0 || len(by) == 0 || len(by) != 1 && len(x) != 1 && len(by) != len(x) {
			return nil
		}
		return lists.Make(max(len(x), len(by)), func(k int) elem {
			return elem{x[k%len(x)].column, x[k%len(x)].shift + sign*by[k%len(by)]}
		})
	}
	return out
}

// sliced returns which entry of a Slice's axes is that of the columns, -1 where it leaves out rows, too, or steps over
// columns. Two axes are how TensorFlow's exporters write x[:, 3].
func sliced(from, to, axes, steps []int64) int {
	if len(from) == 0 || len(from) != len(to) || slices.ContainsFunc(steps, func(s int64) bool { return s != 1 }) {
		return -1
	}
	if len(from) == 1 {
		return 0
	}
	rows := slices.Index(axes, 0)
	if len(from) != 2 || len(axes) != 2 || rows < 0 || from[rows] != 0 || to[rows] < math.MaxInt32 {
		return -1
	}
	return 1 - rows
}

// plainest returns the elements of that input of a node in which columns are most like they are.
func (z *preprocessing) plainest(n *graph.Node) (best []elem) {
	far := func(list []elem) (sum int64) {
		for _, e := range list {
			sum += max(e.shift, -e.shift)
		}
		return sum
	}
	for _, in := range n.Inputs {
		if e := z.elems[in]; len(e) > 0 && (best == nil || far(e) < far(best)) {
			best = e
		}
	}
	return best
}

func (z *preprocessing) lookup(n *graph.Node) {
	known, x := keys(n), z.elems[n.Input(0)]
	switch n.Op {
	case "Equal":
		for i, in := range n.Inputs {
			if z.class[in] != raw || len(n.Inputs) != 2 {
				continue
			}
			// Another integer than a single one that is asked for may be any; a list of them is a one-hot.
			if asked := texts(z.constants[n.Input(1-i)]); len(asked) > 1 || z.types[in].DType == graph.String {
				known, x = asked, z.elems[in]
			}
		}
	case "OneHot":
		if depth := texts(z.constants[n.Input(1)]); len(depth) == 1 {
			if rows, err := strconv.ParseInt(depth[0], 10, 64); err == nil {
				z.tables = append(z.tables, tableSizes{x, rows})
			}
		}
	case "Gather", "GatherElements":
		if z.class[n.Input(1)] == raw {
			table, s := z.class[n.Input(0)], z.types[n.Input(0)].Shape
			if (table == fixed || table == sizes) && len(s) > 0 && s[axis(n, len(s))].Size > 0 {
				z.tables = append(z.tables, tableSizes{z.elems[n.Input(1)], s[axis(n, len(s))].Size})
			}
		}
	}
	for _, e := range x {
		if e.column < 0 {
			continue
		}
		c := &z.columns[e.column]
		c.refuses = c.refuses || n.Op == "OneHotEncoder" && n.Int("zeros", 1) == 0
		for _, k := range known {
			if v, err := strconv.ParseInt(k, 10, 64); err == nil && e.shift != 0 {
				k = strconv.FormatInt(v-e.shift, 10)
			}
			if !slices.Contains(c.domain, k) {
				c.domain = append(c.domain, k)
			}
		}
	}
}

func (z *preprocessing) ranges() {
	for _, t := range z.tables {
		shifts := lists.Map(t.elems, func(e elem) int64 { return e.shift })
		slices.Sort(shifts)
		shifts = append(slices.Compact(shifts), t.rows)
		for _, e := range t.elems {
			if e.column < 0 {
				continue
			}
			c, next := &z.columns[e.column], shifts[slices.Index(shifts, e.shift)+1]
			if next-e.shift > maxColumns {
				z.errs = append(z.errs, fmt.Errorf("column %q has %d categories", c.Name, next-e.shift))
				continue
			}
			for k := range next - e.shift {
				if v := strconv.FormatInt(k, 10); k >= int64(len(c.domain)) || !slices.Contains(c.domain, v) {
					c.domain = append(c.domain, v)
				}
			}
		}
	}
}

// categories gives the columns their categories. The empty text stands for what is not known: it is none, unless a run
// shows another.
func (z *preprocessing) categories() {
	for i := range z.columns {
		c := &z.columns[i]
		for _, v := range c.domain {
			if v != "" {
				c.Values = append(c.Values, v)
			}
		}
		if c.DType == graph.Bool && c.Values != nil {
			c.Values, c.refuses = []string{"0", "1"}, true
		}
		if c.DType == graph.String && c.Values == nil {
			z.errs = append(z.errs, fmt.Errorf("which texts input %q may hold is not known: no look-up of its values is in "+
				"the model", c.Input))
		}
		c.Strict = c.refuses
	}
	z.place()
}

func (z *preprocessing) place() {
	at := 0
	for i := range z.columns {
		z.columns[i].First = at
		at += z.columns[i].Width()
	}
}

func (z *preprocessing) blanks() (found bool) {
	for i := range z.columns {
		if c := &z.columns[i]; c.blank {
			c.Values, c.Strict, found = append(c.Values, ""), c.refuses, true
		}
	}
	z.place()
	return found
}
