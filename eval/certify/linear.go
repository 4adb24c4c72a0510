package certify

import "math"

// dense is y = W x + b, as Gemm and MatMul compute it.
type dense struct {
	node    string // its name, or its output's
	in, out int    // slots
	w       []float64
	b       []float64
	rows    int
	cols    int
	exact   bool // an integer kernel: sums are exact, only their scaling rounds
	between float64
}

// keptShare is how large, relative to the largest one, what a number has of its own must be to be followed
// through a layer by a symbol. The rest is added up without regard to signs; either is sound.
const keptShare = 1e-3

func (d *dense) run(p *pass) {
	x := p.forms[d.in]
	follow := followed(x)
	k, first := x.k, p.symbols
	if len(follow) > 0 {
		p.symbols += len(follow)
		k = p.symbols
	}
	y := p.form(d.rows, k)
	var live, moving, loose []int
	reach := p.floats(d.cols)
	for j := range d.cols {
		if reach[j] = x.reach(j); reach[j] != 0 {
			live = append(live, j)
		}
		for _, v := range x.row(j) {
			if v != 0 {
				moving = append(moving, j)
				break
			}
		}
		if x.own[j] > 0 {
			loose = append(loose, j)
		}
	}
	for _, j := range follow {
		at := 0
		for ; loose[at] != j; at++ {
		}
		loose = append(loose[:at], loose[at+1:]...)
	}
	for o := range d.rows {
		w, to := d.w[o*d.cols:(o+1)*d.cols], y.row(o)
		c, mag, own := d.b[o], math.Abs(d.b[o]), 0.0
		for _, j := range live {
			c += w[j] * x.c[j]
			mag += math.Abs(w[j]) * reach[j]
		}
		for _, j := range moving {
			axpy(w[j], x.row(j), to)
		}
		for f, j := range follow {
			to[first+f] = w[j] * x.own[j]
		}
		for _, j := range loose {
			own += math.Abs(w[j]) * x.own[j]
		}
		y.c[o], y.own[o], y.mag[o] = c, own, mag
	}
	if !d.exact {
		for o := range d.rows {
			y.own[o] += float64(len(live)+8)*unit*y.mag[o] + least
		}
	}
	y.settle()
	if d.exact {
		for o := range d.rows {
			y.mag[o] = y.reach(o)
			e := 8*unit*(y.mag[o]+math.Abs(d.b[o])) + wider*y.mag[o] + d.between*1.01 + least
			y.own[o] += e
			y.lo[o], y.hi[o] = y.lo[o]-e, y.hi[o]+e
		}
	}
	p.forms[d.out] = y
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

// followed returns the numbers of x whose own part is to have a symbol behind the layer.
func followed(x *form) []int {
	most := 0.0
	for _, e := range x.own {
		most = math.Max(most, e)
	}
	var out []int
	for j, e := range x.own {
		if e > 0 && e >= keptShare*most && e >= notable*x.reach(j) {
			out = append(out, j)
		}
	}
	return out
}

// pick moves numbers: number i is number at[i].of of slot at[i].from, or a constant where from is -1.
type pick struct {
	out int
	at  []source
}

type source struct {
	from, of int
	v        float64
}

func (d *pick) run(p *pass) {
	k := 0
	for _, s := range d.at {
		if s.from >= 0 {
			k = max(k, p.forms[s.from].k)
		}
	}
	y := p.form(len(d.at), k)
	for i, s := range d.at {
		if s.from < 0 {
			y.fix(i, s.v)
			y.mag[i] = math.Abs(s.v)
			continue
		}
		x := p.forms[s.from]
		copy(y.row(i), x.row(s.of))
		y.c[i], y.own[i], y.lo[i], y.hi[i], y.mag[i] = x.c[s.of], x.own[s.of], x.lo[s.of], x.hi[s.of], x.mag[s.of]
	}
	p.forms[d.out] = y
}

// affine is y = a x + b, number by number. terms bounds what b was computed from; it is nil where no float
// arithmetic is done, but units change.
type affine struct {
	in, out     int
	a, b, terms []float64
}

func (d *affine) run(p *pass) {
	x := p.forms[d.in]
	y := p.form(len(d.a), x.k)
	for i, a := range d.a {
		to := y.row(i)
		for t, v := range x.row(i) {
			to[t] = a * v
		}
		y.c[i] = a*x.c[i] + d.b[i]
		y.mag[i] = math.Abs(a)*x.mag[i] + math.Abs(d.b[i])
		e := 0.0
		if d.terms != nil {
			y.mag[i] += d.terms[i]
			e = 8*unit*y.mag[i] + least
		}
		y.own[i] = math.Abs(a)*x.own[i] + e
		lo, hi := a*x.lo[i]+d.b[i], a*x.hi[i]+d.b[i]
		e += wider * y.mag[i]
		y.lo[i], y.hi[i] = math.Min(lo, hi)-e, math.Max(lo, hi)+e
	}
	p.forms[d.out] = y
}

// sum adds and subtracts what several slots hold.
type sum struct {
	in   []int
	sign []float64
	out  int
}

func (d *sum) run(p *pass) {
	k := 0
	for _, s := range d.in {
		k = max(k, p.forms[s].k)
	}
	y := p.form(len(p.forms[d.in[0]].c), k)
	for j, s := range d.in {
		x := p.forms[s]
		for i := range y.c {
			axpy(d.sign[j], x.row(i), y.row(i))
			y.c[i] += d.sign[j] * x.c[i]
			y.own[i] += x.own[i]
			y.mag[i] += x.mag[i]
		}
	}
	for i := range y.c {
		y.own[i] += 4*unit*float64(len(d.in))*y.mag[i] + least
	}
	y.settle()
	p.forms[d.out] = y
}
