package qdq_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

// preferPlanes is a size function that makes bit planes look smaller than anything.
func preferPlanes(m *graph.Model) int {
	n := 1000
	for _, k := range m.Graph.Nodes {
		if k.Op == "Unpack" {
			n--
		}
	}
	return n
}

// TestArithmetic holds what ONNX Runtime computes from the written file against the codes of quant and integer
// arithmetic in float64, for every width, container and odd shape.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	type variant struct {
		bits int
		o    qdq.Options
		name string
	}
	variants := []variant{
		{2, qdq.Options{}, "int2"},
		{3, qdq.Options{}, "int4"},
		{3, qdq.Options{Size: preferPlanes}, "planes"},
		{4, qdq.Options{}, "int4"},
		{8, qdq.Options{}, "int8"},
	}
	for i, v := range variants {
		for k, shape := range [][2]int{{1, 1}, {1, 104}, {2, 5}, {17, 1}, {17, 104}} {
			out, in, perChannel := shape[0], shape[1], (i+k)%2 == 0
			t.Run(fmt.Sprintf("%d-%s-%v-%dx%d", v.bits, v.name, perChannel, out, in), func(t *testing.T) {
				m := net(uint64(in*100+out), in, out, 3)
				checkArithmetic(t, eng, m, planFor(t, m, v.bits, perChannel), v.o)
			})
		}
	}
}

func checkArithmetic(t *testing.T, eng ort.Options, m *graph.Model, p *quant.Plan, o qdq.Options) {
	layers := must.Get(quant.FindLayers(m))(t)
	q := write(t, m, p, o)
	if again := write(t, m, p, o); !bytes.Equal(marshal(t, q), marshal(t, again)) {
		t.Fatal("writing twice gives different bytes")
	}
	wantFused(t, q, p, eng)
	for i := range p.Layers {
		enc := must.Get(p.Layers[i].Encode(layers[i], p.Layers[i].Act.Scale))(t)
		checkWeights(t, eng, q, &p.Layers[i], layers[i], enc)
	}
	wantSimulated(t, q, m, p, eng)
}

func checkWeights(t *testing.T, eng ort.Options, q *graph.Model, l *quant.Layer, info quant.LayerInfo,
	enc *quant.Encoded,
) {
	gemm := node(t, q, l.Node)
	x := rows(1, 2, int(q.Graph.Inputs[0].Shape[1].Size))
	for _, level := range []ort.Level{ort.Disabled, ort.All} {
		eng.Level = level
		got := run(t, expose(q, graph.Float, gemm.Inputs[1:]...), eng, x)
		w, b := floats(t, got[gemm.Inputs[1]]), floats(t, got[gemm.Inputs[2]])
		for i, want := range weights(enc) {
			must.Same(must.In(t, l.Node), want, w[i])
			if d := math.Abs(float64(w[i] - info.W[i])); d > float64(enc.Scale(i/enc.In))/2*1.0001 {
				t.Fatalf("%s: weight %d is %v, %v before", l.Node, i, w[i], info.W[i])
			}
		}
		for o, code := range enc.Bias {
			must.Same(must.In(t, l.Node), float32(code)*(enc.InScale*enc.Scale(o)), b[o])
			if d := math.Abs(float64(b[o] - info.B[o])); d > float64(enc.InScale*enc.Scale(o)) {
				t.Fatalf("%s: bias %d is %v, %v before", l.Node, o, b[o], info.B[o])
			}
		}
	}
}

func TestLowBitActivations(t *testing.T) {
	eng := orttest.Need(t)
	m := net(5, 9, 16, 8, 2)
	for bits := 2; bits < 8; bits++ {
		p := planFor(t, m, 4, true)
		for i := range p.Layers {
			a := quant.FitAct(bits, -3, 3)
			if i > 0 {
				a = quant.FitAct(bits, 0, 3)
			}
			p.Layers[i].Act = &a
		}
		q := write(t, m, p, qdq.Options{})
		wantFused(t, q, p, eng)
		var d []string
		for _, n := range q.Graph.Nodes {
			if n.Op == "Clip" {
				d = append(d, n.Outputs[0])
			}
		}
		must.Same(t, 3, len(d))
		x := rows(3, 200, 9)
		got := run(t, expose(q, graph.Uint8, d[0]), eng, x)
		codes := must.Get(got[d[0]].Ints())(t)
		a := p.Layers[0].Act
		top := int64(0)
		for i, v := range floats(t, x) {
			must.Same(must.In(t, bits), a.Apply(v), float32(codes[i]-int64(a.Zero))*a.Scale)
			top = max(top, codes[i])
		}
		must.Same(must.In(t, bits), int64(a.QMax()), top)
	}
}

func TestContainers(t *testing.T) {
	type want struct {
		widths  []int
		unpacks int
	}
	for _, c := range []want{
		{[]int{10, 20, 2}, 0},
		{[]int{60, 60, 2}, 0},
		{[]int{150, 100, 2}, 1},
		{[]int{150, 100, 100, 2}, 2},
	} {
		m := net(8, c.widths...)
		p := planFor(t, m, 3, true)
		q := write(t, m, p, qdq.Options{Size: size(t)})
		unpacks := 0
		for _, n := range q.Graph.Nodes {
			if n.Op == "Unpack" {
				unpacks++
			}
		}
		if unpacks != c.unpacks || (unpacks > 0) != (len(q.Functions) == 1) {
			t.Errorf("%v: %d layers in bit planes, %d functions; want %d", c.widths, unpacks, len(q.Functions), c.unpacks)
		}
		none := len(marshal(t, write(t, m, p, qdq.Options{Size: func(*graph.Model) int { return 0 }})))
		all := len(marshal(t, write(t, m, p, qdq.Options{Size: preferPlanes})))
		if got := len(marshal(t, q)); got > min(none, all) {
			t.Errorf("%v: %d bytes; %d with INT4, %d with planes", c.widths, got, none, all)
		}
	}
}

func likeAdult(t failer) (*graph.Model, *quant.Plan) {
	m := net(9, 104, 64, 32, 2)
	p := planFor(t, m, 8, true)
	for k := range p.Layers {
		l := &p.Layers[k]
		l.Bits = 0
		for o, s := range l.Scales {
			l.RowBits = append(l.RowBits, []int{2, 3, 4, 8}[(o*7+k)%4])
			l.Scales[o], _ = quant.Half(s)
		}
	}
	return m, p
}

func TestPlain(t *testing.T) {
	eng := orttest.Need(t)
	m, p := likeAdult(t)
	float := func(p *quant.Plan) {
		p.Layers[0].Act, p.Layers[2].Act = nil, nil // weight-only
		p.Layers[1].Float = true
	}
	for name, change := range map[string]func(p *quant.Plan){"integers": func(*quant.Plan) {}, "float": float} {
		c := &quant.Plan{Layers: slices.Clone(p.Layers)}
		change(c)
		plain := write(t, m, c,
			qdq.Options{Plain: true, Size: func(*graph.Model) int { t.Error("the size is asked"); return 0 }})
		for _, n := range plain.Graph.Nodes {
			if n.Op == "Cast" || n.Op == "Expand" || n.Op == "Unpack" || n.Op == "Concat" || n.Op == "Gather" || n.Op == "Mul" {
				t.Errorf("%s: %s is left for the runtime", name, n.Label())
			}
		}
		if len(plain.Functions) > 0 || plain.Opset("") != 21 {
			t.Errorf("%s: %d functions, opset %d", name, len(plain.Functions), plain.Opset(""))
		}
		small := write(t, m, c, qdq.Options{})
		if name == "integers" {
			wantFused(t, plain, c, eng)
		}
		x := rows(4, 300, 104)
		for _, level := range []ort.Level{ort.All, ort.Disabled} {
			eng.Level = level
			a, b := floats(t, run(t, plain, eng, x)["y"]), floats(t, run(t, small, eng, x)["y"])
			for i := range a {
				must.Near(must.In(t, name, level), a[i], b[i], 1e-5)
			}
		}
		eng.Level = ort.All
	}
}

func TestFewAlternatives(t *testing.T) {
	m, p := likeAdult(t)
	n, weigh := 0, size(t)
	write(t, m, p, qdq.Options{Size: func(m *graph.Model) int { n++; return weigh(m) }})
	if n > 60 || n < 10 {
		t.Errorf("%d models were weighed; 60 should do", n)
	}
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	chain := func(widths ...int) (layers []quant.LayerInfo) {
		for i, out := range widths[1:] {
			layers = append(layers, quant.LayerInfo{Input: fmt.Sprint("v", i), In: widths[i], Out: out})
		}
		return layers
	}
	both := chain(100, 400, 2)
	both[1].Input, both[1].In, both[1].Out = both[0].Input, 100, 400 // two layers read the input
	conv := chain(9, 9000, 900, 2)
	conv[0].Conv = &quant.Conv{}
	for name, c := range map[string]struct {
		layers []quant.LayerInfo
		want   string
	}{
		"small":            {chain(104, 64, 32, 2), "[false false false]"},
		"256 wide":         {chain(104, 256, 256, 2), "[false true true]"},
		"narrower":         {chain(104, 255, 256, 2), "[false false false]"},
		"wide input":       {chain(784, 128, 10), "[true true]"},
		"narrow behind":    {chain(20, 300, 300, 8, 8, 2), "[false true true true true]"},
		"two of one input": {both, "[true true]"},
		"convolution":      {conv, "[false true true]"},
	} {
		must.Same(must.In(t, name), c.want, fmt.Sprint(qdq.Integers(c.layers)))
	}
}
