package recourse

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"

	"cfq/recourse/constraint"
)

// searchState is the state of a candidate in gradient search.
type searchState struct {
	numeric bool                  // discrete features stay as they are
	weights []float64             // factor on every feature's effectiveness; nil = 1
	banned  []*constraint.Feature // whose moves have failed
	last    *constraint.Feature   // moved last
	short   bool                  // the last move was already shortened
	prev    []float32             // the point before the last move, its margin and gradient
	prevM   float32
	prevG   []float32
}

// newCandidate returns a candidate at the action from (nil: no change).
func (s *search) newCandidate(p *person, from []float32, numeric bool, weights []float64) *candidate {
	c := &candidate{p: p, d: make([]float32, s.a.Dim())}
	c.state = searchState{numeric: numeric, weights: weights, prev: make([]float32, s.a.Dim())}
	copy(c.d, from)
	return c
}

// gradientSearch moves the candidates towards the target margin until they are valid, stuck, or out of steps. A
// candidate gives up when it costs half as much again as the incumbent.
func (s *search) gradientSearch(ls []*candidate) error {
	active := slices.Clone(ls)
	for range s.o.Steps + 1 {
		if len(active) == 0 {
			return nil
		}
		if err := s.eval(active, true); err != nil {
			return err
		}
		keep := active[:0]
		for _, c := range active {
			c.cost = c.p.a.Cost(c.p.x, c.d)
			if valid(c.margin, s.target) || c.cost > 1.5*c.p.cost {
				continue
			}
			if s.step(c) {
				keep = append(keep, c)
			}
		}
		active = keep
	}
	// Candidates that are left moved after their last evaluation.
	for _, c := range active {
		c.cost = c.p.a.Cost(c.p.x, c.d)
	}
	return s.eval(active, true)
}

// step undoes the last move if it did not raise the margin, and makes the next one.
func (s *search) step(c *candidate) bool {
	st := &c.state
	if st.last != nil && !(c.margin > st.prevM) {
		u := st.last
		if u.Numeric() && !st.short {
			st.short = true
			before, after := float64(st.prev[u.First]), float64(c.d[u.First])
			d := u.Nearest(c.p.x[u.First], float32(before+(after-before)/4))
			if d != st.prev[u.First] && d != c.d[u.First] {
				c.d[u.First] = d
				return true
			}
		}
		copy(c.d, st.prev)
		c.margin, c.g = st.prevM, st.prevG
		st.banned = append(st.banned, st.last)
	}
	copy(st.prev, c.d)
	st.prevM, st.prevG, st.short = c.margin, c.g, false
	gap := float64(s.target - c.margin)
	var ok bool
	if st.last, ok = s.advance(c, gap); ok {
		return true
	}
	return s.drop(c)
}

// advance makes the move with the most linearised margin per cost and returns its feature.
func (s *search) advance(c *candidate, gap float64) (*constraint.Feature, bool) {
	st, x := &c.state, c.p.x
	full := c.p.a.Changed(c.d) >= c.p.a.Limit()
	var pick constraint.Move
	best := 0.0
	for _, u := range c.p.a.Free() {
		if slices.Contains(st.banned, u) || full && !u.Changed(c.d) {
			continue
		}
		weight := 1.0
		if st.weights != nil {
			weight = st.weights[u.Index]
		}
		try := func(m constraint.Move, gain, cost float64) {
			// More than the gap is of no use.
			if eff := effectiveness(min(gain, gap), cost) * weight; eff > best {
				best, pick = eff, m
			}
		}
		if u.Numeric() {
			try(c.p.a.Toward(u, x, c.d, c.g, gap))
		} else if !st.numeric {
			for _, o := range u.Options(x) {
				m := u.Move(x, o)
				gain, cost := c.p.a.Gain(m, x, c.d, c.g)
				try(m, gain, cost)
			}
		}
	}
	return pick.Feature, pick.Feature != nil && c.p.a.Apply(pick, x, c.d)
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
func (s *search) drop(c *candidate) bool {
	st := &c.state
	st.last = nil
	if c.p.a.Changed(c.d) < c.p.a.Limit() {
		return false
	}
	var pick *constraint.Feature
	least := math.Inf(1)
	for _, u := range c.p.a.Free() {
		if !u.Changed(c.d) || st.numeric && !u.Numeric() {
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
	st.banned = append(st.banned, pick)
	return true
}

const scanned = 12 // numeric features per person that are scanned

// scan tries single numeric features over their whole range, in case the margin is not monotone, and returns
// the cheapest valid point of each line, pulled back towards the factual one.
func (s *search) scan() ([]*candidate, error) {
	var tries []*candidate
	var pulls []*pull
	for _, p := range s.people {
		for _, u := range s.scannable(p) {
			for _, up := range []bool{false, true} {
				end := u.Farthest(p.x[u.First], up)
				last := float32(0)
				for _, share := range []float64{1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 3. / 4, 1} {
					// Only what costs less than the best action.
					reach := math.Copysign(min(math.Abs(float64(end)), p.a.Norm().Affords(u, p.cost)), float64(end))
					d := u.Outward(p.x[u.First], reach*share, up)
					if d == 0 || d == last {
						continue
					}
					c := &candidate{p: p, d: make([]float32, s.a.Dim())}
					if !p.a.Apply(constraint.Move{Feature: u, To: d}, p.x, c.d) {
						continue
					}
					if c.cost = c.p.a.Cost(c.p.x, c.d); c.cost >= p.cost {
						break
					}
					tries = append(tries, c)
					pulls = append(pulls, &pull{c: c, u: u, bad: last, good: d})
					last = d
				}
			}
		}
	}
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	var found []*candidate
	var narrowed []*pull
	for i, c := range tries {
		before := c.p.start.margin // of the point before on the same line
		if pulls[i].bad != 0 {
			before = tries[i-1].margin
		}
		if valid(c.margin, s.target) && !valid(before, s.target) {
			pulls[i].goodM, pulls[i].badM = c.margin, before
			found, narrowed = append(found, c), append(narrowed, pulls[i])
		}
	}
	return found, s.narrow(narrowed)
}

// scannable returns the numeric features with the largest margin gradient per cost.
func (s *search) scannable(p *person) []*constraint.Feature {
	var fs []*constraint.Feature
	for _, u := range p.a.Free() {
		if u.Numeric() {
			fs = append(fs, u)
		}
	}
	if len(fs) <= scanned {
		return fs
	}
	slices.SortStableFunc(fs, func(a, b *constraint.Feature) int {
		return -cmp.Compare(p.start.worth(a), p.start.worth(b))
	})
	return fs[:scanned]
}

// expand is one round over discrete choices. It reports whether there was anything to expand.
func (s *search) expand() (bool, error) {
	var children []*candidate
	by := map[*person][]*candidate{}
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
	s.updateIncumbent(children)
	var starts []*candidate
	for _, p := range s.people {
		cs := by[p]
		estimates := make(map[*candidate]float64, len(cs))
		for _, c := range cs {
			estimates[c] = s.completion(c, 0)
		}
		slices.SortStableFunc(cs, func(a, b *candidate) int { return cmp.Compare(estimates[a], estimates[b]) })
		p.kept = cs[:min(len(cs), s.o.Beam):min(len(cs), s.o.Beam)]
		for _, c := range p.kept {
			if c.cost < p.cost && estimates[c] < 1.5*p.cost {
				starts = append(starts, s.newCandidate(p, c.d, true, nil))
			}
		}
	}
	if err := s.gradientSearch(starts); err != nil {
		return false, err
	}
	for _, c := range children {
		if valid(c.margin, s.target) {
			starts = append(starts, c)
		}
	}
	if err := s.refine(s.cheapest(starts, 2, 1.5)); err != nil {
		return false, err
	}
	return true, s.keepBest()
}

// keepBest adds the discrete part of the best actions to what the next round expands.
func (s *search) keepBest() error {
	var fresh []*candidate
	for _, p := range s.people {
		if math.IsInf(p.cost, 1) {
			continue
		}
		c := &candidate{p: p, d: slices.Clone(p.best)}
		for _, u := range p.a.Free() {
			if u.Numeric() {
				c.d[u.First] = 0
			}
		}
		if p.visit(c.d) {
			c.cost = p.a.Cost(c.p.x, c.d)
			p.kept = append(p.kept, c)
			fresh = append(fresh, c)
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
func (s *search) switches(p *person) []*candidate {
	parents := p.kept
	if p.seen == nil {
		p.visit(p.start.d)
		parents = []*candidate{&p.start}
	}
	most := 16 * s.o.Beam
	var out []*candidate
	estimates := map[*candidate]float64{}
	scratch := make([]float32, s.a.Dim())
	for _, from := range parents {
		full := p.a.Changed(from.d) >= p.a.Limit()
		for _, u := range p.a.Free() {
			if full && !u.Changed(from.d) {
				continue
			}
			child := func(m constraint.Move, gain, rise float64) {
				if from.cost+rise >= p.cost || gain == 0 && rise == 0 {
					return
				}
				copy(scratch, from.d)
				if !p.a.Apply(m, p.x, scratch) || !p.visit(scratch) {
					return
				}
				c := &candidate{
					p: p, d: slices.Clone(scratch), cost: p.a.Cost(p.x, scratch), g: from.g, margin: from.margin,
				}
				estimates[c] = s.completion(c, gain)
				out = append(out, c)
			}
			for _, o := range u.Options(p.x) {
				m := u.Move(p.x, o)
				gain, rise := p.a.Gain(m, p.x, from.d, from.g)
				child(m, gain, rise)
			}
			if u.Numeric() && math.IsInf(p.cost, 1) {
				// Nothing is valid so far: the far ends of numbers are choices, too. Where the margin bends, the gradient does
				// not lead there.
				for _, up := range []bool{false, true} {
					to := u.Farthest(p.x[u.First], up)
					gain := float64(from.g[u.First]) * (float64(to) - float64(from.d[u.First]))
					child(constraint.Move{Feature: u, To: to}, gain, 0)
				}
			}
		}
	}
	if len(out) > most {
		slices.SortStableFunc(out, func(a, b *candidate) int { return cmp.Compare(estimates[a], estimates[b]) })
		out = out[:most]
	}
	return out
}

// completion estimates the cost of a valid action with the candidate's discrete choices: its cost and, by the
// gradient, that of the cheapest numeric moves that close the gap, gain of which is closed already. What cannot be
// closed comes last, by what is left.
func (s *search) completion(c *candidate, gain float64) float64 {
	gap := float64(s.target-c.margin) - gain
	if !(gap > 0) {
		return c.cost
	}
	return c.p.a.Norm().Fill(c.cost, c.lines(c.p.a.Limit()-c.p.a.Changed(c.d)), gap)
}

// lines returns at most most of the numeric features that can raise the linearised margin, those that gain most for
// their cost first.
func (c *candidate) lines(most int) []constraint.Line {
	var lines []constraint.Line
	for _, u := range c.p.a.Free() {
		slope := float64(c.g[u.First])
		if !u.Numeric() || slope == 0 || slope != slope {
			continue
		}
		l := constraint.Line{Feature: u, Up: slope > 0, Slope: math.Abs(slope), Weight: c.p.a.Norm().Weight(u)}
		if l.Room = math.Abs(float64(u.End(c.p.x[u.First], l.Up))); l.Room > 0 {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b constraint.Line) int { return -cmp.Compare(a.Worth(), b.Worth()) })
	return lines[:min(len(lines), max(most, 0))]
}

// feasibilityPhase ignores costs for everyone who has no valid action: all features go to where the gradient
// gains most, the best ones up to the sparsity limit, and again from there. For a linear model the first such point
// has the largest margin there is. What is valid is refined.
func (s *search) feasibilityPhase() error {
	const rounds = 6
	var active []*candidate
	for _, p := range s.people {
		if !math.IsInf(p.cost, 1) {
			continue
		}
		c := s.newCandidate(p, nil, false, nil)
		c.margin, c.g = p.start.margin, p.start.g
		active = append(active, c)
	}
	all := slices.Clone(active)
	for range rounds {
		keep := active[:0]
		for _, c := range active {
			copy(c.state.prev, c.d)
			c.state.prevM = c.margin
			s.greatest(c, c.d)
			if !slices.Equal(c.d, c.state.prev) {
				keep = append(keep, c)
			}
		}
		active = keep
		if err := s.eval(active, true); err != nil {
			return err
		}
		keep = active[:0]
		for _, c := range active {
			c.cost = c.p.a.Cost(c.p.x, c.d)
			if !valid(c.margin, s.target) && c.margin > c.state.prevM {
				keep = append(keep, c)
			}
		}
		active = keep
	}
	return s.refine(s.cheapest(all, 1, 1))
}

// greatest sets d to the action with the largest margin, linearised at the candidate, by features in the order of
// their gain.
func (s *search) greatest(c *candidate, d []float32) {
	type gain struct {
		constraint.Move
		gain float64
	}
	var gains []gain
	x, zero := c.p.x, c.p.start.d
	for _, u := range c.p.a.Free() {
		best := gain{Move: constraint.Move{Feature: u}}
		if u.Numeric() {
			slope := float64(c.g[u.First])
			to := u.Farthest(x[u.First], slope > 0)
			best.To = c.p.a.Allowed(u, x, zero, to)
			best.gain = slope * float64(best.To)
		} else {
			for _, o := range u.Options(x) {
				m := u.Move(x, o)
				if v, _ := c.p.a.Gain(m, x, zero, c.g); v > best.gain {
					best = gain{m, v}
				}
			}
		}
		if best.gain > 0 {
			gains = append(gains, best)
		}
	}
	slices.SortStableFunc(gains, func(a, b gain) int { return -cmp.Compare(a.gain, b.gain) })
	clear(d)
	for _, b := range gains {
		u := b.Feature
		if c.p.a.Changed(d) >= c.p.a.Limit() && !u.Changed(d) {
			continue
		}
		if u.Numeric() {
			b.To = c.p.a.Allowed(u, x, d, b.To)
		}
		c.p.a.Apply(b.Move, x, d)
	}
}
