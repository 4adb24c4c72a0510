package lower

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func lowered(t *testing.T, m *graph.Model) (*graph.Model, *Signature, error) {
	r, f := graph.NewRewriter(m.Clone(), nil), &Signature{}
	return r.Model, f, f.lower(t.Context(), r, ort.Options{})
}

func restored(f *Signature, m *graph.Model) *graph.Model {
	r := graph.NewRewriter(m.Clone(), nil)
	f.restore(r)
	return r.Model
}

type pipeline struct {
	b      *graph.Builder
	rng    *rand.Rand
	parts  []string
	width  int64
	strict map[string]bool // columns in which an unknown category is an error
	blank  map[string]bool // columns whose look-up knows the empty text
}

func newPipeline(seed uint64) *pipeline {
	return &pipeline{
		b:   graph.NewBuilder(&graph.Graph{Name: "g"}, ""),
		rng: rand.New(rand.NewPCG(seed, 5)), strict: map[string]bool{}, blank: map[string]bool{},
	}
}

func (p *pipeline) input(name string, t graph.DType, columns int64) string {
	p.b.G.Inputs = append(p.b.G.Inputs, graph.Value{
		Name: name, DType: t, Shape: graph.Shape{{Size: -1, Param: "rows"}, {Size: columns}},
	})
	return name
}

func (p *pipeline) ml(op string, inputs []string, attrs ...graph.Attr) string {
	out := p.b.Name(strings.ToLower(op))
	p.b.Append(&graph.Node{Op: op, Domain: learning, Inputs: inputs, Outputs: []string{out}, Attrs: attrs})
	return out
}

func (p *pipeline) ints(v ...int64) string { return p.b.Const(graph.FromInts("i", v, int64(len(v)))) }

func (p *pipeline) floats(n int64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(p.rng.NormFloat64())
	}
	return v
}

func texts4(n int) graph.Attr {
	a := graph.Attr{Name: "cats_strings", Kind: graph.AttrStrings}
	for i := range n {
		a.Strings = append(a.Strings, []byte(fmt.Sprintf("value %c", 'a'+i)))
	}
	return a
}

func (p *pipeline) part(v string, width int64) {
	p.parts, p.width = append(p.parts, v), p.width+width
}

func (p *pipeline) oneHot(name string, k int) {
	x := p.input(name, graph.String, 1)
	v := p.ml("OneHotEncoder", []string{x}, texts4(k), p.zeros(name))
	p.part(p.b.Op("Reshape", []string{v, p.ints(-1, int64(k))}), int64(k))
}

func (p *pipeline) zeros(name string) graph.Attr {
	if p.strict[name] = p.rng.IntN(3) == 0; p.strict[name] {
		return graph.IntAttr("zeros", 0)
	}
	return graph.IntAttr("zeros", 1)
}

func (p *pipeline) ordinal(name string, k int) {
	x := p.input(name, graph.String, 1)
	keys, values := texts4(k), graph.IntsAttr("values_int64s", places(k)...)
	keys.Name = "keys_strings"
	v := p.ml("LabelEncoder", []string{x}, keys, values, graph.IntAttr("default_int64", -1))
	v = p.b.Op("Cast", []string{v}, graph.IntAttr("to", int64(graph.Float)))
	p.part(p.b.Op("Div", []string{v, p.b.Const(graph.FromFloats("c", []float32{3}))}), 1)
}

// filled is a column of texts of which the empty one is a category of its own, or taken for another, which may also be
// what all unknown texts are.
func (p *pipeline) filled(name string, k int) {
	p.blank[name] = true
	x, zeros := p.input(name, graph.String, 1), p.zeros(name)
	keys := texts4(k)
	keys.Strings = append(keys.Strings, nil)
	if p.rng.IntN(2) == 0 {
		v := p.ml("OneHotEncoder", []string{x}, keys, zeros)
		p.part(p.b.Op("Reshape", []string{v, p.ints(-1, int64(k+1))}), int64(k+1))
		return
	}
	keys.Name = "keys_strings"
	values := graph.IntsAttr("values_int64s", append(places(k), p.rng.Int64N(int64(k)))...)
	code := p.ml("LabelEncoder", []string{x}, keys, values, graph.IntAttr("default_int64", p.rng.Int64N(2)-1))
	v := p.ml("OneHotEncoder", []string{code}, graph.IntsAttr("cats_int64s", places(k)...), zeros)
	p.part(p.b.Op("Reshape", []string{v, p.ints(-1, int64(k))}), int64(k))
}

func (p *pipeline) numbers(t graph.DType, names ...string) {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = p.input(n, t, 1)
	}
	v := p.b.Op("Concat", all, graph.IntAttr("axis", 1))
	scale := graph.Attr{Name: "scale", Kind: graph.AttrFloats, Floats: p.floats(int64(len(names)))}
	offset := graph.Attr{Name: "offset", Kind: graph.AttrFloats, Floats: p.floats(int64(len(names)))}
	p.part(p.ml("Scaler", []string{v}, offset, scale), int64(len(names)))
}

func (p *pipeline) bins(name string) {
	x := p.b.Op("Cast", []string{p.input(name, graph.Int64, 1)}, graph.IntAttr("to", int64(graph.Float)))
	below := p.b.Op("Less", []string{x, p.b.Const(graph.FromFloats("edges", []float32{1, 3, 4}, 3))})
	p.part(p.b.Op("Cast", []string{below}, graph.IntAttr("to", int64(graph.Float))), 3)
}

// padded is a column of indices of which 0 has no embedding, beside a step of another column and texts nobody reads.
func (p *pipeline) padded(name string) {
	x := p.input(name, graph.Int64, 1)
	table := p.b.Const(graph.FromFloats("table", p.floats(10), 5, 2))
	v := p.b.Op("Reshape", []string{p.b.Op("Gather", []string{table, x}), p.ints(-1, 2)})
	is := p.b.Op("Not", []string{p.b.Op("Equal", []string{x, p.ints(0)})})
	p.part(p.b.Op("Mul", []string{v, p.b.Op("Cast", []string{is}, graph.IntAttr("to", int64(graph.Float)))}), 2)
	over := p.b.Op("Greater", []string{p.input(name+" amount", graph.Int64, 1), p.ints(4)})
	p.part(p.b.Op("Cast", []string{over}, graph.IntAttr("to", int64(graph.Float))), 1)
	p.input(name+" remark", graph.String, 1)
}

func (p *pipeline) embeddings(name string, shared bool, sizes ...int64) {
	x := p.input(name, graph.Int64, int64(len(sizes)))
	const dim = 3
	if shared {
		offsets := make([]int64, len(sizes))
		total := int64(0)
		for i, k := range sizes {
			offsets[i] = total
			total += k
		}
		at := p.b.Op("Add", []string{x, p.ints(offsets...)})
		table := p.b.Const(graph.FromFloats("table", p.floats(total*dim), total, dim))
		v := p.b.Op("Gather", []string{table, at})
		p.part(p.b.Op("Reshape", []string{v, p.ints(0, -1)}), int64(len(sizes))*dim)
		return
	}
	for i, k := range sizes {
		at := p.b.Op("Gather", []string{x, p.b.Const(graph.FromInts("at", []int64{int64(i)}))}, graph.IntAttr("axis", 1))
		// As Keras counts from the end.
		below := p.b.Op("Less", []string{at, p.b.Const(graph.FromInts("zero", []int64{0}))})
		end := p.b.Op("Add", []string{at, p.b.Const(graph.FromInts("size", []int64{k}))})
		at = p.b.Op("Where", []string{below, end, at})
		table := p.b.Const(graph.FromFloats("table", p.floats(k*dim), k, dim))
		p.part(p.b.Op("Gather", []string{table, at}), dim)
	}
}

func (p *pipeline) model(zipped bool) *graph.Model {
	x := p.b.Op("Concat", p.parts, graph.IntAttr("axis", 1))
	z := p.b.Op("Gemm", []string{
		x, p.b.Const(graph.FromFloats("w", p.floats(2*p.width), 2, p.width)),
		p.b.Const(graph.FromFloats("b", p.floats(2), 2)),
	}, graph.IntAttr("transB", 1))
	prob := p.b.Op("Softmax", []string{z}, graph.IntAttr("axis", 1))
	best := p.b.Op("ArgMax", []string{prob}, graph.IntAttr("axis", 1))
	classes := p.b.Const(&graph.Tensor{
		Name: "classes", DType: graph.String, Dims: []int64{2}, Strings: [][]byte{[]byte("no"), []byte("yes")},
	})
	label := p.ml("ArrayFeatureExtractor", []string{classes, best})
	label = p.b.Op("Reshape", []string{label, p.ints(-1)})
	p.b.G.Outputs = []graph.Value{
		{Name: label, DType: graph.String, Shape: graph.Shape{{Size: -1, Param: "rows"}}},
		{Name: prob, DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "rows"}, {Size: 2}}},
	}
	if zipped {
		labels := graph.Attr{Name: "classlabels_strings", Kind: graph.AttrStrings}
		labels.Strings = [][]byte{[]byte("no"), []byte("yes")}
		p.b.G.Outputs[1] = graph.Value{Name: p.ml("ZipMap", []string{prob}, labels)}
	}
	return &graph.Model{
		IRVersion: 10, Opsets: []graph.Opset{{Version: 21}, {Domain: learning, Version: 2}}, Graph: p.b.G,
	}
}

func random(seed uint64) *pipeline {
	p := newPipeline(seed)
	for i := range 1 + p.rng.IntN(5) {
		name := func(what string) string { return fmt.Sprint(what, i) }
		switch p.rng.IntN(9) {
		case 7:
			p.filled(name("filled"), 1+p.rng.IntN(4))
		case 0:
			p.oneHot(name("text"), 1+p.rng.IntN(5))
		case 1:
			p.ordinal(name("code"), 2+p.rng.IntN(4))
		case 2:
			p.numbers(graph.Int64, name("a"), name("b"))
		case 3:
			p.numbers(graph.Float, name("x"), name("y"), name("z"))
		case 6:
			p.padded(name("padded"))
		case 5:
			p.bins(name("bins"))
		case 4:
			p.embeddings(name("ids"), true, 2, 1+p.rng.Int64N(6), 4)
		default:
			p.embeddings(name("own"), false, 1+p.rng.Int64N(6), 2)
		}
	}
	return p
}

// TestRestoredIsTheFile lowers models of random columns, gives the lowered ones their inputs and outputs back, and runs
// both on rows of random categories, also unknown ones. (That the lowered model is the file, Lower itself checks.)
func TestRestoredIsTheFile(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	for seed := range uint64(40) {
		p := random(seed)
		m := p.model(seed%3 == 0)
		low, f, err := lowered(t, m)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		back := restored(f, low)
		var in []*graph.Tensor
		for _, v := range m.Graph.Inputs {
			tensor := must.Get(feed(v, f.Columns, 9, func(_, column int) string {
				c := &f.Columns[column]
				switch {
				case c.Values == nil:
					return fmt.Sprint(p.rng.IntN(9))
				case p.blank[c.Name] && p.rng.IntN(4) == 0:
					return ""
				case c.DType == graph.String && !p.strict[c.Name] && p.rng.IntN(4) == 0:
					return "another"
				}
				return c.Values[p.rng.IntN(len(c.Values))]
			}))(t)
			in = append(in, tensor)
		}
		want, got := run(t, m, in), run(t, back, in)
		for i := range want {
			if want[i].DType == graph.String {
				if !slices.EqualFunc(want[i].Strings, got[i].Strings, slices.Equal) {
					t.Errorf("seed %d: labels %q, want %q", seed, got[i].Strings, want[i].Strings)
				}
				continue
			}
			a, b := numbers(t, want[i]), numbers(t, got[i])
			for k := range a {
				if math.Abs(a[k]-b[k]) > 1e-5 {
					t.Fatalf("seed %d: output %d is %v, want %v", seed, i, b[k], a[k])
				}
			}
		}
	}
}

func run(t *testing.T, m *graph.Model, in []*graph.Tensor) []*graph.Tensor {
	t.Helper()
	s := must.Get(ort.Open(m, ort.Options{}))(t)
	defer s.Close() //nolint:errcheck // nothing was written
	var names []string
	for _, v := range m.Graph.Outputs {
		if v.DType != graph.Undefined {
			names = append(names, v.Name)
		}
	}
	return must.Get(s.Run(t.Context(), in, names...))(t)
}

func numbers(t *testing.T, v *graph.Tensor) []float64 {
	t.Helper()
	return must.Get(v.Numbers())(t)
}

func TestColumnsAndLabels(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	p := newPipeline(1)
	p.numbers(graph.Int64, "age", "income")
	p.oneHot("housing", 2)
	p.embeddings("cat", true, 3, 2)
	_, f, err := lowered(t, p.model(true))
	must.Do(t, err)
	var have []string
	for _, c := range f.Columns {
		have = append(have, fmt.Sprintf("%s %d %v", c.Name, c.First, c.Values))
	}
	want := []string{
		"age 0 []", "income 1 []", "housing 2 [value a value b]", "cat[0] 4 [0 1 2]", "cat[1] 7 [0 1]",
	}
	must.Same(t, want, have)
	must.Same(t, []string{"no", "yes"}, f.Labels)
}

func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	have := map[string]bool{}
	for seed := range uint64(20) {
		p := newPipeline(seed)
		p.filled("x", 2)
		_, f, err := lowered(t, p.model(false))
		must.Do(must.In(t, seed), err)
		have[fmt.Sprintf("%q %q strict %v", f.Columns[0].Values, f.Columns[0].Blank, f.Columns[0].Strict)] = true
	}
	for _, want := range []string{
		`["value a" "value b" ""] "" strict false`, `["value a" "value b" ""] "" strict true`,
		`["value a" "value b"] "value a" strict false`, `["value a" "value b"] "value b" strict true`,
	} {
		if !have[want] {
			t.Errorf("no %s among %v", want, have)
		}
	}
}

func TestLowerErrors(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	for want, build := range map[string]func(p *pipeline){
		`depends on the columns "one" and "two" together`: func(p *pipeline) { // a code of two columns
			a, b := p.input("one", graph.Int64, 1), p.input("two", graph.Int64, 1)
			for _, x := range []string{a, b} {
				table := p.b.Const(graph.FromFloats("table", p.floats(4), 4, 1))
				v := p.b.Op("Gather", []string{table, x})
				p.part(p.b.Op("Reshape", []string{v, p.ints(-1, 1)}), 1)
			}
			same := p.b.Op("Equal", []string{a, b})
			p.part(p.b.Op("Cast", []string{same}, graph.IntAttr("to", int64(graph.Float))), 1)
		},
		`which texts input "name" may hold is not known`: func(p *pipeline) {
			x := p.input("name", graph.String, 1)
			p.part(p.b.Op("Cast", []string{x}, graph.IntAttr("to", int64(graph.Float))), 1)
		},
		`input "x" has the dimension 1 "k"; only the first may be dynamic`: func(p *pipeline) {
			p.numbers(graph.Int64, "y")
			p.b.G.Inputs = append(p.b.G.Inputs, graph.Value{
				Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "n"}, {Size: -1, Param: "k"}},
			})
			p.part("x", 1)
		},
	} {
		p := newPipeline(2)
		build(p)
		_, _, err := lowered(t, p.model(false))
		must.Fail(t, err, want)
	}
}

func TestStandardOperators(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	list := func(name string, v ...float32) graph.Attr {
		return graph.Attr{Name: name, Kind: graph.AttrFloats, Floats: v}
	}
	linear := func(post string, coef []float32, bias ...float32) []graph.Attr {
		labels := graph.IntsAttr("classlabels_ints", []int64{4, 5, 6}[:max(2, len(bias))]...)
		return []graph.Attr{
			list("coefficients", coef...), list("intercepts", bias...), graph.StringAttr("post_transform", post), labels,
		}
	}
	nan := float32(math.NaN())
	for name, attrs := range map[string][]graph.Attr{
		"Scaler":                      {list("offset", 1, -2, 3), list("scale", 0.5, 2, -1)},
		"Normalizer L1":               {graph.StringAttr("norm", "L1")},
		"Normalizer L2":               {graph.StringAttr("norm", "L2")},
		"Imputer NaN":                 {list("imputed_value_floats", 7, 8, 9), graph.FloatAttr("replaced_value_float", nan)},
		"Imputer 0":                   {list("imputed_value_floats", 7, 8, 9), graph.FloatAttr("replaced_value_float", 0)},
		"Binarizer":                   {graph.FloatAttr("threshold", 0.3)},
		"FeatureVectorizer":           {graph.IntsAttr("inputdimensions", 3)},
		"LinearClassifier 1 LOGISTIC": linear("LOGISTIC", []float32{-1, 2, -3, 1, -2, 3}, -.5, .5),
		"LinearClassifier 2 LOGISTIC": linear("LOGISTIC", []float32{-1, 2, -3, 4, -2, 3}, -.5, .25),
		"LinearClassifier 3 SOFTMAX":  linear("SOFTMAX", []float32{-1, 2, -3, 4, -2, 3, 1, 1, 1}, -.5, .25, 1),
		"LinearClassifier NONE":       linear("NONE", []float32{-1, 2, -3, 4, -2, 3}, -.5, .25),
	} {
		p := newPipeline(3)
		x := p.input("x", graph.Float, 3)
		op, _, _ := strings.Cut(name, " ")
		n := &graph.Node{Name: "node", Op: op, Domain: learning, Inputs: []string{x}, Outputs: []string{"y"}, Attrs: attrs}
		if op == "LinearClassifier" {
			n.Outputs = []string{"label", "y"}
			p.b.G.Outputs = append(p.b.G.Outputs, graph.Value{Name: "label", DType: graph.Int64})
		}
		p.b.Append(n)
		p.b.G.Outputs = append(p.b.G.Outputs, graph.Value{Name: "y", DType: graph.Float})
		m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}, {Domain: learning, Version: 1}}, Graph: p.b.G}
		rewritten := m.Clone()
		must.Do(t, standardize(graph.NewRewriter(rewritten, nil)))
		if slices.ContainsFunc(rewritten.Graph.Nodes, func(n *graph.Node) bool { return !n.Standard() }) {
			t.Errorf("%s stays", name)
		}
		in := []*graph.Tensor{graph.FromFloats("x", []float32{1, 2, 3, 0, 0, 0, -1, nan, 4, 0.25, -0.5, 0.125}, 4, 3)}
		if op != "Imputer" {
			in = []*graph.Tensor{graph.FromFloats("x", []float32{1, 2, 3, 0, 0, 0, -1, 5, 4, 0.25, -0.5, 0.125}, 4, 3)}
		}
		want, got := run(t, m, in), run(t, rewritten, in)
		for i := range want {
			a, b := numbers(t, want[i]), numbers(t, got[i])
			for k := range a {
				if math.Abs(a[k]-b[k]) > 1e-6 || math.IsNaN(a[k]) != math.IsNaN(b[k]) {
					t.Errorf("%s: output %d, %v, want %v", name, i, b, a)
					break
				}
			}
		}
	}
}

// TestLabels: the classes of a model are those of the node that names them last, and not those of the binary models of
// which one-against-all is made.
func TestLabels(t *testing.T) {
	t.Parallel()
	p := newPipeline(1)
	one := p.ml("LinearClassifier", []string{"x"}, graph.IntsAttr("classlabels_ints", 0, 1))
	best := p.b.Op("ArgMax", []string{one})
	names := &graph.Tensor{Name: "names", DType: graph.String, Dims: []int64{3}}
	for _, s := range []string{"no", "later", "yes"} {
		names.Strings = append(names.Strings, []byte(s))
	}
	p.ml("ArrayFeatureExtractor", []string{p.b.Const(names), best})
	must.Same(t, []string{"no", "later", "yes"}, labels(p.b.G))
}

// TestSlicedColumns: a column that is cut out together with all rows, as TensorFlow's exporters write it, and whose
// places become a one-hot, holds categories.
func TestSlicedColumns(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	p := newPipeline(1)
	x := p.input("codes", graph.Int64, 2)
	for i, k := range []int64{3, 4} {
		at := int64(i)
		v := p.b.Op("Slice", []string{x, p.ints(0, at), p.ints(math.MaxInt32, at+1), p.ints(0, 1)})
		v = p.b.Op("Squeeze", []string{v, p.ints(1)})
		p.part(p.b.Op("OneHot", []string{v, p.ints(k), p.b.Const(graph.FromFloats("offon", []float32{0, 1}, 2))}), k)
	}
	_, f, err := lowered(t, p.model(false))
	must.Do(t, err)
	if a, b := f.Columns[0].Values, f.Columns[1].Values; len(a) != 3 || len(b) != 4 {
		t.Errorf("categories %q and %q", a, b)
	}
}
