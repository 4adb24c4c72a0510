package qdq_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

func column(source int, lo, hi, gain, scale float32) []quant.InputColumn {
	var out []quant.InputColumn
	width := float32(250) * scale / gain
	for ; lo < hi; lo += width {
		out = append(out, quant.InputColumn{Source: source, Lo: lo, Hi: lo + width, Gain: gain})
	}
	return out
}

func inputs() map[string]*quant.Input {
	const s = 1. / 64
	join := func(cols ...[]quant.InputColumn) *quant.Input {
		in := &quant.Input{Scale: s}
		for _, c := range cols {
			in.Columns = append(in.Columns, c...)
		}
		return in
	}
	plain := func(from, to int) (out []quant.InputColumn) {
		for j := from; j < to; j++ {
			out = append(out, quant.InputColumn{Source: j, Lo: 0, Hi: 1, Gain: 1})
		}
		return out
	}
	return map[string]*quant.Input{
		"all plain":       join(plain(0, 20)),
		"few plain":       join(column(0, -4, 13, 1, s), column(1, -1, 1, 1.25, s), plain(2, 4)),
		"segments first":  join(column(0, -4, 13, 1, s), column(1, -3, 3, 0.75, s), plain(2, 22)),
		"segments last":   join(plain(0, 15), column(15, -4, 13, 1, s), column(16, -3, 3, 0.75, s)),
		"segments around": join(column(0, -4, 4, 1, s), plain(1, 12), column(12, -3, 30, 1.5, s)),
		"permuted":        join(plain(4, 14), column(0, 0, 9, 1, s), column(3, -3, 3, 0.75, s), plain(1, 3)),
		"one column":      join(column(0, -4, 13, 1, s)),
		"no segments":     join(plain(0, 3), column(3, -1, 2, 1.1, s)),
	}
}

// TestTabular holds the written input against quant.Input.Codes.
func TestTabular(t *testing.T) {
	eng := orttest.Need(t)
	for name, in := range inputs() {
		t.Run(name, func(t *testing.T) {
			dim := 0
			for _, c := range in.Columns {
				dim = max(dim, c.Source+1)
			}
			m := net(3, dim, 7, 2)
			p := planFor(t, m, 8, true)
			p.Input = in
			p.Layers[0].Act = nil
			q := write(t, m, p, qdq.Options{})
			wantFused(t, q, p, eng)
			code := ""
			for _, n := range q.Graph.Nodes {
				if n.Op == "QuantizeLinear" && code == "" {
					code = n.Outputs[0]
				}
			}
			x := wild(dim)
			got := run(t, expose(q, graph.Uint8, code), eng, x)
			codes := must.Get(got[code].Ints())(t)
			for i, want := range gridCodes(in, floats(t, x), dim) {
				if codes[i] != int64(want) {
					c := in.Columns[i%len(in.Columns)]
					t.Fatalf("code of %v in column %+v is %d, want %d", floats(t, x)[i/len(in.Columns)*dim+c.Source], c, codes[i],
						want)
				}
			}
			checkTied(t, q, in, &p.Layers[0], m, x)
		})
	}
}

// gridCodes returns the codes of rows, rows x columns: each column alone is an input whose kernel reads one code.
func gridCodes(in *quant.Input, x []float32, dim int) (codes []uint8) {
	for row := range slices.Chunk(x, dim) {
		for j, c := range in.Columns {
			v := row[c.Source]
			if in.Inner(j) {
				v = min(v, c.Hi)
			}
			c.Source = 0
			one := quant.Input{Scale: in.Scale, Columns: []quant.InputColumn{c}}
			codes = append(codes, uint8(math.Round(float64(one.Reads([]float32{v}, 1)[0]/in.Scale))))
		}
	}
	return codes
}

func checkTied(t *testing.T, q *graph.Model, in *quant.Input, l *quant.Layer, m *graph.Model, x *graph.Tensor) {
	eng := orttest.Need(t)
	layers := must.Get(quant.FindLayers(m))(t)
	enc := must.Get(l.Encode(in.Fold(layers[0]), in.Scale))(t)
	want, n := weights(enc), len(in.Columns)
	gemm := node(t, q, l.Node)
	for _, level := range []ort.Level{ort.Disabled, ort.All} {
		eng.Level = level
		got := floats(t, run(t, expose(q, graph.Float, gemm.Inputs[1]), eng, x)[gemm.Inputs[1]])
		must.Same(t, enc.Out*n, len(got))
		for i, w := range got {
			must.Same(t, want[i/n*enc.In+in.Columns[i%n].Source], w)
		}
	}
}

func wild(dim int) *graph.Tensor {
	rng := rand.New(rand.NewPCG(6, uint64(dim)))
	const n = 200
	x := make([]float32, n*dim)
	for i := range x {
		switch rng.IntN(4) {
		case 0:
			x[i] = float32(rng.IntN(2))
		case 1:
			x[i] = float32(rng.NormFloat64() * 20)
		default:
			x[i] = float32(rng.NormFloat64() * 2)
		}
	}
	return graph.FromFloats("x", x, n, int64(dim))
}

// TestAdultSize bounds the file of the network that the project is measured by:
// 104-64-32-2 at 4 bits, per channel, with segments and metadata.
func TestAdultSize(t *testing.T) {
	m := net(1, 104, 64, 32, 2)
	in := &quant.Input{Scale: 1. / 64}
	for j := range 104 {
		switch {
		case j == 4: // a range of thirteen standard deviations
			in.Columns = append(in.Columns, column(j, -0.2, 15, 1, in.Scale)...)
		case j < 6:
			in.Columns = append(in.Columns, column(j, -3, 6, 1, in.Scale)...)
		default:
			in.Columns = append(in.Columns, quant.InputColumn{Source: j, Lo: 0, Hi: 1, Gain: 1})
		}
	}
	p := planFor(t, m, 4, true)
	p.Input, p.Layers[0].Act = in, nil
	q := write(t, m, p, qdq.Options{Size: size(t)})
	q.SetMeta("cfq.recipe", fmt.Sprintf("%600d", 0))
	extra := len(in.Columns) - 104
	n := len(marshal(t, q))
	t.Logf("%d extra columns, %d bytes", extra, n)
	if n > 8000 {
		t.Errorf("the file has %d bytes", n)
	}
}
