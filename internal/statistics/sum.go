package statistics

import (
	"math"
	"math/big"
)

// Sum adds numbers exactly: its value is the sum rounded once, so that it is the same for any order of the numbers. The
// zero value is an empty sum. Numbers that are not finite, or a sum beyond the largest number, make the value that the
// rules of arithmetic give.
//
// References: Shewchuk (1997), Adaptive Precision Floating-Point Arithmetic, section 2.
type Sum struct {
	parts   []float64 // whose sum it is, from small to large, without common digits
	special float64   // the sum where it is not finite
	beyond  bool      // it is not
}

// Add adds a number.
func (s *Sum) Add(x float64) {
	n := 0
	for _, y := range s.parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		sum := x + y
		if rest := y - (sum - x); rest != 0 {
			s.parts[n] = rest
			n++
		}
		x = sum
	}
	s.parts = append(s.parts[:n], x)
	if math.IsInf(x, 0) || math.IsNaN(x) {
		s.special, s.beyond, s.parts = s.special+x, true, nil
	}
}

// AddProduct adds the exact product of two numbers, unless it underflows.
func (s *Sum) AddProduct(x, y float64) {
	p := x * y
	s.Add(p)
	if !math.IsInf(p, 0) && !math.IsNaN(p) {
		s.Add(math.FMA(x, y, -p))
	}
}

// Exact is the sum without rounding; nil when it is not finite.
func (s *Sum) Exact() *big.Float {
	if s.beyond {
		return nil
	}
	const precision = 4400 // holds any sum of products of float64 numbers
	total := new(big.Float).SetPrec(precision)
	for _, x := range s.parts {
		total.Add(total, big.NewFloat(x))
	}
	return total
}

// Value is the sum, rounded to the nearest number.
func (s *Sum) Value() float64 {
	if s.beyond {
		return s.special
	}
	v, _ := s.Exact().Float64()
	return v
}
