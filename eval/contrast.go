package eval

import (
	"errors"
	"fmt"
	"math"
	"runtime"
)

// Contest compares several quantized models of one original on the same people: each with the first one.
type Contest struct {
	Names      []string     `json:"names"`
	Results    []*Result    `json:"results"` // in the order of Names
	Confidence float64      `json:"confidence"`
	Rows       []ContestRow `json:"rows"`
}

// ContestRow is one metric of all models.
type ContestRow struct {
	Metric string   `json:"metric"`           // Metric.ID
	Margin *float64 `json:"margin,omitempty"` // required; nil for metrics that have none
	Cells  []Cell   `json:"cells"`            // in the order of Names; the first has no difference
}

// Cell is one model's value and how it differs from the first model's.
type Cell struct {
	Value Estimate `json:"value"`
	// Delta is this less the first, of the people who count in both; where each model is judged on recourse of its own (rvd, lost_recourse,
	// rfrr, rtau01), of those who count in either.
	Delta Estimate `json:"delta"`
	// P is that the difference is chance, adjusted for the models in the row by Holm; undefined without a test. Of metrics
	// that are best near 0 it is that of the difference of their absolute values.
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

// ContrastOptions of Contrast. The zero value is useful.
type ContrastOptions struct {
	Confidence float64 // of the intervals of differences; one less it is the p up to which a difference is called; default 0.95
	Seed       uint64  // of the bootstrap
	Draws      int     // of the bootstrap; default 2000
	Workers    int     // default: one for each processor; the result does not depend on it
}

// Contrast compares models that were evaluated, each by Compare with the same original, people and options. It fails when they were not.
//
// Where all models are judged on the same trials (f's promises, decisions), shares are compared by McNemar's exact test, and the interval of the
// difference is that of two exact ones. Everything else is bootstrapped: people are drawn with replacement, each with all that is known of
// them under both models, and a difference is called when few enough draws have the other sign. Nothing is called of fewer than 30 people
// (500 for tau01), or when fewer than 10 people make the difference.
//
// References: McNemar (1947); Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 13.3; Hesterberg (2015), What Teachers
// Should Know About the Bootstrap, section 5.3 (the percentiles are those of Student's distribution, or there would be too many calls of few people).
func Contrast(names []string, results []*Result, o ContrastOptions) (*Contest, error) {
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	if o.Draws == 0 {
		o.Draws = 2000
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if err := errors.Join(o.check(len(results)), sameGround(names, results)); err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	c := &Contest{Names: names, Results: results, Confidence: o.Confidence}
	b := newBootstrap(results)
	for _, k := range contests() {
		m, ok := MetricBy(k.id)
		if !ok {
			panic("eval: no metric " + k.id)
		}
		if !m.PerMargin() {
			c.add(&m, &k, -1, b)
			continue
		}
		for at := range results[0].Margins {
			c.add(&m, &k, at, b)
		}
	}
	b.run(o)
	c.decide(b)
	return c, nil
}

func (o *ContrastOptions) check(models int) error {
	if !(o.Confidence > 0 && o.Confidence < 1) {
		return fmt.Errorf("confidence %v: it must lie between 0 and 1", o.Confidence)
	}
	if need := int(math.Ceil(2*float64(models-1)/(1-o.Confidence)) + 1e-9); o.Draws < need {
		return fmt.Errorf("%d draws of the bootstrap: with fewer than %d, nothing could be told apart at confidence %v", o.Draws, need, o.Confidence)
	}
	return nil
}

// add appends the row of a metric, at the at-th margin, unless there is nothing to show. The tests by bootstrap are left to b.
func (c *Contest) add(m *Metric, k *contested, at int, b *bootstrap) {
	row := ContestRow{Metric: m.ID(), Cells: make([]Cell, len(c.Results))}
	values := make([]Value, len(c.Results))
	known, same := false, true
	for i, r := range c.Results {
		values[i] = m.Of(r, at)
		known = known || values[i].N > 0
		same = same && (values[i].Value == values[0].Value || !values[i].Value.Defined())
	}
	if !known || same && k.ifDifferent {
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
			cell.Delta = exactly(float64(d)).Estimate
			cell.Call = call(m.Better, float64(d))
		case k.share:
			cell.mcNemar(k, c.Results[0], c.Results[i], at, c.Confidence, m.Better)
		case k.statistic != nil || k.whole != nil:
			b.add(k.duel(b, c.Results[0], c.Results[i], at), len(c.Rows), i, m.Better)
		}
	}
	c.Rows = append(c.Rows, row)
}

// mcNemar compares two models on the same trials of people.
func (c *Cell) mcNemar(k *contested, first, this *Result, at int, confidence float64, better Better) {
	var n, alone, other int
	for i := range first.Records {
		x, of := k.part(&first.Records[i], at, &first.Settings)
		y, too := k.part(&this.Records[i], at, &this.Settings)
		if of > 0 && too > 0 {
			n++
			alone += count(y > x)
			other += count(x > y)
		}
	}
	if c.Delta = dropOf(alone, other, n, confidence); n > 0 {
		c.P, c.Test = Float(McNemarExact(alone, other)), mcNemarTest
		c.Call = call(better, float64(c.Delta.Value))
	}
}

// call says what a difference is if it is certain, of numbers or, for those that are best near 0, of their absolute values.
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

// decide takes what the bootstrap found, adjusts the p of each row, and takes the calls back that are not certain.
func (c *Contest) decide(b *bootstrap) {
	everyone := ones(len(b.people))
	for _, d := range b.duels {
		d.settle(&c.Rows[d.row].Cells[d.model], everyone, c.Confidence)
	}
	for i := range c.Rows {
		cells := c.Rows[i].Cells
		p := make([]float64, len(cells))
		for j := range cells {
			p[j] = float64(cells[j].P)
		}
		for j, adjusted := range Holm(p) {
			if cells[j].P = Float(adjusted); cells[j].Test != "" && !(adjusted <= 1-c.Confidence) {
				cells[j].Call = Alike
			}
		}
	}
}
