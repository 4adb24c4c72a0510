package certify

import "math"

// unit is the relative error of one operation in float32, least what underflow may add to that.
const (
	unit  = 0x1p-24
	least = 1e-36
)

// notable is how large an uncertainty must be, relative to the number itself, to get a symbol.
const notable = 1e-5

// wider is the relative error of the bounds' own arithmetic, which is in double precision: sums of a few thousand terms.
const wider = 0x1p-38

// form encloses n numbers that depend on the symbols, each in [-1, 1]: number i is c[i], plus the sum of
// a[i] times the symbols, plus something within own[i]; and it lies between lo[i] and hi[i].
type form struct {
	c      []float64
	a      []float64 // n x k
	k      int       // the symbols from the k-th on have no part
	own    []float64
	lo, hi []float64
	mag    []float64 // bounds the numbers that were added up to number i, which rounding errors are relative to
}

func (f *form) row(i int) []float64 { return f.a[i*f.k : (i+1)*f.k] }

// reach is the largest magnitude of number i.
func (f *form) reach(i int) float64 { return math.Max(math.Abs(f.lo[i]), math.Abs(f.hi[i])) }

// settle computes the bounds of the numbers from the rest, within those that are there already.
func (f *form) settle() {
	for i, c := range f.c {
		r := f.own[i]
		for _, v := range f.row(i) {
			r += math.Abs(v)
		}
		r += wider * (math.Abs(c) + r)
		f.lo[i], f.hi[i] = math.Max(f.lo[i], c-r), math.Min(f.hi[i], c+r)
	}
}

// fix makes number i a constant.
func (f *form) fix(i int, v float64) {
	clear(f.row(i))
	f.c[i], f.own[i], f.lo[i], f.hi[i] = v, 0, v, v
}

// space hands out the numbers of forms, and symbols. What it has handed out is free again after reset.
type space struct {
	chunk   []float64
	used    int
	need    int // numbers handed out since the last reset
	symbols int
}

func (s *space) reset() {
	if s.need > len(s.chunk) {
		s.chunk = make([]float64, s.need+s.need/4)
	}
	s.used, s.need, s.symbols = 0, 0, 0
}

// floats returns n zeros.
func (s *space) floats(n int) []float64 {
	s.need += n
	if s.used+n > len(s.chunk) {
		return make([]float64, n)
	}
	v := s.chunk[s.used : s.used+n : s.used+n]
	s.used += n
	clear(v)
	return v
}

// form returns one of n numbers, all zero with any bounds, with k symbols.
func (s *space) form(n, k int) *form {
	f := &form{c: s.floats(n), a: s.floats(n * k), k: k, own: s.floats(n), lo: s.floats(n), hi: s.floats(n), mag: s.floats(n)}
	for i := range n {
		f.lo[i], f.hi[i] = math.Inf(-1), math.Inf(1)
	}
	return f
}

// box is the form of a box: a symbol for each input that has a width.
func (s *space) box(point, half []float32) *form {
	for _, h := range half {
		if h > 0 {
			s.symbols++
		}
	}
	f := s.form(len(point), s.symbols)
	at := 0
	for i, p := range point {
		f.c[i], f.lo[i], f.hi[i] = float64(p), float64(p), float64(p)
		f.mag[i] = math.Abs(f.c[i])
		if h := float64(half[i]); h > 0 {
			h += 2 * unit * (math.Abs(f.c[i]) + h) // whoever adds up to the edge in float32 is still inside
			f.row(i)[at] = h
			at++
			f.lo[i], f.hi[i] = f.c[i]-h, f.c[i]+h
			f.mag[i] += h
		}
	}
	return f
}

// shared adds to every number of f what lies within extra, as a symbol, so that others may refer to it; what
// is not worth one becomes the number's own.
func (s *space) shared(f *form, extra []float64) *form {
	var which []int
	for i, e := range extra {
		if e >= notable*math.Abs(f.reach(i)) && e > 0 {
			which = append(which, i)
		} else {
			f.own[i] += e
		}
	}
	if len(which) == 0 {
		return f
	}
	k := s.symbols
	s.symbols += len(which)
	g := *f
	g.k = s.symbols
	g.a = s.floats(len(f.c) * g.k)
	for i := range f.c {
		copy(g.row(i), f.row(i))
	}
	for j, i := range which {
		g.row(i)[k+j] = extra[i]
	}
	return &g
}
