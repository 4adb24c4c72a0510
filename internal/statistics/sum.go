package statistics

import (
	"math"
	"math/big"
)

// Sum adds numbers exactly: its value is the sum rounded once, so that it is the same for any order of the numbers. The
// zero value is an empty sum. Numbers that are not finite make the value that the rules of arithmetic give.
//
// References: Shewchuk (1997), Adaptive Precision Floating-Point Arithmetic, grow-expansion.
type Sum struct {
	parts   []float64 // that do not overlap, ascending in size; their sum is exact
	special float64   // of what is not finite
	beyond  bool      // there is some
}

// Add adds a number.
func (s *Sum) Add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		s.special, s.beyond = s.special+x, true
		return
	}
	parts := s.parts
	s.parts = s.parts[:0]
	for _, y := range parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		high := x + y
		if math.IsInf(high, 0) {
			s.parts, s.special, s.beyond = nil, high, true
			return
		}
		if low := y - (high - x); low != 0 {
			s.parts = append(s.parts, low)
		}
		x = high
	}
	s.parts = append(s.parts, x)
}

// AddProduct adds the exact product of two numbers, unless it underflows.
func (s *Sum) AddProduct(x, y float64) {
	p := x * y
	s.Add(p)
	if !math.IsInf(p, 0) && !math.IsNaN(p) {
		s.Add(math.FMA(x, y, -p))
	}
}

// precision holds any sum of products of float64 numbers exactly.
const precision = 4400

// Exact is the sum without rounding; nil when it is not finite.
func (s *Sum) Exact() *big.Float {
	if s.beyond {
		return nil
	}
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
