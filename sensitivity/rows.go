package sensitivity

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Rows estimates what each width of each single output of dense layers does to the
// margin: the mean over the rows of x of
//
//	(g_o ((W' - W)_o h + (B' - B)_o))^2,
//
// where g_o is the margin's gradient by output o, h what the layer's kernel reads, and
// W' and B' are what change makes of the layer. One run of the model with gradients
// serves all outputs and formats. The result is layers x outputs x formats.
func Rows(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, formats int, x []float32,
	change func(layer, format int) (Change, error),
) ([][][]float64, error) {
	p, reads, makes := around(layers)
	p.Margin = true
	out := make([][][]float64, len(layers))
	changes := make([][]Change, len(layers))
	for i, l := range layers {
		out[i] = make([][]float64, l.Out)
		for o := range out[i] {
			out[i][o] = make([]float64, formats)
		}
		for f := range formats {
			ch, err := change(i, f)
			if err != nil {
				return nil, fmt.Errorf("damage of the rows of layer %q in format %d: %w", l.Node, f, err)
			}
			for k, w := range l.W {
				ch.W[k] -= w
			}
			for o, b := range l.B {
				ch.B[o] -= b
			}
			changes[i] = append(changes[i], ch)
		}
	}
	total := float64(max(1, len(x)/c.Dim()))
	err := c.Observe(ctx, x, p, func(_, rows int, values, grads [][]float32) error {
		for i, l := range layers {
			h, g := values[reads[i]], grads[makes[i]]
			if err := fits(&l, h, g, rows); err != nil {
				return err
			}
			e := make([]float32, rows*l.Out)
			var read []float32
			for f := range changes[i] {
				d := &changes[i][f]
				if f == 0 || !sameReads(d, &changes[i][f-1]) {
					read = d.reads(h, rows)
				}
				for r := range rows {
					copy(e[r*l.Out:(r+1)*l.Out], d.B)
				}
				blas32.Gemm(blas.NoTrans, blas.Trans, 1,
					blas32.General{Rows: rows, Cols: l.In, Stride: l.In, Data: read},
					blas32.General{Rows: l.Out, Cols: l.In, Stride: l.In, Data: d.W}, 1,
					blas32.General{Rows: rows, Cols: l.Out, Stride: l.Out, Data: e})
				for k, v := range e {
					moved := float64(g[k]) * float64(v)
					out[i][k%l.Out][f] += moved * moved / total
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("damage of the rows: %w", err)
	}
	return out, nil
}
