package sensitivity

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// mostExact is how many multiplications Damage may take before FirstOrder is to be used
// in its place: some ten seconds of one core.
const mostExact = 1 << 39

// MostFirstOrderRows is how many rows FirstOrder takes the mean over at most; of more, so
// many are taken, evenly spread. It is for networks with which all would take long.
const MostFirstOrderRows = 512

// openings is what making and opening one more model costs beside running it: as much as
// some hundred rows.
const openings = 256

// Exact is the rule by which damage is measured or estimated: it reports whether each of
// the formats of each of the layers of a model, which takes so many multiplications for
// a row (Multiplications), can be run on so many rows within mostExact. The work of Damage
// grows with layers times multiplications, that of FirstOrder only with the latter.
func Exact(layers, formats, rows, multiplications int) bool {
	return float64(layers)*float64(formats)*float64(rows+openings)*float64(multiplications) <= mostExact
}

// Multiplications is the number of multiplications of weights that a row takes.
func Multiplications(layers []quant.LayerInfo) int {
	n := 0
	for i := range layers {
		n += layers[i].Params() * positions(&layers[i])
	}
	return n
}

// FirstOrder estimates what Damage measures, without running any quantized model: the
// mean over the rows of x (at most MostFirstOrderRows) of the squared first-order change of the target margin,
//
//	(sum_o g_o (output' - output)_o)^2,
//
// where g is the margin's gradient by the layer's output and output' what change
// makes of it. What a layer's own weights, bias and quantized input do to its output is
// exact; only what that does to the margin is to first order, so layers behind which all
// is linear have their exact damage. One run of the model with gradients serves all
// layers and formats. layers are those of the graph that c
// runs, never folded; only change speaks of folded ones. The result is
// layers x formats.
func FirstOrder(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, formats int, x []float32,
	change func(layer, format int) (Change, error), progress func(done, total int),
) ([][]float64, error) {
	p, reads, makes := around(layers)
	p.Margin = true
	out := make([][]float64, len(layers))
	changes := make([][]Change, len(layers))
	for i, l := range layers {
		out[i] = make([]float64, formats)
		for f := range formats {
			ch, err := change(i, f)
			if err != nil {
				return nil, fmt.Errorf("damage of layer %q in format %d: %w", l.Node, f, err)
			}
			changes[i] = append(changes[i], ch)
		}
	}
	x, _ = spread(x, nil, c.Dim(), MostFirstOrderRows)
	total := len(x) / c.Dim()
	err := c.Observe(ctx, x, p, func(from, rows int, values, grads [][]float32) error {
		for i, l := range layers {
			h, g := values[reads[i]], grads[makes[i]]
			if err := fits(&l, h, g, rows); err != nil {
				return err
			}
			addDamages(out[i], &l, changes[i], h, g, rows)
		}
		if progress != nil {
			progress(from+rows, total)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("first-order damage: %w", err)
	}
	for _, row := range out {
		for f := range row {
			row[f] /= float64(max(1, total))
		}
	}
	return out, nil
}

// addDamages adds each format's squared first-order changes of the rows to sums: with g
// the gradients by the outputs, g (W' h' + B') - g (W h + B).
func addDamages(sums []float64, l *quant.LayerInfo, changes []Change, h, g []float32, rows int) {
	along := alongDense
	if l.Conv != nil {
		along = alongConv
	}
	before := make([]float64, rows)
	along(l, []Change{{W: l.W, B: l.B}}, h, g, rows, func(_, r int, v float64) { before[r] = v })
	for from := 0; from < len(changes); {
		to := from + 1
		for to < len(changes) && sameReads(&changes[from], &changes[to]) {
			to++
		}
		along(l, changes[from:to], changes[from].reads(h, rows), g, rows, func(f, r int, v float64) {
			sums[from+f] += (v - before[r]) * (v - before[r])
		})
		from = to
	}
}

// alongDense gives to add g (W h + B) of each change and row: (g W) h + g B, which takes
// one matrix product for each change.
func alongDense(l *quant.LayerInfo, changes []Change, h, g []float32, rows int, add func(f, r int, v float64)) {
	p := blas32.General{Rows: rows, Cols: l.In, Stride: l.In, Data: make([]float32, rows*l.In)}
	for f, c := range changes {
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
			blas32.General{Rows: rows, Cols: l.Out, Stride: l.Out, Data: g},
			blas32.General{Rows: l.Out, Cols: l.In, Stride: l.In, Data: c.W}, 0, p)
		for r := range rows {
			add(f, r, dot(p.Data[r*l.In:(r+1)*l.In], h[r*l.In:(r+1)*l.In])+dot(g[r*l.Out:(r+1)*l.Out], c.B))
		}
	}
}

// alongConv is alongDense of a convolution, in which each weight meets every position:
// the sum of the weights times the row's gradient by them, the same for all changes.
func alongConv(l *quant.LayerInfo, changes []Change, h, g []float32, rows int, add func(f, r int, v float64)) {
	in, out := len(h)/rows, len(g)/rows
	d := make([]float64, l.Params())
	for r := range rows {
		own := g[r*out : (r+1)*out]
		convGradient(d, l, h[r*in:(r+1)*in], own)
		for f, c := range changes {
			var v float64
			for k, w := range c.W {
				v += float64(w) * d[k]
			}
			for o, b := range c.B {
				for _, x := range own[o*out/l.Out : (o+1)*out/l.Out] {
					v += float64(b) * float64(x)
				}
			}
			add(f, r, v)
		}
	}
}

func dot(a, b []float32) float64 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
