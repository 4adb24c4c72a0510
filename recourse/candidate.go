package recourse

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse/constraint"
)

// person is one who falls short of the required margin.
type person struct {
	a        *constraint.Set
	x        []float32
	row      int // in the piece
	start    candidate
	best     []float32 // the incumbent: the cheapest valid action, or that of the largest margin
	margin   float32   // of best, while it is not valid
	lowest   float64   // the cost of best; +Inf while it is not valid
	searched float64   // lowest when localSearch was last here; +Inf: never
	rng      *rand.Rand
	moves    [][]constraint.Move // by feature, see switchesOf
	stage    int                 // of the perturbation of best
	returned int                 // searches that came back to best
	seen     map[uint64]bool     // discrete choices evaluated so far
	kept     []*candidate        // discrete choices to expand
	// attempted is room for an action that most often costs too much.
	attempted []float32
}

// fingerprint is a hash of the person's inputs.
func (p *person) fingerprint() uint64 {
	h := fnv.New64a()
	for _, v := range p.x {
		h.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	return h.Sum64()
}

// randomWeights returns random factors on the features' effectiveness.
func (p *person) randomWeights() []float64 {
	weights := make([]float64, len(p.a.Task().Features))
	for i := range weights {
		weights[i] = math.Exp(p.rng.NormFloat64())
	}
	return weights
}

// shortfall is what the incumbent can be bettered by: its cost or, beyond any cost, what its margin lacks.
func (p *person) shortfall(target float32) float64 {
	if math.IsInf(p.lowest, 1) {
		return 1e30 * (1 + float64(target-p.margin))
	}
	return p.lowest
}

// firstStage is where the perturbation begins: localSearch has taken single changes back already.
func (p *person) firstStage() int {
	if math.IsInf(p.lowest, 1) {
		return 0
	}
	return 2
}

// perturbed returns starts near the incumbent: without one of the features that it changes, which stays out then;
// at the next stage without two of them; then, with random feature weights, without up to three and from the factual
// point.
func (p *person) perturbed() (ls []*candidate) {
	var changed []*constraint.Feature
	for _, u := range p.a.Free() {
		if u.Changed(p.best) {
			changed = append(changed, u)
		}
	}
	start := func(from []float32, weights []float64, without ...*constraint.Feature) {
		c := p.candidate(from, false, weights)
		c.anyCost = math.IsInf(p.lowest, 1)
		for _, u := range without {
			clear(c.d[u.First : u.First+u.Width])
			c.banned = append(c.banned, u)
		}
		if !p.a.Consistent(p.x, c.d) {
			p.a.Project(p.x, c.d)
		}
		ls = append(ls, c)
	}
	switch p.stage {
	case 0:
		for _, u := range changed {
			start(p.best, nil, u)
		}
	case 1:
		for i, u := range changed {
			for _, v := range changed[:i] {
				start(p.best, nil, u, v)
			}
		}
	default:
		climbs := 2
		if math.IsInf(p.lowest, 1) {
			climbs = 4
		}
		for range climbs {
			start(nil, p.randomWeights())
			p.rng.Shuffle(len(changed), func(i, j int) { changed[i], changed[j] = changed[j], changed[i] })
			start(p.best, p.randomWeights(), changed[:min(len(changed), 1+p.rng.IntN(3))]...)
		}
	}
	return ls
}

// visit says whether the discrete choice is new.
func (p *person) visit(d []float32) bool {
	h := fnv.New64a()
	for j, v := range d {
		if v != 0 {
			bits := uint64(j)<<32 | uint64(math.Float32bits(v))
			h.Write(binary.LittleEndian.AppendUint64(nil, bits))
		}
	}
	key := h.Sum64()
	if p.seen[key] {
		return false
	}
	if p.seen == nil {
		p.seen = map[uint64]bool{}
	}
	p.seen[key] = true
	return true
}

// candidate is one point of a person's search.
type candidate struct {
	*person
	of       *candidate // what it is a copy of
	d        []float32
	cost     float64
	estimate float64 // of the cost when it is completed
	margin   float32
	g        []float32 // margin gradient where it was last asked for

	// The state of a gradient search.
	onlyNumeric bool                  // discrete features stay as they are
	anyCost     bool                  // moves count by the margin that they gain alone
	weights     []float64             // factor on every feature's effectiveness; nil = 1
	banned      []*constraint.Feature // whose moves have failed
	last        *constraint.Feature   // moved last
	short       bool                  // the last move was already shortened
	prev        []float32             // the point before the last move, its margin and gradient
	prevM       float32
	prevG       []float32
	share       float64    // of the gap that the next step is to close, of many features
	shop        []purchase // by worth at the gradient shopG
	shopG       []float32
}

// candidate returns a candidate at the action from (nil: no change).
func (p *person) candidate(from []float32, onlyNumeric bool, weights []float64) *candidate {
	dim := len(p.x)
	c := &candidate{
		person: p, d: make([]float32, dim), prev: make([]float32, dim), onlyNumeric: onlyNumeric, weights: weights,
	}
	copy(c.d, from)
	return c
}

func (c *candidate) clone() *candidate {
	return &candidate{person: c.person, of: c, d: slices.Clone(c.d)}
}

// switchesOf returns the moves to the options of a feature.
func (p *person) switchesOf(u *constraint.Feature) []constraint.Move {
	if p.moves == nil {
		p.moves = make([][]constraint.Move, len(p.a.Task().Features))
		for _, u := range p.a.Free() {
			p.moves[u.Index] = p.a.Switches(u, p.x)
		}
	}
	return p.moves[u.Index]
}

// price sets the cost.
func (c *candidate) price() { c.cost = c.a.Cost(c.x, c.d) }

// full says whether the candidate changes as many features as it may.
func (c *candidate) full() bool { return c.a.Changed(c.d) >= c.a.Limit() }

// changedNumbers returns the numeric features that the candidate changes.
func (c *candidate) changedNumbers() []*constraint.Feature {
	return slices.DeleteFunc(slices.Clone(c.a.Numeric()), func(u *constraint.Feature) bool { return !u.Changed(c.d) })
}

// byEffect orders the numeric features that the candidate changes by margin per cost.
func (c *candidate) byEffect() []*constraint.Feature {
	order := c.changedNumbers()
	slices.SortStableFunc(order, func(a, b *constraint.Feature) int { return cmp.Compare(c.worth(a), c.worth(b)) })
	return order
}

// worth is the margin that a little more of the candidate's change of a numeric feature gains, per cost.
// An unchanged feature counts in the direction in which it helps.
func (c *candidate) worth(u *constraint.Feature) float64 {
	slope, d := float64(c.g[u.First]), c.d[u.First]
	switch {
	case d == 0:
		slope = math.Abs(slope)
	case d < 0:
		slope = -slope
	}
	return slope / max(c.a.Marginal(u, c.x, c.d), 1e-12)
}

// lines returns at most most of the numeric features that can raise the linearised margin, those that gain most for
// their cost first.
func (c *candidate) lines(most int) []constraint.Line {
	return c.appendLines(make([]constraint.Line, 0, len(c.a.Numeric())), most)
}

// appendLines adds them to lines, which is empty.
func (c *candidate) appendLines(lines []constraint.Line, most int) []constraint.Line {
	for _, u := range c.a.Numeric() {
		slope := float64(c.g[u.First])
		l := constraint.Line{Feature: u, Up: slope > 0, Slope: math.Abs(slope), Weight: c.a.Norm().Weight(u)}
		l.Room = math.Abs(float64(u.End(c.x[u.First], l.Up)))
		if l.Slope > 0 && l.Room > 0 {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b constraint.Line) int { return -cmp.Compare(a.Worth(), b.Worth()) })
	return lines[:min(len(lines), max(most, 0))]
}

// mostWorth returns the most numeric features, other than from, that gain more margin for their cost than from does
// and have room, best first.
func (c *candidate) mostWorth(from *constraint.Feature, most int) []*constraint.Feature {
	better := slices.DeleteFunc(slices.Clone(c.a.Numeric()), func(u *constraint.Feature) bool {
		slope := float64(c.g[u.First])
		away := float64(c.d[u.First])*slope >= 0
		room := u.End(c.x[u.First], slope > 0) != c.d[u.First]
		return u == from || !away || !room || slope == 0 || !(c.worth(u) > c.worth(from))
	})
	slices.SortStableFunc(better, func(a, b *constraint.Feature) int { return -cmp.Compare(c.worth(a), c.worth(b)) })
	return better[:min(len(better), most)]
}

// spread replaces the numeric changes in d by moves along the lines, as far as the rules between features let them.
func (c *candidate) spread(d []float32, lines []constraint.Line, moves []float64) {
	a := c.a
	for _, u := range c.a.Numeric() {
		d[u.First] = 0
	}
	for i, l := range lines {
		u, at := l.Feature, moves[i]
		if !u.Changed(d) && a.Changed(d) >= a.Limit() {
			continue
		}
		if !l.Up {
			at = -at
		}
		to := a.Allowed(u, c.x, d, u.Outward(c.x[u.First], at, l.Up))
		a.Apply(constraint.Move{Feature: u, To: to}, c.x, d)
	}
}

// pull moves one numeric feature of a valid candidate towards a change that is not valid, as
// far as the margin allows: from good towards bad. badM may be an estimate.
type pull struct {
	c           *candidate
	u           *constraint.Feature
	bad, good   float32
	badM, goodM float32
	try         float32
	base        []float32 // of a feature that others depend on: the action with good in place
}

// set tries a change; what rules between features make necessary comes along.
func (p *pull) set() {
	c, j := p.c, p.u.First
	if p.base != nil {
		copy(c.d, p.base)
		if c.a.Apply(constraint.Move{Feature: p.u, To: p.try}, c.x, c.d) {
			return
		}
	}
	c.d[j] = p.try
}

// judge narrows the bracket by the margin at what was tried, and goes back to the last good change.
func (p *pull) judge(target float32) {
	c, a := p.c, p.c.a
	good := valid(c.margin, target)
	if good && p.base != nil {
		if good = a.Cost(c.x, c.d) < a.Cost(c.x, p.base); good {
			copy(p.base, c.d)
		}
	}
	if good {
		p.good, p.goodM = p.try, c.margin
	} else {
		p.bad, p.badM = p.try, c.margin
	}
	if p.base != nil {
		copy(c.d, p.base)
	}
	c.d[p.u.First], c.margin = p.good, p.goodM
}

// next chooses the change to try and says whether the bracket is still worth narrowing.
func (p *pull) next(target float32, middle bool, precision float64) bool {
	bad, good := float64(p.bad), float64(p.good)
	if math.Abs(good-bad) <= precision {
		return false
	}
	share := 0.5
	// What is not feasible has a margin of -Inf, which says nothing about how far to go.
	if den := float64(p.goodM) - float64(p.badM); !middle && den > 0 && !math.IsInf(den, 1) {
		// Aim just inside, so that the next bracket is short on both sides.
		share = min(max((float64(target)-float64(p.badM))/den+0.005, 0.02), 0.98)
	}
	at := bad + share*(good-bad)
	if p.u.Step > 0 {
		first, last := math.Round(bad/p.u.Step), math.Round(good/p.u.Step)
		n := math.Round(at / p.u.Step)
		lo, hi := min(first, last)+1, max(first, last)-1
		if lo > hi {
			return false
		}
		p.try = p.u.Tick(min(max(n, lo), hi))
		return true
	}
	p.try = float32(at)
	return p.try != p.bad && p.try != p.good
}

// step undoes the last move if it did not raise the margin, and makes the next one.
func (c *candidate) step(target float32) bool {
	if c.last != nil && !(c.margin > c.prevM) {
		u := c.last
		if u.Numeric() && !c.short {
			c.short = true
			before, after := float64(c.prev[u.First]), float64(c.d[u.First])
			d := u.Nearest(c.x[u.First], float32(before+(after-before)/4))
			if d != c.prev[u.First] && d != c.d[u.First] {
				c.d[u.First] = d
				return true
			}
		}
		copy(c.d, c.prev)
		c.margin, c.g = c.prevM, c.prevG
		c.banned = append(c.banned, c.last)
	}
	copy(c.prev, c.d)
	c.prevM, c.prevG, c.short = c.margin, c.g, false
	return c.advance(float64(target-c.margin)) || c.drop()
}

// advance makes the move with the most linearised margin per cost.
func (c *candidate) advance(gap float64) bool {
	full := c.full()
	var pick constraint.Move
	best := 0.0
	for _, u := range c.a.Free() {
		if slices.Contains(c.banned, u) || full && !u.Changed(c.d) {
			continue
		}
		weight := 1.0
		if c.weights != nil {
			weight = c.weights[u.Index]
		}
		try := func(m constraint.Move, gain, cost float64) {
			if c.anyCost {
				cost = 1
			}
			// More than the gap is of no use.
			if eff := effectiveness(min(gain, gap), cost) * weight; eff > best {
				best, pick = eff, m
			}
		}
		if u.Numeric() {
			try(c.a.Toward(u, c.x, c.d, c.g, gap))
		} else if !c.onlyNumeric {
			for _, m := range c.switchesOf(u) {
				gain, cost := c.a.Gain(m, c.x, c.d, c.g)
				try(m, gain, cost)
			}
		}
	}
	c.last = pick.Feature
	return pick.Feature != nil && c.a.Apply(pick, c.x, c.d)
}

// effectiveness is gain per cost. Gains that cost nothing come first, larger ones before smaller.
func effectiveness(gain, cost float64) float64 {
	switch {
	case !(gain > 0):
		return 0
	case cost <= 0:
		return 1e12 * (1 + gain)
	}
	return gain / cost
}

// drop takes back the change that achieves least, to make room under the sparsity limit.
func (c *candidate) drop() bool {
	c.last = nil
	if !c.full() {
		return false
	}
	var pick *constraint.Feature
	least := math.Inf(1)
	for _, u := range c.a.Free() {
		if !u.Changed(c.d) || c.onlyNumeric && !u.Numeric() {
			continue
		}
		gain := 0.0
		for j := u.First; j < u.First+u.Width; j++ {
			if c.d[j] != 0 {
				gain += float64(c.g[j]) * float64(c.d[j])
			}
		}
		if gain < least {
			least, pick = gain, u
		}
	}
	if pick == nil {
		return false
	}
	clear(c.d[pick.First : pick.First+pick.Width])
	c.banned = append(c.banned, pick)
	return true
}

// greatest makes the action the one with the largest margin, linearised at the candidate, by features in the order of
// their gain.
func (c *candidate) greatest() {
	type gain struct {
		constraint.Move
		gain float64
	}
	var gains []gain
	zero := c.start.d
	for _, u := range c.a.Free() {
		best := gain{Move: constraint.Move{Feature: u}}
		if u.Numeric() {
			slope := float64(c.g[u.First])
			best.To = c.a.Allowed(u, c.x, zero, u.Farthest(c.x[u.First], slope > 0))
			best.gain = slope * float64(best.To)
		} else {
			for _, m := range c.switchesOf(u) {
				if v, _ := c.a.Gain(m, c.x, zero, c.g); v > best.gain {
					best = gain{m, v}
				}
			}
		}
		if best.gain > 0 {
			gains = append(gains, best)
		}
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return -cmp.Compare(a.gain, b.gain) })
	clear(c.d)
	for _, b := range gains {
		if c.full() && !b.Feature.Changed(c.d) {
			continue
		}
		if b.Feature.Numeric() {
			b.To = c.a.Allowed(b.Feature, c.x, c.d, b.To)
		}
		c.a.Apply(b.Move, c.x, c.d)
	}
}
