package eval

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat/distuv"
)

// fewDiffer is the number of people below which a difference that they alone make is left uncalled: how often
// another draw would have found as many is not known from them.
const fewDiffer = 10

// fewForTau is the number of people below which tau01 is not compared: 1 % of them are fewer than five, and
// what draws say of so few of the largest numbers is wrong too often.
const fewForTau = 500

// bootstrap draws people with replacement and collects the differences of all metrics in each draw.
type bootstrap struct {
	people []int // rows of the people evaluated, in an order that does not depend on that of the rows
	duels  []*duel
}

// duel is one metric of two models.
type duel struct {
	row, model  int // of the cell
	better      Better
	first, this statistic
	n, differ   int       // people who count, and those of them whom the models make a difference for
	least       int       // n from which on there is something to say
	deltas      []float64 // this less the first, of each draw
	sizes       []float64 // the same of the absolute values
}

func newBootstrap(results []*Result) *bootstrap {
	b := &bootstrap{}
	for i := range results[0].Records {
		if results[0].Records[i].Evaluated {
			b.people = append(b.people, i)
		}
	}
	slices.SortStableFunc(b.people, func(i, j int) int {
		for _, r := range results {
			if c := r.Records[i].compare(&r.Records[j]); c != 0 {
				return c
			}
		}
		return 0
	})
	return b
}

// compare orders people by what is known of them; those who are equal can stand for each other.
func (r *Record) compare(o *Record) int {
	c := cmp.Or(cmp.Compare(r.Full, o.Full), cmp.Compare(r.Quant, o.Quant))
	for i := 0; c == 0 && i < len(r.Steps); i++ {
		s, t := &r.Steps[i], &o.Steps[i]
		c = cmp.Or(s.Full.compare(&t.Full), s.Quant.compare(&t.Quant), cmp.Compare(s.DirSim, t.DirSim), cmp.Compare(s.Overlap, t.Overlap))
	}
	return c
}

func (p *Promise) compare(o *Promise) int {
	return cmp.Or(cmp.Compare(p.Status, o.Status), cmp.Compare(p.Cost, o.Cost), cmp.Compare(p.Own, o.Own), cmp.Compare(p.Other, o.Other))
}

// duel makes the statistics of two models of the people who count.
func (k *contested) duel(b *bootstrap, first, this *Result, at int) *duel {
	d := &duel{least: fewPeople}
	if k.whole != nil {
		d.first, d.this = k.whole(b, first), k.whole(b, this)
		d.n, d.differ = b.apart(first, this, k.own)
		d.least = fewForTau
		return d
	}
	var p, q parts
	for who, row := range b.people {
		x, of := k.part(&first.Records[row], at, &first.Settings)
		y, too := k.part(&this.Records[row], at, &this.Settings)
		if of == 0 && too == 0 || !k.own && (of == 0 || too == 0) {
			continue
		}
		p, q = append(p, part{who, x, of}), append(q, part{who, y, too})
		d.differ += count(x != y || of != too)
	}
	d.n, d.first, d.this = len(p), k.statistic(p), k.statistic(q)
	return d
}

// apart counts the people with a promise at some margin, of g in either model or of f, and those of them whose broken promises are not the same.
func (b *bootstrap) apart(first, this *Result, quant bool) (n, differ int) {
	need := func(r *Record, s *Step, o *Settings) (made bool, need Float) {
		p := &s.Full
		if quant {
			p = &s.Quant
		}
		if !p.Made() || quant && !r.mirrored(o) {
			return false, 0
		}
		if p.Broken() {
			need = p.Own - p.Other
		}
		return true, need
	}
	for _, row := range b.people {
		x, y := &first.Records[row], &this.Records[row]
		counts, differs := false, false
		for at := range x.Steps {
			made, p := need(x, &x.Steps[at], &first.Settings)
			too, q := need(y, &y.Steps[at], &this.Settings)
			counts = counts || made || too
			differs = differs || made != too || p != q
		}
		n += count(counts)
		differ += count(differs)
	}
	return n, differ
}

func (b *bootstrap) add(d *duel, row, model int, better Better) {
	d.row, d.model, d.better = row, model, better
	b.duels = append(b.duels, d)
}

// few says that nothing can be said of the difference.
func (d *duel) few() bool { return d.n < d.least || d.differ < fewDiffer }

// run makes the draws, of which each has its own random numbers.
func (b *bootstrap) run(o ContrastOptions) {
	var todo []*duel
	for _, d := range b.duels {
		if !d.few() {
			d.deltas, d.sizes = make([]float64, o.Draws), make([]float64, o.Draws)
			todo = append(todo, d)
		}
	}
	if len(todo) == 0 {
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range o.Workers {
		wg.Go(func() {
			weights := make([]float64, len(b.people))
			for {
				draw := int(next.Add(1)) - 1
				if draw >= o.Draws {
					return
				}
				clear(weights)
				rng := rand.New(rand.NewPCG(o.Seed^0xb007, uint64(draw)*0x9e3779b97f4a7c15))
				for range weights {
					weights[rng.IntN(len(weights))]++
				}
				for _, d := range todo {
					first, this := d.first(weights), d.this(weights)
					d.deltas[draw], d.sizes[draw] = this-first, math.Abs(this)-math.Abs(first)
				}
			}
		})
	}
	wg.Wait()
}

// settle fills in the difference of a cell.
func (d *duel) settle(c *Cell, everyone []float64, confidence float64) {
	first, this := d.first(everyone), d.this(everyone)
	c.Delta.N = d.n
	if c.Delta.Value = Float(this - first); d.few() || !c.Delta.Value.Defined() {
		return
	}
	c.Delta.Lo, c.Delta.Hi = percentiles(d.deltas, d.n, confidence)
	size, draws := float64(c.Delta.Value), d.deltas
	if d.better == Zero {
		size, draws = math.Abs(this)-math.Abs(first), d.sizes
	}
	c.P, c.Test, c.Call = Float(chance(draws, d.n)), bootstrapTest, call(d.better, size)
}

// percentiles returns the interval of a difference from its draws, of n people. Undefined draws may have been anything.
func percentiles(draws []float64, n int, confidence float64) (lo, hi Float) {
	s := slices.DeleteFunc(slices.Clone(draws), math.IsNaN)
	slices.Sort(s)
	student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile((1 - confidence) / 2)
	side := distuv.UnitNormal.CDF(student * math.Sqrt(float64(n)/float64(n-1)))
	rank := int(side*float64(len(draws)+1)) - (len(draws) - len(s))
	if rank < 1 {
		return Float(math.Inf(-1)), Float(math.Inf(1))
	}
	return Float(s[rank-1]), Float(s[len(s)-rank])
}

// chance returns the two-sided p of a difference from its draws, of n people: how few have one sign or the other, the difference itself being one
// more draw with either. It is never below 2/(draws+1).
func chance(draws []float64, n int) float64 {
	below, above := 1, 1
	for _, d := range draws {
		below += count(!(d > 0))
		above += count(!(d < 0))
	}
	side := min(0.5, float64(min(below, above))/float64(len(draws)+1))
	student := distuv.UnitNormal.Quantile(side) * math.Sqrt(float64(n-1)/float64(n))
	return 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.CDF(student)
}
