package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/task"
)

// refine makes valid lanes cheaper and offers them.
func (s *search) refine(ls []*lane) error {
	for _, stage := range []func([]*lane) error{s.simplify, s.shrink, s.exchange, s.simplify, s.shrink} {
		if err := stage(ls); err != nil {
			return err
		}
	}
	s.offer(ls)
	return nil
}

// simplify drops needless changes and replaces switches by cheaper ones, the largest saving first, until nothing more can go.
func (s *search) simplify(ls []*lane) error {
	active := slices.Clone(ls)
	for len(active) > 0 {
		var tries []*lane
		var owner []int
		for i, l := range active {
			for _, f := range l.p.a.free {
				u := &l.p.a.units[f]
				if !u.changed(l.d) {
					continue
				}
				t := s.copyOf(l)
				clear(t.d[u.first : u.first+u.width])
				tries, owner = append(tries, t), append(owner, i)
				u.each(l.p.x, func(o int) {
					if _, rise := l.p.a.switchGain(u, l.p.x, l.d, l.d, o); rise < 0 {
						t := s.copyOf(l)
						u.set(l.p.x, t.d, o)
						tries, owner = append(tries, t), append(owner, i)
					}
				})
			}
		}
		for _, t := range tries {
			t.cost = t.p.a.Cost(t.p.x, t.d)
		}
		var err error
		if active, err = s.accept(active, tries, owner, 0); err != nil {
			return err
		}
	}
	return nil
}

// accept evaluates tries, whose costs are known, and gives lane owner[k] the action of
// tries[k] when that is valid and saves more than the share gain of the lane's cost. It
// returns the lanes that changed; ls is used for them.
func (s *search) accept(ls, tries []*lane, owner []int, gain float64) ([]*lane, error) {
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	better := make([]bool, len(ls))
	for k, t := range tries {
		if l := ls[owner[k]]; valid(t.margin, s.need) && t.cost < l.cost*(1-gain) {
			copy(l.d, t.d)
			l.margin, l.cost, better[owner[k]] = t.margin, t.cost, true
		}
	}
	keep := ls[:0]
	for i, l := range ls {
		if better[i] {
			keep = append(keep, l)
		}
	}
	return keep, nil
}

func (s *search) copyOf(l *lane) *lane {
	t := &lane{p: l.p, d: s.slab.row(s.a.dim)}
	copy(t.d, l.d)
	return t
}

// shrink pulls every numeric change back to the required margin, the least effective feature first.
func (s *search) shrink(ls []*lane) error {
	if err := s.eval(ls, true); err != nil {
		return err
	}
	orders := make([][]int, len(ls))
	longest := 0
	for i, l := range ls {
		orders[i] = s.leastEffective(l)
		longest = max(longest, len(orders[i]))
	}
	for k := range longest {
		var ps []*pull
		for i, l := range ls {
			if k < len(orders[i]) {
				u := &l.p.a.units[orders[i][k]]
				d := l.d[u.first]
				ps = append(ps, &pull{l: l, u: u, good: d, goodM: l.margin, badM: l.margin - slopeOf(l, u)*d})
			}
		}
		if err := s.narrow(ps); err != nil {
			return err
		}
	}
	return nil
}

func slopeOf(l *lane, u *unit) float32 {
	if l.g == nil {
		return 0
	}
	return l.g[u.first]
}

// leastEffective orders the numeric features that the lane changes by margin per cost.
func (s *search) leastEffective(l *lane) []int {
	var order []int
	for _, f := range l.p.a.free {
		if u := &l.p.a.units[f]; u.numeric() && u.changed(l.d) {
			order = append(order, f)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(l.p.a.worth(a, l), l.p.a.worth(b, l))
	})
	return order
}

// worth is the margin that a little more of the lane's change of a numeric feature gains, per cost.
// An unchanged feature counts in the direction in which it helps.
func (a *ActionSet) worth(f int, l *lane) float64 {
	u := &a.units[f]
	slope, d, w := float64(l.g[u.first]), math.Abs(float64(l.d[u.first])), a.weights[u.first]
	switch {
	case d == 0:
		slope = math.Abs(slope)
	case l.d[u.first] < 0:
		slope = -slope
	}
	switch a.norm {
	case task.L2:
		w *= w * max(d, 1e-6)
	case task.Mixed:
		w *= a.ratio + 2*(1-a.ratio)*w*d
	}
	return slope / max(w, 1e-12)
}

// pull moves one numeric feature of a valid lane towards a change that is not valid, as
// far as the margin allows: from good towards bad. badM may be an estimate.
type pull struct {
	l           *lane
	u           *unit
	bad, good   float32
	badM, goodM float32
	try         float32
	base        []float32 // of a feature that others depend on: the action with good in place
}

// set tries a change; what rules between features make necessary comes along.
func (p *pull) set() {
	l, j := p.l, p.u.first
	if p.base != nil {
		copy(l.d, p.base)
		if l.p.a.apply(p.u, l.p.x, l.d, func(d []float32) { d[j] = p.try }) {
			return
		}
	}
	l.d[j] = p.try
}

// judge narrows the bracket by the margin at what was tried, and goes back to the last good change.
func (p *pull) judge(need float32) {
	l, a := p.l, p.l.p.a
	good := valid(l.margin, need)
	if good && p.base != nil {
		if good = a.Cost(l.p.x, l.d) < a.Cost(l.p.x, p.base); good {
			copy(p.base, l.d)
		}
	}
	if good {
		p.good, p.goodM = p.try, l.margin
	} else {
		p.bad, p.badM = p.try, l.margin
	}
	if p.base != nil {
		copy(l.d, p.base)
	}
	l.d[p.u.first], l.margin = p.good, p.goodM
}

// narrow brackets the smallest valid change of every pull, by interpolation with every third step a bisection.
func (s *search) narrow(ps []*pull) error {
	const steps = 9
	active := slices.Clone(ps)
	for _, p := range active {
		if p.u.joint {
			p.base = slices.Clone(p.l.d)
		}
	}
	for k := range steps {
		keep := active[:0]
		var ls []*lane
		for _, p := range active {
			if p.next(s.need, k%3 == 2, 1e-4*p.l.p.a.scale(p)) {
				p.set()
				keep, ls = append(keep, p), append(ls, p.l)
			}
		}
		active = keep
		grads := make([][]float32, len(ls))
		for i, l := range ls {
			grads[i] = l.g
		}
		if err := s.eval(ls, false); err != nil {
			return err
		}
		for i, p := range active {
			p.judge(s.need)
			p.l.g = grads[i]
		}
	}
	for _, p := range ps {
		p.l.cost = p.l.p.a.Cost(p.l.p.x, p.l.d)
	}
	return nil
}

// scale is the change of the pulled feature that is worth the whole action: what precision is measured against.
func (a *ActionSet) scale(p *pull) float64 { return p.l.cost / a.weights[p.u.first] }

// next chooses the change to try and says whether the bracket is still worth narrowing.
func (p *pull) next(need float32, middle bool, precision float64) bool {
	bad, good := float64(p.bad), float64(p.good)
	if math.Abs(good-bad) <= precision {
		return false
	}
	share := 0.5
	// What is not feasible has a margin of -Inf, which says nothing about how far to go.
	if den := float64(p.goodM) - float64(p.badM); !middle && den > 0 && !math.IsInf(den, 1) {
		// Aim just inside, so that the next bracket is short on both sides.
		share = min(max((float64(need)-float64(p.badM))/den+0.005, 0.02), 0.98)
	}
	at := bad + share*(good-bad)
	if p.u.kind == grid {
		first, last := math.Round(bad/p.u.step), math.Round(good/p.u.step)
		n := math.Round(at / p.u.step)
		lo, hi := min(first, last)+1, max(first, last)-1
		if lo > hi {
			return false
		}
		p.try = p.u.tick(min(max(n, lo), hi))
		return true
	}
	p.try = float32(at)
	return p.try != p.bad && p.try != p.good
}
