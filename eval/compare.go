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

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval/metrics"
	"cfq/internal/lists"
	"cfq/internal/ordered"
	"cfq/internal/statistics"
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
	if !(o.Confidence > 0 && o.Confidence < 1) {
		return nil, fmt.Errorf("comparison: confidence %v: it must lie between 0 and 1", o.Confidence)
	}
	if err := checkComparable(names, results); err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	c := &Comparison{Names: names, Results: results, Confidence: o.Confidence}
	var tests []*pairedTest
	for _, m := range comparedMetrics() {
		for _, at := range m.places(len(results[0].Margins)) {
			tests = append(tests, c.add(m, at)...)
		}
	}
	people, err := readPairs(names, results, tests, o.Seed)
	if err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	for _, d := range tests {
		if !d.sameTrials() {
			d.take(people, &results[0].Settings)
		}
	}
	if !o.alone {
		// A comparison of several numbers needs more draws: the smallest p of the bootstrap, which is 2/(draws+1) and more
		// for few people, has to be called when it is adjusted for all tests.
		all := len(c.Rows) * (len(results) - 1)
		o.Draws = max(o.Draws, int(math.Ceil(4*float64(all)/(1-c.Confidence))))
	}
	bootstrap(tests, len(people), o)
	decide(tests, slices.Repeat([]float64{1}, len(people)), c.Confidence, o.alone)
	return c, nil
}

// add appends the row of a metric, at the at-th margin, unless there is nothing to show. It returns the tests that the
// row needs.
func (c *Comparison) add(m *computed, at int) (tests []*pairedTest) {
	row := ComparisonRow{Metric: m.ID, Cells: make([]Cell, len(c.Results))}
	values := make([]Value, len(c.Results))
	known, same := false, true
	for i, r := range c.Results {
		values[i] = r.Metric(m.Metric, at)
		known = known || values[i].N > 0
		same = same && (values[i].Value == values[0].Value || !values[i].Value.Defined())
	}
	if !known || same && m.Compared == metrics.OwnTrialsIfDifferent {
		return nil
	}
	if at >= 0 {
		row.Margin = &c.Results[0].Margins[at].Margin
	}
	for i := range row.Cells {
		cell := &row.Cells[i]
		*cell = Cell{Value: values[i].Estimate, Delta: unknown().Estimate, P: undefined()}
		switch {
		case i == 0:
		case m.Kind == metrics.Exact:
			d := float64(values[i].Value - values[0].Value)
			cell.Delta, cell.Call = exactly(d), call(m.Better, d)
		default:
			cell.Call = Alike
			tests = append(tests, &pairedTest{computed: m, Cell: cell, at: at, model: i})
		}
	}
	c.Rows = append(c.Rows, row)
	return tests
}

// call says what a difference is if it is certain, of numbers or, for those that are best near 0, of their
// absolute values.
func call(better metrics.Better, d float64) Call {
	switch {
	case d == 0 || math.IsNaN(d):
		return Alike
	case better == metrics.Neither:
		return Differs
	case (d > 0) == (better == metrics.Higher):
		return BetterThan
	}
	return WorseThan
}

// decide fills in the cells, adjusts the p of all tests together unless each is alone, and takes the calls back that
// are not certain.
func decide(tests []*pairedTest, everyone []float64, confidence float64, alone bool) {
	for _, d := range tests {
		if d.sameTrials() {
			d.mcNemar(confidence)
		} else {
			d.settle(everyone, confidence)
		}
	}
	p := lists.Map(tests, func(d *pairedTest) float64 { return float64(d.P) })
	if !alone {
		p = statistics.Holm(p)
	}
	for i, d := range tests {
		if d.P = Float(p[i]); !(p[i] <= 1-confidence) {
			d.Call = Alike
		}
	}
}

func comparedMetrics() []*computed {
	return lists.Filter(computedMetrics(), func(m *computed) bool { return m.Compared != metrics.NotCompared })
}

func (c *computed) sameTrials() bool { return c.Compared == metrics.Paired && c.Kind == metrics.Share }

func (c *computed) ownTrials() bool { return c.Compared >= metrics.OwnTrials }

// minDiffering is the number of people below which a difference that they alone make is left uncalled: how often
// another draw would have found as many is not known from them.
const minDiffering = 10

// minForTau is the number of people below which tau01 is not compared: 1 % of them are fewer than five, and
// what draws say of so few of the largest numbers is wrong too often.
const minForTau = 500

// maxDrawn is how many people the bootstrap draws from.
const maxDrawn = 20_000

// readPairs counts people for the tests on the same trials, and returns the records of those evaluated, or of a sample
// of them, by model: in an order that does not depend on that of the rows.
func readPairs(names []string, results []*Result, tests []*pairedTest, seed uint64) ([][][]*Record, error) {
	for _, r := range results { // there may be many
		if err := r.Records.rest(); err != nil {
			return nil, err
		}
	}
	drawn := bottomK[[][]*Record]{most: maxDrawn}
	err := sideBySide(names, results, func(records [][]*Record) {
		for _, d := range tests {
			if d.sameTrials() {
				d.count(records, &results[0].Settings)
			}
		}
		if slices.ContainsFunc(records[0], func(r *Record) bool { return r.Evaluated }) {
			drawn.add(priority(seed, records[0][0].X), evaluatedOf(records))
		}
	})
	if err != nil {
		return nil, err
	}
	people := drawn.kept()
	slices.SortStableFunc(people, func(a, b [][]*Record) int {
		for model := range a {
			if c := slices.CompareFunc(a[model], b[model], (*Record).compare); c != 0 {
				return c
			}
		}
		return 0
	})
	return people, nil
}

func evaluatedOf(person [][]*Record) [][]*Record {
	out := make([][]*Record, len(person))
	for model, records := range person {
		for _, r := range records {
			if !r.Evaluated {
				continue
			}
			r.X, r.Groups, r.Others, r.Issued = nil, nil, nil, nil
			for i := range r.Steps {
				r.Steps[i].Full.Point, r.Steps[i].Quant.Point = nil, nil
			}
			out[model] = append(out[model], r)
		}
	}
	return out
}

// sideBySide hands on the records of each person under every model. It fails when the models were not evaluated on the
// same people against the same original.
func sideBySide(names []string, results []*Result, each func(person [][]*Record)) error {
	next := make([]func() ([]*Record, error, bool), len(results))
	for i, r := range results {
		pull, stop := iter.Pull2(r.Records.parts())
		defer stop()
		next[i] = pull
	}
	for {
		parts := make([][]*Record, len(results))
		for i := range results {
			part, err, ok := next[i]()
			if err != nil || !ok {
				return err
			}
			if parts[i] = part; i > 0 {
				if err := sameOriginal(parts[0], part); err != nil {
					return fmt.Errorf("%s and %s cannot be compared: %w", names[0], names[i], err)
				}
			}
		}
		for _, of := range byPerson(parts[0], results[0].Records.key) {
			person := make([][]*Record, len(results))
			for _, r := range of {
				for model := range results {
					person[model] = append(person[model], parts[model][r.Person-parts[0][0].Person])
				}
			}
			each(person)
		}
	}
}

type pairedTest struct {
	*computed
	*Cell     // to fill in
	at, model int
	n, differ int // people who count, and those of them for which the models differ
	alone     int // of those who differ, who count more for this model

	first, this weighted
	least       int       // n from which on there is something to say
	deltas      []float64 // this less the first, of each draw
	sizes       []float64 // the same of the absolute values
}

// numbers are what a person adds under the first model and under this one; false for those who do not count in both
// models or, where each has trials of its own, in either.
func (d *pairedTest) numbers(
	who int, records [][]*Record, s *Settings,
) (first, this contributions, counts bool) {
	adds := func(model int) contributions {
		if d.sample == nil { // tau01 of f, or of each model's own promises
			return tauPromises(who, records[model], s, d.ownTrials())
		}
		x, of, counts := d.sample.of(&personRecords{records[model], s}, d.at)
		if !counts {
			return nil
		}
		return contributions{{who: who, x: x, of: of}}
	}
	first, this = adds(0), adds(d.model)
	return first, this, first != nil && this != nil || d.ownTrials() && (first != nil || this != nil)
}

// count adds a person to the trials of both models. As in the values, the worst record counts.
func (d *pairedTest) count(records [][]*Record, s *Settings) {
	if p, q, counts := d.numbers(0, records, s); counts {
		d.n, d.differ, d.alone = d.n+1, d.differ+count(p[0] != q[0]), d.alone+count(q[0].x > p[0].x)
	}
}

// mcNemar compares the models on the same trials of people.
func (d *pairedTest) mcNemar(confidence float64) {
	other := d.differ - d.alone
	if d.Delta = dropOf(d.alone, other, d.n, confidence).Estimate; d.n > 0 {
		d.P, d.Test = Float(statistics.McNemarExact(d.alone, other)), mcNemarTest
		d.Call = call(d.Better, float64(d.Delta.Value))
	}
}

// take makes the statistics of both models, of the people who count, each by the worst record.
func (d *pairedTest) take(people [][][]*Record, s *Settings) {
	least, weigh := minPeople, d.statistic.weighted
	if d.sample == nil {
		least = minForTau
		weigh = func(p contributions) weighted { return p.tau(s.tauMargins(d.ownTrials())) }
	}
	var first, this contributions
	for who, records := range people {
		if p, q, counts := d.numbers(who, records, s); counts {
			d.n, d.differ = d.n+1, d.differ+count(!slices.Equal(p, q))
			first, this = append(first, p...), append(this, q...)
		}
	}
	d.least, d.first, d.this = least, weigh(first), weigh(this)
}

func (d *pairedTest) few() bool { return d.n < d.least || d.differ < minDiffering }

// bootstrap draws people with replacement and collects the differences of all metrics in each draw, which has its own
// random numbers.
func bootstrap(tests []*pairedTest, people int, o ComparisonOptions) {
	tests = slices.DeleteFunc(slices.Clone(tests), func(d *pairedTest) bool { return d.sameTrials() || d.few() })
	for _, d := range tests {
		d.deltas, d.sizes = make([]float64, o.Draws), make([]float64, o.Draws)
	}
	work := make([]func() error, min(o.Workers, len(tests)*o.Draws))
	for worker := range work {
		work[worker] = func() error {
			weights := make([]float64, people)
			for draw := worker; draw < o.Draws; draw += len(work) {
				clear(weights)
				rng := rand.New(rand.NewPCG(o.Seed^0xb007, uint64(draw)*0x9e3779b97f4a7c15))
				for range people {
					weights[rng.IntN(people)]++
				}
				for _, d := range tests {
					first, this := d.first(weights), d.this(weights)
					d.deltas[draw], d.sizes[draw] = this-first, math.Abs(this)-math.Abs(first)
				}
			}
			return nil
		}
	}
	_ = ordered.All(len(work), work...) // none fails
}

func (d *pairedTest) settle(everyone []float64, confidence float64) {
	first, this := d.first(everyone), d.this(everyone)
	d.Delta.N = d.n
	if d.Delta.Value = Float(this - first); d.few() || !d.Delta.Value.Defined() {
		return
	}
	d.Delta.Lo, d.Delta.Hi = percentiles(d.deltas, d.n, confidence)
	size, draws := float64(d.Delta.Value), d.deltas
	if d.Better == metrics.Zero {
		size, draws = math.Abs(this)-math.Abs(first), d.sizes
	}
	d.P, d.Test, d.Call = Float(chance(draws, d.n)), bootstrapTest, call(d.Better, size)
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
	n, s := results[0].Records.Len(), &results[0].Settings
	for i, r := range results {
		var why error
		switch {
		case slices.Contains(names[:i], names[i]):
			return fmt.Errorf("two models are called %q", names[i])
		case r.Records.Len() == 0 && r.Population.Read > 0:
			return fmt.Errorf("nothing is known of the people of %s: it was read from a report; evaluate it again", names[i])
		case !slices.Equal(s.Margins, r.Settings.Margins):
			why = fmt.Errorf("the required margins are %v and %v", s.Margins, r.Settings.Margins)
		case s.Issued != r.Settings.Issued || s.OneSided != r.Settings.OneSided:
			why = errors.New("they were evaluated with different options")
		case r.Records.Len() != n:
			why = fmt.Errorf("they were evaluated on %d and %d people", n, r.Records.Len())
		}
		if why != nil {
			return fmt.Errorf("%s and %s cannot be compared: %w", names[0], names[i], why)
		}
	}
	return nil
}

// sameOriginal fails unless records are of the same people, and of the same decisions and recourse of the original.
func sameOriginal(a, b []*Record) error {
	same := func(p, q *Promise) bool {
		return p.Status == q.Status && (!p.Exists() || p.Own == q.Own && p.Cost == q.Cost)
	}
	for i, x := range a[:min(len(a), len(b))] {
		y := b[i]
		if x.Row != y.Row || x.Line != y.Line || x.Label != y.Label || x.Full != y.Full || x.Evaluated != y.Evaluated ||
			!same(&x.First, &y.First) ||
			!slices.EqualFunc(x.Steps, y.Steps, func(s, t Step) bool { return same(&s.Full, &t.Full) }) {
			return fmt.Errorf("row %d (line %d of the data) is of another person, or another model, task, solver or seed told "+
				"them what to do: evaluate both with the same", x.Row, x.Line)
		}
	}
	if len(a) != len(b) {
		return errors.New("they were evaluated on different people")
	}
	return nil
}
