package recourse

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/recourse/constraint"
)

type applicant struct {
	set        *constraint.Set
	x          []float32
	row        int // in the piece
	start      candidate
	best       []float32 // the incumbent: the cheapest valid action, or that of the largest margin
	bestMargin float32   // of best, while it is not valid
	lowest     float64   // the cost of best; +Inf while it is not valid
	searched   float64   // lowest when localSearch was last here; +Inf: never; -Inf: nothing cheaper exists
	rng        *rand.Rand
	moves      [][]constraint.Move // by feature, see switchesOf
	stage      int                 // of the perturbation of best
	returned   int                 // searches that came back to best
	seen       map[uint64]bool     // discrete choices evaluated so far
	kept       []*candidate        // discrete choices to expand
	scratch    []float32           // an action that most often costs too much
}

func fingerprint(v []float32) uint64 {
	h := uint64(14695981039346656037) // FNV-1a of the bytes of v
	for _, x := range v {
		for b, i := math.Float32bits(x), 0; i < 4; b, i = b>>8, i+1 {
			h = (h ^ uint64(b&0xff)) * 1099511628211
		}
	}
	return h
}

func (p *applicant) randomWeights() []float64 {
	return lists.Make(len(p.set.Task().Features), func(int) float64 { return math.Exp(p.rng.NormFloat64()) })
}

func (p *applicant) visit(d []float32) bool {
	if p.seen == nil {
		p.seen = map[uint64]bool{}
	}
	before := len(p.seen)
	p.seen[fingerprint(d)] = true
	return len(p.seen) > before
}

func (p *applicant) switchesOf(f *constraint.Feature) []constraint.Move {
	if p.moves == nil {
		p.moves = make([][]constraint.Move, len(p.set.Task().Features))
		for _, f := range p.set.Free() {
			p.moves[f.Index] = p.set.Switches(f, p.x)
		}
	}
	return p.moves[f.Index]
}

type linearization struct {
	d     []float32
	value float32
	g     []float32
}

type candidate struct {
	*applicant
	climbState

	of       *candidate // what it is a copy of
	d        []float32
	cost     float64
	estimate float64 // of the cost when it is completed
	margin   float32
	g        []float32 // margin gradient where it was last asked for
}

type climbState struct {
	onlyNumeric bool                  // discrete features stay as they are
	anyCost     bool                  // moves count by the margin that they gain alone
	weights     []float64             // factor on every feature's effectiveness; nil = 1
	banned      []*constraint.Feature // whose moves have failed
	last        *constraint.Feature   // moved last
	shortened   bool                  // the last move was already shortened
	before      linearization         // the point before the last move
	share       float64               // of the gap that the next leap is to close; 0 = none was made
	rated       []ratedMove           // by worth at the gradient ratedAt
	ratedAt     []float32
}

func (p *applicant) candidate(from []float32, onlyNumeric bool, weights []float64) *candidate {
	c := &candidate{
		applicant: p, d: make([]float32, len(p.x)), climbState: climbState{onlyNumeric: onlyNumeric, weights: weights},
	}
	copy(c.d, from)
	return c
}

func (c *candidate) clone() *candidate {
	return &candidate{applicant: c.applicant, of: c, d: slices.Clone(c.d)}
}

func (c *candidate) linearized() linearization { return linearization{c.d, c.margin, c.g} }

func (c *candidate) save() {
	c.before = linearization{append(c.before.d[:0], c.d...), c.margin, c.g}
}

func (c *candidate) restore() {
	copy(c.d, c.before.d)
	c.margin, c.g = c.before.value, c.before.g
}

func (c *candidate) price() { c.cost = c.set.Cost(c.x, c.d) }

func (c *candidate) full() bool { return c.set.Changed(c.d) >= c.set.Limit() }

func (c *candidate) without(f *constraint.Feature) { clear(c.d[f.First : f.First+f.Width]) }

func (c *candidate) allow() {
	if !c.set.Consistent(c.x, c.d) {
		c.set.Project(c.x, c.d)
	}
}

func (c *candidate) changedNumbers() []*constraint.Feature { return changedOf(c.set.Numeric(), c.d) }

func changedOf(features []*constraint.Feature, d []float32) []*constraint.Feature {
	return slices.DeleteFunc(slices.Clone(features), func(f *constraint.Feature) bool { return !f.Changed(d) })
}

func (c *candidate) byEffect() []*constraint.Feature {
	order := c.changedNumbers()
	slices.SortStableFunc(order, func(a, b *constraint.Feature) int { return cmp.Compare(c.worth(a), c.worth(b)) })
	return order
}

func (c *candidate) worth(f *constraint.Feature) float64 {
	slope, d := float64(c.g[f.First]), c.d[f.First]
	switch {
	case d == 0:
		slope = math.Abs(slope)
	case d < 0:
		slope = -slope
	}
	return slope / max(c.set.Marginal(f, c.x, c.d), 1e-12)
}

func (c *candidate) mostWorth(features []*constraint.Feature, most int) []*constraint.Feature {
	order := slices.Clone(features)
	slices.SortStableFunc(order, func(a, b *constraint.Feature) int { return cmp.Compare(c.worth(b), c.worth(a)) })
	return order[:min(len(order), most)]
}

func (c *candidate) lines(most int) []constraint.Line {
	out := make([]constraint.Line, 0, len(c.set.Numeric()))
	for _, f := range c.set.Numeric() {
		slope := float64(c.g[f.First])
		l := constraint.Line{Feature: f, Up: slope > 0, Slope: math.Abs(slope), Weight: c.set.Norm().Weight(f)}
		l.Room = math.Abs(float64(f.End(c.x[f.First], l.Up)))
		if l.Slope > 0 && l.Room > 0 {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b constraint.Line) int { return cmp.Compare(b.Worth(), a.Worth()) })
	return out[:min(len(out), max(most, 0))]
}

func (c *candidate) spread(d []float32, lines []constraint.Line, moves []float64) {
	set := c.set
	for _, f := range set.Numeric() {
		d[f.First] = 0
	}
	for i, l := range lines {
		f, at := l.Feature, moves[i]
		if !f.Changed(d) && set.Changed(d) >= set.Limit() {
			continue
		}
		if !l.Up {
			at = -at
		}
		to := set.Allowed(f, c.x, d, f.Outward(c.x[f.First], at, l.Up))
		set.Apply(constraint.Move{Feature: f, To: to}, c.x, d)
	}
}

func (s *pieceSearch) expand() error {
	for range s.o.Rounds {
		var children []*candidate
		by := map[*applicant][]*candidate{}
		for _, p := range s.people {
			by[p] = s.switches(p)
			children = append(children, by[p]...)
		}
		if len(children) == 0 {
			return nil
		}
		if err := s.eval(children, true); err != nil {
			return err
		}
		s.updateIncumbent(children)
		var starts []*candidate
		for _, p := range s.people {
			for _, c := range by[p] {
				c.estimate = s.completion(c, 0)
			}
			p.kept = slices.Clone(mostPromising(by[p], s.o.Beam))
			for _, c := range p.kept {
				if c.cost < p.lowest && c.estimate < 1.5*p.lowest {
					starts = append(starts, p.candidate(c.d, true, nil))
				}
			}
		}
		if err := s.strategy.climb(s, starts); err != nil {
			return err
		}
		invalid := func(c *candidate) bool { return !valid(c.margin, s.target) }
		starts = append(starts, slices.DeleteFunc(children, invalid)...)
		if err := s.refine(s.cheapest(starts, 2, 1.5)); err != nil {
			return err
		}
		if err := s.keepBest(); err != nil {
			return err
		}
	}
	return nil
}

func mostPromising(candidates []*candidate, most int) []*candidate {
	slices.SortStableFunc(candidates, func(a, b *candidate) int { return cmp.Compare(a.estimate, b.estimate) })
	return candidates[:min(len(candidates), most)]
}

func (s *pieceSearch) keepBest() error {
	var added []*candidate
	for _, p := range s.people {
		if math.IsInf(p.lowest, 1) {
			continue
		}
		c := &candidate{applicant: p, d: slices.Clone(p.best)}
		for _, f := range p.set.Numeric() {
			c.d[f.First] = 0
		}
		if p.visit(c.d) {
			c.price()
			p.kept, added = append(p.kept, c), append(added, c)
		}
	}
	return s.eval(added, true)
}

// switches returns the new discrete choices that are one switch away from those kept, are within the
// sparsity limit and cost less than the best action; of too many, the most promising by the gradient.
func (s *pieceSearch) switches(p *applicant) []*candidate {
	parents := p.kept
	if p.seen == nil {
		p.visit(p.start.d)
		parents = []*candidate{&p.start}
	}
	var out []*candidate
	d := make([]float32, s.set.Dim())
	for _, from := range parents {
		full := from.full()
		for _, f := range p.set.Free() {
			if full && !f.Changed(from.d) || s.strategy.keepsNumbers && f.Numeric() {
				continue
			}
			for _, m := range p.switchesOf(f) {
				gain, rise := p.set.Gain(m, p.x, from.d, from.g)
				if from.cost+rise >= p.lowest || gain == 0 && rise == 0 {
					continue
				}
				copy(d, from.d)
				if !p.set.Apply(m, p.x, d) || !p.visit(d) {
					continue
				}
				c := &candidate{applicant: p, d: slices.Clone(d), cost: p.set.Cost(p.x, d), g: from.g, margin: from.margin}
				c.estimate = s.completion(c, gain)
				out = append(out, c)
			}
		}
	}
	perKept := 4
	if math.IsInf(p.lowest, 1) {
		perKept = 16
	}
	if most := perKept * s.o.Beam; len(out) > most {
		return mostPromising(out, most)
	}
	return out
}

// completion estimates the cost of a valid action with the candidate's discrete choices: its cost and, by the
// gradient, that of the cheapest numeric moves that close the gap, gain of which is closed already. What cannot be
// closed comes last, by what is left.
func (s *pieceSearch) completion(c *candidate, gain float64) float64 {
	gap := float64(s.target-c.margin) - gain
	if !(gap > 0) {
		return c.cost
	}
	return c.set.Fill(c.x, c.d, c.cost, c.lines(c.set.Limit()-c.set.Changed(c.d)), gap)
}
