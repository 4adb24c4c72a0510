package calib

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"cfq/quant"
)

// rounding rounds one row of weights with a scale into codes (nil: only the
// error is wanted) and returns the reconstruction error of the row's output, or
// anything above limit when that is above limit. What by returns is added to each
// code before it is rounded; nil adds nothing.
type rounding func(w []float32, scale float32, f quant.Format, codes []int8, by dither, limit float64) float64

// unlimited is the limit that is none.
const unlimited = math.MaxFloat64

// nearest rounds every weight to the nearest code; its error is e^T Gram e.
func nearest(gram []float64, in int) rounding {
	return func(w []float32, scale float32, f quant.Format, codes []int8, by dither, _ float64) float64 {
		e := make([]float64, in)
		for j, v := range w {
			q := f.Quantize(by.move(v, scale), scale)
			if codes != nil {
				codes[j] = q
			}
			e[j] = float64(v) - float64(quant.Dequantize(q, scale))
		}
		return quadratic(gram, e)
	}
}

// searcher is nearest for searches: e^T Gram e as the squares of U e one after the
// other, U being the Cholesky factor of Gram, so that the sum can stop at the limit.
// Columns with the largest moments come first. It may differ from nearest in the
// last digits, since Gram need not be of full rank and is damped a little.
func searcher(gram []float64, in int) rounding {
	order := descending(gram, in)
	var trace float64
	for j := range in {
		trace += gram[j*in+j]
	}
	h := ordered(gram, order)
	for j := range in {
		h.SetSym(j, j, h.At(j, j)+rankSlack*trace/float64(in)+1e-12)
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return nearest(gram, in)
	}
	u := rowMajor(in, chol.UTo)
	return func(w []float32, scale float32, f quant.Format, _ []int8, _ dither, limit float64) float64 {
		e := make([]float64, in)
		for a, j := range order {
			e[a] = float64(w[j]) - float64(quant.Dequantize(f.Quantize(w[j], scale), scale))
		}
		var sum float64
		for a := range e {
			v := floats.Dot(e[a:], u[a*in+a:(a+1)*in])
			if sum += v * v; sum > limit {
				break
			}
		}
		return sum
	}
}

// rankSlack is added to the diagonal of Gram, as a share of its mean.
const rankSlack = 1e-9

// descending returns the columns from the largest diagonal element to the smallest.
func descending(m []float64, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m[b*n+b], m[a*n+a]) })
	return order
}

// ordered returns the symmetric matrix with rows and columns in order.
func ordered(m []float64, order []int) *mat.SymDense {
	n := len(order)
	h := mat.NewSymDense(n, nil)
	for a, i := range order {
		for b := a; b < n; b++ {
			h.SetSym(a, b, m[i*n+order[b]])
		}
	}
	return h
}

// rowMajor returns the triangular matrix that to writes.
func rowMajor(n int, to func(*mat.TriDense)) []float64 {
	var t mat.TriDense
	to(&t)
	out := make([]float64, n*n)
	for a := range n {
		for b := range n {
			out[a*n+b] = t.At(a, b)
		}
	}
	return out
}

// quadratic is e^T m e of a symmetric matrix.
func quadratic(m, e []float64) float64 {
	n := len(e)
	var sum float64
	for j, v := range e {
		if v != 0 {
			sum += v * (v*m[j*n+j] + 2*floats.Dot(e[:j], m[j*n:j*n+j]))
		}
	}
	return sum
}
