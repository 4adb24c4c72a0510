package qdq_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

func convPlan(t testing.TB, eng ort.Options, m *graph.Model, x *graph.Tensor, bits, act int,
	perChannel bool,
) *quant.Plan {
	t.Helper()
	layers := must.Get(quant.FindLayers(m))(t)
	f := must.Get(quant.FormatOf(bits, true))(t)
	values := observed(t, eng, m, layers, x)
	p := &quant.Plan{}
	results := map[string]*quant.Act{}
	for _, l := range layers {
		q := quant.Layer{Node: l.Node, Bits: bits, Reduced: true}
		if perChannel {
			for o := range l.Out {
				q.Scales = append(q.Scales, maxAbs(f, l.Row(o)))
			}
		} else {
			q.Scales = []float32{maxAbs(f, l.W)}
		}
		a := quant.FitAct(act, slices.Min(values[l.Input]), slices.Max(values[l.Input]))
		if q.Act = results[l.Source]; q.Act == nil {
			q.Act = &a
		}
		if l.Conv != nil {
			v := values[l.Behind.Value]
			r := l.Behind.Within(quant.FitAct(act, slices.Min(v), slices.Max(v)))
			q.Result = &r
			results[l.Node] = &r
		}
		p.Layers = append(p.Layers, q)
	}
	return p
}

func observed(t testing.TB, eng ort.Options, m *graph.Model, layers []quant.LayerInfo,
	x *graph.Tensor,
) map[string][]float32 {
	t.Helper()
	asked := map[string]bool{}
	var names []string
	for _, l := range layers {
		values := []string{l.Input}
		if l.Conv != nil {
			values = append(values, l.Behind.Value)
		}
		for _, v := range values {
			if !asked[v] && v != "x" && v != m.Graph.Outputs[0].Name {
				names = append(names, v)
			}
			asked[v] = true
		}
	}
	eng.Level = ort.Disabled
	out := map[string][]float32{"x": floats(t, x)}
	for name, v := range run(t, expose(m, graph.Float, names...), eng, x) {
		out[name] = floats(t, v)
	}
	return out
}

func TestConvFuses(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	variants := []struct {
		bits, act  int
		perChannel bool
		o          qdq.Options
	}{
		{8, 8, true, qdq.Options{}},
		{8, 8, false, qdq.Options{}},
		{4, 8, true, qdq.Options{}},
		{3, 8, true, qdq.Options{Size: preferPlanes}},
		{2, 8, false, qdq.Options{}},
		{2, 8, true, qdq.Options{}},
		{8, 4, true, qdq.Options{}},
		{8, 2, false, qdq.Options{}},
	}
	for i, n := range convNets() {
		m := n.model(t)
		x := rows(11, 64, n.width)
		for k, v := range variants {
			if (i+k)%2 > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/w%da%d-%v", n.name, v.bits, v.act, v.perChannel), func(t *testing.T) {
				p := convPlan(t, eng, m, x, v.bits, v.act, v.perChannel)
				q := write(t, m, p, v.o)
				wantConvsFused(t, q, m, eng)
				optimized := outputs(t, q, eng, x)
				plain := eng
				plain.Level = ort.Disabled
				differ := 0
				for i, want := range outputs(t, q, plain, x) {
					if math.Abs(float64(want-optimized[i])) > 1e-3*(1+math.Abs(float64(want))) {
						differ++
					}
				}
				if differ > len(optimized)/20 { // codes flip rarely
					t.Errorf("%d of %d outputs depend on the optimization level", differ, len(optimized))
				}
			})
		}
	}
}

func outputs(t testing.TB, m *graph.Model, eng ort.Options, x *graph.Tensor) []float32 {
	t.Helper()
	return floats(t, orttest.Run(t, m, eng, x)[0])
}

func wantConvsFused(t *testing.T, q, m *graph.Model, eng ort.Options) {
	t.Helper()
	opt := must.Get(ort.Optimized(marshal(t, q), eng))(t)
	want := map[string]int{}
	for _, n := range m.Graph.Nodes {
		switch n.Op {
		case "Conv":
			want["QLinearConv"]++
		case "Gemm":
			want["QGemm"]++
		}
	}
	got, inits := map[string]int{}, opt.Graph.InitMap()
	for _, n := range opt.Graph.Nodes {
		switch n.Op {
		case "Conv", "Gemm", "FusedConv", "FusedGemm", "Cast", "Unpack":
			t.Errorf("%s is left", n.Label())
		case "QLinearConv", "QGemm":
			got[n.Op]++
		case "DequantizeLinear":
			if inits[n.Input(0)] != nil {
				t.Errorf("%s is left", n.Label())
			}
		}
	}
	must.Same(t, fmt.Sprint(want), fmt.Sprint(got))
}

// TestConvBound: at 8 bits the written model stays within what rounding explains: every layer multiplies the error of
// its input by its weights, and adds that of its own weights, bias and output.
func TestConvBound(t *testing.T) {
	eng := orttest.Need(t)
	for _, n := range convNets() {
		if n.name == "residual" {
			continue // two paths
		}
		for _, perChannel := range []bool{true, false} {
			m := n.model(t)
			x := rows(11, 64, n.width)
			p := convPlan(t, eng, m, x, 8, 8, perChannel)
			layers := must.Get(quant.FindLayers(m))(t)
			values := observed(t, eng, m, layers, x)
			bound := 0.0
			for i, l := range layers {
				q := p.Layers[i]
				enc := must.Get(q.Encode(l, q.Act.Scale))(t)
				if l.Source == "" {
					bound += 0.5 * float64(q.Act.Scale)
				}
				largest := 0.0
				for _, v := range values[l.Input] {
					largest = math.Max(largest, math.Abs(float64(v)))
				}
				bound = spread(l, enc, bound, largest)
				if q.Result != nil {
					bound += 0.5 * float64(q.Result.Scale)
				}
			}
			want := outputs(t, m, eng, x)
			worst := 0.0
			for i, v := range outputs(t, write(t, m, p, qdq.Options{}), eng, x) {
				worst = math.Max(worst, math.Abs(float64(v-want[i])))
			}
			if worst > bound || worst == 0 {
				t.Errorf("%s: off by %v, at most %v is explained", n.name, worst, bound)
			}
			t.Logf("%s: off by %.4f of at most %.4f", n.name, worst, bound)
		}
	}
}

// spread bounds the error of a layer's output when that of its input, whose numbers are at most largest, is at most in.
func spread(l quant.LayerInfo, enc *quant.Encoded, in, largest float64) float64 {
	worst := 0.0
	for o := range l.Out {
		var sum float64
		for i, w := range l.Row(o) {
			q := float64(quant.Dequantize(enc.Codes[o*l.In+i], enc.Scale(o)))
			sum += math.Abs(q)*in + math.Abs(float64(w)-q)*largest
		}
		unit := float64(enc.InScale * enc.Scale(o))
		worst = math.Max(worst, sum+math.Abs(float64(enc.Bias[o])*unit-float64(l.B[o]))+1e-5)
	}
	return worst
}

func TestConvRows(t *testing.T) {
	eng := orttest.Need(t)
	n := convNets()[2]
	m := n.model(t)
	x := rows(11, 32, n.width)
	p := convPlan(t, eng, m, x, 8, 8, true)
	layers := must.Get(quant.FindLayers(m))(t)
	for i := range p.Layers {
		l := &p.Layers[i]
		l.Bits = 0
		for o := range layers[i].Out {
			bits := []int{8, 4, 3, 2}[o%4]
			l.RowBits = append(l.RowBits, bits)
			f := must.Get(quant.FormatOf(bits, true))(t)
			l.Scales[o] = maxAbs(f, layers[i].Row(o))
		}
	}
	q := write(t, m, p, qdq.Options{Size: size(t)})
	wantConvsFused(t, q, m, eng)
	for i, l := range p.Layers {
		enc := must.Get(l.Encode(layers[i], l.Act.Scale))(t)
		w := node(t, q, l.Node).Inputs[1]
		want, got := weights(enc), floats(t, run(t, expose(q, graph.Float, w), eng, x)[w])
		if layers[i].Conv == nil { // the order of units is free
			slices.Sort(want)
			slices.Sort(got)
		}
		must.Same(must.In(t, l.Node), want, got)
	}
}

func TestConvWeightOnly(t *testing.T) {
	eng := orttest.Need(t)
	for _, n := range convNets() {
		m := n.model(t)
		x := rows(11, 16, n.width)
		p := convPlan(t, eng, m, x, 4, 8, true)
		layers := must.Get(quant.FindLayers(m))(t)
		rounded := m.Clone()
		for i := range p.Layers {
			l := &p.Layers[i]
			l.Act, l.Result = nil, nil
			enc := must.Get(l.Encode(layers[i], 0))(t)
			for k, w := range rounded.Graph.Inits {
				if w.Name == layers[i].Weight {
					rounded.Graph.Inits[k] = graph.FromFloats(w.Name, weights(enc), w.Dims...)
				}
			}
		}
		q := write(t, m, p, qdq.Options{})
		opt := must.Get(ort.Optimized(marshal(t, q), eng))(t)
		for _, k := range opt.Graph.Nodes {
			if k.Op == "Cast" || k.Op == "Mul" || strings.HasPrefix(k.Op, "Dequantize") {
				t.Errorf("%s: %s is left", n.name, k.Label())
			}
		}
		want := outputs(t, rounded, eng, x)
		for i, v := range outputs(t, q, eng, x) {
			must.Near(must.In(t, n.name, i), want[i], v, 1e-4*(1+math.Abs(float64(v))))
		}
	}
}

// TestConvBesideFloat: layers that stay in float between integer convolutions keep
// their weights, which the runtime would round between quantizers.
func TestConvBesideFloat(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for _, n := range convNets() {
		m := n.model(t)
		x := rows(11, 32, n.width)
		for i := range convPlan(t, eng, m, x, 8, 8, true).Layers {
			if i == 3 && n.name == "image" {
				continue // a dense layer in front is no convolution's matter
			}
			for _, only := range []bool{false, true} {
				p := convPlan(t, eng, m, x, 8, 8, true)
				l := &p.Layers[i]
				if only {
					l.Act, l.Result = nil, nil // weights of 8 bits, float arithmetic
				} else {
					l.Float = true
				}
				q := write(t, m, p, qdq.Options{})
				opt := must.Get(ort.Optimized(marshal(t, q), eng))(t)
				integers := 0
				for _, k := range opt.Graph.Nodes {
					if k.Op == "QLinearConv" || k.Op == "QGemm" {
						integers++
					}
				}
				if integers != len(p.Layers)-1 {
					t.Errorf("%s: %d layers run on integers where layer %d of %d shall not", n.name, integers, i, len(p.Layers))
				}
			}
		}
	}
}

func TestConvRefused(t *testing.T) {
	eng := orttest.Need(t)
	n := convNets()[3]
	m := n.model(t)
	x := rows(11, 16, n.width)
	cases := []struct {
		name   string
		change func(p *quant.Plan)
		want   string
	}{
		{"no result", func(p *quant.Plan) { p.Layers[0].Result = nil }, "needs an output quantizer"},
		{"no act", func(p *quant.Plan) { p.Layers[0].Act = nil }, "its input has none"},
		{"dense", func(p *quant.Plan) { p.Layers[3].Result = p.Layers[0].Result }, "no convolution"},
		{"beyond the clip", func(p *quant.Plan) { p.Layers[0].Result = &quant.Act{Bits: 8, Scale: 1} }, "passes only"},
		{
			"zero behind a Relu", func(p *quant.Plan) { p.Layers[2].Result = &quant.Act{Bits: 8, Scale: 0.01, Zero: 7} },
			"passes only",
		},
		{"bits", func(p *quant.Plan) { p.Layers[0].Result = &quant.Act{Bits: 9, Scale: 0.01} }, "9-bit"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := convPlan(t, eng, m, x, 8, 8, true)
			c.change(p)
			_, err := qdq.Write(m, p, qdq.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `layer "`) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDescribeConv(t *testing.T) {
	eng := orttest.Need(t)
	n := convNets()[2]
	m := n.model(t)
	x := rows(11, 16, n.width)
	for _, c := range []struct {
		bits      int
		container string
		o         qdq.Options
	}{{8, "int8", qdq.Options{}}, {4, "int4", qdq.Options{}}, {3, "packed, cfq.Unpack", qdq.Options{Size: preferPlanes}}} {
		q := write(t, m, convPlan(t, eng, m, x, c.bits, 8, true), c.o)
		notes := must.Get(qdq.Describe(q))(t)
		must.Same(t, 4, len(notes))
		got := notes[1]
		if got.Op != "Conv" || got.In != 72 || got.Out != 8 || got.Biases != 8 || got.Bits != float64(c.bits) ||
			got.Container != c.container {
			t.Errorf("%d bits: %+v", c.bits, got)
		}
	}
	notes, err := qdq.Describe(m)
	if err != nil || len(notes) != 4 || notes[0].In != 18 || notes[0].Bits != 32.0 {
		t.Errorf("the float model: %+v (%v)", notes, err)
	}
}
