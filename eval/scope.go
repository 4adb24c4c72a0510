package eval

import "math"

// resultAccumulator adds up what a Result says of some of the people: counts, exact sums, and lists for order
// statistics. So a Result does not depend on the order of the people, and memory does not grow with their number.
type resultAccumulator struct {
	s     *Settings
	lists *numberLists

	once     accumulators     // of the metrics that have no margin
	margins  []accumulators   // of the others, by required margin
	promises [2][]promiseSums // of f and of g, by tauMargins
	people   Population
	rows     struct{ all, labelled int } // of the data: several promises may be about one
	issued   Issued
	doubts   doubtful
	// The largest priority of those in a sample, and the smallest of the others who could be in it: in one sample of all
	// people, the first is not above the second.
	drawn, notDrawn uint64
}

// The models, as they stand in resultAccumulator.promises.
const (
	ofFull = iota
	ofQuant
)

type doubtful struct {
	Evaluated, Free int    // people
	Violation       string // of a promise that was issued
	Full, Quant     solverDoubts
}

type solverDoubts struct {
	Name         string // of the model
	Short, Unfit int    // points
	Violation    string
}

func newResultAccumulator(s *Settings, l *numberLists) *resultAccumulator {
	y := &resultAccumulator{s: s, lists: l, once: newAccumulators(false, l), notDrawn: math.MaxUint64}
	y.doubts.Full.Name, y.doubts.Quant.Name = "the original", quantizedModel
	for range s.Margins {
		y.margins = append(y.margins, newAccumulators(true, l))
	}
	for model := range y.promises {
		margins, issued := s.tauMargins(model == ofQuant)
		for range margins {
			y.promises[model] = append(y.promises[model], promiseSums{issued: issued, held: l.list(), broken: l.list()})
		}
	}
	return y
}

func (y *resultAccumulator) add(of []*Record) {
	y.count(of)
	p := &personRecords{of, y.s}
	y.once.add(p, -1)
	for at := range y.s.Margins {
		y.margins[at].add(p, at)
	}
	for model := range y.promises {
		for at := range y.promises[model] {
			if p := worstPromise(of, at, y.s, model == ofQuant); p != nil {
				y.promises[model][at].add(p, y.s.Margins[at])
			}
		}
	}
}

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

func (y *resultAccumulator) count(of []*Record) {
	p := &y.people
	p.Read += len(of)
	p.People++
	rows := map[[2]uint64]bool{} // with promises
	var evaluated, free bool
	for _, r := range of {
		p.Labelled += count(r.Label >= 0)
		p.Favoured += count(approves(r.Full))
		p.Evaluated += count(r.Evaluated)
		p.BothRefuse += count(r.reverse())
		row := [2]uint64{uint64(r.Row), r.Hash}
		if r.Issued == nil || !rows[row] { // or it is listed once more, for another promise
			if r.Issued != nil {
				rows[row] = true
			}
			y.rows.all++
			y.rows.labelled += count(r.Label >= 0)
		}
		evaluated = evaluated || r.Evaluated
		free = free || r.Evaluated && approves(r.Quant)
		switch {
		case y.s.Sample == 0:
		case r.Evaluated:
			y.drawn = max(y.drawn, priority(y.s.Seed, r.X))
		case r.eligible():
			y.notDrawn = min(y.notDrawn, priority(y.s.Seed, r.X))
		}
		y.countIssued(r)
		if r.Evaluated {
			y.doubts.Full.check(&r.First, nil, 0)
			var before Step
			for i, t := range y.s.Margins {
				y.doubts.Full.check(&r.Steps[i].Full, &before.Full, t)
				y.doubts.Quant.check(&r.Steps[i].Quant, &before.Quant, t)
				before = r.Steps[i]
			}
		}
	}
	y.doubts.Evaluated += count(evaluated)
	y.doubts.Free += count(free)
}

func (y *resultAccumulator) countIssued(r *Record) {
	n := &y.issued
	switch {
	case r.Issued == nil:
	case !r.Evaluated:
		n.Unsampled++
	default:
		n.Promises++
		n.Invalid.Num += count(!approves(r.Issued.Own))
		n.Infeasible.Num += count(r.Issued.Violation != "")
		if approves(r.Full) && approves(r.Issued.Own) {
			n.Approved.Den++
			n.Approved.Num += count(r.Issued.Broken())
			n.Needless.Num += count(r.Issued.Own <= r.Full+rounding)
		}
		y.doubts.Violation = first(y.doubts.Violation, r.Issued.Violation)
	}
}

// first is the one of two texts that stands first in a list, of those that are not empty.
func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// check looks at a point for a margin. One that is good for several margins is checked at the smallest.
func (d *solverDoubts) check(p, before *Promise, margin float64) {
	if p.Exists() && !p.same(before) {
		d.Short += count(float64(p.Own) < margin-shortfall)
		d.Unfit += count(p.Violation != "")
		d.Violation = first(d.Violation, p.Violation)
	}
}
