package certify

import (
	"math"
	"slices"
)

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

// noiseSymbols counts the noise symbols of a box, and has the memory of its zonotopes. It serves one box after the
// other: a box takes thousands of small slices, and there is one for each person.
type noiseSymbols struct {
	symbols     int
	block, free []float64 // free is the end of block
}

func (s *noiseSymbols) reset() { s.symbols, s.free = 0, s.block }

// floats returns n zeros. What an earlier block lent out stays valid until the reset.
func (s *noiseSymbols) floats(n int) []float64 {
	if n > len(s.free) {
		s.block = make([]float64, max(n, 2*len(s.block)))
		s.free = s.block
	}
	v := s.free[:n:n]
	s.free = s.free[n:]
	clear(v)
	return v
}

// newZonotope returns one of n numbers and k symbols, all zero and without bounds.
func (s *noiseSymbols) newZonotope(n, k int) *zonotope {
	all := s.floats(n * (k + 5))
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
	z := s.newZonotope(len(point), s.symbols)
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
	wide.a = s.floats(len(z.c) * wide.k)
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

// step computes the zonotope of a slot from those of others.
type step interface {
	run(p *pass)
	back(f *form) // substitutes what the step makes
}

// pass is one evaluation of a program over a box.
type pass struct {
	*noiseSymbols
	values []*zonotope // by slot
	first  bool        // a second pass will be relaxed jointly with this one, so errors need symbols
	full   []*zonotope // the slots of the full model, which this pass is relaxed jointly with; nil without
}

// program is a model as steps from its input to its logits.
type program struct {
	steps  []step
	slots  int
	input  int
	logits int
	// activations are those of the program by the value that they make, so that the same activation of the other
	// model can be found.
	activations map[string]*activation
}

// run evaluates the program.
func (g *program) run(p *pass, x *zonotope) *zonotope {
	p.values = make([]*zonotope, g.slots)
	p.values[g.input] = x
	for _, s := range g.steps {
		s.run(p)
	}
	return p.values[g.logits]
}

// linear makes each of its numbers from a few others and a constant: sums, products with constants, and
// numbers that only move.
type linear struct {
	out     int
	numbers []number
	exact   bool // no float arithmetic is done: numbers move, or codes become what they stand for
	// of an integer kernel that rounds the bias
	biasError float64
}

// number is b plus the terms. size bounds the magnitudes that b was computed from.
type number struct {
	terms   []term
	b, size float64
}

// term is a times number of of a slot.
type term struct {
	slot, of int
	a        float64
}

func (d *linear) run(p *pass) {
	k := 0
	for _, n := range d.numbers {
		for _, t := range n.terms {
			k = max(k, p.values[t.slot].k)
		}
	}
	y := p.newZonotope(len(d.numbers), k)
	for i, n := range d.numbers {
		y.set(i, n.b)
		y.mag[i] = n.size
		for _, t := range n.terms {
			x := p.values[t.slot]
			axpy(t.a, x.row(t.of), y.row(i))
			y.c[i] += t.a * x.c[t.of]
			y.own[i] += math.Abs(t.a) * x.own[t.of]
			y.mag[i] += math.Abs(t.a) * x.mag[t.of]
			lo, hi := t.a*x.lo[t.of], t.a*x.hi[t.of]
			y.lo[i], y.hi[i] = y.lo[i]+math.Min(lo, hi), y.hi[i]+math.Max(lo, hi)
		}
		e := d.rounding(y, i)
		y.own[i] += e
		e += doubleError * y.mag[i]
		y.lo[i], y.hi[i] = y.lo[i]-e, y.hi[i]+e
	}
	y.tighten()
	p.values[d.out] = y
}

// rounding bounds the error of float arithmetic in number i of what the step makes.
func (d *linear) rounding(y *zonotope, i int) float64 {
	if d.exact {
		return 0
	}
	return float64(len(d.numbers[i].terms)+8)*roundoff*y.mag[i] + underflow + d.biasError
}

// dense is y = W x + b, as Gemm and MatMul compute it.
type dense struct {
	in, out    int // slots
	w          []float64
	b          []float64
	rows, cols int
	exact      bool    // an integer kernel: sums are exact, only their scaling rounds
	biasError  float64 // of an integer kernel that rounds the bias
}

// minOwnShare is how large, relative to the largest one, the own error of a number must be to get a symbol behind the
// layer. The rest is added up in absolute value; either is sound.
const minOwnShare = 1e-3

func (d *dense) run(p *pass) {
	x := p.values[d.in]
	follow := withSymbols(x)
	k, first := x.k, p.symbols
	if len(follow) > 0 {
		p.symbols += len(follow)
		k = p.symbols
	}
	y := p.newZonotope(d.rows, k)
	var nonzero, uncertain []int                          // of x: not 0, with symbols
	reach, loose := p.floats(d.cols), slices.Clone(x.own) // loose: own errors that get no symbol
	for _, j := range follow {
		loose[j] = 0
	}
	for j := range d.cols {
		if reach[j] = x.reach(j); reach[j] != 0 {
			nonzero = append(nonzero, j)
		}
		if slices.ContainsFunc(x.row(j), func(v float64) bool { return v != 0 }) {
			uncertain = append(uncertain, j)
		}
	}
	for o := range d.rows {
		w, to := d.w[o*d.cols:(o+1)*d.cols], y.row(o)
		c, mag, own := d.b[o], math.Abs(d.b[o]), 0.0
		for _, j := range nonzero {
			c += w[j] * x.c[j]
			mag += math.Abs(w[j]) * reach[j]
		}
		for _, j := range uncertain {
			axpy(w[j], x.row(j), to)
		}
		for f, j := range follow {
			to[first+f] = w[j] * x.own[j]
		}
		for j, e := range loose {
			own += math.Abs(w[j]) * e
		}
		y.c[o], y.own[o], y.mag[o] = c, own, mag
	}
	if !d.exact {
		for o := range d.rows {
			y.own[o] += d.rounding(y, o, len(nonzero))
		}
	}
	y.tighten()
	if d.exact {
		for o := range d.rows {
			y.mag[o] = y.reach(o)
			e := d.rounding(y, o, 0)
			y.own[o] += e
			y.lo[o], y.hi[o] = y.lo[o]-e, y.hi[o]+e
		}
	}
	p.values[d.out] = y
}

// rounding bounds the error of number o of the layer, which adds up so many products that are not zero.
func (d *dense) rounding(y *zonotope, o, products int) float64 {
	if d.exact {
		return 8*roundoff*(y.mag[o]+math.Abs(d.b[o])) + doubleError*y.mag[o] + d.biasError*1.01 + underflow
	}
	return float64(products+8)*roundoff*y.mag[o] + underflow
}

// withSymbols returns, in ascending order, the numbers of x whose own error gets a symbol behind the layer.
func withSymbols(x *zonotope) []int {
	largest := slices.Max(x.own)
	var out []int
	for j, e := range x.own {
		if e > 0 && e >= minOwnShare*largest && e >= minSymbolShare*x.reach(j) {
			out = append(out, j)
		}
	}
	return out
}

// quotientError is the relative error of x / scale in ONNX Runtime. It also covers integer kernels, which
// multiply their sums by one float32 factor instead.
const quotientError = 0x1p-22

// quantize is QuantizeLinear: y is a code, as a number.
type quantize struct {
	in, out    int
	scale      float64
	zero       float64
	qmin, qmax float64
}

func (d *quantize) run(p *pass) {
	x := p.values[d.in]
	y := p.newZonotope(len(x.c), x.k)
	for i := range x.c {
		lo, hi := x.lo[i]/d.scale, x.hi[i]/d.scale
		slack := quotientError*math.Max(math.Abs(lo), math.Abs(hi)) + underflow
		lo, hi = lo-slack, hi+slack
		first, last := d.code(lo), d.code(hi)
		if first == last {
			y.set(i, first)
			continue
		}
		slope, from, to := d.clamped(lo, hi)
		e := (to-from)/2 + 0.5 + slack
		if !p.first && p.full == nil && (last-first)/2 <= e {
			// This pass is not compared with another model: the interval of the codes is closer than a line.
			y.c[i], y.own[i] = (first+last)/2, (last-first)/2
		} else {
			a := slope / d.scale
			axpy(a, x.row(i), y.row(i))
			y.c[i] = a*x.c[i] + d.zero + (from+to)/2
			y.own[i] = a*x.own[i] + e
			y.own[i] += doubleError * (math.Abs(y.c[i]) + y.own[i])
		}
		y.lo[i], y.hi[i] = first, last
		y.mag[i] = y.reach(i)
	}
	y.tighten()
	p.values[d.out] = y
}

// code returns the code of the quotient t.
func (d *quantize) code(t float64) float64 {
	return math.Max(d.qmin, math.Min(math.RoundToEven(t)+d.zero, d.qmax))
}

// clamped returns a slope and the range of clamp(t) - slope*t for t between lo and hi.
func (d *quantize) clamped(lo, hi float64) (slope, from, to float64) {
	bottom, top := d.qmin-d.zero, d.qmax-d.zero
	if lo >= bottom && hi <= top {
		return 1, 0, 0
	}
	clamp := func(t float64) float64 { return math.Max(bottom, math.Min(t, top)) }
	slope = (clamp(hi) - clamp(lo)) / (hi - lo)
	from, to = math.Inf(1), math.Inf(-1)
	for _, t := range []float64{lo, math.Max(lo, math.Min(bottom, hi)), math.Max(lo, math.Min(top, hi)), hi} {
		v := clamp(t) - slope*t
		from, to = math.Min(from, v), math.Max(to, v)
	}
	return slope, from, to
}

// function is a function of one number, with its linear relaxations.
type function interface {
	at(x float64) float64
	// extremes bounds at(x) for x between lo and hi.
	extremes(lo, hi float64) (from, to float64)
	// relax returns a slope and the range of at(x) - slope*x for x between lo and hi.
	relax(lo, hi float64) (slope, from, to float64)
	// slopes bounds the slopes between any two points between lo and hi.
	slopes(lo, hi float64) (from, to float64)
	// rounding bounds the difference between at and what ONNX Runtime computes, for arguments of magnitude reach.
	rounding(reach float64) float64
}

// piecewiseLinear has the slope left below knee, the slope right above it, and the value knee at knee: Relu,
// LeakyRelu, and bounds from one side.
type piecewiseLinear struct{ knee, left, right float64 }

// atLeast is the function max(x, bound), atMost min(x, bound).
func atLeast(bound float64) piecewiseLinear { return piecewiseLinear{knee: bound, right: 1} }
func atMost(bound float64) piecewiseLinear  { return piecewiseLinear{knee: bound, left: 1} }

func (h piecewiseLinear) at(x float64) float64 {
	if x > h.knee {
		return h.line(h.right, x)
	}
	return h.line(h.left, x)
}

func (h piecewiseLinear) extremes(lo, hi float64) (from, to float64) { return h.at(lo), h.at(hi) }

// line is the value at x of the line through the knee. It does not compute with the knee where it need not:
// the knee may be infinite, or so large that x is lost in the sum.
func (h piecewiseLinear) line(slope, x float64) float64 {
	switch slope {
	case 0:
		return h.knee
	case 1:
		return x
	}
	return slope*x + (1-slope)*h.knee
}

// relax is the relaxation of DeepZ: the slope between the ends, which for Relu is hi / (hi - lo).
func (h piecewiseLinear) relax(lo, hi float64) (slope, from, to float64) {
	switch {
	case lo >= h.knee:
		shift := h.line(h.right, 0)
		return h.right, shift, shift
	case hi <= h.knee:
		shift := h.line(h.left, 0)
		return h.left, shift, shift
	}
	slope = (h.at(hi) - h.at(lo)) / (hi - lo)
	a, b, c := h.at(lo)-slope*lo, h.at(hi)-slope*hi, h.knee-slope*h.knee // a and b differ by rounding only
	return slope, min(a, b, c), max(a, b, c)
}

func (h piecewiseLinear) slopes(lo, hi float64) (from, to float64) {
	switch {
	case lo >= h.knee:
		return h.right, h.right
	case hi <= h.knee:
		return h.left, h.left
	}
	return math.Min(h.left, h.right), math.Max(h.left, h.right)
}

func (h piecewiseLinear) rounding(reach float64) float64 {
	for _, s := range []float64{h.left, h.right} {
		if s != 0 && s != 1 {
			return 4*roundoff*(reach+math.Abs(h.knee)) + underflow
		}
	}
	return 0
}

// activation applies a function to each number. twin is the activation of the full model that computes the
// same functions of the value of the same name, nil when there is none.
type activation struct {
	in, out int
	of      []function
	twin    *activation
}

func (d *activation) run(p *pass) {
	x := p.values[d.in]
	k := x.k
	var fx, fy *zonotope // the twin's
	if p.full != nil && d.twin != nil {
		fx, fy = p.full[d.twin.in], p.full[d.twin.out]
		k = max(k, fx.k, fy.k)
	}
	y := p.newZonotope(len(x.c), k)
	extra := p.floats(len(x.c)) // errors of the relaxations
	for i, f := range d.of {
		lo, hi := x.lo[i], x.hi[i]
		slope, from, to := f.relax(lo, hi)
		e := math.Max(0, (to-from)/2)
		round := f.rounding(x.reach(i))
		if slope == 0 && e == 0 && round == 0 {
			y.set(i, f.at(lo))
			continue
		}
		y.c[i] = slope*x.c[i] + (from+to)/2
		y.own[i] = math.Abs(slope) * x.own[i]
		if fx != nil && e > 0 && y.relaxJointly(x, fx, fy, f, i, e) {
			e = 0
		} else {
			axpy(slope, x.row(i), y.row(i))
		}
		y.lo[i], y.hi[i] = f.extremes(lo, hi)
		y.lo[i], y.hi[i] = y.lo[i]-round, y.hi[i]+round
		y.mag[i] = y.reach(i)
		y.own[i] += round + doubleError*(math.Abs(y.c[i])+x.reach(i))
		if slope == 1 && from == 0 && to == 0 && round == 0 {
			y.own[i], y.mag[i] = x.own[i], x.mag[i] // the identity in this box
		}
		extra[i] = e
	}
	if p.full == nil && p.first {
		y = p.addSymbols(y, extra)
	} else {
		for i, e := range extra {
			y.own[i] += e
		}
	}
	y.tighten()
	p.values[d.out] = y
}

// relaxJointly sets number i of z to fy, the output of the full model, plus a slope times x - fx, the
// difference of the two models' inputs, if the error of that is below limit: the idea of ReluDiff. The slope
// lies between the smallest and the largest slope of f over both inputs.
func (z *zonotope) relaxJointly(x, fx, fy *zonotope, f function, i int, limit float64) bool {
	c, r := x.c[i]-fx.c[i], x.own[i]+fx.own[i]
	a, b := x.row(i), fx.row(i)
	n := min(len(a), len(b))
	for t := range n {
		r += math.Abs(a[t] - b[t])
	}
	for _, v := range a[n:] {
		r += math.Abs(v)
	}
	for _, v := range b[n:] {
		r += math.Abs(v)
	}
	from, to := f.slopes(math.Min(x.lo[i], fx.lo[i]), math.Max(x.hi[i], fx.hi[i]))
	mid, e := (from+to)/2, (to-from)/2*(math.Abs(c)+r)*(1+doubleError)
	if e >= limit {
		return false
	}
	z.c[i] = fy.c[i] + mid*c
	z.own[i] = fy.own[i] + math.Abs(mid)*(x.own[i]+fx.own[i]) + e
	row := z.row(i)
	copy(row, fy.row(i))
	axpy(mid, a, row)
	axpy(-mid, b, row)
	return true
}
