package recourse

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

// expand is one round over discrete choices. It reports whether there was anything to expand.
func (s *search) expand() (bool, error) {
	var children []*lane
	by := map[*person][]*lane{}
	for _, p := range s.people {
		cs := s.switches(p)
		by[p] = cs
		children = append(children, cs...)
	}
	if len(children) == 0 {
		return false, nil
	}
	if err := s.eval(children, true); err != nil {
		return false, err
	}
	s.offer(children)
	var climbs []*lane
	for _, p := range s.people {
		cs := by[p]
		estimates := make(map[*lane]float64, len(cs))
		for _, l := range cs {
			estimates[l] = s.completion(l, 0)
		}
		p.kept = s.keep(cs, estimates)
		for _, l := range p.kept {
			if l.cost < p.cost && estimates[l] < 1.5*p.cost {
				climbs = append(climbs, s.climber(p, l.d, true, nil))
			}
		}
	}
	if err := s.ascend(climbs); err != nil {
		return false, err
	}
	for _, l := range children {
		if valid(l.margin, s.need) {
			climbs = append(climbs, l)
		}
	}
	if err := s.refine(s.cheapest(climbs, 2, 1.5)); err != nil {
		return false, err
	}
	return true, s.detach()
}

// keep returns the beam: the children of least estimated cost.
func (s *search) keep(cs []*lane, estimates map[*lane]float64) []*lane {
	cs = slices.Clone(cs)
	slices.SortStableFunc(cs, func(a, b *lane) int { return cmp.Compare(estimates[a], estimates[b]) })
	return cs[:min(len(cs), s.o.Beam)]
}

// detach moves what the next round needs out of the slab, and adds the discrete part of the best actions to it.
func (s *search) detach() error {
	var fresh []*lane
	for _, p := range s.people {
		for _, l := range p.kept {
			l.d = slices.Clone(l.d)
			l.g = slices.Clone(l.g)
		}
		if math.IsInf(p.cost, 1) {
			continue
		}
		l := &lane{p: p, d: slices.Clone(p.best)}
		for _, f := range p.a.free {
			if u := &p.a.units[f]; u.numeric() {
				l.d[u.first] = 0
			}
		}
		if p.visit(l.d) {
			l.cost = p.a.Cost(l.p.x, l.d)
			p.kept = append(p.kept, l)
			fresh = append(fresh, l)
		}
	}
	return s.eval(fresh, true)
}

// visit says whether the discrete choice is new.
func (p *person) visit(d []float32) bool {
	h := fnv.New64a()
	var b [8]byte
	for j, v := range d {
		if v != 0 {
			bits := uint64(j)<<32 | uint64(math.Float32bits(v))
			for i := range b {
				b[i] = byte(bits >> (8 * i))
			}
			h.Write(b[:])
		}
	}
	if p.seen[h.Sum64()] {
		return false
	}
	if p.seen == nil {
		p.seen = map[uint64]bool{}
	}
	p.seen[h.Sum64()] = true
	return true
}

// switches returns the new discrete choices that are one switch away from those kept, are within the
// sparsity limit and cost less than the best action; of too many, the most promising by the gradient.
func (s *search) switches(p *person) []*lane {
	parents := p.kept
	if p.seen == nil {
		p.visit(p.start.d)
		parents = []*lane{&p.start}
	}
	most := 16 * s.o.Beam
	var out []*lane
	estimates := map[*lane]float64{}
	scratch := s.slab.row(s.a.dim)
	for _, from := range parents {
		full := p.a.changes(from.d) >= p.a.limit
		for _, f := range p.a.free {
			u := &p.a.units[f]
			if full && !u.changed(from.d) {
				continue
			}
			child := func(gain, rise float64, set func(d []float32)) {
				if from.cost+rise >= p.cost || gain == 0 && rise == 0 {
					return
				}
				copy(scratch, from.d)
				if !p.a.apply(u, p.x, scratch, set) || !p.visit(scratch) {
					return
				}
				l := s.copyOf(&lane{p: p, d: scratch})
				l.cost, l.g, l.margin = p.a.Cost(l.p.x, l.d), from.g, from.margin
				estimates[l] = s.completion(l, gain)
				out = append(out, l)
			}
			u.each(p.x, func(o int) {
				gain, rise := p.a.switchGain(u, p.x, from.d, from.g, o)
				child(gain, rise, func(d []float32) { u.set(p.x, d, o) })
			})
			if u.numeric() && math.IsInf(p.cost, 1) {
				// Nothing is valid so far: the far ends of numbers are choices, too. Where the margin bends, the gradient does not lead there.
				for _, up := range []bool{false, true} {
					to := u.farthest(p.x[u.first], up)
					gain := float64(from.g[u.first]) * (float64(to) - float64(from.d[u.first]))
					child(gain, 0, func(d []float32) { d[u.first] = to })
				}
			}
		}
	}
	if len(out) > most {
		slices.SortStableFunc(out, func(a, b *lane) int { return cmp.Compare(estimates[a], estimates[b]) })
		out = out[:most]
	}
	return out
}

// completion estimates the cost of a valid action with the lane's discrete choices: its cost and, by the
// gradient, that of the cheapest numeric moves that close the gap, gain of which is closed already. What cannot be
// closed comes last, by what is left.
func (s *search) completion(l *lane, gain float64) float64 {
	gap := float64(s.need-l.margin) - gain
	if !(gap > 0) {
		return l.cost
	}
	var lines []line
	for _, f := range l.p.a.free {
		u := &l.p.a.units[f]
		slope := float64(l.g[u.first])
		if !u.numeric() || slope == 0 || slope != slope {
			continue
		}
		room := math.Abs(float64(u.outward(l.p.x[u.first], math.Copysign(far, slope), slope > 0)))
		if slope = math.Abs(slope); room > 0 {
			w := l.p.a.weights[u.first]
			lines = append(lines, line{slope, room, w, slope / w})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return -cmp.Compare(a.worth, b.worth) })
	lines = lines[:min(len(lines), max(l.p.a.limit-l.p.a.changes(l.d), 0))]
	return l.p.a.fill(l.cost, lines, gap)
}
