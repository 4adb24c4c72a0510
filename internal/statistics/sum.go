package statistics

import (
	"math"
	"math/big"
)

// Sum adds numbers exactly: its value is the sum rounded once, so that it is the same for any order of the numbers. The
// zero value is an empty sum. Numbers that are not finite make the value that the rules of arithmetic give.
//
// References: Neal (2015), Fast Exact Summation Using Small and Large Superaccumulators, section 3.
type Sum struct {
	digits  []int64 // the sum is that of digits[i] * 2^(32 (low + i) - 1074); they may be larger than a digit
	low     int
	adds    int     // since no digit but the last was larger
	special float64 // of what is not finite
	beyond  bool    // there is some
}

const (
	digitBits = 32
	lowest    = 1074 // 2^-1074 is the smallest number
	// maxAdds is how often at most 53 bits can be added to a digit of 64.
	maxAdds = 1000
)

// Add adds a number.
func (s *Sum) Add(x float64) {
	bits := math.Float64bits(x)
	exponent, mantissa := int(bits>>52&0x7ff), bits&(1<<52-1)
	switch exponent {
	case 0x7ff:
		s.special, s.beyond = s.special+x, true
		return
	case 0: // a subnormal number
	default:
		mantissa |= 1 << 52
		exponent--
	}
	if mantissa == 0 {
		return
	}
	at, shift := exponent/digitBits, uint(exponent%digitBits)
	i := at - s.low
	if i < 0 || i+1 >= len(s.digits) {
		s.grow(at)
		i = at - s.low
	}
	first, second := int64(mantissa<<shift&(1<<digitBits-1)), int64(mantissa>>(digitBits-shift))
	if x < 0 {
		first, second = -first, -second
	}
	s.digits[i] += first
	s.digits[i+1] += second
	if s.adds++; s.adds == maxAdds {
		s.carry()
	}
}

func (s *Sum) grow(at int) {
	if s.digits == nil {
		s.low = at
	}
	if n := s.low - at; n > 0 {
		s.digits, s.low = append(make([]int64, n), s.digits...), at
	}
	if n := at + 2 - s.low - len(s.digits); n > 0 {
		s.digits = append(s.digits, make([]int64, n)...)
	}
}

// carry leaves no digit but the last larger than one.
func (s *Sum) carry() {
	s.adds = 0
	for i := 0; i < len(s.digits); i++ {
		over := s.digits[i] >> digitBits // rounded down
		if over == 0 || over == -1 && i+1 == len(s.digits) {
			continue
		}
		if i+1 == len(s.digits) {
			s.digits = append(s.digits, 0)
		}
		s.digits[i] -= over << digitBits
		s.digits[i+1] += over
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

// precision holds any sum of products of float64 numbers exactly.
const precision = 4400

// Exact is the sum without rounding; nil when it is not finite.
func (s *Sum) Exact() *big.Float {
	if s.beyond {
		return nil
	}
	total := new(big.Float).SetPrec(precision)
	for i, d := range s.digits {
		digit := new(big.Float).SetInt64(d)
		total.Add(total, digit.SetMantExp(digit, digitBits*(s.low+i)-lowest))
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
