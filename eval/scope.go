package eval

import (
	"math"
)

// scope accumulates what a Result says of some of the people: counts, exact sums, and lists for order statistics. So a
// Result does not depend on the order of the people, and memory does not grow with their number.
type scope struct {
	s     *Settings
	lists *lists

	shares  []measure
	counts  [][]ratio // by share and required margin
	margins []marginScope
	people  Population
	rows    struct{ all, labelled int } // of the data: several promises may be about one

	alone, other int         // people with a known outcome that one model alone decides correctly
	outcomes     [2][2]int   // people by outcome, and of them those that f decides correctly
	full, quant  scoreScope  // of the models' scores
	issued       issuedScope // promises
	doubts       doubtful
}

// ratio is a share of people: how many count, of how many.
type ratio struct{ num, den int }

// measure is a share of people.
type measure struct {
	id        string
	of        contribution
	better    Better
	perMargin bool
}

// shareMeasures are all metrics that are shares of people, and the one share that is no metric.
func shareMeasures() []measure {
	of := contributions()
	all := []measure{{"pgd_first.frr", of["pgd_first.frr"], Higher, false}}
	for _, m := range metricTable() {
		if f := of[m.ID()]; f != nil && m.Kind() == KindShare {
			all = append(all, measure{m.ID(), f, m.Better, m.PerMargin()})
		}
	}
	return all
}

// marginScope is what depends on the required margin.
type marginScope struct {
	dirSim, overlap, marginError valueScope
	pixels                       valueScope // distances
	squares                      moments    // of margin errors
	own, others                  numbers    // margins at recourse points of f under f and under g
	crg, both                    gapScope
	free                         int // people
	apart                        numbers
	perturbed                    []perturbedScope // by Perturbations
	full, quant                  breakScope
}

// valueScope is a number of each of some people.
type valueScope struct {
	moments
	list numbers
}

func (v *valueScope) add(x float64) {
	v.moments.add(x)
	v.list.add(x)
}

// gapScope compares costs.
type gapScope struct {
	ratios valueScope
	sizes  moments
	pairs  pairMoments
}

// breakScope is the promises of one model, of which some break.
type breakScope struct {
	n     int
	needs numbers // of those that break: the margin above which they would hold
}

// issuedScope is the promises that were issued.
type issuedScope struct {
	unsampled, promises, invalid, infeasible int
	violation                                string
	own, broken                              numbers // margins under f of all, and of those that break
}

// doubtful is what warnings are made of.
type doubtful struct {
	evaluated, free int // people
	full, quant     solverDoubts
}

// solverDoubts counts points that are not as they should be.
type solverDoubts struct {
	short, unfit int
	violation    string
}

func newScope(s *Settings, l *lists) *scope {
	y := &scope{s: s, lists: l, shares: shareMeasures(), margins: make([]marginScope, len(s.Margins))}
	y.counts = make([][]ratio, len(y.shares))
	for i := range y.counts {
		y.counts[i] = make([]ratio, max(1, len(s.Margins)))
	}
	for i := range y.margins {
		m := &y.margins[i]
		for _, x := range []*numbers{
			&m.dirSim.list, &m.overlap.list, &m.marginError.list, &m.own, &m.others, &m.crg.ratios.list, &m.both.ratios.list,
			&m.pixels.list, &m.apart, &m.full.needs, &m.quant.needs,
		} {
			*x = l.list()
		}
		m.perturbed = make([]perturbedScope, len(Perturbations()))
		for k := range m.perturbed {
			m.perturbed[k].eps.list = l.list()
		}
	}
	for _, x := range []*numbers{
		&y.full.good, &y.full.bad, &y.quant.good, &y.quant.bad, &y.issued.own, &y.issued.broken,
	} {
		*x = l.list()
	}
	return y
}

// add adds a person, of whom there may be several records. Who has several counts by the worst of them.
func (y *scope) add(of []*Record) {
	y.count(of)
	for i := range y.shares {
		m := &y.shares[i]
		for at := range y.counts[i] {
			where := at
			if !m.perMargin {
				where = -1
			}
			if m.perMargin && at >= len(y.s.Margins) {
				break
			}
			x, n := worst(of, m.of, where, m.better, y.s)
			y.counts[i][at].num += int(x)
			y.counts[i][at].den += int(n)
			if !m.perMargin {
				break
			}
		}
	}
	y.decide(of)
	for at := range y.margins {
		y.addAt(of, at)
	}
	if y.s.Issued && len(y.s.Margins) > 0 {
		if p := worstPromise(of, 0, y.s, false); p != nil {
			y.issued.own.add(float64(p.Own))
			if p.Broken() {
				y.issued.broken.add(float64(p.Own))
			}
		}
	}
}

// worst is the contribution of a person with several records: that of the worst of them.
func worst(of []*Record, f contribution, at int, better Better, s *Settings) (x, n float64) {
	for _, r := range of {
		x1, n1 := f.at(r, at, s)
		if n1 > 0 && (n == 0 || worse(better, x1/n1, x/n)) {
			x, n = x1, n1
		}
	}
	return x, n
}

func worse(better Better, x, than float64) bool {
	switch better {
	case Lower:
		return x > than
	case Zero:
		return math.Abs(x) > math.Abs(than)
	}
	return x < than
}

// worstPromise is the one of a person's promises that is worst off; nil without any.
func worstPromise(of []*Record, at int, s *Settings, quant bool) (p *Promise) {
	for _, r := range of {
		if at < len(r.Steps) {
			if q := r.promise(at, s, quant); q != nil && (p == nil || q.Other < p.Other) {
				p = q
			}
		}
	}
	return p
}

// share is the metric of that ID.
func (y *scope) share(id string, at int) Rate {
	for i := range y.shares {
		if y.shares[i].id == id {
			c := y.counts[i][max(at, 0)]
			return NewRate(c.num, c.den, y.s.Confidence)
		}
	}
	panic("eval: no share " + id)
}

// count counts a person's records.
func (y *scope) count(of []*Record) {
	p := &y.people
	p.Read += len(of)
	p.People++
	var rows map[[2]uint64]bool // with promises
	var evaluated, free bool
	for _, r := range of {
		p.Labelled += count(r.Label >= 0)
		p.Favoured += count(approves(r.Full))
		p.Evaluated += count(r.Evaluated)
		p.BothRefuse += count(r.reverse())
		row := [2]uint64{uint64(r.Row), r.Hash}
		if r.Issued == nil || !rows[row] { // or it stands there once more, for another promise
			if r.Issued != nil && len(of) > 1 {
				if rows == nil {
					rows = map[[2]uint64]bool{}
				}
				rows[row] = true
			}
			y.rows.all++
			y.rows.labelled += count(r.Label >= 0)
		}
		evaluated = evaluated || r.Evaluated
		free = free || r.Evaluated && approves(r.Quant)
		y.countIssued(r)
		if r.Evaluated {
			y.doubts.full.check(r, y.s, true)
			y.doubts.quant.check(r, y.s, false)
		}
	}
	y.doubts.evaluated += count(evaluated)
	y.doubts.free += count(free)
}

func (y *scope) countIssued(r *Record) {
	n := &y.issued
	switch {
	case r.Issued == nil:
	case !r.Evaluated:
		n.unsampled++
	default:
		n.promises++
		n.invalid += count(!approves(r.Issued.Own))
		n.infeasible += count(r.Issued.Violation != "")
		n.violation = first(n.violation, r.Issued.Violation)
	}
}

// first is the one of two texts that stands first in a list, of those that are not empty.
func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// check looks at the points of one model, and at f's first valid iterate. A point that is good for several margins is
// checked at the smallest.
func (d *solverDoubts) check(r *Record, s *Settings, full bool) {
	var before *Promise
	for i := -1; i < len(s.Margins); i++ {
		t, p := 0.0, &r.First
		if i >= 0 {
			t = s.Margins[i]
			if p = &r.Steps[i].Quant; full {
				p = &r.Steps[i].Full
			}
		} else if !full {
			continue
		}
		if p.Made() && (i <= 0 || !p.same(before)) {
			d.short += count(float64(p.Own) < t-shortfall)
			d.unfit += count(p.Violation != "")
			d.violation = first(d.violation, p.Violation)
		}
		before = p
	}
}

// decide compares the two models on a person as they are.
func (y *scope) decide(of []*Record) {
	byFull := func(o person) (x, n float64) { return indicator(o.correct(o.Full), o.Label >= 0) }
	byQuant := func(o person) (x, n float64) { return indicator(o.correct(o.Quant), o.Label >= 0) }
	full, known := worst(of, byFull, -1, Lower, y.s) // at its best, so that no loss of the quantized model is missed
	quant, _ := worst(of, byQuant, -1, Higher, y.s)
	y.alone += count(full > quant)
	y.other += count(quant > full)
	if known > 0 {
		right, _ := worst(of, byFull, -1, Higher, y.s)
		label := outcome(of)
		y.outcomes[label][0]++
		y.outcomes[label][1] += int(right)
	}
	if r := of[0]; r.Label >= 0 { // who has several rows counts by one
		y.full.add(r.Label, float64(r.Full))
		y.quant.add(r.Label, float64(r.Quant))
	}
}

// outcome is that of the first record with a known one; -1 without any.
func outcome(of []*Record) int8 {
	for _, r := range of {
		if r.Label >= 0 {
			return r.Label
		}
	}
	return -1
}

// addAt adds a person at a required margin.
func (y *scope) addAt(of []*Record, at int) {
	m := &y.margins[at]
	value := func(f contribution, better Better, add func(x float64)) {
		if x, n := worst(of, f, at, better, y.s); n > 0 {
			add(x)
		}
	}
	value(func(o person) (x, n float64) { return defined(o.p.DirSim) }, Higher, m.dirSim.add)
	value(func(o person) (x, n float64) { return defined(o.p.Overlap) }, Higher, m.overlap.add)
	value(func(o person) (x, n float64) {
		if !(o.p.Pixels > 0) {
			return 0, 0
		}
		return float64(o.p.Pixels), 1
	}, Lower, m.pixels.add)
	value(marginDifference, Zero, func(x float64) {
		m.marginError.add(x)
		m.squares.add(x * x)
	})
	value(func(o person) (x, n float64) { return defined(o.p.Full.Own) }, None, m.own.add)
	value(func(o person) (x, n float64) { return defined(o.p.Full.Other) }, None, m.others.add)
	value(func(o person) (x, n float64) {
		if o.p.Proof == nil {
			return 0, 0
		}
		return float64(o.p.Proof.Apart), 1
	}, Lower, m.apart.add)
	free := false
	for _, r := range of {
		free = free || r.Evaluated && r.Steps[at].common() && r.Steps[at].free()
	}
	m.free += count(free)
	m.crg.add(of, at, func(p *Step) (Float, bool) { return p.Quant.Cost, p.common() })
	m.both.add(of, at, func(p *Step) (Float, bool) { return p.Quant.Cost, p.Full.Made() && p.Quant.Made() })
	m.full.add(worstPromise(of, at, y.s, false), y.s.Margins[at])
	m.quant.add(worstPromise(of, at, y.s, true), y.s.Margins[at])
	addPerturbed(m.perturbed, of, at)
}

// add adds the costs of the one of a person's records in which they differ most.
func (g *gapScope) add(of []*Record, at int, cost func(p *Step) (Float, bool)) {
	var full, quant, most float64
	any := false
	for _, r := range of {
		if !r.Evaluated {
			continue
		}
		p := &r.Steps[at]
		c, ok := cost(p)
		if x := costRatio(float64(p.Full.Cost), float64(c)); ok && (!any || math.Abs(x) > math.Abs(most)) {
			full, quant, most, any = float64(p.Full.Cost), float64(c), x, true
		}
	}
	if any {
		g.pair(full, quant)
	}
}

// pair adds two costs.
func (g *gapScope) pair(full, quant float64) {
	x := costRatio(full, quant)
	g.ratios.add(x)
	g.sizes.add(math.Abs(x))
	g.pairs.add(full, quant)
}

func (b *breakScope) add(p *Promise, required float64) {
	if p == nil {
		return
	}
	b.n++
	if p.Broken() {
		b.needs.add(needed(p, required))
	}
}
