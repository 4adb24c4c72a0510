package eval

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/statistics"
	"cfq/task"
)

// Comparison compares several quantized models of one original on the same people: each with the first one.
type Comparison struct {
	Names      []string        `json:"names"`
	Results    []*Result       `json:"results"` // in the order of Names
	Confidence float64         `json:"confidence"`
	Rows       []ComparisonRow `json:"rows"`
}

// ComparisonRow is one metric of all models.
type ComparisonRow struct {
	Metric string   `json:"metric"`           // Metric.ID
	Margin *float64 `json:"margin,omitempty"` // required; nil for metrics that have none
	Cells  []Cell   `json:"cells"`            // in the order of Names; the first has no difference
}

// Cell is one model's value and how it differs from the first model's.
type Cell struct {
	Value Estimate `json:"value"`
	// Delta is this less the first, of the people who count in both; where each model is judged on recourse of
	// its own (rvd, lost_recourse, rfrr, rtau01), of those who count in either.
	Delta Estimate `json:"delta"`
	// P is that the difference is chance, adjusted by Holm for all tests of the comparison; undefined without a test. Of
	// metrics that are best near 0 it is that of the difference of their absolute values.
	P    Float  `json:"p"`
	Test string `json:"test"` // "McNemar exact", "paired bootstrap", "" where there is nothing to test
	Call Call   `json:"call"`
}

// Call is what can be said of a difference.
type Call string

// The calls.
const (
	BetterThan Call = "better"
	WorseThan  Call = "worse"
	Alike      Call = "~"       // nothing can be said
	Differs    Call = "differs" // certain, of a metric that has no better side
	Baseline   Call = ""        // the first model
)

// The tests.
const (
	mcNemarTest   = "McNemar exact"
	bootstrapTest = "paired bootstrap"
)

// ComparisonOptions of ComparePaired. The zero value is useful.
type ComparisonOptions struct {
	// of the intervals of differences; one less it is the p up to which a difference is called; default 0.95
	Confidence float64
	Seed       uint64 // of the bootstrap
	Draws      int    // of the bootstrap, at least: many tests need more; default 2000
	Workers    int    // default: one for each processor; the result does not depend on it
	alone      bool   // each test is called as if it were the only one, with Draws draws
}

// ComparePaired compares models that were evaluated, each by Compare with the same original, people and
// options. It fails when they were not.
//
// Memory is bounded: of more than maxDrawn people evaluated, the bootstrap draws from a sample of so many, and its
// intervals are those of the sample.
//
// Where all models are judged on the same trials (f's promises, decisions), shares are compared by McNemar's
// exact test, and the interval of the difference is that of two exact ones. Everything else is bootstrapped:
// people are drawn with replacement, each with all that is known of them under both models, and a difference
// is called when few enough draws have the other sign. Nothing is called of fewer than 30 people (500 for
// tau01), or when fewer than 10 people make the difference.
//
// References: McNemar (1947); Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 13.3;
// Hesterberg (2015), What Teachers Should Know About the Bootstrap, section 5.3 (the percentiles are those of
// Student's distribution, or there would be too many calls of few people).
func ComparePaired(names []string, results []*Result, o ComparisonOptions) (*Comparison, error) {
	o.Confidence, o.Draws = cmp.Or(o.Confidence, 0.95), cmp.Or(o.Draws, 2000)
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if err := errors.Join(o.check(), checkComparable(names, results)); err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	c := &Comparison{Names: names, Results: results, Confidence: o.Confidence}
	metrics := comparedMetrics()
	pairs, err := readPairs(names, results, metrics, o.Seed)
	if err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	b := newBootstrap(pairs)
	for _, m := range metrics {
		for _, at := range m.places(len(results[0].Margins)) {
			c.add(m, at, b)
		}
	}
	pairs.people = nil // the tests have what they need of them
	if !o.alone {
		o.Draws = max(o.Draws, c.enough())
	}
	b.run(o)
	c.decide(b, o.alone)
	return c, nil
}

func (o *ComparisonOptions) check() error {
	if !(o.Confidence > 0 && o.Confidence < 1) {
		return fmt.Errorf("confidence %v: it must lie between 0 and 1", o.Confidence)
	}
	return nil
}

// enough is how many draws a comparison of several numbers needs: the smallest p of the bootstrap, which is 2/(draws+1)
// and more for few people, has to be called when it is adjusted for all tests.
func (c *Comparison) enough() int {
	tests := 0
	for i := range c.Rows {
		tests += len(c.Rows[i].Cells) - 1
	}
	return int(math.Ceil(4 * float64(tests) / (1 - c.Confidence)))
}

// add appends the row of a metric, at the at-th margin, unless there is nothing to show. The tests by
// bootstrap are left to b.
func (c *Comparison) add(m *Metric, at int, b *bootstrap) {
	row := ComparisonRow{Metric: m.ID, Cells: make([]Cell, len(c.Results))}
	values := make([]Value, len(c.Results))
	known, same := false, true
	for i, r := range c.Results {
		values[i] = m.In(r, at)
		known = known || values[i].N > 0
		same = same && (values[i].Value == values[0].Value || !values[i].Value.Defined())
	}
	if !known || same && m.pairs == ownTrialsIfDifferent {
		return
	}
	if at >= 0 {
		row.Margin = &c.Results[0].Margins[at].Margin
	}
	for i := range row.Cells {
		cell := &row.Cells[i]
		*cell = Cell{Value: values[i].Estimate, Delta: unknown(), P: undefined(), Call: Baseline}
		if i == 0 {
			continue
		}
		cell.Call = Alike
		switch {
		case values[i].Kind == KindExact && values[0].Kind == KindExact:
			d := values[i].Value - values[0].Value
			cell.Delta = exactly(float64(d))
			cell.Call = call(m.Better, float64(d))
		case m.sameTrials():
			cell.mcNemar(b.trials[trials{m.ID, at, i}], c.Confidence, m.Better)
		default:
			d := b.pairedTest(m, &c.Results[0].Settings, i, at)
			d.row, d.model = len(c.Rows), i
			b.tests = append(b.tests, d)
		}
	}
	c.Rows = append(c.Rows, row)
}

func (c *Cell) mcNemar(t *discordant, confidence float64, better Better) {
	if t == nil { // there is nobody
		t = &discordant{}
	}
	if c.Delta = dropOf(t.alone, t.other, t.n, confidence); t.n > 0 {
		c.P, c.Test = Float(statistics.McNemarExact(t.alone, t.other)), mcNemarTest
		c.Call = call(better, float64(c.Delta.Value))
	}
}

type discordant struct{ n, alone, other int }

// add adds a person: the records of the first model, and of this one. As in the values, the worst record counts.
func (t *discordant) add(m *Metric, first, this *personRecords, at int) {
	x, _, counts := m.sample.of(first, at)
	y, _, too := m.sample.of(this, at)
	if counts && too {
		t.n, t.alone, t.other = t.n+1, t.alone+count(y > x), t.other+count(x > y)
	}
}

// call says what a difference is if it is certain, of numbers or, for those that are best near 0, of their
// absolute values.
func call(better Better, d float64) Call {
	switch {
	case d == 0 || math.IsNaN(d):
		return Alike
	case better == None:
		return Differs
	case (d > 0) == (better == Higher):
		return BetterThan
	}
	return WorseThan
}

func (c *Comparison) decide(b *bootstrap, alone bool) {
	everyone := ones(b.n)
	for _, d := range b.tests {
		d.settle(&c.Rows[d.row].Cells[d.model], everyone, c.Confidence)
	}
	var cells []*Cell
	var p []float64
	for i := range c.Rows {
		for j := range c.Rows[i].Cells {
			x := &c.Rows[i].Cells[j]
			cells, p = append(cells, x), append(p, float64(x.P))
		}
	}
	if !alone {
		p = statistics.Holm(p)
	}
	for i, x := range cells {
		if x.P = Float(p[i]); x.Test != "" && !(p[i] <= 1-c.Confidence) {
			x.Call = Alike
		}
	}
}

func (b *bootstrap) tau(model int, s *Settings, quant bool) weighted {
	type broken struct {
		need   float64
		person int
	}
	people, breaks := make([][]int, len(s.Margins)), make([][]broken, len(s.Margins))
	type issued struct { // of the lowest margin, ascending
		own    Float
		broken bool
	}
	var own []issued
	var who []int
	for at, t := range s.Margins {
		for person, of := range b.people {
			p := worstPromise(of[model], at, s, quant)
			if p == nil {
				continue
			}
			people[at] = append(people[at], person)
			if p.Broken() {
				breaks[at] = append(breaks[at], broken{needed(p, t), person})
			}
			if at == 0 {
				own, who = append(own, issued{p.Own, p.Broken()}), append(who, person)
			}
		}
		slices.SortFunc(breaks[at], func(a, b broken) int { return cmp.Compare(a.need, b.need) })
	}
	var curves sync.Pool // of draws before: a curve has a step for each promise that breaks
	tau := func(of func(before vdCurve) vdCurve) float64 {
		c, _ := curves.Get().(*vdCurve)
		if c == nil {
			c = new(vdCurve)
		}
		defer curves.Put(c)
		*c = of(*c)
		return float64(c.fromTop(onePercent, 1).Value)
	}
	if s.Issued && !quant {
		order := task.AllRows(len(own))
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(own[i].own, own[j].own) })
		return func(weights []float64) float64 {
			return tau(func(before vdCurve) vdCurve {
				return issuedCurve(before, s.Margins[0], func(yield func(float64, [2]int) bool) {
					for _, k := range order {
						w := int(weights[who[k]])
						if !yield(float64(own[k].own), [2]int{w, w * count(own[k].broken)}) {
							return
						}
					}
				})
			})
		}
	}
	return func(weights []float64) float64 {
		n, needs := make([]int, len(s.Margins)), make([]iter.Seq2[float64, int], len(s.Margins))
		for at := range s.Margins {
			for _, person := range people[at] {
				n[at] += int(weights[person])
			}
			needs[at] = func(yield func(float64, int) bool) {
				for _, x := range breaks[at] {
					if !yield(x.need, int(weights[x.person])) {
						return
					}
				}
			}
		}
		return tau(func(before vdCurve) vdCurve { return solvedCurve(before, s.Margins, n, needs) })
	}
}

func comparedMetrics() (list []*Metric) {
	all := metricTable()
	for i := range all {
		if all[i].pairs != notCompared {
			list = append(list, &all[i])
		}
	}
	return list
}

func (m *Metric) sameTrials() bool { return m.pairs == paired && m.Kind() == KindShare }

func (m *Metric) ownTrials() bool { return m.pairs == ownTrials || m.pairs == ownTrialsIfDifferent }

// minDiffering is the number of people below which a difference that they alone make is left uncalled: how often
// another draw would have found as many is not known from them.
const minDiffering = 10

// minForTau is the number of people below which tau01 is not compared: 1 % of them are fewer than five, and
// what draws say of so few of the largest numbers is wrong too often.
const minForTau = 500

// maxDrawn is how many people the bootstrap draws from.
const maxDrawn = 20_000

type trials struct {
	id        string
	at, model int
}

type pairs struct {
	people [][][]*Record // evaluated, or a sample of them, by model; in an order that does not depend on that of the rows
	trials map[trials]*discordant
}

func readPairs(names []string, results []*Result, metrics []*Metric, seed uint64) (*pairs, error) {
	for _, r := range results { // there may be many
		if err := r.Records.rest(); err != nil {
			return nil, err
		}
	}
	p := &pairs{trials: map[trials]*discordant{}}
	drawn := bottomK[[][]*Record]{most: maxDrawn}
	s := &results[0].Settings
	metrics = slices.DeleteFunc(slices.Clone(metrics), func(m *Metric) bool { return !m.sameTrials() })
	err := sideBySide(names, results, func(records [][]*Record) {
		people := make([]personRecords, len(records))
		for model := range people {
			people[model] = personRecords{records[model], s}
		}
		for _, m := range metrics {
			for _, at := range m.places(len(s.Margins)) {
				for model := 1; model < len(records); model++ {
					t := trials{m.ID, at, model}
					if p.trials[t] == nil {
						p.trials[t] = &discordant{}
					}
					p.trials[t].add(m, &people[0], &people[model], at)
				}
			}
		}
		if slices.ContainsFunc(records[0], func(r *Record) bool { return r.Evaluated }) {
			drawn.add(priority(seed, records[0][0].X), evaluatedOf(records))
		}
	})
	if err != nil {
		return nil, err
	}
	p.people = drawn.kept()
	slices.SortStableFunc(p.people, func(a, b [][]*Record) int {
		for model := range a {
			if c := slices.CompareFunc(a[model], b[model], (*Record).compare); c != 0 {
				return c
			}
		}
		return 0
	})
	return p, nil
}

func evaluatedOf(person [][]*Record) [][]*Record {
	out := make([][]*Record, len(person))
	for model, records := range person {
		for _, r := range records {
			if !r.Evaluated {
				continue
			}
			c := *r
			c.X, c.Groups, c.Others, c.Issued = nil, nil, nil, nil
			out[model] = append(out[model], &c)
		}
	}
	return out
}

// sideBySide hands on the records of each person under every model. It fails when the models were not evaluated on the
// same people against the same original.
func sideBySide(names []string, results []*Result, each func(person [][]*Record)) error {
	var next []func() ([]*Record, error, bool)
	var persons byPerson
	for _, r := range results {
		pull, stop := iter.Pull2(r.Records.parts(toInputs, nil))
		defer stop()
		next = append(next, pull)
	}
	for {
		parts := make([][]*Record, len(results))
		for i := range results {
			part, err, ok := next[i]()
			if err != nil {
				return err
			}
			if !ok {
				return nil
			}
			if parts[i] = part; i > 0 {
				if err := sameAs(parts[0], part, results[0].Settings.Margins); err != nil {
					return fmt.Errorf("%s and %s cannot be compared: %w", names[0], names[i], err)
				}
			}
		}
		at := map[*Record]int{}
		for i, r := range parts[0] {
			at[r] = i
		}
		for _, of := range persons.divide(parts[0], results[0].Records.key) {
			person := make([][]*Record, len(results))
			for _, r := range of {
				for model := range results {
					person[model] = append(person[model], parts[model][at[r]])
				}
			}
			each(person)
		}
	}
}

type bootstrap struct {
	*pairs
	n     int // people
	tests []*pairedTest
}

type pairedTest struct {
	row, model  int // of the cell
	better      Better
	first, this weighted
	n, differ   int       // people who count, and those of them for which the models differ
	least       int       // n from which on there is something to say
	deltas      []float64 // this less the first, of each draw
	sizes       []float64 // the same of the absolute values
}

func newBootstrap(p *pairs) *bootstrap { return &bootstrap{pairs: p, n: len(p.people)} }

func (b *bootstrap) pairedTest(m *Metric, s *Settings, model, at int) *pairedTest {
	d, own := &pairedTest{least: minPeople, better: m.Better}, m.ownTrials()
	if m.sample == nil { // tau01 of f, or of each model's own promises, is not made of what single people add
		d.first, d.this = b.tau(0, s, own), b.tau(model, s, own)
		d.n, d.differ = b.apart(model, s, own)
		d.least = minForTau
		return d
	}
	var p, q contributions
	for who, records := range b.people {
		x, of, counts := m.sample.of(&personRecords{records[0], s}, at)
		y, too, countsToo := m.sample.of(&personRecords{records[model], s}, at)
		if !counts {
			x, of = 0, 0
		}
		if !countsToo {
			y, too = 0, 0
		}
		if !counts && !countsToo || !own && !(counts && countsToo) {
			continue
		}
		p, q = append(p, contribution{who, x, of}), append(q, contribution{who, y, too})
		d.differ += count(x != y || of != too)
	}
	d.n, d.first, d.this = len(p), m.statistic.weighted(p), m.statistic.weighted(q)
	return d
}

// apart counts the people with a promise at some margin, of g in either model or of f, and those of them
// whose broken promises are not the same.
func (b *bootstrap) apart(model int, s *Settings, quant bool) (n, differ int) {
	need := func(p *Promise) Float {
		if p == nil || !p.Broken() {
			return 0
		}
		return p.Own - p.Other
	}
	for _, person := range b.people {
		counts, differs := false, false
		for at := range s.Margins {
			p, q := worstPromise(person[0], at, s, quant), worstPromise(person[model], at, s, quant)
			counts = counts || p != nil || q != nil
			differs = differs || (p == nil) != (q == nil) || need(p) != need(q)
		}
		n += count(counts)
		differ += count(differs)
	}
	return n, differ
}

func (d *pairedTest) few() bool { return d.n < d.least || d.differ < minDiffering }

func (b *bootstrap) run(o ComparisonOptions) {
	var todo []*pairedTest
	for _, d := range b.tests {
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
			weights := make([]float64, b.n)
			for {
				draw := int(next.Add(1)) - 1
				if draw >= o.Draws {
					return
				}
				clear(weights)
				rng := rand.New(rand.NewPCG(o.Seed^0xb007, uint64(draw)*0x9e3779b97f4a7c15))
				for range b.n {
					weights[rng.IntN(b.n)]++
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

func (d *pairedTest) settle(c *Cell, everyone []float64, confidence float64) {
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

// chance returns the two-sided p of a difference from its draws, of n people: how few have one sign or the
// other, the difference itself being one more draw with either. It is never below 2/(draws+1).
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

func checkComparable(names []string, results []*Result) error {
	switch {
	case len(names) != len(results):
		return fmt.Errorf("%d names for %d models", len(names), len(results))
	case len(results) < 2:
		return errors.New("two quantized models are needed at least")
	}
	for i, r := range results {
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("two models are called %q", names[i])
		}
		if r.Records.Len() == 0 && r.Population.Read > 0 {
			return fmt.Errorf("nothing is known of the people of %s: it was read from a report; evaluate it again", names[i])
		}
		if err := results[0].alike(r); err != nil {
			return fmt.Errorf("%s and %s cannot be compared: %w", names[0], names[i], err)
		}
	}
	return nil
}

func (r *Result) alike(o *Result) error {
	s, t := &r.Settings, &o.Settings
	switch {
	case !slices.Equal(s.Margins, t.Margins):
		return fmt.Errorf("the required margins are %v and %v", s.Margins, t.Margins)
	case s.Issued != t.Issued || s.OneSided != t.OneSided:
		return errors.New("they were evaluated with different options")
	case r.Records.Len() != o.Records.Len():
		return fmt.Errorf("they were evaluated on %d and %d people", r.Records.Len(), o.Records.Len())
	}
	return nil
}

func sameAs(a, b []*Record, margins []float64) error {
	if len(a) != len(b) {
		return errors.New("they were evaluated on different people")
	}
	for i, x := range a {
		y := b[i]
		where := fmt.Sprintf("person %d", x.Person+1)
		if x.Line > 0 {
			where = fmt.Sprintf("line %d", x.Line)
		}
		switch {
		case x.Row != y.Row || x.Line != y.Line || x.Label != y.Label:
			return fmt.Errorf("%s: they were evaluated on different people", where)
		case x.Full != y.Full:
			return fmt.Errorf("%s: the original's margin is %v and %v: they were evaluated against different originals", where,
				x.Full, y.Full)
		case x.Evaluated != y.Evaluated || len(x.Steps) != len(y.Steps):
			return fmt.Errorf("%s: evaluated in one and not in the other: the samples are different", where)
		}
		for k := range x.Steps {
			if p, q := &x.Steps[k].Full, &y.Steps[k].Full; p.Status != q.Status || p.Exists() &&
				(p.Own != q.Own || p.Cost != q.Cost) {
				return fmt.Errorf("%s: the original's recourse is different at margin %v: evaluate both with the same task, "+
					"solver and seed", where, margins[k])
			}
		}
		if x.First.Status != y.First.Status || x.First.Exists() && x.First.Own != y.First.Own {
			return fmt.Errorf("%s: the original's first valid step is different: evaluate both with the same task", where)
		}
	}
	return nil
}
