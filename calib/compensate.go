package calib

import (
	"errors"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"cfq/quant"
)

// damping is added to the diagonal of the covariance, as a share of its mean, so
// that columns which hardly vary do not soak up the errors of all others.
const damping = 0.01

// covariance is what roundings that correct the bias minimise the error by: the
// second moments of h around its mean, damped, since what the error does to the mean
// of the output the bias takes up, exactly.
type covariance struct {
	n      int
	order  []int     // columns from the largest variance to the smallest
	matrix []float64 // n x n, damped, columns as in the layer
	// factor is the Cholesky factor U of the inverse, inverse = U^T U, of the columns
	// in order, by columns: row b holds U_0b ... U_bb.
	factor []float64
}

func newCovariance(gram, mean []float64) (*covariance, error) {
	n := len(mean)
	c := &covariance{n: n, matrix: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			c.matrix[i*n+j] = gram[i*n+j] - mean[i]*mean[j]
		}
	}
	c.order = descending(c.matrix, n)
	var trace float64
	for j := range n {
		trace += c.matrix[j*n+j]
	}
	ridge := damping*trace/float64(n) + 1e-12
	for j := range n {
		c.matrix[j*n+j] = max(0, c.matrix[j*n+j]) + ridge
	}
	var chol, ofInverse mat.Cholesky
	var inverse mat.SymDense
	if !chol.Factorize(ordered(c.matrix, c.order)) || chol.InverseTo(&inverse) != nil || !ofInverse.Factorize(&inverse) {
		return nil, errors.New("the second moments of its input are not those of finite numbers")
	}
	c.factor = rowMajor(n, ofInverse.LTo)
	return c, nil
}

// compensated is the error-compensated rounding of the GPTQ and OBQ family:
// the columns are rounded one after the other, and the error of each is made up
// for, as far as the calibration set allows, by the columns not yet rounded.
//
// Rounding column j by e leaves the others best off when they move by -e U_jk / U_jj,
// and costs (e / U_jj)^2. What moved a column is summed up when its turn has come, so
// that a search which has seen enough may stop there.
//
// Reference: Frantar et al., GPTQ, 2023, equations 2 and 3.
func (c *covariance) compensated(w []float32, scale float32, f quant.Format, codes []int8, by dither, limit float64) float64 {
	errs := make([]float64, c.n)
	var sum float64
	for a, j := range c.order {
		row := c.factor[a*c.n : a*c.n+a+1]
		v := float64(w[j]) - floats.Dot(errs[:a], row[:a])
		q := f.Quantize(by.move(float32(v), scale), scale)
		if codes != nil {
			codes[j] = q
		}
		e := (v - float64(quant.Dequantize(q, scale))) / row[a]
		errs[a] = e
		if sum += e * e; sum > limit {
			return sum
		}
	}
	return sum
}

// polished is compensated rounding, after which codes move by one where that
// makes the error smaller; see polish. Rounding by chance stays as it fell.
func (c *covariance) polished(w []float32, scale float32, f quant.Format, codes []int8, by dither, limit float64) float64 {
	sum := c.compensated(w, scale, f, codes, by, limit)
	if by == nil {
		sum = c.polish(w, scale, f, codes)
	}
	return sum
}

// polishRounds bounds the rounds of polish; each makes the error smaller.
const polishRounds = 20

// polish moves single codes up or down, column by column, as long as that makes
// the error smaller, and returns the error. With d the error of column j and g = C e,
// moving the code by t steps changes it by -2 t s g_j + t^2 s^2 C_jj.
func (c *covariance) polish(w []float32, scale float32, f quant.Format, codes []int8) float64 {
	e, g := make([]float64, c.n), make([]float64, c.n)
	for j, q := range codes {
		e[j] = float64(w[j]) - float64(quant.Dequantize(q, scale))
	}
	for j := range g {
		g[j] = floats.Dot(e, c.row(j))
	}
	s := float64(scale)
	for range polishRounds {
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

func (c *covariance) row(j int) []float64 { return c.matrix[j*c.n : (j+1)*c.n] }
