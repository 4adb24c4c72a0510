package calib

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
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

func (d *wide) polished(ctx context.Context, w, scales []float32, f quant.Format, codes []int8, sums []float64) error {
	if err := d.gptq(ctx, w, scales, f, codes); err != nil {
		return err
	}
	n := d.n
	errs := lists.Make(len(w), func(k int) float32 { return w[k] - quant.Dequantize(codes[k], scales[k/n]) })
	moments, err := d.product.of(ctx, errs, n, d.matrix, n)
	if err != nil {
		return err
	}
	e, g := make([]float64, n), make([]float64, n)
	for r, scale := range scales {
		for j := range n {
			e[j], g[j] = float64(errs[r*n+j]), float64(moments[r*n+j])
		}
		sums[r] = d.settle(e, g, scale, f, codes[r*n:(r+1)*n], widePolish)
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

// product multiplies matrices of any size in ONNX Runtime, in single precision.
type product struct{ session *ort.Session }

// newProduct opens the product of two matrices or, transposed, of the transpose of the first and the second.
func newProduct(e ort.Options, transposed bool) (*product, error) {
	of := func(name string) graph.Value {
		return graph.Value{Name: name, DType: graph.Float, Shape: graph.Shape{{Size: -1}, {Size: -1}}}
	}
	n := &graph.Node{Op: "Gemm", Inputs: []string{"a", "b"}, Outputs: []string{"c"}}
	if transposed {
		n.Attrs = []graph.Attr{graph.IntAttr("transA", 1)}
	}
	s, err := ort.Open(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: &graph.Graph{
		Name: "product", Inputs: []graph.Value{of("a"), of("b")}, Outputs: []graph.Value{of("c")}, Nodes: []*graph.Node{n},
	}}, e)
	if err != nil {
		return nil, err
	}
	return &product{s}, nil
}

func (p *product) of(ctx context.Context, a []float32, aRow int, b []float32, bRow int) ([]float32, error) {
	out, err := p.session.Run(ctx, []*graph.Tensor{
		ort.ViewFloats("a", a, int64(len(a)/aRow), int64(aRow)), ort.ViewFloats("b", b, int64(len(b)/bRow), int64(bRow)),
	})
	if err != nil {
		return nil, err
	}
	return ort.FloatsOf(out[0])
}

// addGram adds the products of the rows h, of width k, with themselves to gram; p is transposed. It multiplies what
// columns differ by from their means: in single precision nothing would be left of the variance of those far from 0.
func (p *product) addGram(ctx context.Context, gram, h []float64, k int) error {
	mean, n := make([]float64, k), float64(len(h)/k)
	for row := range slices.Chunk(h, k) {
		floats.AddScaled(mean, 1/n, row)
	}
	for row := range slices.Chunk(h, k) {
		floats.Sub(row, mean)
	}
	v := singles(h)
	sums, err := p.of(ctx, v, k, v, k)
	if err != nil {
		return err
	}
	for i, x := range sums {
		gram[i] += float64(x)
	}
	for i, m := range mean {
		floats.AddScaled(gram[i*k:(i+1)*k], n*m, mean)
	}
	return nil
}

func singles(v []float64) []float32 {
	return lists.Map(v, func(x float64) float32 { return float32(x) })
}
