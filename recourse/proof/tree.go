package proof

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/recourse/constraint"
)

// newProblem writes the networks down as functions of what the person x can change.
func (k *Pair) newProblem(a *constraint.Set, x []float32) *problem {
	p := &problem{Pair: k}
	p.actions, p.all = newActions(a, x)
	p.ofAt = k.of.field(x, p.effects)
	if p.pair() {
		p.apartAt = k.difference.field(x, p.effects)
	}
	p.z, p.e = make([]float64, k.units+k.margins), make([]float64, k.units+k.margins)
	p.h, p.d = make([]float64, k.units), make([]float64, k.units)
	p.heldH, p.heldD = make([]float64, k.units), make([]float64, k.units)
	p.plane, p.planes = make([]float64, len(p.effects)), make([][4]bound, k.units)
	for _, to := range []*assignment{&p.rich, &p.poor, &p.spare} {
		to.pos = make([]float64, len(p.all))
	}
	return p
}

// node is a part of a search: the actions of its domains.
type node struct {
	dom   []domain
	b     *bounds
	row   int       // of the margins; -1: the least of all
	upper float64   // no action of the node has a larger objective
	need  []float64 // of the rows of rules
	split           // how it is divided

	by     int     // the row that bounds it best
	lambda float64 // the multiplier of the other network's margin in that bound

	settled           []*constraint.Disjunction // conditions that its domains and rows imply
	slack, otherSlack float64                   // of the rounding of either network
}

// split divides a node: by the alternatives of a condition, or by the positions of a variable.
type split struct {
	condition *constraint.Disjunction
	at        int       // the variable; -1: there is none
	apart     bool      // into no change and change
	plane     []float64 // orders options
}

// frontier is a heap of nodes, the largest bound first.
type frontier []*node

func (q frontier) Len() int { return len(q) }

func (q frontier) Less(i, j int) bool { return q[i].upper > q[j].upper }

func (q frontier) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *frontier) Push(v any) { *q = append(*q, v.(*node)) }

func (q *frontier) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// search is branch and bound for the largest margin of the network over the actions that the budget allows; with a
// second network, over those that this one refuses.
type search struct {
	*problem
	floor     float64 // what is not above does not matter
	tolerance float64
	nodes     int // that may be looked at
	// accept is told of actions and their margins; alone says that the action is all that is left of a node.
	accept func(action []float32, margin, other float64, alone bool)
	aim    float64 // the margin at which a better action is made cheaper

	open    frontier
	seen    int
	tried   []float64 // last
	reached float64   // its margin
	mixed   []float64 // fulfils the last rule with a multiplier; nil without one
	// The last actions tried that the other network refuses, and accepts.
	refused, accepted []float64
	lost              float64 // the bound of what could not be divided, or need not be
	best              float64 // the largest margin that was accepted, if that counts
}

func (s *search) run(ctx context.Context, rows []int) (upper float64, err error) {
	s.lost, s.best = math.Inf(-1), math.Inf(-1)
	if s.root == nil {
		return s.lost, nil
	}
	need := floats.SubTo(make([]float64, len(s.noise)), s.linear.Need, s.noise)
	for _, row := range rows {
		n := &node{dom: slices.Clone(s.all), b: s.root.clone(), row: row, need: need, upper: math.Inf(1), lambda: 1}
		s.round(n)
		heap.Push(&s.open, n)
	}
	for len(s.open) > 0 && s.open[0].upper > s.enough() && s.seen < s.nodes {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := heap.Pop(&s.open).(*node)
		if s.seen++; !s.look(n) {
			continue
		}
		parts := s.divide(n)
		if len(parts) == 0 {
			s.lost = max(s.lost, n.upper)
		}
		for _, part := range parts {
			s.add(part)
		}
	}
	upper = max(s.lost, s.best)
	if len(s.open) > 0 {
		upper = max(upper, s.open[0].upper)
	}
	return upper, nil
}

func (s *search) enough() float64 { return max(s.floor, s.best+s.tolerance) }

// look bounds a node, and says whether it is to be divided.
func (s *search) look(n *node) bool {
	if !s.tighten(n.dom) || !s.allowed(n) || !s.narrow(n.b, n.dom, true) {
		return false
	}
	s.round(n)
	s.bound(n)
	return s.matters(n)
}

// add bounds a part of the last node by the planes that bound the units of that one, and opens it unless that is
// enough.
func (s *search) add(n *node) {
	if !s.tighten(n.dom) || !s.allowed(n) || !s.narrow(n.b, n.dom, false) {
		return
	}
	s.round(n)
	if n.upper = min(n.upper, s.margin(n, n.by, n.lambda)); s.matters(n) {
		heap.Push(&s.open, n)
	}
}

// matters says whether a node is not close enough to what was found. Otherwise it may still be above that.
func (s *search) matters(n *node) bool {
	if n.upper > s.enough() {
		return true
	}
	s.lost = max(s.lost, n.upper)
	return false
}

// round sets how far the margins that ONNX Runtime computes may be from those of the networks.
func (s *search) round(n *node) {
	if s.pair() {
		floats.AddTo(s.e[:s.units], n.b.hi, n.b.apartHi)
	}
	n.slack, n.otherSlack = s.slack(n.b.hi, s.e)
}

// tighten takes out what costs more than the others leave; false when nothing is left.
func (p *actions) tighten(dom []domain) bool {
	if math.IsInf(p.budget, 1) {
		return true
	}
	least, sum := make([]float64, len(dom)), 0.0
	for i := range dom {
		v, d := &p.variables[i], &dom[i]
		if !d.stays(v) {
			_, least[i] = d.cheapest(v)
			sum += least[i]
		}
	}
	for i := range dom {
		v, d, left := &p.variables[i], &dom[i], p.budget-(sum-least[i])
		if left < 0 {
			return false
		}
		if v.line {
			most := v.reach(left)
			if d.lo, d.hi = max(d.lo, -most), min(d.hi, most); d.lo > d.hi {
				return false
			}
			continue
		}
		if slices.ContainsFunc(d.options, func(k int32) bool { return v.costs[k] > left }) {
			d.options = slices.DeleteFunc(slices.Clone(d.options), func(k int32) bool { return v.costs[k] > left })
		}
		if len(d.options) == 0 {
			return false
		}
	}
	return true
}

// reach is how far a line goes at this cost.
func (v *variable) reach(cost float64) float64 {
	if !(cost > 0) {
		return 0
	}
	n := cost / v.lin
	if v.quad > 0 {
		n = 2 * cost / (v.lin + math.Sqrt(v.lin*v.lin+4*v.quad*cost))
	}
	if v.whole {
		n = math.Floor(n)
	}
	return n
}

// allowed says whether the node may hold an action that rules and limits between features allow.
func (p *problem) allowed(n *node) bool {
	dom := n.dom
	for r, need := range n.need {
		if !math.IsInf(need, -1) &&
			p.maximum(dom, p.rules[r], few) < need-1e-9*(1+math.Abs(need)) {
			return false
		}
	}
	for _, l := range p.limits {
		changed := 0
		for _, i := range l.Features {
			if !dom[i].stays(&p.variables[i]) {
				changed++
			}
		}
		if changed > l.Most {
			return false
		}
	}
	return true
}

// multipliers of the parent's are tried on what the other network refuses: no margin of it counts for less than
// nothing.
func multipliers() []float64 { return []float64{1, 0.95, 1.05, 0.85, 1.2, 0.6, 1.7, 0} }

// bound sets what the node's objective is at most, tries the actions that its bounds come from, and chooses how to
// divide it.
func (s *search) bound(n *node) {
	if s.settled(n.dom) {
		n.upper = math.Inf(-1)
		pos := make([]float64, len(n.dom))
		s.cheapest(pos, n.dom)
		if margin, other := s.examine(n, pos, true); s.pair() && other <= n.otherSlack {
			s.lost = max(s.lost, margin+n.slack)
		}
		return
	}
	n.upper, n.split = math.Inf(1), split{at: -1}
	s.refused, s.accepted = nil, nil
	row, with := n.row, 0.0
	consider := func(r int, lambda float64) {
		upper := s.margin(n, r, lambda)
		if upper < n.upper {
			n.upper, row, with = upper, r, lambda
		}
		if upper > s.enough() {
			s.consider(n, r, lambda)
		}
	}
	if n.row >= 0 {
		for _, by := range multipliers() {
			if consider(n.row, cmp.Or(n.lambda, 1)*by); n.upper <= s.enough() {
				break
			}
		}
	}
	s.cross(n)
	for r := range s.margins { // the margin is the least
		if r != n.row && n.upper > s.enough() {
			consider(r, 0)
		}
	}
	if n.upper <= s.enough() {
		return
	}
	s.margin(n, row, with)
	n.by, n.lambda = row, with
	n.plane = slices.Clone(s.plane)
	s.choose(n)
}

// margin bounds row r of the margins, less lambda times the other network's, over the node's actions. Rules count by
// multipliers, too, each in turn: the bound is convex in them, and holds for any.
func (s *search) margin(n *node, r int, lambda float64) float64 {
	s.reduce(n.b, s.units+r, 1-lambda, -lambda)
	s.constant += lambda*n.otherSlack + n.slack
	best, at := s.spared(s.maximum(n.dom, s.plane, many)), s.constant
	s.mixed = nil
	for k, need := range n.need {
		if math.IsInf(need, -1) || best <= s.enough() {
			continue
		}
		aim := need + s.noise[k] + s.linear.Spare[k] // of what is tried; bounds are below what is needed
		if s.falls(s.rules[k]) >= aim {
			continue
		}
		low, high, step, chosen := 0.0, math.Inf(1), 1.0, 0.0
		plain, below, above := slices.Clone(s.plane), s.mixture(), []float64(nil)
		bound := func(price float64) float64 {
			floats.AddScaledTo(s.plane, plain, price, s.rules[k])
			return at - price*need + s.maximum(n.dom, s.plane, many)
		}
		for range 16 {
			price := low + step
			if !math.IsInf(high, 1) {
				price = (low + high) / 2
			}
			if v := bound(price) + 1e-10*(1+math.Abs(best)) + 1e-13*price*math.Abs(need); v < best {
				best, chosen = v, price
			}
			if s.falls(s.rules[k]) < aim {
				low, step, below = price, 4*step, s.mixture()
			} else {
				high, above = price, s.mixture()
			}
		}
		if above != nil {
			s.mixed = s.mix(below, above, (aim-s.at(s.rules[k], below))/(s.at(s.rules[k], above)-s.at(s.rules[k], below)))
		}
		bound(chosen)
		at -= chosen * need
	}
	return best
}

// mixture is what costs the budget between the last bound's assignments.
func (p *problem) mixture() []float64 {
	if p.rich.cost <= p.budget {
		return slices.Clone(p.rich.pos)
	}
	return p.mix(p.poor.pos, p.rich.pos, p.afforded())
}

// mix goes from one assignment to another by a share of the way on lines, to a step where there are steps; options
// stay.
func (p *problem) mix(from, to []float64, share float64) []float64 {
	pos := slices.Clone(from)
	for i := range pos {
		if v := &p.variables[i]; v.line {
			pos[i] += share * (to[i] - from[i])
			if v.whole {
				pos[i] = math.Trunc(pos[i])
			}
		}
	}
	return pos
}

// falls is the plane's value at the mixture of the last bound's assignments that costs the budget.
func (p *problem) falls(plane []float64) float64 {
	rich, poor := p.at(plane, p.rich.pos), p.at(plane, p.poor.pos)
	if p.rich.cost <= p.budget {
		return rich
	}
	return poor + (rich-poor)*p.afforded()
}

// afforded is the share of the way from the poor assignment to the rich one that costs the budget.
func (p *problem) afforded() float64 { return (p.budget - p.poor.cost) / (p.rich.cost - p.poor.cost) }

// consider tries the assignments that the last bound comes from. Where they reach the aim it looks for the least budget
// whose assignments do.
func (s *search) consider(n *node, r int, lambda float64) {
	if !(s.attempt(n) >= s.aim) {
		return
	}
	budget := s.budget
	for low, high, left := 0.0, budget, 40; left > 0; left-- {
		at := (low + high) / 2
		if s.budget = at; s.margin(n, r, lambda) < s.aim || s.attempt(n) < s.aim {
			low = at
			continue
		}
		if high = at; s.budget != at { // it was accepted
			budget, high = s.budget, min(high, s.budget)
		}
	}
	s.budget = budget
}

func (s *search) attempt(n *node) float64 {
	margin := s.try(n, s.between(s.poor.pos))
	if !s.pair() && s.rich.cost > s.budget {
		least := make([]float64, len(n.dom))
		s.cheapest(least, n.dom)
		margin = max(margin, s.try(n, s.between(least)))
	}
	if s.mixed != nil {
		margin = max(margin, s.try(n, s.mixed))
	}
	return margin
}

// cross tries the last action that the other network refuses on the way to one that it accepts: margins are largest
// there.
func (s *search) cross(n *node) {
	if s.refused == nil || s.accepted == nil {
		return
	}
	from, to := s.refused, s.accepted
	for range 10 {
		at := s.mix(from, to, 0.5)
		if slices.Equal(at, from) || slices.Equal(at, to) {
			break
		}
		if _, other := s.evaluate(at); other > 0 {
			to = at
		} else {
			from = at
		}
	}
	s.try(n, from)
}

// try has an affordable action of the node judged, and returns its margin; -Inf when it costs too much.
func (s *search) try(n *node, pos []float64) float64 {
	if s.cost(pos) > s.budget*(1+1e-12) {
		return math.Inf(-1)
	}
	if !slices.Equal(pos, s.tried) {
		s.reached, _ = s.examine(n, pos, false)
		s.tried = pos
	}
	return s.reached
}

// examine returns the margins of an action, which it shows to accept when it may matter.
func (s *search) examine(n *node, pos []float64, alone bool) (margin, other float64) {
	margin, other = s.evaluate(pos)
	if other > 0 {
		s.accepted = pos
	} else {
		s.refused = pos
	}
	if margin+n.slack <= s.floor {
		return margin, other
	}
	action := s.action(pos)
	if n.condition == nil {
		n.condition = s.linear.Violated(action, n.settled)
	}
	if !(other > n.otherSlack) {
		s.accept(action, margin, other, alone)
	}
	return margin, other
}

func (p *actions) cost(pos []float64) (sum float64) {
	for i := range p.variables {
		sum += p.variables[i].cost(pos[i])
	}
	return sum
}

func (v *variable) cost(pos float64) float64 {
	if v.line {
		return v.lin*math.Abs(pos) + v.quad*pos*pos
	}
	return v.costs[int(pos)]
}

// between returns the affordable assignment on the way from one to rich.
func (p *problem) between(from []float64) []float64 {
	pos, left, changed := slices.Clone(from), p.budget-p.cost(from), 0
	for _, v := range pos {
		if v != 0 {
			changed++
		}
	}
	for i := range pos {
		v, to := &p.variables[i], p.rich.pos[i]
		if pos[i] == to || pos[i] == 0 && changed >= p.limit {
			continue
		}
		before := v.cost(pos[i])
		most := before + left
		if !v.whole {
			most -= p.reserve
		}
		if v.line && v.cost(to) > most {
			to = math.Copysign(min(v.reach(most), math.Abs(to)), to)
		}
		if v.cost(to) > before+left || to == 0 && pos[i] != 0 {
			continue
		}
		if pos[i] == 0 && to != 0 {
			changed++
		}
		pos[i] = to
		left -= v.cost(to) - before
	}
	return pos
}

func (p *actions) settled(dom []domain) bool {
	for i := range dom {
		if !dom[i].settled(&p.variables[i]) {
			return false
		}
	}
	return true
}

// choose sets the variable to divide. While units are open, that is the one that what the relaxation loses on them
// depends on most, and a little the plane itself; then the one that the bound's assignments differ in most.
func (s *search) choose(n *node) {
	lost := make([]float64, s.units)
	exact := true
	for u := range lost {
		if !n.b.decided(u) && (s.heldH[u] != 0 || s.heldD[u] != 0) {
			lost[u] = n.b.relaxed(u, s.heldH[u], s.heldD[u]).loss / max(n.b.hi[u]-n.b.lo[u], 1e-9)
			exact = exact && lost[u] == 0
		}
	}
	changed := 0
	for i := range n.dom {
		if s.rich.pos[i] != 0 || !n.dom[i].stays(&s.variables[i]) {
			changed++
		}
	}
	most := 0.0
	for i := range n.dom {
		v, d := &s.variables[i], &n.dom[i]
		if d.settled(v) || v.line && !v.whole && d.hi-d.lo < 1e-7*(1+math.Abs(d.hi)) {
			continue
		}
		apart := changed >= s.limit && d.stays(v)
		score := 0.01*d.width(v, n.plane) + 1e-12
		for u, w := range lost {
			if w > 0 {
				score += w * d.width(v, s.planes[u][0].plane)
			}
		}
		if rich, poor := s.rich.pos[i], s.poor.pos[i]; exact && rich != poor {
			differ := math.Abs(v.at(n.plane, rich) - v.at(n.plane, poor))
			if !v.line || v.whole || apart && (rich == 0 || poor == 0) {
				score += 1e6 * differ
			}
		}
		if score > most {
			most, n.split.at, n.apart = score, i, apart
		}
	}
}

// divide returns the parts of a node.
func (s *search) divide(n *node) (parts []*node) {
	if n.condition != nil {
		return s.alternatives(n)
	}
	if n.split.at < 0 {
		return nil
	}
	v, d := &s.variables[n.split.at], n.dom[n.split.at]
	low, high := d, d
	switch {
	case n.apart && v.line:
		low.lo, low.hi, high.in = 0, 0, true
		if v.whole && d.lo == 0 {
			high.lo = 1
		}
		if v.whole && d.hi == 0 {
			high.hi = -1
		}
	case n.apart:
		low.options, high.options = d.options[:1], d.options[1:]
	case v.line && v.whole:
		at := math.Floor((d.lo + d.hi) / 2)
		low.hi, high.lo = at, at+1
	case v.line:
		at := (d.lo + d.hi) / 2
		if d.lo < 0 && d.hi > 0 {
			at = 0
		}
		low.hi, high.lo = at, at
	default:
		options := slices.Clone(d.options)
		slices.SortStableFunc(options, func(a, b int32) int {
			return cmp.Compare(n.plane[v.slot+int(a)], n.plane[v.slot+int(b)])
		})
		half := len(options) / 2
		low.options, high.options = options[:half], options[half:]
		slices.Sort(low.options)
		slices.Sort(high.options)
	}
	for _, d := range []domain{low, high} {
		part := n.part()
		part.dom[n.split.at] = d
		parts = append(parts, part)
	}
	return parts
}

func (n *node) part() *node {
	part := *n
	part.dom, part.b, part.split = slices.Clone(n.dom), n.b.clone(), split{}
	return &part
}

// alternatives returns the parts of the node that a condition divides it into.
func (s *search) alternatives(n *node) (parts []*node) {
	for _, w := range n.condition.Alternatives {
		part := n.part()
		part.need, part.settled = slices.Clone(n.need), append(slices.Clip(n.settled), n.condition)
		possible := true
		for _, i := range w.Unchanged {
			v, d := &s.variables[i], &part.dom[i]
			possible = possible && d.stays(v)
			if d.lo, d.hi = 0, 0; !v.line {
				d.options = []int32{0}
			}
		}
		for _, i := range w.Changed {
			part.dom[i].in = true
		}
		for k, r := range w.Rows {
			part.need[r] = max(part.need[r], w.Need[k]-s.noise[r])
		}
		if possible {
			parts = append(parts, part)
		}
	}
	return parts
}
