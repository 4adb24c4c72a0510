package calib

import (
	"context"

	"gonum.org/v1/gonum/blas/blas32"

	"cfq/quant"
)

// Rows of wide layers are rounded many at once, in single precision: products of matrices take the place of products
// of vectors, which wait for memory. wideBlock columns are rounded between two products, wideRows rows together; more
// than widePolish rounds of polish gain little.
const (
	wideBlock  = 64
	wideRows   = 512
	widePolish = 1
)

type wide struct {
	*covariance
	product *product
	matrix  []float32 // covariance.matrix
	factor  []float32 // covariance.factor
}

// polished is covariance.polished of the rows w, which have a scale each.
func (d *wide) polished(ctx context.Context, w, scales []float32, f quant.Format, codes []int8) error {
	if err := d.gptq(ctx, w, scales, f, codes); err != nil {
		return err
	}
	n := d.n
	errs := make([]float32, len(w))
	for k, q := range codes {
		errs[k] = w[k] - quant.Dequantize(q, scales[k/n])
	}
	moments, err := d.product.of(ctx, errs, n, d.matrix, n)
	if err != nil {
		return err
	}
	e, g := make([]float64, n), make([]float64, n)
	for r, scale := range scales {
		for j := range n {
			e[j], g[j] = float64(errs[r*n+j]), float64(moments[r*n+j])
		}
		d.settle(e, g, scale, f, codes[r*n:(r+1)*n], widePolish)
	}
	return nil
}

// gptq is covariance.gptq of the rows w. errs holds the errors of a column of all rows in a row, moved what those of
// columns before the block add to the columns in it.
func (d *wide) gptq(ctx context.Context, w, scales []float32, f quant.Format, codes []int8) error {
	n, rows := d.n, len(scales)
	errs := make([]float32, n*rows)
	of := func(a int) blas32.Vector { return blas32.Vector{N: rows, Inc: 1, Data: errs[a*rows : (a+1)*rows]} }
	moved := make([]float32, wideBlock*rows)
	for from := 0; from < n; from += wideBlock {
		to := min(from+wideBlock, n)
		if from > 0 {
			part := make([]float32, 0, (to-from)*from)
			for a := from; a < to; a++ {
				part = append(part, d.factor[a*n:a*n+from]...)
			}
			var err error
			if moved, err = d.product.of(ctx, part, from, errs[:from*rows], rows); err != nil {
				return err
			}
		}
		for a := from; a < to; a++ {
			j, row := d.order[a], d.factor[a*n:(a+1)*n]
			sum := blas32.Vector{N: rows, Inc: 1, Data: moved[(a-from)*rows : (a-from+1)*rows]}
			for b := from; b < a; b++ {
				blas32.Axpy(row[b], of(b), sum)
			}
			share := 1 / row[a]
			for r, scale := range scales {
				v := w[r*n+j]
				q := f.Quantize(v+sum.Data[r]*share, scale)
				codes[r*n+j] = q
				errs[a*rows+r] = v - quant.Dequantize(q, scale)
			}
		}
	}
	return nil
}
