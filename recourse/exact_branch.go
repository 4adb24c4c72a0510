package recourse

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// problem is the search for the cheapest action of one person under an affine model: choose a position of every
// variable, at most limit of them off zero, so that every row reaches what it needs and the cost is least.
//
//	minimise sum_i cost_i(pos_i)   so that   sum_i coef_i(pos_i)[r] >= need[r] for every row r
//
// The first sums rows are those of the model, under an affine one the margin alone; further rows are what rules between
// features come to. Costs add up: under the l2 norm they
// are squares. A row that needs -Inf is one that a part of the search may come to need.
type problem struct {
	a         *constraint.Set
	x         []float32
	linear    *constraint.Linear
	variables []variable
	need      []float64
	sums      int     // rows of the model
	beyond    float64 // the least cost of a change that is farther than the variables go
	limit     int
}

// variable is one feature that a person can change. Its positions are whole numbers: indices of its list of options
// or, on a line, steps of a grid; on a line without steps they are any number.
type variable struct {
	feature *constraint.Feature
	span            // all its positions
	zero    float64 // the one that is no change
	options []option

	line      bool
	whole     bool      // positions of the line are whole numbers
	lin, quad float64   // the change by n positions costs lin |n| + quad n^2
	coef      []float64 // what one position adds to each row
}

// option is one value of a discrete feature.
type option struct {
	id   int // of Feature.AllOptions; stay for no change
	cost float64
	coef []float64
}

const stay = -1

// at adds what the position does to coef and returns its cost.
func (l *variable) at(pos float64, sum []float64) (cost float64) {
	if l.line {
		for r, v := range l.coef {
			sum[r] += v * pos
		}
		return l.lin*math.Abs(pos) + l.quad*pos*pos
	}
	o := &l.options[int(pos)]
	for r, v := range o.coef {
		sum[r] += v
	}
	return o.cost
}

// span is a range of positions. A variable that is in counts as changed wherever it stands.
type span struct {
	first, final float64
	in           bool
}

func (s span) holds(pos float64) bool { return s.first <= pos && pos <= s.final }

// cheapest returns the position within s of least kappa cost - price coef, and that least. Of equals it is the
// first one, on a line the one nearest to zero.
func (l *variable) cheapest(s span, kappa float64, price []float64) (pos, value float64) {
	if !l.line {
		value = math.Inf(1)
		for k := int(s.first); k <= int(s.final); k++ {
			o := &l.options[k]
			v := kappa * o.cost
			for r, p := range price {
				v -= p * o.coef[r]
			}
			if v < value {
				pos, value = float64(k), v
			}
		}
		return pos, value
	}
	gain := 0.0
	for r, p := range price {
		gain += p * l.coef[r]
	}
	lin, quad := kappa*l.lin, kappa*l.quad
	at := func(n float64) float64 {
		if n == 0 {
			return 0 // also where the gain is infinite
		}
		return lin*math.Abs(n) + quad*n*n - gain*n
	}
	switch most := math.Abs(gain) - lin; {
	case most <= 0:
		pos = 0
	case quad == 0:
		pos = math.Copysign(math.Inf(1), gain)
	default:
		pos = math.Copysign(most/(2*quad), gain)
	}
	pos = min(max(pos, s.first), s.final)
	if l.whole {
		down, up := math.Floor(pos), math.Ceil(pos)
		if pos = down; at(up) < at(down) || down < s.first {
			pos = up
		}
		if at(up) == at(down) && math.Abs(up) < math.Abs(down) {
			pos = up
		}
	}
	return pos + 0, at(pos)
}

// assignment is a position of every variable.
type assignment struct {
	pos  []float64
	cost float64
	sum  []float64
}

func (p *problem) assign(pos []float64) *assignment {
	c := &assignment{pos: pos, sum: make([]float64, len(p.need))}
	for i := range p.variables {
		c.cost += p.variables[i].at(pos[i], c.sum)
	}
	return c
}

// reaches says whether the assignment fulfils every row, up to rounding.
func (c *assignment) reaches(need []float64) bool {
	for r := range need {
		if !c.reachesRow(need, r) {
			return false
		}
	}
	return true
}

func (c *assignment) reachesRow(need []float64, r int) bool {
	return c.sum[r] >= need[r]-roundoff*(1+math.Abs(need[r]))
}

const roundoff = 1e-11

// price returns the assignment within the spans of least kappa cost - price coef, and that least; nil when more
// variables are in than may be changed. It is exact with the limit included: of the variables that need not be
// changed those that gain most are.
func (p *problem) price(spans []span, kappa float64, price []float64) (*assignment, float64) {
	type gain struct {
		i     int
		pos   float64
		value float64
	}
	pos := make([]float64, len(p.variables))
	total, used := 0.0, 0
	gains := make([]gain, 0, len(p.variables))
	for i := range p.variables {
		l, s := &p.variables[i], spans[i]
		pos[i] = l.zero
		at, value := l.cheapest(s, kappa, price)
		switch {
		case s.in || !s.holds(l.zero):
			used++
			pos[i] = at
			total += value
		case value < 0:
			gains = append(gains, gain{i, at, value})
		}
	}
	if used > p.limit {
		return nil, math.Inf(1)
	}
	if room := p.limit - used; len(gains) > room {
		slices.SortStableFunc(gains, func(a, b gain) int { return cmp.Compare(a.value, b.value) })
		gains = gains[:room]
	}
	for _, g := range gains {
		pos[g.i] = g.pos
		total += g.value
	}
	return p.assign(pos), total
}

// node is a part of a problem's search: the assignments within its spans that reach its need.
type node struct {
	spans   []span
	need    []float64
	settled []*constraint.Disjunction // conditions that its spans and rows imply
	bound   float64                   // no assignment of the node costs less
	// The bound's assignments, and their shares: mixed with these they reach the need at the cost of the bound. One
	// assignment alone is an optimum of the node.
	vertices []*assignment
	shares   []float64
}

func (n *node) before(o *node) bool { return n.bound < o.bound } //nolint:unused // by queue, through its constraint

// queue is a heap of items, the first of which comes before all others.
type queue[T interface{ before(other T) bool }] []T

func (h queue[T]) Len() int { return len(h) }

func (h queue[T]) Less(i, j int) bool { return h[i].before(h[j]) }

func (h queue[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *queue[T]) Push(v any) { *h = append(*h, v.(T)) }

func (h *queue[T]) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

const (
	closeEnough = 1e-7   // relative to the cost: what counts as the optimum
	maxNodes    = 100000 // of one search
)

// solve finds the cheapest assignment, nil when it finds none, by branch and bound, the most promising node first. No
// assignment costs less than lower, which is +Inf when there is none.
func (p *problem) solve() (best *assignment, lower float64) {
	var open queue[*node]
	cost, lost, nodes := math.Inf(1), math.Inf(1), 0
	add := func(n *node) {
		nodes++
		if !p.bound(n) || n.bound >= cost*(1-closeEnough) {
			return
		}
		for _, c := range p.candidates(n) {
			if c.cost < cost && c.reaches(p.need) && p.violated(c, nil) == nil {
				best, cost = c, c.cost
			}
		}
		if n.bound < cost*(1-closeEnough) {
			heap.Push(&open, n)
		}
	}
	root := &node{need: p.need, settled: []*constraint.Disjunction{p.linear.Rounding}}
	for i := range p.variables {
		root.spans = append(root.spans, p.variables[i].span)
	}
	add(root)
	for open.Len() > 0 && open[0].bound < cost*(1-closeEnough) && nodes < maxNodes {
		n := heap.Pop(&open).(*node)
		parts, ok := p.branch(n)
		if !ok {
			lost = min(lost, n.bound) // nothing to divide, and yet no assignment: rounding
		}
		for _, part := range parts {
			add(part)
		}
	}
	lower = min(cost, lost)
	if open.Len() > 0 {
		lower = min(lower, max(open[0].bound, 0))
	}
	return best, lower
}

// violated returns a disjunction that the assignment breaks, see [constraint.Linear.Violated].
func (p *problem) violated(c *assignment, settled []*constraint.Disjunction) *constraint.Disjunction {
	if p.linear.Empty() {
		return nil
	}
	return p.linear.Violated(p.action(c), settled)
}

// candidates returns assignments of the node that may be feasible: those of the bound that reach the need, and their
// mixture when that is an assignment.
func (p *problem) candidates(n *node) []*assignment {
	var out []*assignment
	for _, c := range n.vertices {
		if c.reaches(p.need) {
			out = append(out, c)
		}
	}
	if c := p.mixture(n); c != nil {
		out = append(out, c)
	}
	return out
}

// mixture returns the assignment at the mean of the bound's assignments; nil when it stands between positions or
// changes too much.
func (p *problem) mixture(n *node) *assignment {
	pos, used := n.mean(), 0
	for i := range p.variables {
		l, first := &p.variables[i], n.vertices[0].pos[i]
		if !l.line || l.whole {
			for _, c := range n.vertices {
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
	return p.assign(pos)
}

// mean returns the mean positions of the bound's assignments.
func (n *node) mean() []float64 {
	pos := make([]float64, len(n.vertices[0].pos))
	for k, c := range n.vertices {
		for i, v := range c.pos {
			pos[i] += n.shares[k] * v
		}
	}
	return pos
}

// branch divides the node: into the alternatives of a condition that one of its candidates breaks, or else on the
// variable that its assignments differ in most, by margin. It returns false when there is nothing to divide it by.
func (p *problem) branch(n *node) (parts []*node, ok bool) {
	if !p.linear.Empty() {
		for _, c := range p.candidates(n) {
			if e := p.violated(c, n.settled); e != nil && !slices.Contains(n.settled, e) {
				return n.alternatives(p, e), true
			}
		}
	}
	pick, most, toggles := -1, 0.0, false
	for i := range p.variables {
		l := &p.variables[i]
		first, final, zeros := n.reach(i, l.zero)
		toggle := zeros > 0 && zeros < len(n.vertices) && !n.spans[i].in && p.full(n)
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
		return nil, false
	}
	l, low, high := &p.variables[pick], n.spans[pick], n.spans[pick]
	if toggles {
		low, high.in = span{first: l.zero, final: l.zero}, true
	} else {
		first, final, _ := n.reach(pick, l.zero)
		cut := min(max(math.Floor(n.mean()[pick]), first), final-1)
		low.final, high.first = cut, cut+1
	}
	return []*node{n.with(pick, low), n.with(pick, high)}, true
}

// reach returns the range of variable i over the bound's assignments, and in how many of them it is at zero.
func (n *node) reach(i int, zero float64) (first, final float64, zeros int) {
	first, final = math.Inf(1), math.Inf(-1)
	for _, c := range n.vertices {
		first, final = min(first, c.pos[i]), max(final, c.pos[i])
		if c.pos[i] == zero {
			zeros++
		}
	}
	return first, final, zeros
}

// full says whether one of the bound's assignments changes as many features as it may.
func (p *problem) full(n *node) bool {
	for _, c := range n.vertices {
		used := 0
		for i := range p.variables {
			if n.spans[i].in || c.pos[i] != p.variables[i].zero {
				used++
			}
		}
		if used >= p.limit {
			return true
		}
	}
	return false
}

// with returns the part of the node where variable i is within s.
func (n *node) with(i int, s span) *node {
	spans := slices.Clone(n.spans)
	spans[i] = s
	return &node{spans: spans, need: n.need, settled: n.settled}
}

// alternatives returns the parts of the node that a condition divides it into.
func (n *node) alternatives(p *problem, e *constraint.Disjunction) []*node {
	var parts []*node
	for _, w := range e.Alternatives {
		part := &node{spans: slices.Clone(n.spans), need: slices.Clone(n.need), settled: append(slices.Clip(n.settled), e)}
		possible := true
		for _, i := range w.Unchanged {
			zero := p.variables[i].zero
			possible = possible && part.spans[i].holds(zero) && !part.spans[i].in
			part.spans[i] = span{first: zero, final: zero}
		}
		for _, i := range w.Changed {
			part.spans[i].in = true
		}
		for k, r := range w.Rows {
			part.need[p.sums+r] = max(part.need[p.sums+r], w.Need[k])
		}
		if possible {
			parts = append(parts, part)
		}
	}
	return parts
}
