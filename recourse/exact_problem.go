package recourse

import (
	"cmp"
	"math"
	"slices"
)

// problem is the search for the cheapest action of one person under an affine model: choose a position of every lever, at
// most limit of them off zero, so that every row reaches what it needs and the cost is least.
//
//	minimise sum_i cost_i(pos_i)   so that   sum_i acts_i(pos_i)[r] >= need[r] for every row r
//
// Row 0 is the margin; further rows are what rules between features come to. Costs add up: under the l2 norm they are squares.
// A row that needs -Inf is one that a part of the search may come to need.
type problem struct {
	levers []lever
	need   []float64
	limit  int
	// broken, when not nil, names a condition beyond the rows that the plan breaks, one that is not settled if there is such a one.
	broken  func(c *plan, settled []*either) *either
	settled []*either // at the start
}

// lever is one feature that a person can change. Its positions are whole numbers: indices of its list of options or, on a
// line, steps of a grid; on a line without steps they are any number.
type lever struct {
	feature int // index of the unit
	options []option
	zero    float64 // the position that is no change

	line         bool
	whole        bool      // positions of the line are whole numbers
	lin, quad    float64   // the change by n positions costs lin |n| + quad n^2
	acts         []float64 // what one position adds to each row
	first, final float64   // the range of positions
}

// option is one value of a discrete feature.
type option struct {
	id   int // as unit.each counts; stay for no change
	cost float64
	acts []float64
}

const stay = -1

// at adds what the position does to acts and returns its cost.
func (l *lever) at(pos float64, acts []float64) (cost float64) {
	if l.line {
		for r, v := range l.acts {
			acts[r] += v * pos
		}
		return l.lin*math.Abs(pos) + l.quad*pos*pos
	}
	o := &l.options[int(pos)]
	for r, v := range o.acts {
		acts[r] += v
	}
	return o.cost
}

// span is a range of positions. A lever that is in counts as changed wherever it stands.
type span struct {
	first, final float64
	in           bool
}

func (s span) holds(pos float64) bool { return s.first <= pos && pos <= s.final }

// cheapest returns the position within s of least kappa cost - price acts, and that least. Of equals it is the first one, on a line the one nearest to zero.
func (l *lever) cheapest(s span, kappa float64, price []float64) (pos, value float64) {
	if !l.line {
		value = math.Inf(1)
		for k := int(s.first); k <= int(s.final); k++ {
			o := &l.options[k]
			v := kappa * o.cost
			for r, p := range price {
				v -= p * o.acts[r]
			}
			if v < value {
				pos, value = float64(k), v
			}
		}
		return pos, value
	}
	gain := 0.0
	for r, p := range price {
		gain += p * l.acts[r]
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

// plan is a position of every lever.
type plan struct {
	pos  []float64
	cost float64
	acts []float64
}

func (p *problem) plan(pos []float64) *plan {
	c := &plan{pos: pos, acts: make([]float64, len(p.need))}
	for i := range p.levers {
		c.cost += p.levers[i].at(pos[i], c.acts)
	}
	return c
}

// reaches says whether the plan fulfils every row, up to rounding.
func (c *plan) reaches(need []float64) bool {
	for r, v := range need {
		if c.acts[r] < v-roundoff*(1+math.Abs(v)) {
			return false
		}
	}
	return true
}

const roundoff = 1e-11

// price returns the plan within the spans of least kappa cost - price acts, and that least; nil when more levers are in
// than may be changed. It is exact with the limit included: of the levers that need not be changed those that gain most are.
func (p *problem) price(spans []span, kappa float64, price []float64) (*plan, float64) {
	type gain struct {
		i     int
		pos   float64
		value float64
	}
	pos := make([]float64, len(p.levers))
	total, used := 0.0, 0
	gains := make([]gain, 0, len(p.levers))
	for i := range p.levers {
		l, s := &p.levers[i], spans[i]
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
	return p.plan(pos), total
}

// trim makes a plan that reaches its need cheaper: every lever goes back as far as the others allow, the one that achieves
// least for its cost first.
func (p *problem) trim(spans []span, c *plan) *plan {
	pos := slices.Clone(c.pos)
	order := make([]int, 0, len(pos))
	worth := make([]float64, len(pos))
	for i := range pos {
		l := &p.levers[i]
		acts := make([]float64, len(p.need))
		if cost := l.at(pos[i], acts); pos[i] != l.zero {
			order = append(order, i)
			worth[i] = acts[0] / cost
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(worth[a], worth[b]) })
	for _, i := range order {
		best := p.plan(slices.Clone(pos))
		for _, to := range p.levers[i].back(spans[i], pos[i], best.acts[0]-p.need[0]) {
			was := pos[i]
			pos[i] = to
			if t := p.plan(slices.Clone(pos)); t.cost < best.cost && t.reaches(p.need) {
				best = t
			} else {
				pos[i] = was
			}
		}
	}
	return p.plan(pos)
}

// back returns positions that are worth trying when the lever may lose spare of row 0.
func (l *lever) back(s span, pos, spare float64) []float64 {
	var out []float64
	switch {
	case !l.line:
		for k := int(s.first); k <= int(s.final); k++ {
			if float64(k) != pos {
				out = append(out, float64(k))
			}
		}
		return out
	case l.acts[0] == 0:
		out = append(out, 0)
	default:
		to := pos - spare/l.acts[0]
		if to*pos < 0 {
			to = 0
		}
		if l.whole {
			// Rounded away from zero, but for the noise of the division.
			to = math.Copysign(math.Ceil(math.Abs(to)-1e-9), pos)
		}
		out = append(out, to)
	}
	out[0] = min(max(out[0], s.first), s.final) + 0
	return out
}
