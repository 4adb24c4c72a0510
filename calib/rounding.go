package calib

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"cfq/internal/lists"
	"cfq/quant"
)

// rounding rounds one row of weights with a scale into codes (nil: only the error is wanted) and returns the
// reconstruction error of the row's output, or anything above limit when that is above limit. What by returns is added
// to each code before it is rounded; nil adds nothing.
type rounding func(w []float32, scale float32, f quant.Format, codes []int8, by dither, limit float64) float64

const unlimited = math.MaxFloat64

// nearest rounds every weight to the nearest code; its error is e^T Gram e.
func nearest(gram []float64, in int) rounding {
	m := mat.NewSymDense(in, gram)
	return func(w []float32, scale float32, f quant.Format, codes []int8, by dither, _ float64) float64 {
		e := mat.NewVecDense(in, nil)
		for j, v := range w {
			q := f.Quantize(by.move(v, scale), scale)
			if codes != nil {
				codes[j] = q
			}
			e.SetVec(j, float64(v)-float64(quant.Dequantize(q, scale)))
		}
		return mat.Inner(e, m, e)
	}
}

// searcher is nearest for searches: e^T Gram e as the squares of U e one after the other, U being the Cholesky factor
// of Gram, so that the sum can stop at the limit. Columns with the largest moments come first. It may differ from
// nearest in the last digits, since Gram need not be of full rank and is damped a little.
func searcher(gram []float64, in int) rounding {
	order := descending(gram, in)
	var chol mat.Cholesky
	if !chol.Factorize(ordered(damped(gram, in, rankSlack), order)) {
		return nearest(gram, in)
	}
	var t mat.TriDense
	chol.UTo(&t)
	u := t.RawTriangular().Data
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

// What is added to the diagonal of second moments, as a share of its mean: rankSlack makes them positive definite; with
// damping, columns which hardly vary do not soak up the errors of all others.
const (
	rankSlack = 1e-9
	damping   = 0.01
)

// damped returns the n x n matrix m with the share of its mean diagonal added to the diagonal.
func damped(m []float64, n int, share float64) []float64 {
	var trace float64
	for j := range n {
		trace += m[j*n+j]
	}
	ridge := share*trace/float64(n) + 1e-12
	m = slices.Clone(m)
	for j := range n {
		m[j*n+j] = max(0, m[j*n+j]) + ridge
	}
	return m
}

// descending returns the columns from the largest diagonal element to the smallest.
func descending(m []float64, n int) []int {
	order := lists.Make(n, func(i int) int { return i })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m[b*n+b], m[a*n+a]) })
	return order
}

func ordered(m []float64, order []int) *mat.SymDense {
	var h mat.SymDense
	h.SubsetSym(mat.NewSymDense(len(order), m), order)
	return &h
}

// covariance is what roundings that correct the bias minimise the error by: the second moments of h around its mean,
// damped, since what the error does to the mean of the output the bias takes up, exactly.
type covariance struct {
	n      int
	order  []int     // columns from the largest variance to the smallest
	matrix []float64 // n x n, damped, columns as in the layer
	// factor is the upper triangular R, matrix = R R^T, of the columns in order, by columns: row b holds R_0b ... R_bb.
	// It is the inverse of the Cholesky factor that GPTQ takes of the inverse.
	factor []float64
}

func newCovariance(m Moments) (*covariance, error) {
	n := len(m.Mean)
	c := &covariance{n: n, matrix: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			c.matrix[i*n+j] = m.Gram[i*n+j] - m.Mean[i]*m.Mean[j]
		}
	}
	c.order, c.matrix = descending(c.matrix, n), damped(c.matrix, n, damping)
	// Columns from the last to the first have the factor L = J R J, J reversing the order.
	reversed := slices.Clone(c.order)
	slices.Reverse(reversed)
	lower, ok := lapack64.Potrf(ordered(c.matrix, reversed).RawSymmetric()) // the transpose of L, row by row
	if !ok {
		return nil, errors.New("the second moments of its input are not those of finite numbers")
	}
	slices.Reverse(lower.Data)
	c.factor = lower.Data
	return c, nil
}

// gptq rounds the columns one after the other, and the error of each is made up
// for, as far as the calibration set allows, by the columns not yet rounded.
//
// With d the errors of the columns before it, column b is best rounded as its weight plus d^T R_b / R_bb, where
// R_b is its column of R. Rounding that by e costs (e R_bb)^2. What moves a column is summed up when its turn has come,
// so that a search which has seen enough may stop there.
//
// Reference: Frantar et al., GPTQ, 2023, equations 2 and 3, with R in place of its inverse, as in Chen et al., The
// Geometry of LLM Quantization, 2025.
func (c *covariance) gptq(w []float32, scale float32, f quant.Format, codes []int8, by dither, limit float64) float64 {
	errs := make([]float64, c.n)
	var sum float64
	for a, j := range c.order {
		row := c.factor[a*c.n : a*c.n+a+1]
		v := float64(w[j]) + floats.Dot(errs[:a], row[:a])/row[a]
		q := f.Quantize(by.move(float32(v), scale), scale)
		if codes != nil {
			codes[j] = q
		}
		rounded := float64(quant.Dequantize(q, scale))
		errs[a] = float64(w[j]) - rounded
		e := (v - rounded) * row[a]
		if sum += e * e; sum > limit {
			return sum
		}
	}
	return sum
}

// polished is gptq, after which codes move by one where that
// makes the error smaller; see polish. Rounding by chance stays as it fell.
func (c *covariance) polished(w []float32, scale float32, f quant.Format, codes []int8, by dither,
	limit float64,
) float64 {
	sum := c.gptq(w, scale, f, codes, by, limit)
	if by == nil {
		sum = c.polish(w, scale, f, codes)
	}
	return sum
}

// polishRounds bounds the rounds of polish; each makes the error smaller.
const polishRounds = 20

// polish moves single codes up or down, column by column, as long as that makes the error smaller, and returns the
// error. With d the error of column j and g = C e, moving the code by t steps changes it by -2 t s g_j + t^2 s^2 C_jj.
func (c *covariance) polish(w []float32, scale float32, f quant.Format, codes []int8) float64 {
	e, g := c.errors(w, scale, codes)
	return c.settle(e, g, scale, f, codes, polishRounds)
}

// settle is polish, in so many rounds at most, of codes with the errors e, of which g is C e.
func (c *covariance) settle(e, g []float64, scale float32, f quant.Format, codes []int8, rounds int) float64 {
	s := float64(scale)
	for range rounds {
		moved := false
		for j := range g {
			step, up := 1, g[j] > 0
			if !up {
				step = -1
			}
			next := int(codes[j]) + step
			if next < f.QMin || next > f.QMax || s*c.matrix[j*c.n+j] >= 2*float64(step)*g[j]*(1-1e-9) {
				continue
			}
			codes[j], moved = int8(next), true
			e[j] -= float64(step) * s
			floats.AddScaled(g, -float64(step)*s, c.row(j))
		}
		if !moved {
			break
		}
	}
	return floats.Dot(e, g)
}

func (c *covariance) errors(w []float32, scale float32, codes []int8) (e, g []float64) {
	e = lists.Make(c.n, func(j int) float64 { return float64(w[j]) - float64(quant.Dequantize(codes[j], scale)) })
	return e, lists.Make(c.n, func(j int) float64 { return floats.Dot(e, c.row(j)) })
}

func (c *covariance) row(j int) []float64 { return c.matrix[j*c.n : (j+1)*c.n] }
