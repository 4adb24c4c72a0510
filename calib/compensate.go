package calib

import (
	"errors"
	"slices"

	"gonum.org/v1/gonum/mat"

	"cfq/quant"
)

// damping is added to the diagonal of the covariance, as a share of its mean, so
// that columns which hardly vary do not soak up the errors of all others.
const damping = 0.01

// compensation returns the error-compensated rounding of the GPTQ and OBQ family:
// the columns are rounded one after the other, and the error of each is made up
// for, as far as the calibration set allows, by the columns not yet rounded.
//
// The second moments are those around the mean of h: what the error does to the
// mean of the output the bias takes up, exactly. With H the damped covariance and
// U the upper Cholesky factor of its inverse, rounding column j by e leaves the
// others best off when they move by -e U_jk / U_jj, and costs (e / U_jj)^2.
// Columns go from the largest variance to the smallest.
//
// Reference: Frantar et al., GPTQ, 2023, equations 2 and 3.
func compensation(s *Stats, in int) (rounding, error) {
	order := make([]int, in)
	for j := range order {
		order[j] = j
	}
	variance := func(j int) float64 { return s.Gram[j*in+j] - s.Mean[j]*s.Mean[j] }
	slices.SortStableFunc(order, func(a, b int) int {
		switch va, vb := variance(a), variance(b); {
		case va > vb:
			return -1
		case va < vb:
			return 1
		}
		return 0
	})
	var trace float64
	for j := range in {
		trace += variance(j)
	}
	ridge := damping*trace/float64(in) + 1e-12
	h := mat.NewSymDense(in, nil)
	for a, i := range order {
		for b := a; b < in; b++ {
			j := order[b]
			h.SetSym(a, b, s.Gram[i*in+j]-s.Mean[i]*s.Mean[j])
		}
		h.SetSym(a, a, max(0, h.At(a, a))+ridge)
	}
	u, ok := inverseFactor(h)
	if !ok {
		return nil, errors.New("the second moments of its input are not those of finite numbers")
	}
	return func(w []float32, scale float32, f quant.Format, codes []int8, by dither) float64 {
		v := make([]float64, in)
		for a, j := range order {
			v[a] = float64(w[j])
		}
		var sum float64
		for a, j := range order {
			q := f.Quantize(by.move(float32(v[a]), scale), scale)
			if codes != nil {
				codes[j] = q
			}
			row := u[a*in : (a+1)*in]
			e := (v[a] - float64(quant.Dequantize(q, scale))) / row[a]
			sum += e * e
			for b := a + 1; b < in; b++ {
				v[b] -= e * row[b]
			}
		}
		return sum
	}, nil
}

// inverseFactor returns the upper Cholesky factor U of the inverse of h,
// inverse = U^T U, row-major; false when h is not positive definite.
func inverseFactor(h *mat.SymDense) ([]float64, bool) {
	var c, ci mat.Cholesky
	var inverse mat.SymDense
	if !c.Factorize(h) || c.InverseTo(&inverse) != nil || !ci.Factorize(&inverse) {
		return nil, false
	}
	var u mat.TriDense
	ci.UTo(&u)
	n, _ := u.Dims()
	out := make([]float64, n*n)
	for a := range n {
		for b := a; b < n; b++ {
			out[a*n+b] = u.At(a, b)
		}
	}
	return out, true
}
