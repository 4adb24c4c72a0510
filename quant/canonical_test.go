package quant_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
)

type builder struct {
	*graph.Builder
	rng *rand.Rand
}

func (b *builder) random(name string, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(b.rng.NormFloat64())
	}
	return b.Const(graph.FromFloats(name, v, dims...))
}

func (b *builder) positive(name string, dims ...int64) string {
	name = b.random(name, dims...)
	t := b.G.Init(name)
	v, _ := t.Floats()
	for i := range v {
		v[i] = v[i]*v[i] + 0.1
	}
	t.Raw = graph.FromFloats("", v).Raw
	return name
}

func (b *builder) constant(t *graph.Tensor) string {
	return b.Op("Constant", nil, graph.TensorAttr("value", t))
}

func (b *builder) gemm(x string, in, out int64) string {
	return b.Op("Gemm", []string{x, b.random("w", out, in), b.random("b", out)}, graph.IntAttr("transB", 1))
}

func (b *builder) tokens(x string, shape ...int64) string {
	return b.Op("Reshape", []string{x, b.Const(graph.FromInts("shape", shape, int64(len(shape))))})
}

type form struct {
	name   string
	layers int
	gone   string // operators that must not be left
	build  func(b *builder) string
}

func forms() []form {
	return []form{
		{"pytorch", 2, "Flatten Constant", func(b *builder) string {
			h := b.gemm(b.Op("Flatten", []string{"x"}), 6, 5)
			return b.gemm(b.Op("Relu", []string{h}), 5, 2)
		}},
		{"keras", 2, "MatMul Add Softmax_", func(b *builder) string {
			h := b.Op("MatMul", []string{"x", b.random("k", 6, 5)})
			h = b.Op("Tanh", []string{b.Op("Add", []string{h, b.random("c", 5)})})
			h = b.Op("MatMul", []string{h, b.random("k", 5, 3)})
			return b.Op("Softmax", []string{b.Op("Add", []string{b.random("c", 1, 3), h})})
		}},
		{"no bias, scalar bias, subtraction", 3, "MatMul Add Sub", func(b *builder) string {
			h := b.Op("Relu", []string{b.Op("MatMul", []string{"x", b.random("k", 6, 5)})})
			h = b.Op("Relu", []string{b.Op("Add", []string{b.Op("MatMul", []string{h, b.random("k", 5, 4)}), b.random("c")})})
			return b.Op("Sub", []string{b.random("c", 3), b.Op("MatMul", []string{h, b.random("k", 4, 3)})})
		}},
		{"alpha, beta, odd bias shapes", 2, "", func(b *builder) string {
			h := b.Op("Gemm", []string{"x", b.random("w", 6, 5), b.random("b", 1, 5)}, graph.FloatAttr("alpha", 0.5),
				graph.FloatAttr("beta", -2))
			return b.Op("Gemm", []string{b.Op("Relu", []string{h}), b.random("w", 3, 5), b.random("b", 1)},
				graph.IntAttr("transB", 1), graph.FloatAttr("beta", 3))
		}},
		{"constant nodes", 2, "Constant", func(b *builder) string {
			w := b.G.Init(b.random("w", 6, 5))
			h := b.Op("Gemm", []string{"x", b.constant(w), b.constant(graph.FromFloats("", []float32{1, 2, 3, 4, 5}, 5))})
			return b.Op("MatMul", []string{b.Op("Relu", []string{h}), b.random("w", 5, 3)})
		}},
		{"batch normalization", 2, "BatchNormalization", func(b *builder) string {
			h := b.Op("BatchNormalization",
				[]string{
					b.gemm("x", 6, 5), b.random("s", 5), b.random("t", 5), b.random("m", 5),
					b.positive("v", 5),
				}, graph.FloatAttr("epsilon", 1e-3))
			h = b.Op("BatchNormalization",
				[]string{b.Op("Relu", []string{h}), b.random("s", 5), b.random("t", 5), b.random("m", 5), b.positive("v", 5)})
			return b.gemm(h, 5, 2)
		}},
		{"affine chains", 2, "Mul Div Add Sub", func(b *builder) string {
			h := b.Op("Mul", []string{b.gemm("x", 6, 5), b.random("c", 5)})
			h = b.Op("Sub", []string{b.Op("Div", []string{h, b.positive("c", 1, 5)}), b.random("c")})
			h = b.Op("Mul", []string{b.Op("Relu", []string{h}), b.random("c", 5)})
			return b.gemm(b.Op("Add", []string{h, b.random("c", 1, 1)}), 5, 2)
		}},
		{"input scaling stays", 1, "", func(b *builder) string {
			h := b.Op("Div", []string{b.Op("Sub", []string{"x", b.random("c", 6)}), b.positive("c", 6)})
			return b.gemm(h, 6, 2)
		}},
		{"dropout, identity, reshape", 2, "Dropout Identity Reshape", func(b *builder) string {
			no := b.Const(&graph.Tensor{Name: "no", DType: graph.Bool, Raw: []byte{0}})
			x := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", []int64{-1, 6}, 2))})
			h := b.Op("Dropout", []string{
				b.Op("Relu", []string{b.gemm(x, 6, 5)}),
				b.Const(graph.FromFloats("r", []float32{0.5})), no,
			})
			h = b.gemm(b.Op("Identity", []string{h}), 5, 2)
			return b.Op("Identity", []string{h})
		}},
		{"broadcast is no affine", 2, "", func(b *builder) string {
			// The product has 5 columns, its input 1: it cannot move into the layer behind.
			h := b.Op("Mul", []string{b.Op("Relu", []string{b.gemm("x", 6, 1)}), b.random("c", 1, 5)})
			return b.gemm(h, 5, 2)
		}},
		{"shared weights", 3, "", func(b *builder) string {
			w := b.random("w", 6, 6)
			h := b.Op("MatMul", []string{"x", w})
			h = b.Op("Add", []string{b.Op("MatMul", []string{b.Op("Relu", []string{h}), w}), b.random("c", 6)})
			return b.gemm(h, 6, 2)
		}},
		{"two readers", 3, "", func(b *builder) string {
			h := b.Op("Relu", []string{b.gemm("x", 6, 5)})
			s := b.Op("Mul", []string{h, b.random("c", 5)})
			return b.Op("Concat", []string{b.gemm(s, 5, 2), b.gemm(s, 5, 3), h}, graph.IntAttr("axis", 1))
		}},
		{"tokens", 3, "MatMul", func(b *builder) string {
			h := b.Op("MatMul", []string{b.tokens("x", -1, 3, 2), b.random("w", 2, 5)})
			h = b.Op("Relu", []string{b.Op("Add", []string{b.random("c", 1, 1, 5), h})})
			h = b.Op("Add", []string{b.Op("MatMul", []string{h, b.random("w", 1, 5, 4)}), b.random("c", 4)})
			return b.gemm(b.Op("Flatten", []string{h}), 12, 2)
		}},
		{"gelu in pieces", 3, "MatMul", func(b *builder) string {
			h := b.Op("Add", []string{b.Op("MatMul", []string{b.tokens("x", -1, 3, 2), b.random("w", 2, 5)}), b.random("c", 5)})
			g := b.Op("Erf", []string{b.Op("Div", []string{h, b.random("c")})})
			g = b.Op("Mul", []string{h, b.Op("Add", []string{g, b.random("c")})})
			h = b.Op("MatMul", []string{g, b.random("w", 5, 4)})
			return b.gemm(b.Op("Flatten", []string{b.Op("Add", []string{h, b.Op("Neg", []string{h})})}), 12, 2)
		}},
		{"residual", 2, "MatMul", func(b *builder) string {
			h := b.tokens("x", -1, 3, 2)
			h = b.Op("Add", []string{h, b.Op("MatMul", []string{h, b.random("w", 2, 2)})})
			h = b.Op("Mul", []string{h, b.random("c", 3, 1)})
			return b.gemm(b.Op("Flatten", []string{h}), 6, 2)
		}},
		{"a constant for each token", 3, "MatMul", func(b *builder) string {
			h := b.Op("MatMul", []string{b.tokens("x", -1, 3, 2), b.random("w", 2, 3)})
			h = b.Op("Add", []string{b.Op("Relu", []string{h}), b.random("c", 3, 3)})
			return b.gemm(b.Op("Flatten", []string{h}), 9, 2)
		}},
		{"batch behind the tokens", 3, "MatMul", func(b *builder) string {
			h := b.Op("Transpose", []string{b.tokens("x", -1, 3, 2)}, graph.IntsAttr("perm", 1, 0, 2))
			h = b.Op("Tanh", []string{b.Op("MatMul", []string{h, b.random("w", 2, 4)})})
			h = b.Op("Transpose", []string{b.Op("MatMul", []string{h, b.random("w", 4, 3)})}, graph.IntsAttr("perm", 1, 0, 2))
			return b.gemm(b.Op("Flatten", []string{h}), 9, 2)
		}},
		{"projections to heads", 4, "Einsum Add", func(b *builder) string {
			h := b.Op("Einsum", []string{b.tokens("x", -1, 3, 2), b.random("w", 2, 2, 4)},
				graph.StringAttr("equation", "btd,dhe->bthe"))
			h = b.Op("Tanh", []string{b.Op("Add", []string{h, b.random("c", 2, 4)})})
			h = b.Op("Einsum", []string{b.random("w", 5, 4, 2), h}, graph.StringAttr("equation", "oeh,bthe->bto"))
			h = b.Op("MatMul", []string{h, b.random("w", 1, 5, 2)})
			return b.gemm(b.Op("Flatten", []string{h}), 6, 2)
		}},
		{"a matrix for each token", 3, "Einsum", func(b *builder) string {
			h := b.Op("Einsum", []string{b.tokens("x", -1, 3, 2), b.random("w", 3, 2, 4)},
				graph.StringAttr("equation", "btd,tde->bte"))
			h = b.Op("Add", []string{h, b.random("c", 3, 4)})
			return b.gemm(b.Op("Flatten", []string{h}), 12, 2)
		}},
		{"a matrix for each token, tokens first", 2, "MatMul", func(b *builder) string {
			h := b.Op("Transpose", []string{b.tokens("x", -1, 3, 2)}, graph.IntsAttr("perm", 1, 0, 2))
			h = b.Op("Relu", []string{b.Op("MatMul", []string{h, b.random("w", 3, 2, 4)})})
			return b.gemm(b.Op("Flatten", []string{b.Op("Transpose", []string{h}, graph.IntsAttr("perm", 1, 0, 2))}), 12, 2)
		}},
		{"experts", 4, "MatMul", func(b *builder) string {
			h := b.Op("Relu", []string{b.Op("MatMul", []string{"x", b.random("w", 3, 6, 4)})})
			h = b.Op("MatMul", []string{h, b.random("w", 3, 4, 5)})
			h = b.Op("MatMul", []string{h, b.random("w", 1, 5, 2)})
			return b.gemm(b.tokens(b.Op("Transpose", []string{h}, graph.IntsAttr("perm", 1, 0, 2)), -1, 6), 6, 2)
		}},
		{"weights on the left", 3, "MatMul", func(b *builder) string {
			h := b.Op("MatMul", []string{b.random("w", 4, 3), b.tokens("x", -1, 3, 2)})
			h = b.Op("MatMul", []string{b.random("w", 2, 3, 2), b.tokens(h, -1, 2, 2, 2)})
			return b.gemm(b.Op("Flatten", []string{h}), 12, 2)
		}},
		{"an einsum that is no product", 2, "", func(b *builder) string {
			h := b.Op("Einsum", []string{b.tokens("x", -1, 3, 2), b.random("w", 3, 2)},
				graph.StringAttr("equation", "btd,td->btd"))
			return b.gemm(b.Op("Flatten", []string{h}), 6, 2)
		}},
		{"four axes", 2, "MatMul", func(b *builder) string {
			h := b.Op("MatMul", []string{b.tokens("x", -1, 3, 1, 2), b.random("w", 2, 4)})
			return b.gemm(b.tokens(h, -1, 12), 12, 2)
		}},
		{"not dense", 0, "", func(b *builder) string {
			return b.Op("MatMul", []string{"x", b.Op("Transpose", []string{"x"})})
		}},
	}
}

func model(f form) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 6}}}}
	b := &builder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(9, 9))}
	m.Graph.Outputs = []graph.Value{{Name: f.build(b), DType: graph.Float}}
	return m
}

func TestCanonical(t *testing.T) {
	eng := orttest.Need(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			m := model(f)
			before := must.Get(codec.Marshal(m))(t)
			c, _, err := pass.Canonical(m, nil)
			must.Do(t, err)
			if after, _ := codec.Marshal(m); string(after) != string(before) {
				t.Error("the given model has changed")
			}
			same(t, eng, m, c, 7, 6)
			layers := must.Get(quant.FindLayers(c))(t)
			must.Same(t, f.layers, len(layers))
			for _, n := range c.Graph.Nodes {
				if strings.Contains(" "+f.gone+" ", " "+n.Op+" ") {
					t.Errorf("%s is left", n.Label())
				}
			}
			again, _, err := pass.Canonical(c, nil)
			must.Do(t, err)
			a, _ := codec.Marshal(c)
			b, _ := codec.Marshal(again)
			must.Same(t, string(b), string(a))
		})
	}
}

func same(t *testing.T, eng ort.Options, a, b *graph.Model, rows, dim int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	v := make([]float32, rows*dim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	x := graph.FromFloats(a.Graph.DataInputs()[0].Name, v, int64(rows), int64(dim))
	want, got := orttest.Run(t, a, eng, x), orttest.Run(t, b, eng, x)
	must.Same(t, len(want), len(got))
	for i := range want {
		if want[i].Name != got[i].Name || len(want[i].Raw) != len(got[i].Raw) {
			t.Fatalf("output %d is %q, %q before", i, got[i].Name, want[i].Name)
		}
		if !want[i].DType.IsFloat() {
			continue
		}
		p, _ := want[i].Doubles()
		q, _ := got[i].Doubles()
		for k := range p {
			if !(math.Abs(p[k]-q[k]) <= 1e-4*(1+math.Abs(p[k]))) {
				t.Fatalf("output %q[%d] is %v, %v before", want[i].Name, k, q[k], p[k])
			}
		}
	}
}

// TestCanonicalInputs checks that weights listed as inputs stop being inputs,
// that other defaults stay, and that a weight that is an output stays in float.
func TestCanonicalInputs(t *testing.T) {
	m := model(form{build: func(b *builder) string {
		h := b.Op("Gemm", []string{"x", b.random("w", 6, 5), b.random("b", 5)})
		h = b.Op("Pow", []string{b.Op("Relu", []string{h}), b.random("p")})
		return b.Op("Gemm", []string{h, b.random("v", 2, 5), b.random("c", 2)}, graph.IntAttr("transB", 1))
	}})
	for _, i := range m.Graph.Inits {
		m.Graph.Inputs = append(m.Graph.Inputs, graph.Value{Name: i.Name, DType: graph.Float})
	}
	m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: "v", DType: graph.Float})
	c, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	var names []string
	for _, v := range c.Graph.Inputs {
		names = append(names, v.Name)
	}
	must.Same(t, "x p", strings.Join(names, " "))
	layers := must.Get(quant.FindLayers(c))(t)
	must.Same(t, 2, len(layers))
	if layers[0].Fixed != "" || !strings.Contains(layers[1].Fixed, "output") {
		t.Errorf("fixed: %q, %q", layers[0].Fixed, layers[1].Fixed)
	}
}

func TestCanonicalRefuses(t *testing.T) {
	m := model(forms()[0])
	m.SetOpset("", 5)
	if _, _, err := pass.Canonical(m, nil); err == nil {
		t.Error("opset 5 is accepted")
	}
	m = model(forms()[0])
	m.Graph.Nodes = append(m.Graph.Nodes,
		&graph.Node{Name: "if", Op: "If", Attrs: []graph.Attr{{Name: "then_branch", Kind: graph.AttrGraph}}})
	if _, _, err := pass.Canonical(m, nil); err == nil || !strings.Contains(err.Error(), `"if"`) {
		t.Errorf("a subgraph is not refused by name: %v", err)
	}
}

func TestCanonicalRealModels(t *testing.T) {
	eng := orttest.Need(t)
	dir := realdata.Dir(t, "models")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*-s0.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in %s: %v", dir, err)
	}
	want := map[string]int{"logreg": 1, "mlp2": 3, "mlp2bn": 3, "mlp2sigmoid": 3, "mlp4": 5}
	for _, path := range files {
		m := must.Get(codec.ReadFile(path))(t)
		c, _, err := pass.Canonical(m, nil)
		must.Do(t, err)
		layers, err := quant.FindLayers(c)
		kind, _, _ := strings.Cut(filepath.Base(path), "-")
		must.Do(must.In(t, path), err)
		must.Same(must.In(t, path), want[kind], len(layers))
		same(t, eng, m, c, 50, layers[0].In)
		equalized, pairs, err := quant.CrossLayerEqualize(c, true)
		must.Do(must.In(t, path), err)
		must.Same(must.In(t, path), len(layers)-1, len(pairs))
		same(t, eng, m, equalized, 50, layers[0].In)
	}
}
