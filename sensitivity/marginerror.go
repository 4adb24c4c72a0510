package sensitivity

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Measured measures the margin error of each bit width: open makes the classifier in which one layer alone is quantized
// in one of the formats, the rows of x are run through it, and the margin error is the mean squared difference of the
// target margin from c's. The result is layers x formats.
func Measured(ctx context.Context, c *classifier.Model, x []float32, layers, formats int,
	open func(layer, format int) (*classifier.Model, error),
) ([][]float64, error) {
	full := c.With(c.Graph()) // without the rounding of a file in other numbers, which is none of a layer's
	ref, err := full.Margins(ctx, x)
	if err = errors.Join(err, full.Close()); err != nil {
		return nil, err
	}
	out := make([][]float64, layers)
	for i := range layers {
		for f := range formats {
			var m []float32
			q, err := open(i, f)
			if err == nil {
				m, err = q.Margins(ctx, x)
				err = errors.Join(err, q.Close())
			}
			if err != nil {
				return nil, fmt.Errorf("margin error of layer %d in format %d: %w", i, f, err)
			}
			out[i] = append(out[i], MarginError(m, ref))
		}
	}
	return out, nil
}

// MarginError is the mean squared difference of margins from those that are wanted, in
// squared logits; 0 where there are none.
func MarginError(got, want []float32) float64 {
	var sum float64
	for i, v := range got {
		d := float64(v) - float64(want[i])
		sum += d * d
	}
	return sum / float64(max(1, len(got)))
}

// Change is what a format makes of a layer, in float: the layer's output becomes B + W h' where it was B + W h.
type Change struct {
	W []float32 // Out x In
	B []float32 // Out
	// h' is h through Act or on the grid Input, or h where both are nil; the same in all formats of a layer.
	Act   *quant.Act
	Input *quant.Input
}

// ChangesOf are the changes of plans, one for each format, made for the layer info: that of Input.Fold
// when input, the layout of the model's input (nil where there is none), feeds it. What
// the output quantizer of a convolution does is not in it.
func ChangesOf(plans []quant.Layer, info quant.LayerInfo, input *quant.Input) ([]Change, error) {
	changes := make([]Change, len(plans))
	for f := range plans {
		c, l := &changes[f], &plans[f]
		var scale float32
		switch {
		case l.Act != nil:
			c.Act, scale = l.Act, l.Act.Scale
		case input != nil && info.Input == input.Value:
			c.Input, scale = input, input.Scale
		}
		e, err := l.Encode(info, scale)
		if err != nil {
			return nil, fmt.Errorf("margin error of layer %q in format %d: %w", info.Node, f, err)
		}
		c.W, c.B = make([]float32, len(e.Codes)), slices.Clone(e.FloatB)
		for i, q := range e.Codes {
			c.W[i] = quant.Dequantize(q, e.Scale(i/e.In))
		}
		for o, b := range e.Bias {
			c.B[o] = float32(float64(b) * float64(e.InScale*e.Scale(o)))
		}
	}
	return changes, nil
}

// maxExact is how many multiplications Measured may take before FirstOrder is to be used
// in its place: some ten seconds of one core.
const maxExact = 1 << 39

// MaxFirstOrderRows is how many rows are enough for FirstOrder, which is for networks with which more would take long.
const MaxFirstOrderRows = 512

// openings is what making and opening one more model costs in addition to running it: as much as some hundred rows.
const openings = 256

// Exact is the rule by which the margin error is measured or estimated: it reports whether each of
// the formats of each of the layers of a model, which takes so many multiplications for
// a row (Multiplications), can be run on so many rows within maxExact. The work of Measured
// grows with layers times multiplications, that of FirstOrder only with the latter.
func Exact(layers, formats, rows, multiplications int) bool {
	return float64(layers)*float64(formats)*float64(rows+openings)*float64(multiplications) <= maxExact
}

// Multiplications is the number of multiplications of weights that a row takes.
func Multiplications(layers []quant.LayerInfo) int {
	n := 0
	for _, l := range layers {
		n += l.Params() * l.Positions
	}
	return n
}

// FirstOrder estimates what Measured measures, without running any quantized model: the
// mean over the rows of x of the squared first-order change of the target margin,
//
//	(sum_o g_o (output' - output)_o)^2,
//
// where g is the margin's gradient by the layer's output and output' what a change makes of it. What a layer's own
// weights, bias and quantized input do to its output is exact; only what that does to the margin is to first order, so
// layers behind which all is linear have their exact margin error. One run of the model with gradients serves all
// layers and formats. layers are those of the graph that c runs, never folded; only changesOf speaks of folded ones.
// The result is layers x formats.
func FirstOrder(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32,
	changesOf func(layer int) ([]Change, error), progress func(done, total int),
) ([][]float64, error) {
	changes, out := make([][]Change, len(layers)), make([][]float64, len(layers))
	var err error
	for i := range out {
		if changes[i], err = changesOf(i); err != nil {
			return nil, err
		}
		out[i] = make([]float64, len(changes[i]))
	}
	total := len(x) / c.Dim()
	err = observe(ctx, c, layers, x, classifier.Probe{Margin: true}, func(i, from, rows int, h, g []float32) {
		addErrors(out[i], &layers[i], changes[i], h, g, rows)
		if progress != nil && i == len(layers)-1 {
			progress(from+rows, total)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("first-order margin error: %w", err)
	}
	for _, row := range out {
		for f := range row {
			row[f] /= float64(max(1, total))
		}
	}
	return out, nil
}

// addErrors adds each format's squared first-order changes of the rows to sums: with g
// the gradients by the outputs, g (W' h' + B') - g (W h + B).
func addErrors(sums []float64, l *quant.LayerInfo, changes []Change, h, g []float32, rows int) {
	along := alongDense
	if l.Conv != nil {
		along = alongConv
	}
	before := make([]float64, rows)
	along(l, []Change{{W: l.W, B: l.B}}, h, g, rows, func(_, r int, v float64) { before[r] = v })
	read := quant.Reads(changes[0].Act, changes[0].Input, h, rows)
	along(l, changes, read, g, rows, func(f, r int, v float64) { sums[f] += (v - before[r]) * (v - before[r]) })
}

// alongDense gives to add g (W h + B) of each change and row: (g W) h + g B, which takes
// one matrix product for each change.
func alongDense(l *quant.LayerInfo, changes []Change, h, g []float32, rows int, add func(f, r int, v float64)) {
	n := rows * l.Positions
	p := blas32.General{Rows: n, Cols: l.In, Stride: l.In, Data: make([]float32, n*l.In)}
	for f, c := range changes {
		blas32.Gemm(blas.NoTrans, blas.NoTrans, 1,
			blas32.General{Rows: n, Cols: l.Out, Stride: l.Out, Data: g},
			blas32.General{Rows: l.Out, Cols: l.In, Stride: l.In, Data: c.W}, 0, p)
		for r := range rows {
			var v float64
			for k := r * l.Positions; k < (r+1)*l.Positions; k++ {
				v += dot(p.Data[k*l.In:(k+1)*l.In], h[k*l.In:(k+1)*l.In]) + dot(g[k*l.Out:(k+1)*l.Out], c.B)
			}
			add(f, r, v)
		}
	}
}

// alongConv is alongDense of a convolution, in which each weight meets every position:
// the sum of the weights times the row's gradient by them, the same for all changes.
func alongConv(l *quant.LayerInfo, changes []Change, h, g []float32, rows int, add func(f, r int, v float64)) {
	in, out := len(h)/rows, len(g)/rows
	for r := range rows {
		own := g[r*out : (r+1)*out]
		d := gradient(l, h[r*in:(r+1)*in], own)
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
