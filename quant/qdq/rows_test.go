package qdq_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

// rowCase is a layer x -> y with a width for each row, and what its weights and
// bias must be in the runtime, computed without package quant.
type rowCase struct {
	m       *graph.Model
	p       *quant.Plan
	w, b    []float64 // Out x columns of the kernel; Out
	columns int
}

func widthsFor(t *rapid.T, out int) []int {
	widths := make([]int, out)
	some := rapid.SliceOfNDistinct(rapid.SampledFrom([]int{2, 3, 4, 8}), 1, 4, rapid.ID).Draw(t, "widths")
	run := rapid.IntRange(1, out).Draw(t, "run")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
	for o := range widths {
		widths[o] = some[o/run%len(some)]
		if run == 1 {
			widths[o] = some[rng.IntN(len(some))]
		}
	}
	return widths
}

func drawRows(t *rapid.T, integers bool) *rowCase {
	in, out := rapid.IntRange(1, 9).Draw(t, "in"), rapid.IntRange(1, 40).Draw(t, "out")
	c := &rowCase{m: net(rapid.Uint64().Draw(t, "seed"), in, out), p: &quant.Plan{}, columns: in}
	l := quant.Layer{Node: "layer1", RowBits: widthsFor(t, out), Reduced: integers}
	gains, lows := make([]float32, in), make([]float32, in)
	sources := make([]int, in)
	for i := range sources {
		sources[i], gains[i] = i, 1
	}
	switch {
	case !integers:
	case rapid.Bool().Draw(t, "input"):
		c.p.Input = &quant.Input{Scale: 1. / 64}
		sources = nil
		for i := range in {
			gains[i], lows[i] = []float32{1, 1.25, 0.75}[i%3], -4
			reach := []float32{-3, 9, 2}[(i+in)%3]
			for _, s := range column(i, lows[i], reach, gains[i], c.p.Input.Scale) {
				c.p.Input.Columns, sources = append(c.p.Input.Columns, s), append(sources, i)
			}
		}
		c.columns = len(sources)
	default:
		a := quant.FitAct(8, -3.1, 3.7)
		l.Act = &a
	}
	short := rapid.Bool().Draw(t, "float16 scales")
	w, b := floats(t, c.m.Graph.Init("w1")), floats(t, c.m.Graph.Init("b1"))
	for o, bits := range l.RowBits {
		scale := float32(math.Exp(-3+0.1*float64(o%11))) / float32(int(1)<<bits)
		if h, ok := quant.Half(scale); short && ok {
			scale = h
		}
		if !integers && o%5 == 1 {
			scale = -scale // mirrored
		}
		l.Scales = append(l.Scales, scale)
		bias := float64(b[o])
		for i := range in {
			bias += float64(w[o*in+i]) * float64(lows[i])
		}
		c.b = append(c.b, bias)
		for _, s := range sources {
			q := math.RoundToEven(float64(float32(float64(w[o*in+s])/float64(gains[s])) / scale))
			lo, hi := -float64(int(1)<<(bits-1)), float64(int(1)<<(bits-1)-1)
			if integers && bits == 8 {
				lo, hi = -quant.ReducedMax, quant.ReducedMax
			}
			c.w = append(c.w, float64(float32(math.Min(math.Max(q, lo), hi))*scale))
		}
	}
	c.p.Layers = []quant.Layer{l}
	return c
}

func (c *rowCase) reads(x []float32) []float64 {
	in := c.p.Input
	out := make([]float64, 0, len(x))
	if in != nil {
		for _, q := range gridCodes(in, x, len(x)/probes) {
			out = append(out, float64(q)*float64(in.Scale))
		}
		return out
	}
	for _, v := range x {
		if a := c.p.Layers[0].Act; a != nil {
			v = a.Apply(v)
		}
		out = append(out, float64(v))
	}
	return out
}

func (c *rowCase) inScale() float64 {
	switch a := c.p.Layers[0].Act; {
	case a != nil:
		return float64(a.Scale)
	case c.p.Input != nil:
		return float64(c.p.Input.Scale)
	}
	return 0
}

const probes = 20

// TestRowBits: whatever the widths of the rows and their containers, the runtime
// sees the weights of the plan and computes with them, with optimizations and without.
func TestRowBits(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	sizes := []func(*graph.Model) int{nil, size(t), preferPlanes, preferConcats}
	rapid.Check(t, func(t *rapid.T) {
		integers := rapid.Bool().Draw(t, "integers")
		c := drawRows(t, integers)
		o := qdq.Options{Size: rapid.SampledFrom(sizes).Draw(t, "size")}
		q := must.Get(qdq.Write(c.m, c.p, o))(t)
		c.check(t, eng, q)
		if integers {
			wantFused(t, q, c.p, eng)
		}
	})
}

// preferConcats is a size function that makes groups look smaller than anything.
func preferConcats(m *graph.Model) int {
	n := 1000
	for _, k := range m.Graph.Nodes {
		if k.Op == "Concat" {
			n -= len(k.Inputs)
		}
	}
	return n
}

func (c *rowCase) check(t failer, eng ort.Options, q *graph.Model) {
	in, out := int(c.m.Graph.Inputs[0].Shape[1].Size), len(c.b)
	gemm := node(t, q, "layer1")
	x := rows(7, probes, in)
	reads := c.reads(floats(t, x))
	for _, level := range []ort.Level{ort.Disabled, ort.All} {
		eng.Level = level
		y := floats(t, run(t, q, eng, x)["y"])
		// Weights that are outputs are not fused, so they are read by themselves.
		w := floats(t, run(t, expose(q, graph.Float, gemm.Inputs[1]), eng, x)[gemm.Inputs[1]])
		must.Same(t, len(c.w), len(w))
		for i, want := range c.w {
			if float64(w[i]) != want {
				t.Fatalf("level %s: weight %d of row %d is %v, want %v", level, i%c.columns, i/c.columns, w[i], want)
			}
		}
		for i, v := range y {
			r, o := i/out, i%out
			want, reach := c.b[o], math.Abs(c.b[o])
			for j := range c.columns {
				term := reads[r*c.columns+j] * c.w[o*c.columns+j]
				want += term
				reach += math.Abs(term)
			}
			unit := c.inScale() * float64(c.p.Layers[0].Scales[o]) // of the bias
			if d := math.Abs(float64(v) - want); d > 1e-5*reach+0.501*unit {
				t.Fatalf("level %s: output %d of row %d is %v, want %v", level, o, r, v, want)
			}
		}
	}
}

func TestOpsets(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for k, bits := range []int{2, 3, 4, 8} {
		m := net(3, 40, 30, 2)
		p := planFor(t, m, bits, true)
		m.IRVersion = 14 // as a newer exporter writes it
		q := write(t, m, p, qdq.Options{Size: []func(*graph.Model) int{nil, size(t), preferPlanes}[k%3]})
		if opset := q.Opset(""); q.IRVersion != 13 || bits == 2 && opset != 25 || bits > 2 && opset != 21 {
			t.Errorf("%d bits: opset %d, IR version %d", bits, opset, q.IRVersion)
		}
		wantFused(t, q, p, eng)
	}
	m := net(3, 4, 2)
	for _, opset := range []int64{20, 26} {
		m.SetOpset("", opset)
		must.Fail(t, must.Err(qdq.Write(m, planFor(t, m, 4, true), qdq.Options{})), fmt.Sprint("opset ", opset))
	}
}
