package main

import "math/rand/v2"

// mul is a*b rounded to float64. The conversion forbids the compiler to fuse
// the product with an addition, which some machines do and others do not.
func mul(a, b float64) float64 { return float64(a * b) }

// exp is e^x for |x| < 700 from its Taylor series on |x| <= 1/2 and repeated
// multiplication: accurate to about 1e-14, and the same everywhere, which
// math.Exp is not.
func exp(x float64) float64 {
	if x < 0 {
		return 1 / exp(-x)
	}
	const e = 2.718281828459045
	whole := int(x)
	x -= float64(whole)
	half := x > 0.5
	if half {
		x -= 0.5
	}
	sum, term := 1.0, 1.0
	for k := 1; k <= 16; k++ {
		term = mul(term, x) / float64(k)
		sum += term
	}
	if half {
		sum = mul(sum, 1.6487212707001282) // sqrt(e)
	}
	for range whole {
		sum = mul(sum, e)
	}
	return sum
}

// source draws random numbers from a PCG stream. Only its 64-bit words come
// from the library; how they become numbers is written here.
type source struct{ pcg *rand.PCG }

func newSource(stream uint64) *source { return &source{rand.NewPCG(20240607, stream)} }

// uniform is in [0, 1).
func (s *source) uniform() float64 { return float64(s.pcg.Uint64()>>11) / (1 << 53) }

// normal is nearly normal with mean 0 and variance 1: the sum of twelve
// uniforms less six (Irwin-Hall).
func (s *source) normal() float64 {
	sum := -6.0
	for range 12 {
		sum += s.uniform()
	}
	return sum
}

// below is in {0, ..., n-1}.
func (s *source) below(n int) int { return int(s.pcg.Uint64() % uint64(n)) }

// pick returns an index with the given probabilities, which sum to 1.
func (s *source) pick(shares ...float64) int {
	u := s.uniform()
	for i, p := range shares {
		if u < p {
			return i
		}
		u -= p
	}
	return len(shares) - 1
}

// clamp limits x to [lo, hi].
func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

// round returns x as a whole multiple of step, for x >= 0.
func round(x, step float64) float64 { return mul(float64(int64(x/step+0.5)), step) }
