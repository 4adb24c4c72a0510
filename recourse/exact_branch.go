package recourse

import (
	"container/heap"
	"math"
	"slices"
)

// node is a part of a problem's search: the plans within its spans that reach its need.
type node struct {
	spans   []span
	need    []float64
	settled []*either // conditions that its spans and rows imply
	bound   float64   // no plan of the node costs less
	// The bound's plans, and their shares: mixed with these they reach the need at the cost of the bound. One plan alone is
	// an optimum of the node.
	plans  []*plan
	shares []float64
}

// either is a condition with alternatives: every feasible plan is in one of them at least.
type either struct{ ways []way }

// way is one alternative: levers that stay as they are, levers that change, rows that become needed.
type way struct {
	out, in []int
	rows    []int
	needs   []float64 // of the rows
}

// nodes is a heap of nodes by bound.
type nodes []*node

func (h nodes) Len() int           { return len(h) }
func (h nodes) Less(i, j int) bool { return h[i].bound < h[j].bound }
func (h nodes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nodes) Push(v any)        { *h = append(*h, v.(*node)) }
func (h *nodes) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

const (
	closeEnough = 1e-7   // relative to the cost: what counts as the optimum
	mostNodes   = 100000 // of one search
)

// outcome is what a search came to.
type outcome struct {
	best  *plan   // nil: none found
	lower float64 // proved: no plan costs less; +Inf when there is none
	nodes int
}

// solve finds the cheapest plan by branch and bound, the most promising node first.
func (p *problem) solve() outcome {
	var out outcome
	var open nodes
	cost, lost := math.Inf(1), math.Inf(1)
	add := func(n *node) {
		out.nodes++
		if !p.bound(n) || n.bound >= cost*(1-closeEnough) {
			return
		}
		cs := p.candidates(n)
		for _, c := range cs {
			if c.cost < cost && c.reaches(p.need) && (p.broken == nil || p.broken(c, nil) == nil) {
				out.best, cost = c, c.cost
			}
		}
		if n.bound < cost*(1-closeEnough) {
			heap.Push(&open, n)
		}
	}
	root := &node{need: p.need, settled: p.settled}
	for i := range p.levers {
		root.spans = append(root.spans, p.levers[i].all())
	}
	add(root)
	for open.Len() > 0 && open[0].bound < cost*(1-closeEnough) && out.nodes < mostNodes {
		n := heap.Pop(&open).(*node)
		parts := p.branch(n)
		if parts == nil {
			lost = min(lost, n.bound) // nothing to divide, and yet no plan: rounding
		}
		for _, part := range parts {
			add(part)
		}
	}
	out.lower = min(cost, lost)
	if open.Len() > 0 {
		out.lower = min(out.lower, max(open[0].bound, 0))
	}
	return out
}

func (l *lever) all() span {
	if l.line {
		return span{first: l.first, final: l.final}
	}
	return span{final: float64(len(l.options) - 1)}
}

// candidates returns plans of the node that may be feasible: those of the bound as far as they reach the need, with what
// they have too much taken back, and their mixture when that is a plan.
func (p *problem) candidates(n *node) []*plan {
	var out []*plan
	for _, c := range n.plans {
		if c.reaches(p.need) {
			out = append(out, p.trim(n.spans, c), c)
		}
	}
	if c := p.mixture(n); c != nil {
		out = append(out, c)
	}
	return out
}

// mixture returns the plan at the mean of the bound's plans; nil when it stands between positions or changes too much.
func (p *problem) mixture(n *node) *plan {
	pos, used := n.mean(), 0
	for i := range p.levers {
		l, first := &p.levers[i], n.plans[0].pos[i]
		if !l.line || l.whole {
			for _, c := range n.plans {
				if c.pos[i] != first {
					return nil
				}
			}
			pos[i] = first
		}
		if pos[i] != l.zero {
			used++
		}
	}
	if used > p.limit {
		return nil
	}
	return p.plan(pos)
}

// mean returns the mean positions of the bound's plans.
func (n *node) mean() []float64 {
	pos := make([]float64, len(n.plans[0].pos))
	for k, c := range n.plans {
		for i, v := range c.pos {
			pos[i] += n.shares[k] * v
		}
	}
	return pos
}

// branch divides the node: into the alternatives of a condition that one of its candidates breaks, or else on the lever that its plans differ in
// most, by margin.
func (p *problem) branch(n *node) []*node {
	if p.broken != nil {
		for _, c := range p.candidates(n) {
			if e := p.broken(c, n.settled); e != nil && !slices.Contains(n.settled, e) {
				return n.alternatives(p, e)
			}
		}
	}
	pick, most, toggles := -1, 0.0, false
	for i := range p.levers {
		l := &p.levers[i]
		first, final, zeros := n.reach(i, l.zero)
		toggle := zeros > 0 && zeros < len(n.plans) && !n.spans[i].in && p.full(n)
		if first == final || l.line && !l.whole && !toggle {
			continue
		}
		a, b := make([]float64, len(p.need)), make([]float64, len(p.need))
		l.at(first, a)
		l.at(final, b)
		if d := math.Abs(a[0] - b[0]); d > most || pick < 0 {
			pick, most, toggles = i, d, toggle
		}
	}
	if pick < 0 {
		return nil
	}
	l, low, high := &p.levers[pick], n.spans[pick], n.spans[pick]
	if toggles {
		low, high.in = span{first: l.zero, final: l.zero}, true
	} else {
		first, final, _ := n.reach(pick, l.zero)
		cut := min(max(math.Floor(n.mean()[pick]), first), final-1)
		low.final, high.first = cut, cut+1
	}
	return []*node{n.with(pick, low), n.with(pick, high)}
}

// reach returns the range of lever i over the bound's plans, and in how many of them it is at zero.
func (n *node) reach(i int, zero float64) (first, final float64, zeros int) {
	first, final = math.Inf(1), math.Inf(-1)
	for _, c := range n.plans {
		first, final = min(first, c.pos[i]), max(final, c.pos[i])
		if c.pos[i] == zero {
			zeros++
		}
	}
	return first, final, zeros
}

// full says whether one of the bound's plans changes as many features as it may.
func (p *problem) full(n *node) bool {
	for _, c := range n.plans {
		used := 0
		for i := range p.levers {
			if n.spans[i].in || c.pos[i] != p.levers[i].zero {
				used++
			}
		}
		if used >= p.limit {
			return true
		}
	}
	return false
}

// with returns the part of the node where lever i is within s.
func (n *node) with(i int, s span) *node {
	spans := slices.Clone(n.spans)
	spans[i] = s
	return &node{spans: spans, need: n.need, settled: n.settled}
}

// alternatives returns the parts of the node that a condition divides it into.
func (n *node) alternatives(p *problem, e *either) []*node {
	var parts []*node
	for _, w := range e.ways {
		part := &node{spans: slices.Clone(n.spans), need: slices.Clone(n.need), settled: append(slices.Clip(n.settled), e)}
		possible := true
		for _, i := range w.out {
			zero := p.levers[i].zero
			possible = possible && part.spans[i].holds(zero) && !part.spans[i].in
			part.spans[i] = span{first: zero, final: zero}
		}
		for _, i := range w.in {
			part.spans[i].in = true
		}
		for k, r := range w.rows {
			part.need[r] = max(part.need[r], w.needs[k])
		}
		if possible {
			parts = append(parts, part)
		}
	}
	if parts == nil {
		parts = []*node{} // divided, into nothing
	}
	return parts
}
