package eval

import (
	"cmp"
	"math"
	"slices"
)

// statistic computes a metric where each person counts as often as weights, by position among those evaluated, say; NaN where it is undefined.
type statistic func(weights []float64) float64

// part is what one person adds to a metric.
type part struct {
	who   int // position among the people evaluated
	x, of float64
}

type parts []part

// ratio is the sum of the x over that of what they are divided by.
func (p parts) ratio() statistic {
	return func(weights []float64) float64 {
		var x, of float64
		for i := range p {
			w := weights[p[i].who]
			x += w * p[i].x
			of += w * p[i].of
		}
		return x / of
	}
}

// root is the square root of the ratio.
func (p parts) root() statistic {
	ratio := p.ratio()
	return func(weights []float64) float64 { return math.Sqrt(ratio(weights)) }
}

// median is that of the x, as Median has it.
func (p parts) median() statistic {
	p = slices.SortedStableFunc(slices.Values(p), func(a, b part) int { return cmp.Compare(a.x, b.x) })
	return func(weights []float64) float64 {
		var n float64
		for i := range p {
			n += weights[p[i].who]
		}
		var seen, lower float64
		for i := range p {
			w := weights[p[i].who]
			before := seen
			seen += w
			if rank := math.Floor((n + 1) / 2); before < rank && seen >= rank {
				lower = p[i].x
			}
			if seen >= math.Floor(n/2)+1 {
				return (lower + p[i].x) / 2
			}
		}
		return math.NaN()
	}
}

// fullTau is tau01 of a model.
func fullTau(b *bootstrap, r *Result) statistic {
	made := func(r *Record, p *Step) (*Promise, bool) { return &p.Full, true }
	if r.Settings.Given {
		promises, who := b.promises(r, 0, made)
		g := newGivenOrder(r.Settings.Margins[0], promises, who)
		return func(weights []float64) float64 { return float64(g.tau(weights, onePercent, 1).Value) }
	}
	return b.tau(r, made)
}

// quantTau is rtau01 of a model.
func quantTau(b *bootstrap, r *Result) statistic {
	return b.tau(r, func(rec *Record, p *Step) (*Promise, bool) { return &p.Quant, rec.mirrored(&r.Settings) })
}

func (b *bootstrap) tau(r *Result, of func(*Record, *Step) (*Promise, bool)) statistic {
	stages := make([]solvedAt, len(r.Settings.Margins))
	for at, margin := range r.Settings.Margins {
		promises, who := b.promises(r, at, of)
		stages[at] = newSolvedAt(margin, promises, who)
	}
	return func(weights []float64) float64 { return float64(tauOf(stages, weights, onePercent).Value) }
}

// promises returns those made at the at-th margin, and whose they are.
func (b *bootstrap) promises(r *Result, at int, of func(*Record, *Step) (*Promise, bool)) (promises []Promise, who []int) {
	who = []int{}
	for k, row := range b.people {
		rec := &r.Records[row]
		if p, ok := of(rec, &rec.Steps[at]); ok && p.Made() {
			promises, who = append(promises, *p), append(who, k)
		}
	}
	return promises, who
}
