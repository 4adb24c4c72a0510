package proof

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// problem is a question about one person: the networks as functions of what the person can change. The inputs are gone:
// a row has a value at the person as they are, and an effect for each slot.
type problem struct {
	*Pair
	*actions
	substitution

	all                     []domain
	root                    *bounds   // over all domains; nil when there is no action
	ofAt, apartAt           field     // the network, and how the other one differs
	z, e                    []float64 // of an evaluation: what the units of either network give
	rounding, otherRounding rounding
	real                    bool // leaves float32 out
}

// substitution is the state of the last one.
type substitution struct {
	h, d, plane []float64 // what is left on units, on their differences, and on slots
	constant    float64
	heldH       []float64 // what was left on a unit, and on its difference, when it was relaxed
	heldD       []float64
	planes      [][4]bound // of the units of the last node that are open
}

// bound is a plane and a constant that bound what a unit reads: from above, from below with the sign reversed, and the
// same of how much more its twin reads.
type bound struct {
	plane    []float64
	constant float64
	price    float64 // of costs, that is best for it
}

func (p *problem) pair() bool { return p.other.bias != nil }

// field is a network by rows.
type field struct {
	at      []float64
	effects [][]float64 // nil where a row reads nothing that changes
}

func (s *side) field(x []float32, effects [][]term) field {
	f := field{at: slices.Clone(s.bias), effects: make([][]float64, len(s.input))}
	for r, w := range s.input {
		if w == nil {
			continue
		}
		for j, v := range x {
			f.at[r] += w[j] * float64(v)
		}
		row := make([]float64, len(effects))
		for k, of := range effects {
			for _, t := range of {
				row[k] += w[t.input] * t.by
			}
		}
		f.effects[r] = row
	}
	return f
}

// bounds are intervals of what units read, and of how much more their twins read.
type bounds struct{ lo, hi, apartLo, apartHi []float64 }

func (b *bounds) clone() *bounds {
	return &bounds{slices.Clone(b.lo), slices.Clone(b.hi), slices.Clone(b.apartLo), slices.Clone(b.apartHi)}
}

func noBounds(units int, pair bool) *bounds {
	wide := func(v float64) []float64 { return slices.Repeat([]float64{v}, units) }
	b := &bounds{lo: wide(math.Inf(-1)), hi: wide(math.Inf(1))}
	if pair {
		b.apartLo, b.apartHi = wide(math.Inf(-1)), wide(math.Inf(1))
	}
	return b
}

// decided says whether a unit is linear in both networks.
func (b *bounds) decided(u int) bool {
	sure := b.lo[u] >= 0 || b.hi[u] <= 0
	if b.apartLo == nil || !sure {
		return sure
	}
	return b.lo[u]+b.apartLo[u] >= 0 || b.hi[u]+b.apartHi[u] <= 0
}

// linearBound is z times what a unit reads, plus apart times how much more its twin reads, plus at. It misses what it
// bounds by loss at most.
type linearBound struct{ z, apart, at, loss float64 }

func (l *linearBound) add(by float64, m linearBound) {
	l.z += by * m.z
	l.apart += by * m.apart
	l.at += by * m.at
	l.loss += math.Abs(by) * m.loss
}

// relaxed bounds h times the unit's value plus d times how much larger its twin's is, from above.
func (b *bounds) relaxed(u int, h, d float64) (l linearBound) {
	if h > 0 {
		l.add(h, over(b.lo[u], b.hi[u]))
	} else if h < 0 {
		l.add(h, under(b.lo[u], b.hi[u]))
	}
	if d > 0 {
		l.add(d, b.apartOver(u))
	} else if d < 0 {
		l.add(d, b.apartUnder(u))
	}
	return l
}

// over is the triangle's upper side: max(0, z) is at most this for z in [lo, hi].
func over(lo, hi float64) linearBound {
	switch {
	case lo >= 0:
		return linearBound{z: 1}
	case hi <= 0:
		return linearBound{}
	}
	slope := hi / (hi - lo)
	return linearBound{z: slope, at: -slope * lo, loss: -slope * lo}
}

// under is the better one of 0 and z.
func under(lo, hi float64) linearBound {
	switch {
	case lo >= 0:
		return linearBound{z: 1}
	case hi <= 0:
		return linearBound{}
	case hi > -lo:
		return linearBound{z: 1, loss: -lo}
	}
	return linearBound{loss: hi}
}

func (l linearBound) minus(m linearBound) linearBound {
	return linearBound{l.z - m.z, l.apart - m.apart, l.at - m.at, l.loss + m.loss}
}

func tighter(l, m linearBound) linearBound {
	if m.loss < l.loss {
		return m
	}
	return l
}

// apartOver bounds max(0, z + e) - max(0, z) from above. Where both units are linear it is that; else it is at most the
// chord of max(0, e), and where one of them is linear, the bounds of the other one may be tighter.
func (b *bounds) apartOver(u int) linearBound {
	z, e, twin := b.intervals(u)
	return apartOver(z, twin, e)
}

// apartUnder is the same from below: the roles of the units exchanged.
func (b *bounds) apartUnder(u int) linearBound {
	z, e, twin := b.intervals(u)
	l := apartOver(twin, z, interval{-e.hi, -e.lo}) // of z + e, and of -e
	return linearBound{z: -l.z, apart: l.apart - l.z, at: -l.at, loss: l.loss}
}

type interval struct{ lo, hi float64 }

func (b *bounds) intervals(u int) (z, e, twin interval) {
	z, e = interval{b.lo[u], b.hi[u]}, interval{b.apartLo[u], b.apartHi[u]}
	return z, e, interval{z.lo + e.lo, z.hi + e.hi}
}

func apartOver(z, twin, e interval) linearBound {
	above := over(twin.lo, twin.hi)
	above.apart = above.z
	if above = above.minus(under(z.lo, z.hi)); above.loss == 0 {
		return above
	}
	chord := over(e.lo, e.hi)
	switch {
	case z.lo >= 0:
		chord.loss = max(chord.loss, -e.lo)
	case z.hi <= 0:
		chord.loss = max(chord.loss, e.hi)
	default:
		chord.loss = max(chord.loss, min(-z.lo, e.hi))
	}
	return tighter(above, linearBound{apart: chord.z, at: chord.at, loss: chord.loss})
}

// substitute replaces the units below top, the last one first, by what bounds them from above, until the plane over the
// slots and the returned constant are left of what h, d and plane add up to.
func (p *problem) substitute(b *bounds, top int) (at float64) {
	for u := top - 1; u >= 0; u-- {
		p.heldH[u], p.heldD[u] = p.h[u], p.d[u]
		if p.h[u] == 0 && p.d[u] == 0 {
			continue
		}
		l := b.relaxed(u, p.h[u], p.d[u])
		at += l.at
		p.include(u, l.z, l.apart, &at)
		p.h[u], p.d[u] = 0, 0
	}
	return at
}

// include adds z times row r of the network, plus apart times the row of the difference.
func (p *problem) include(r int, z, apart float64, at *float64) {
	if z != 0 {
		*at += z * p.ofAt.at[r]
		floats.AddScaled(p.h[p.of.first[r]:][:len(p.of.weight[r])], z, p.of.weight[r])
		if e := p.ofAt.effects[r]; e != nil {
			floats.AddScaled(p.plane, z, e)
		}
	}
	if apart != 0 {
		*at += apart * p.apartAt.at[r]
		floats.AddScaled(p.h[p.difference.first[r]:][:len(p.difference.weight[r])], apart, p.difference.weight[r])
		floats.AddScaled(p.d[p.other.first[r]:][:len(p.other.weight[r])], apart, p.other.weight[r])
		if e := p.apartAt.effects[r]; e != nil {
			floats.AddScaled(p.plane, apart, e)
		}
	}
}

// reduce sets the plane and the constant that bound z times row r plus apart times the row of the difference.
func (p *problem) reduce(b *bounds, r int, z, apart float64) {
	clear(p.plane)
	at := 0.0
	p.include(r, z, apart, &at)
	p.constant = at + p.substitute(b, min(r, p.units))
}

// spared adds the constant and what rounding may have taken to a bound of the plane.
func (p *problem) spared(bound float64) float64 {
	if bound += p.constant; math.IsInf(bound, -1) {
		return bound
	}
	return bound + 1e-10*(1+math.Abs(bound))
}

// few and many are rounds of the dual: of the bound of a unit, and of a margin.
const few, many = 4, 20

// narrow bounds the units over the domains within what b says already: by new planes, or by those that it left of
// larger domains. It is false when there is no action.
func (p *problem) narrow(b *bounds, dom []domain, anew bool) bool {
	for u := range p.units {
		if b.decided(u) {
			continue
		}
		lo, hi := []*float64{&b.lo[u]}, []*float64{&b.hi[u]}
		if p.pair() {
			lo, hi = append(lo, &b.apartLo[u]), append(hi, &b.apartHi[u])
		}
		for k := range 2 * len(lo) {
			of, sign := &p.planes[u][k], float64(1-2*(k%2))
			if anew {
				p.reduce(b, u, sign*float64(1-k/2), sign*float64(k/2))
				of.plane, of.constant = append(of.plane[:0], p.plane...), p.constant
			}
			p.constant = of.constant
			if most := p.spared(p.dual(dom, of.plane, &of.price)); sign > 0 {
				*hi[k/2] = min(*hi[k/2], most)
			} else if *lo[k/2] = max(*lo[k/2], -most); *lo[k/2] > *hi[k/2] {
				return false
			}
		}
	}
	return true
}

// evaluate returns the margins of the network and the other one.
func (p *problem) evaluate(pos []float64) (margin, other float64) {
	margin, other = p.forward(&p.of, p.z, pos, &p.ofAt), math.NaN()
	if p.pair() {
		other = p.forward(&p.other, p.e, pos, &p.ofAt, &p.apartAt)
	}
	return margin, other
}

// forward sets values to what the rows of a network give, which is the sum of the fields, and returns the margin.
func (p *problem) forward(s *side, values, pos []float64, fields ...*field) float64 {
	for u := range values {
		z := 0.0
		for _, f := range fields {
			z += f.at[u]
		}
		z += floats.Dot(s.weight[u], values[s.first[u]:][:len(s.weight[u])])
		for _, f := range fields {
			if e := f.effects[u]; e != nil {
				z += p.at(e, pos)
			}
		}
		if values[u] = z; u < p.units {
			values[u] = max(z, 0)
		}
	}
	return slices.Min(values[p.units:])
}
