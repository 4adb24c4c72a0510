package draft

import (
	"math"
	"slices"

	"cfq/internal/message"
	"cfq/task"
)

// feature holds one feature against the data.
func (c *checker) feature(i int) {
	f := &c.t.Features[i]
	col := Column{Name: f.Name, Kind: f.Kind}
	switch {
	case f.Kind.IsNumber():
		c.number(i, f, &col)
	case len(f.Values) > 0 || f.Kind == task.Binary:
		c.category(i, f, &col)
	}
	c.moves(f)
	if f.Kind == task.OneHot {
		for j, raw := range c.raws[i] {
			if raw == "" {
				col.Missing = c.counts[i][j]
			}
		}
	}
	c.r.Features = append(c.r.Features, col)
}

func (c *checker) number(i int, f *task.Feature, col *Column) {
	p := c.numbers(i)
	if len(p.points) == 0 {
		return
	}
	mean, std := p.moments()
	col.Mean, col.Std = finitePointer(short(mean)), finitePointer(short(std))
	c.bounds(f, p, col)
	c.steps(f, p, col)
	c.domain(i, f, p)
	c.scale(f, mean, std)
}

// bounds reports people outside of the bounds. The 1st to 99th percentile leaves out one person in fifty.
func (c *checker) bounds(f *task.Feature, p *profile, col *Column) {
	for j, v := range p.points {
		switch {
		case v < f.Bounds[0]:
			col.Below += int(p.weights[j])
		case v > f.Bounds[1]:
			col.Above += int(p.weights[j])
		}
	}
	out := col.Below + col.Above
	switch span := "[" + task.Decimal(f.Bounds[0]) + ", " + task.Decimal(f.Bounds[1]) + "]"; {
	case out == 0:
	case out == c.p.N:
		c.find(Problem, f.Name, out, "no row lies within the bounds %s; the data run from %s to %s. Are the units the same?", span, task.Decimal(p.points[0]), task.Decimal(p.points[len(p.points)-1]))
	case c.share(out) > few && f.Actionable:
		c.find(Warning, f.Name, out, "%s of the rows lie outside of the bounds %s: %d below, %d above", percent(c.share(out)), span, col.Below, col.Above)
	}
}

// steps reports values that are not a whole number of steps apart.
func (c *checker) steps(f *task.Feature, p *profile, col *Column) {
	if f.Step <= 0 {
		return
	}
	// The rows on one grid are those with the same remainder; the largest such set is the grid of the data.
	byRest := map[int64]float64{}
	top := 0.0
	for j, v := range p.points {
		rest := v/f.Step - math.Floor(v/f.Step)
		key := int64(math.Round(rest*1e6)) % 1e6
		byRest[key] += p.weights[j]
		top = max(top, byRest[key])
	}
	col.Off = int(p.rows - top)
	if c.share(col.Off) > most && f.Actionable {
		c.find(Warning, f.Name, col.Off, "at most %s of the rows lie on one grid of step %s: changes are whole steps from a person's own value, so most results are values that the data do not have",
			percent(1-c.share(col.Off)), task.Decimal(f.Step))
	}
}

// domain reports numbers of an ordinal feature that nobody has.
func (c *checker) domain(i int, f *task.Feature, p *profile) {
	if f.Kind != task.Ordinal || f.Levels == nil {
		if f.Kind == task.Ordinal && f.Step > 0 && !math.IsInf(f.Bounds[0], 0) {
			on := 0.0
			for j, v := range p.points {
				k := (v - f.Bounds[0]) / f.Step
				if math.Abs(k-math.Round(k)) < 1e-6 {
					on += p.weights[j]
				}
			}
			if on == 0 {
				c.find(Problem, f.Name, c.p.N, "no row has one of the grades: %s and whole steps of %s from it", task.Decimal(f.Bounds[0]), task.Decimal(f.Step))
			}
		}
		return
	}
	var unseen []string
	for j, v := range f.Levels {
		if !slices.Contains(p.points, v) {
			unseen = append(unseen, task.Decimal(f.Levels[j]))
		}
	}
	if len(unseen) > 0 && f.Actionable {
		c.find(Warning, f.Name, 0, "no row has the value %s, which an action may set", list(unseen, 10))
	}
}

// scale compares mean and std with those of the data.
func (c *checker) scale(f *task.Feature, mean, std float64) {
	raw := f.Mean == 0 && f.Std == 1
	switch {
	case std == 0:
		if f.Actionable {
			c.find(Warning, f.Name, 0, "all rows have the value %s: what a change of it does, and costs, no data say", task.Decimal(short(mean)))
		}
	case raw && f.Actionable && f.Weight == 1 && std > 10 && (c.t.Cost.Weights == task.InverseStd || c.t.Cost.Weights == ""):
		c.find(Warning, f.Name, 0, "without mean and std one raw unit costs as much as one standard deviation of other features; here one standard deviation is %s units: set weight", task.Decimal(task.Rounded(std, 3)))
	case raw || c.t.Encoded:
	case math.Abs(f.Mean-mean) > 0.5*std:
		c.find(Warning, f.Name, 0, "mean is %s in the task and %s in the data, %s of its standard deviations apart", task.Decimal(f.Mean), task.Decimal(task.Rounded(mean, 6)), task.Decimal(task.Rounded(math.Abs(f.Mean-mean)/std, 2)))
	case f.Std > 2*std || f.Std < std/2:
		c.find(Warning, f.Name, 0, "std is %s in the task and %s in the data", task.Decimal(f.Std), task.Decimal(task.Rounded(std, 6)))
	}
}

// category holds the values of a category, or of a binary feature, against the data.
func (c *checker) category(i int, f *task.Feature, col *Column) {
	values := f.Values
	if f.Kind == task.Binary {
		values = []string{f.One}
	}
	var unseen []string
	for j, v := range values {
		n := 0
		for k, raw := range c.raws[i] {
			if raw == v || sameNumber(raw, v) {
				n += c.counts[i][k]
			}
		}
		share := c.share(n)
		col.Shares = append(col.Shares, task.Rounded(share, 6))
		if n == 0 {
			unseen = append(unseen, v)
		}
		if j < len(f.Shares) && f.Kind != task.Thermometer {
			c.shares(f, v, f.Shares[j], share)
		}
	}
	switch {
	case len(unseen) == 0:
	case f.Kind == task.Binary:
		c.find(Warning, f.Name, 0, "no row has the value %s, which is the 1", message.Quote(f.One))
	case len(unseen) == len(values):
		c.find(Problem, f.Name, 0, "no row has any of the values")
	case f.Actionable && f.Transitions == nil:
		c.find(Warning, f.Name, 0, "no row has the value %s, which an action may choose", list(unseen, 10))
	}
	if f.Kind != task.Binary {
		c.transitions(i, f)
	}
}

// shares compares a share of the task with that of the data.
func (c *checker) shares(f *task.Feature, value string, have, data float64) {
	switch {
	case f.Actionable && (have == 0 || have == 1) && c.t.Cost.Weights == task.InverseStd && f.SwitchCost == 0:
		c.find(Warning, f.Name, 0, "the share of %s is %s, so that its weight is 1/eps: a change of it costs as much as a hundred others", message.Quote(value), task.Decimal(have))
	case math.Abs(have-data) > 0.1:
		c.find(Warning, f.Name, 0, "the share of %s is %s in the task and %s in the data", message.Quote(value), task.Decimal(have), task.Decimal(task.Rounded(data, 3)))
	}
}

// transitions reports tables that nobody of the data can use.
func (c *checker) transitions(i int, f *task.Feature) {
	if f.Transitions == nil || !f.Actionable {
		return
	}
	movable := 0
	for j, raw := range c.raws[i] {
		to := f.Transitions[raw]
		if slices.ContainsFunc(to, func(v string) bool { return v != raw }) {
			movable += c.counts[i][j]
		}
	}
	if movable == 0 {
		c.find(Problem, f.Name, c.p.N, "transitions let nobody of the data change")
	}
}
