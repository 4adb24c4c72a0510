package certify

import "math"

const (
	// roundoff is the relative error of one operation in float32, underflow what underflow may add to it.
	roundoff  = 0x1p-24
	underflow = 1e-36
	// doubleError is the relative error of the bounds' own arithmetic, which is in double precision: sums of a few
	// thousand terms.
	doubleError = 0x1p-38
	// minSymbolShare is how large an uncertainty must be, relative to the number itself, to get a noise symbol.
	minSymbolShare = 1e-5
)

// zonotope encloses n numbers that depend on noise symbols, each in [-1, 1]: number i is c[i], plus the sum of
// a[i] times the symbols, plus an independent error within own[i]; and it lies between lo[i] and hi[i].
type zonotope struct {
	c      []float64
	a      []float64 // n x k
	k      int       // the coefficients of the symbols from the k-th on are zero
	own    []float64
	lo, hi []float64
	mag    []float64 // bounds the terms that were added up to number i, which rounding errors are relative to
}

func (z *zonotope) row(i int) []float64 { return z.a[i*z.k : (i+1)*z.k] }

// reach is the largest magnitude of number i.
func (z *zonotope) reach(i int) float64 { return math.Max(math.Abs(z.lo[i]), math.Abs(z.hi[i])) }

// tighten intersects the bounds of the numbers with those that the rest implies.
func (z *zonotope) tighten() {
	for i, c := range z.c {
		r := z.own[i]
		for _, v := range z.row(i) {
			r += math.Abs(v)
		}
		r += doubleError * (math.Abs(c) + r)
		z.lo[i], z.hi[i] = math.Max(z.lo[i], c-r), math.Min(z.hi[i], c+r)
	}
}

// set makes number i the constant v.
func (z *zonotope) set(i int, v float64) {
	clear(z.row(i))
	z.c[i], z.own[i], z.lo[i], z.hi[i], z.mag[i] = v, 0, v, v, math.Abs(v)
}

// noiseSymbols counts the noise symbols of a box.
type noiseSymbols struct{ symbols int }

// newZonotope returns one of n numbers and k symbols, all zero and without bounds.
func newZonotope(n, k int) *zonotope {
	all := make([]float64, n*(k+5))
	next := func(size int) []float64 {
		v := all[:size:size]
		all = all[size:]
		return v
	}
	z := &zonotope{c: next(n), a: next(n * k), k: k, own: next(n), lo: next(n), hi: next(n), mag: next(n)}
	for i := range n {
		z.lo[i], z.hi[i] = math.Inf(-1), math.Inf(1)
	}
	return z
}

// box is the zonotope of a box: one symbol for each input that has a width.
func (s *noiseSymbols) box(point, half []float32) *zonotope {
	for _, h := range half {
		if h > 0 {
			s.symbols++
		}
	}
	z := newZonotope(len(point), s.symbols)
	at := 0
	for i, p := range point {
		z.set(i, float64(p))
		if h := float64(half[i]); h > 0 {
			h += 2 * roundoff * (math.Abs(z.c[i]) + h) // point + half, added in float32, is still inside
			z.row(i)[at] = h
			at++
			z.lo[i], z.hi[i] = z.c[i]-h, z.c[i]+h
			z.mag[i] += h
		}
	}
	return z
}

// addSymbols adds to each number of z an error within extra, as a new symbol, so that other zonotopes can refer to
// it; an error that is not worth a symbol is added to the number's own.
func (s *noiseSymbols) addSymbols(z *zonotope, extra []float64) *zonotope {
	var which []int
	for i, e := range extra {
		if e >= minSymbolShare*math.Abs(z.reach(i)) && e > 0 {
			which = append(which, i)
		} else {
			z.own[i] += e
		}
	}
	if len(which) == 0 {
		return z
	}
	k := s.symbols
	s.symbols += len(which)
	wide := *z
	wide.k = s.symbols
	wide.a = make([]float64, len(z.c)*wide.k)
	for i := range z.c {
		copy(wide.row(i), z.row(i))
	}
	for j, i := range which {
		wide.row(i)[k+j] = extra[i]
	}
	return &wide
}

// axpy adds w times x to y.
func axpy(w float64, x, y []float64) {
	if w == 0 {
		return
	}
	y = y[:len(x)]
	for t, v := range x {
		y[t] += w * v
	}
}
