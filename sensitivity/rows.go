package sensitivity

import (
	"cmp"
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// What the points of Rows do not show: as much as unseenRows rows at which an output passes its Relu whatever it does
// on the points, and at which the margin depends on it as on an average output of the layer by the share unseenShare.
const (
	unseenRows  = 1.0
	unseenShare = 0.01
)

// Rows estimates the margin error of each bit width of each single output of dense
// layers: the mean over the n rows of x of
//
//	(g_o (f(z_o + e_o) - f(z_o)))^2,  e_o = (W' - W)_o h + (B' - B)_o,
//
// where z is the layer's output, f the Relu or Clip behind it (quant.Behind), g the margin's gradient by f(z), h what
// the layer's kernel reads, and W' and B' are those of a change. What several positions of a row add to the margin is
// summed before it is squared. A unit that a coarse row makes fire where it should not thus has an error.
//
// A unit that fires nowhere on the rows may fire elsewhere. So unseenRows / n of the mean of (g_o^2 + unseenShare
// mean g^2) e_o^2 is added: what the row does to its own output, as if f let it pass. An error of zero
// is thus that of a row that does not change at all.
//
// One run of the model with gradients serves all outputs and formats. The result is layers x outputs x formats.
func Rows(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32,
	changesOf func(layer int) ([]Change, error),
) ([][][]float64, error) {
	type batch struct {
		values, grads [][]float32
		rows          int
	}
	var batches []batch
	probe := classifier.Probe{Margin: true}
	for i := range layers {
		probe.Values = append(probe.Values, layers[i].Input, layers[i].Output)
		probe.Grads = append(probe.Grads, cmp.Or(layers[i].Behind.Value, layers[i].Output))
	}
	err := c.Observe(ctx, x, probe, func(_, rows int, values, grads [][]float32) error {
		batches = append(batches, batch{values, grads, rows})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("margin error of the rows: %w", err)
	}
	out := make([][][]float64, len(layers))
	for i := range layers { // the changes of one at a time: each format's are as large as the layer
		changes, err := changesOf(i)
		if err != nil {
			return nil, err
		}
		l, n := &layers[i], len(changes)*layers[i].Out
		for _, ch := range changes {
			for k, w := range l.W {
				ch.W[k] -= w
			}
			for o, b := range l.B {
				ch.B[o] -= b
			}
		}
		sums := rowErrors{l, changes, make([]float64, n), make([]float64, n), make([]float64, n), 0}
		for _, b := range batches {
			h, z, g := b.values[2*i], b.values[2*i+1], b.grads[i]
			if err := fits(&layers[i], h, g, b.rows); err != nil {
				return nil, err
			}
			sums.add(h, z, g, b.rows)
		}
		rows := float64(max(1, len(x)/c.Dim()))
		slope := sums.slopes / rows / float64(l.Out)
		out[i] = make([][]float64, l.Out)
		for at := range n {
			o := at % l.Out
			unseen := (sums.passing[at] + unseenShare*slope*sums.own[at]) / rows
			out[i][o] = append(out[i][o], (sums.seen[at]+unseenRows*unseen)/rows)
		}
	}
	return out, nil
}

// rowErrors are sums over rows for one layer; those by output and format are formats x outputs.
type rowErrors struct {
	layer   *quant.LayerInfo
	changes []Change // what the formats add to weights and bias
	seen    []float64
	passing []float64 // of g^2 e^2
	own     []float64 // of e^2
	slopes  float64   // of g^2, over all outputs
}

func (s *rowErrors) add(h, z, g []float32, rows int) {
	l := s.layer
	lo, hi := l.Behind.Bounds()
	for _, v := range g {
		s.slopes += float64(v) * float64(v)
	}
	n := rows * l.Positions
	e := make([]float32, n*l.Out)
	read := quant.Reads(s.changes[0].Act, s.changes[0].Input, h, rows)
	for f, d := range s.changes {
		for r := range n {
			copy(e[r*l.Out:(r+1)*l.Out], d.B)
		}
		blas32.Gemm(blas.NoTrans, blas.Trans, 1,
			blas32.General{Rows: n, Cols: l.In, Stride: l.In, Data: read},
			blas32.General{Rows: l.Out, Cols: l.In, Stride: l.In, Data: d.W}, 1,
			blas32.General{Rows: n, Cols: l.Out, Stride: l.Out, Data: e})
		for k := range rows * l.Out {
			row, o := k/l.Out, k%l.Out
			at := f*l.Out + o
			var moved, through, own float64
			for p := (row*l.Positions)*l.Out + o; p < (row+1)*l.Positions*l.Out; p += l.Out {
				v := e[p]
				moved += float64(g[p]) * float64(min(max(z[p]+v, lo), hi)-min(max(z[p], lo), hi))
				through += float64(g[p]) * float64(v)
				own += float64(v) * float64(v)
			}
			s.seen[at] += moved * moved
			s.passing[at] += through * through
			s.own[at] += own
		}
	}
}
