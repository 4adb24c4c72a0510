package quant_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
)

type convForm struct {
	name   string
	input  []int64 // channels, sizes
	weight []int64 // out, channels/group, kernel
	attrs  []graph.Attr
}

func convForms() []convForm {
	ints, str := graph.IntsAttr, func(v string) graph.Attr { return graph.StringAttr("auto_pad", v) }
	return []convForm{
		{"one dimension", []int64{1, 11}, []int64{3, 1, 4}, nil},
		{"strides and uneven pads", []int64{2, 11}, []int64{3, 2, 3}, []graph.Attr{ints("strides", 2), ints("pads", 1, 2)}},
		{"dilated", []int64{2, 12}, []int64{2, 2, 3}, []graph.Attr{ints("dilations", 3)}},
		{"grouped", []int64{4, 9}, []int64{6, 2, 3}, []graph.Attr{graph.IntAttr("group", 2)}},
		{"image", []int64{3, 6, 5}, []int64{4, 3, 3, 2}, nil},
		{
			"all at once",
			[]int64{4, 9, 8},
			[]int64{4, 2, 3, 2},
			[]graph.Attr{ints("pads", 1, 0, 2, 1), ints("strides", 2, 1), ints("dilations", 1, 2), graph.IntAttr("group", 2)},
		},
		{
			"depthwise",
			[]int64{3, 5, 5},
			[]int64{3, 1, 3, 3},
			[]graph.Attr{graph.IntAttr("group", 3), ints("pads", 1, 1, 1, 1)},
		},
		{"same, upper", []int64{2, 7, 6}, []int64{3, 2, 3, 4}, []graph.Attr{str("SAME_UPPER"), ints("strides", 2, 3)}},
		{"same, lower", []int64{2, 7, 6}, []int64{3, 2, 2, 4}, []graph.Attr{str("SAME_LOWER"), ints("strides", 2, 1)}},
		{"valid", []int64{2, 7, 6}, []int64{3, 2, 3, 3}, []graph.Attr{str("VALID"), ints("strides", 2, 2)}},
		{"pointwise", []int64{5, 4, 4}, []int64{2, 5, 1, 1}, nil},
	}
}

func convModel(f convForm) *graph.Model {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "conv"}}
	m.Graph.Inputs = []graph.Value{{
		Name: "x", DType: graph.Float,
		Shape: append(graph.Shape{{Size: -1, Param: "N"}}, graph.Fixed(f.input...)...),
	}}
	b := &builder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(3, uint64(len(f.name))))}
	y := b.Op("Conv", []string{"x", b.random("w", f.weight...), b.random("b", f.weight[0])}, f.attrs...)
	m.Graph.Outputs = []graph.Value{{Name: y}}
	return m
}

func noise(rows int, sizes []int64) *graph.Tensor {
	n, dims := rows, []int64{int64(rows)}
	for _, s := range sizes {
		n *= int(s)
		dims = append(dims, s)
	}
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return graph.FromFloats("x", v, dims...)
}

// TestPatches: the weights times the patches are what ONNX Runtime's Conv gives,
// for the whole layer and for its groups as layers of their own.
func TestPatches(t *testing.T) {
	eng := orttest.Need(t)
	for _, f := range convForms() {
		t.Run(f.name, func(t *testing.T) {
			m := convModel(f)
			layers := must.Get(quant.FindLayers(m))(t)
			if len(layers) != 1 || layers[0].Fixed != "" {
				t.Fatalf("layers %+v", layers)
			}
			l := layers[0]
			const rows = 3
			x := noise(rows, f.input)
			out := orttest.Run(t, m, eng, x)[0]
			want := must.Get(out.Floats())(t)
			if got := int64(l.Positions); got*int64(l.Out) != int64(len(want))/rows {
				t.Fatalf("%d positions of %d outputs; the output is %v", got, l.Out, out.Dims)
			}
			v, _ := x.Floats()
			size := len(v) / rows
			patch := make([]float64, l.In)
			for r := range rows {
				for o := range l.Out {
					for p := range l.Positions {
						group := o / (l.Out / l.Conv.Group)
						l.Conv.Patch(patch, v[r*size:(r+1)*size], group, p)
						got := dot(l.Row(o), patch) + float64(l.B[o])
						part := l.Groups()[group]
						part.Conv.Patch(patch, v[r*size:(r+1)*size], 0, p)
						at := o - group*part.Out
						alone := dot(part.Row(at), patch) + float64(part.B[at])
						w := float64(want[(r*l.Out+o)*l.Positions+p])
						if math.Abs(got-w) > 1e-4 || alone != got {
							t.Fatalf("row %d, output %d, position %d: %v, by its group %v, want %v", r, o, p, got, alone, w)
						}
					}
				}
			}
		})
	}
}

func dot(w []float32, h []float64) float64 {
	var sum float64
	for i, x := range w {
		sum += float64(x) * h[i]
	}
	return sum
}

func convNets() []form {
	image := func(b *builder, dims ...int64) string {
		return b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", dims, int64(len(dims))))})
	}
	norm := func(b *builder, x string, c int64) string {
		return b.Op("BatchNormalization",
			[]string{x, b.random("s", c), b.random("t", c), b.random("m", c), b.positive("v", c)})
	}
	conv := func(b *builder, x string, bias bool, attrs []graph.Attr, dims ...int64) string {
		in := []string{x, b.random("w", dims...)}
		if bias {
			in = append(in, b.random("b", dims[0]))
		}
		return b.Op("Conv", in, attrs...)
	}
	group := []graph.Attr{graph.IntAttr("group", 2)}
	return []form{
		{"sequence", 2, "BatchNormalization Unsqueeze_", func(b *builder) string {
			h := b.Op("Unsqueeze", []string{"x", b.Const(graph.FromInts("axes", []int64{1}, 1))})
			h = b.Op("Relu", []string{norm(b, conv(b, h, false, nil, 3, 1, 5), 3)})
			return b.gemm(b.Op("Flatten", []string{h}), 60, 2)
		}},
		{"image with pools, groups and affines", 3, "BatchNormalization Mul Add Div Sub Constant", func(b *builder) string {
			h := conv(b, image(b, -1, 2, 4, 3), true, []graph.Attr{graph.IntsAttr("pads", 1, 1, 1, 1)}, 4, 2, 3, 3)
			h = b.Op("Add", []string{b.Op("Mul", []string{h, b.random("c", 4, 1, 1)}), b.random("c", 1, 4, 1, 1)})
			h = b.Op("Div", []string{h, b.constant(b.G.Init(b.positive("c", 4, 1, 1)))})
			h = b.Op("Relu", []string{b.Op("MaxPool", []string{h}, graph.IntsAttr("kernel_shape", 2, 2))})
			h = b.Op("Sub", []string{b.random("c", 1), norm(b, conv(b, h, true, group, 6, 2, 2, 1), 6)})
			h = b.Op("GlobalAveragePool", []string{b.Op("Clip", []string{h, "", b.Const(graph.FromFloats("hi", []float32{6}))})})
			return b.gemm(b.Op("Reshape", []string{h, b.Const(graph.FromInts("shape", []int64{0, -1}, 2))}), 6, 3)
		}},
		{"not per channel", 2, "", func(b *builder) string {
			h := conv(b, image(b, -1, 2, 12), true, nil, 12, 2, 1)
			h = b.Op("Add", []string{h, b.random("c", 12)}) // by position, though as many
			return b.gemm(b.Op("Flatten", []string{h}), 144, 2)
		}},
		{"read twice", 2, "", func(b *builder) string {
			h := conv(b, image(b, 0, 2, 12), true, nil, 2, 2, 1)
			h = b.Op("Concat", []string{b.Op("MaxPool", []string{h}, graph.IntsAttr("kernel_shape", 2)), norm(b, h, 2)},
				graph.IntAttr("axis", 2))
			return b.gemm(b.Op("Flatten", []string{h}), 46, 2)
		}},
	}
}

func TestCanonicalConv(t *testing.T) {
	eng := orttest.Need(t)
	for _, f := range convNets() {
		t.Run(f.name, func(t *testing.T) {
			m := model(f)
			m.Graph.Inputs[0].Shape[1].Size = 24
			c, _, err := pass.Canonical(m, nil)
			must.Do(t, err)
			for _, n := range c.Graph.Nodes {
				if slices.Contains(strings.Fields(f.gone), n.Op) {
					t.Errorf("%s is left", n.Label())
				}
			}
			layers := must.Get(quant.FindLayers(c))(t)
			must.Same(t, f.layers, len(layers))
			for _, l := range layers {
				must.Same(t, "", l.Fixed)
			}
			same(t, eng, m, c, 16, 24)
		})
	}
}

func TestConvFollows(t *testing.T) {
	nets := convNets()
	m := model(nets[1])
	m.Graph.Inputs[0].Shape[1].Size = 24
	c, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(c))(t)
	ops := map[string]string{}
	for _, n := range c.Graph.Nodes {
		ops[n.Outputs[0]] = n.Op
	}
	first, second, last := layers[0], layers[1], layers[2]
	inf := float32(math.Inf(1))
	if ops[first.Behind.Value] != "Relu" || first.Behind.Lo != 0 || first.Behind.Hi != inf {
		t.Errorf("behind the first stands %s: %+v", ops[first.Behind.Value], first.Behind)
	}
	if ops[second.Behind.Value] != "Clip" || second.Behind.Lo != -inf || second.Behind.Hi != 6 {
		t.Errorf("behind the second stands %s: %+v", ops[second.Behind.Value], second.Behind)
	}
	if first.Source != "" || second.Source != first.Node || last.Source != "" {
		t.Errorf("sources %q, %q, %q: the pool of maxima passes numbers on, the pool of means does not", first.Source,
			second.Source, last.Source)
	}
	if first.Positions != 12 || second.Positions != 2*2 || last.Positions != 1 || second.Conv.Group != 2 {
		t.Errorf("positions %d, %d, %d", first.Positions, second.Positions, last.Positions)
	}
}

func TestFixedConvs(t *testing.T) {
	ints := graph.IntsAttr
	cases := []struct {
		form  convForm
		fixed string
	}{
		{convForm{"3d", []int64{1, 4, 4, 4}, []int64{2, 1, 2, 2, 2}, nil}, "3 dimensions"},
		{convForm{"groups", []int64{4, 8}, []int64{2, 3, 2}, nil}, "1 groups of the image"},
		{convForm{"no groups", []int64{4, 8}, []int64{2, 3, 2}, []graph.Attr{graph.IntAttr("group", 0)}}, "0 groups"},
		{convForm{"large", []int64{1, 3}, []int64{2, 1, 4}, nil}, "does not fit into 3"},
		{convForm{"strides", []int64{1, 8}, []int64{2, 1, 4}, []graph.Attr{ints("strides", 0)}}, "strides"},
		{convForm{"pads", []int64{1, 8}, []int64{2, 1, 4}, []graph.Attr{ints("pads", 1)}}, "pads"},
		{convForm{"huge", []int64{1, 8}, []int64{2, 1, 4}, []graph.Attr{ints("pads", math.MaxInt64, math.MaxInt64)}}, "pads"},
		{convForm{"auto", []int64{1, 8}, []int64{2, 1, 4}, []graph.Attr{graph.StringAttr("auto_pad", "SOME")}}, "auto_pad"},
		{convForm{"unknown", []int64{1, -1}, []int64{2, 1, 4}, nil}, "size of its input"},
	}
	for _, c := range cases {
		t.Run(c.form.name, func(t *testing.T) {
			layers := must.Get(quant.FindLayers(convModel(c.form)))(t)
			if len(layers) != 1 || !strings.Contains(layers[0].Fixed, c.fixed) {
				t.Errorf("%+v, want one that is fixed: %s", layers, c.fixed)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, b := range [][2]float32{{0, inf}, {-inf, inf}, {0, 6}, {-1, 1}, {-0.3, 7}, {0, 1e-3}, {-inf, 0.7}} {
		for _, bits := range []int{2, 4, 8} {
			for _, r := range [][2]float32{{0, 6}, {-3, 5}, {0, 0}, {-1, 0}, {0, 1e5}, {-0.1, 1e-8}} {
				c := &quant.Behind{Lo: b[0], Hi: b[1]}
				a := c.Within(quant.FitAct(bits, r[0], r[1]))
				name := fmt.Sprintf("%v in %v at %d bits: %+v", r, b, bits, a)
				if err := a.Check(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for _, x := range []float32{-1e6, -1, 0, 0.5, 1e6} {
					if y := a.Apply(x); y < b[0] || y > b[1] {
						t.Errorf("%s: %v becomes %v", name, x, y)
					}
				}
			}
		}
	}
}
