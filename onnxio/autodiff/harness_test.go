package autodiff_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// operand is an input of the operator under test: a variable with values drawn
// from lo..hi (kinks are kept at a distance), or a constant.
type operand struct {
	shape    string // "N 3": sizes, "N" is the batch
	lo, hi   float64
	away     []float64 // kinks of the function
	constant *graph.Tensor
	values   []float64 // in place of random ones
	absent   bool
	dtype    graph.DType // 0: that of the bench
}

func in(shape string) operand { return operand{shape: shape, lo: -2, hi: 2} }

func (o operand) within(lo, hi float64) operand { o.lo, o.hi = lo, hi; return o }
func ints(v ...int64) operand                   { return operand{constant: graph.FromInts("", v, int64(len(v)))} }

func absent() operand { return operand{absent: true} }
func mask(v []byte, dims ...int64) operand {
	return operand{constant: &graph.Tensor{DType: graph.Bool, Dims: dims, Raw: v}}
}

func table(dims []int64, v ...int64) operand {
	return operand{constant: graph.FromInts("", v, dims...)}
}

func reals(v ...float32) operand { return operand{constant: graph.FromFloats("", v, int64(len(v)))} }

func attrs(a ...graph.Attr) []graph.Attr      { return a }
func number(name string, v int64) graph.Attr  { return graph.IntAttr(name, v) }
func real(name string, v float32) graph.Attr  { return graph.FloatAttr(name, v) }
func word(name, v string) graph.Attr          { return graph.StringAttr(name, v) }
func list(name string, v ...int64) graph.Attr { return graph.IntsAttr(name, v...) }

type sample struct {
	op     string
	note   string
	in     []operand
	attrs  []graph.Attr
	outs   int     // outputs of the node; 0 means 1
	use    []int   // outputs that the function sums; nil means the first
	opset  int64   // 0 means 18
	single bool    // ONNX Runtime has the operator in float only
	linear bool    // second derivatives need not be looked at
	grid   float64 // values are multiples of it; see precision
	rounds bool    // what is computed on the grid leaves it
}

func (s sample) name() string {
	var parts []string
	for _, o := range s.in {
		if o.constant == nil {
			parts = append(parts, strings.ReplaceAll(o.shape, " ", "x"))
		}
	}
	return strings.Trim(s.op+" "+strings.Join(parts, ",")+" "+s.note, " ")
}

func shapeOf(s string) graph.Shape {
	out := graph.Shape{}
	for _, f := range strings.Fields(s) {
		var n int64
		if _, err := fmt.Sscan(f, &n); err != nil {
			out = append(out, graph.Dim{Size: -1, Param: f})
		} else {
			out = append(out, graph.Dim{Size: n})
		}
	}
	return out
}

type tb interface {
	rapid.TB
	Cleanup(func())
}

type bench struct {
	t      tb
	rt     ort.Options
	g      *graph.Graph
	types  graph.Types
	dtype  graph.DType
	opset  int64
	batch  int64
	sizes  map[string][]int64 // measured, of values whose shape is not known
	in     map[string][]float64
	rng    *rand.Rand
	grid   float64 // values are multiples of it; 0 means any
	rounds bool
}

func newBench(t tb, rt ort.Options, dtype graph.DType, opset, batch int64) *bench {
	t.Helper()
	if opset == 0 {
		opset = 18
	}
	return &bench{
		t: t, rt: rt, g: &graph.Graph{Name: "test"}, types: graph.Types{}, dtype: dtype, opset: opset, batch: batch,
		sizes: map[string][]int64{}, in: map[string][]float64{}, rng: rand.New(rand.NewPCG(1, 2)),
	}
}

func (b *bench) dims(s graph.Shape) []int64 {
	out := make([]int64, len(s))
	for i, d := range s {
		out[i] = d.Size
		if d.Size < 0 {
			_, times := d.Multiple()
			out[i] = b.batch * times
		}
	}
	return out
}

func (b *bench) count(s graph.Shape) int {
	n := int64(1)
	for _, d := range b.dims(s) {
		n *= d
	}
	return int(n)
}

func (b *bench) input(name string, o operand) {
	t := graph.Type{DType: b.dtype, Shape: shapeOf(o.shape)}
	if o.dtype != 0 {
		t.DType = o.dtype
	}
	b.declare(name, t, b.count(t.Shape), o)
}

func (b *bench) declare(name string, t graph.Type, n int, o operand) {
	b.g.Inputs = append(b.g.Inputs, graph.Value{Name: name, DType: t.DType, Shape: t.Shape})
	b.types[name] = t
	v := make([]float64, n)
	for i := range v {
		v[i] = o.draw(b.rng)
		if b.grid > 0 {
			v[i] = math.Round(v[i]/b.grid) * b.grid
		}
	}
	copy(v, o.values)
	b.in[name] = v
}

func (b *bench) like(name, of string) {
	b.t.Helper()
	t := b.types[of]
	dims := b.dims(t.Shape)
	if slices.ContainsFunc(t.Shape, func(d graph.Dim) bool { return d.Size < 0 && d.Param == "" }) {
		r := b.open(of)
		r.run()
		dims = b.sizes[of]
		b.sizes[name] = dims
	}
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	b.declare(name, t, int(n), in("").within(0.5, 1.5))
}

func (o operand) draw(rng *rand.Rand) float64 {
	for {
		v := o.lo + (o.hi-o.lo)*rng.Float64()
		if !slices.ContainsFunc(o.away, func(k float64) bool { return math.Abs(v-k) < 0.05 }) {
			return v
		}
	}
}

func (b *bench) add(s sample) (vars, outs []string) {
	b.t.Helper()
	n := &graph.Node{Name: "node", Op: s.op, Attrs: s.attrs}
	for i, o := range s.in {
		name := fmt.Sprintf("x%d", i)
		switch {
		case o.absent:
			name = ""
		case o.constant != nil:
			c := *o.constant
			c.Name = name
			b.g.Inits = append(b.g.Inits, &c)
		default:
			b.input(name, o)
			vars = append(vars, name)
		}
		n.Inputs = append(n.Inputs, name)
	}
	for i := range max(1, s.outs) {
		n.Outputs = append(n.Outputs, fmt.Sprintf("y%d", i))
	}
	b.g.Nodes = append(b.g.Nodes, n)
	if err := autodiff.Infer(b.g, b.types); err != nil {
		b.t.Fatal(err)
	}
	for _, i := range s.use {
		outs = append(outs, n.Outputs[i])
	}
	if outs == nil {
		outs = n.Outputs[:1]
	}
	return vars, outs
}

func (b *bench) grads(y string, wrt []string, o autodiff.Options) []string {
	b.t.Helper()
	names, err := autodiff.Gradients(b.g, b.types, y, wrt, o)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.g.Check(); err != nil {
		b.t.Fatalf("the graph is broken: %v", err)
	}
	return names
}

type runner struct {
	b *bench
	s *ort.Session
}

func (b *bench) open(outputs ...string) *runner {
	b.t.Helper()
	s, err := b.tryOpen(outputs...)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, dump(b.g))
	}
	return &runner{b, s}
}

func (b *bench) tryOpen(outputs ...string) (*ort.Session, error) {
	g := b.g.Clone()
	g.Outputs = nil
	for _, o := range outputs {
		g.Outputs = append(g.Outputs, graph.Value{Name: o, DType: b.types[o].DType, Shape: b.types[o].Shape})
	}
	m := &graph.Model{IRVersion: 9, Opsets: []graph.Opset{{Version: b.opset}}, Graph: g}
	s, err := ort.Open(m, b.rt)
	if err == nil {
		b.t.Cleanup(func() { s.Close() })
	}
	return s, err
}

func (r *runner) run() map[string][]float64 {
	r.b.t.Helper()
	var in []*graph.Tensor
	for _, v := range r.b.g.Inputs {
		in = append(in, r.b.tensor(v.Name))
	}
	ts, err := r.s.Run(context.Background(), in)
	if err != nil {
		r.b.t.Fatalf("%v\n%s", err, dump(r.b.g))
	}
	out := map[string][]float64{}
	for _, t := range ts {
		v, err := t.Doubles()
		if err != nil {
			r.b.t.Fatal(err)
		}
		for i, d := range r.b.types[t.Name].Shape {
			if d.Size < 0 && d.Param == "" {
				r.b.sizes[t.Name] = t.Dims
			} else if r.b.dims(graph.Shape{d})[0] != t.Dims[i] {
				r.b.t.Errorf("%s has shape %v, but was inferred as %v", t.Name, t.Dims, r.b.types[t.Name])
			}
		}
		out[t.Name] = v
	}
	return out
}

func (b *bench) tensor(name string) *graph.Tensor {
	v, dims := b.in[name], b.dims(b.types[name].Shape)
	if measured := b.sizes[name]; measured != nil {
		dims = measured
	}
	if b.types[name].DType == graph.Double {
		return graph.FromNumbers(name, graph.Double, v, dims...)
	}
	f := make([]float32, len(v))
	for i, x := range v {
		f[i] = float32(x)
	}
	return graph.FromFloats(name, f, dims...)
}

func (b *bench) differences(x string, h float64, f func() []float64) [][]float64 {
	v := b.in[x]
	var out [][]float64
	for i, at := range v {
		v[i] = at + h
		up := f()
		v[i] = at - h
		down := f()
		v[i] = at
		for k := range up {
			if i == 0 {
				out = append(out, make([]float64, len(v)))
			}
			out[k][i] = (up[k] - down[k]) / (2 * h)
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	var s float64
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func near(t tb, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	size := 1.0
	for _, w := range want {
		size = max(size, math.Abs(w))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol*size) {
			t.Errorf("%s: element %d is %.10g, central difference says %.10g\n got %.6g\nwant %.6g", what, i, got[i], want[i],
				got, want)
			return
		}
	}
}

func dump(g *graph.Graph) string {
	var w strings.Builder
	for _, t := range g.Inits {
		fmt.Fprintf(&w, "%s = %s%v %s\n", t.Name, t.DType, t.Dims, contents(t))
	}
	for _, n := range g.Nodes {
		fmt.Fprintf(&w, "%s = %s(%s)%s\n", strings.Join(n.Outputs, ", "), n.Op, strings.Join(n.Inputs, ", "), attributes(n))
	}
	return w.String()
}

func contents(t *graph.Tensor) string {
	if t.Len() > 8 {
		return "..."
	}
	if v, err := t.Doubles(); err == nil {
		return fmt.Sprint(v)
	}
	v, _ := t.Ints()
	return fmt.Sprint(v)
}

func attributes(n *graph.Node) string {
	all := map[string]string{}
	for _, a := range n.Attrs {
		switch a.Kind {
		case graph.AttrInt:
			all[a.Name] = fmt.Sprint(a.I)
		case graph.AttrFloat:
			all[a.Name] = fmt.Sprint(a.F)
		case graph.AttrInts:
			all[a.Name] = fmt.Sprint(a.Ints)
		case graph.AttrString:
			all[a.Name] = string(a.S)
		case graph.AttrTensor:
			all[a.Name] = contents(a.T)
		}
	}
	var s string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		s += fmt.Sprintf(" %s=%s", k, all[k])
	}
	return s
}
