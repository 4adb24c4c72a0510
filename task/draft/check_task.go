package draft

import (
	"context"
	"fmt"
	"slices"

	"cfq/task"
)

// rules counts for how many rows each constraint holds.
func (c *checker) rules() {
	for i := range c.t.Rules {
		r := &c.t.Rules[i]
		n := RuleCount{Text: Words(r)}
		if len(r.Of) > 0 {
			c.subset(r, &n)
			c.r.Rules = append(c.r.Rules, n)
			continue
		}
		for row := range c.p.N {
			value := c.value(row)
			if !allHold(r.If, value) {
				continue
			}
			n.Applies++
			if !allHold(r.Then, value) {
				n.Broken++
			}
		}
		about := fmt.Sprintf("constraint %q", n.Text)
		switch {
		case n.Applies == 0 && len(r.If) > 0:
			c.find(Warning, about, 0, "its condition holds for no row")
		case n.Applies == n.Broken:
			c.find(Problem, about, n.Broken, "no row fulfils it as it is; are its units those of the file?")
		case float64(n.Broken) > few*float64(n.Applies):
			c.find(Warning, about, n.Broken, "%s of the rows that it is about break it as they are", percent(float64(n.Broken)/float64(n.Applies)))
		}
		c.r.Rules = append(c.r.Rules, n)
	}
}

// subset looks at a limit on how many of some features change: people as they are change none.
func (c *checker) subset(r *task.Rule, n *RuleCount) {
	n.Applies = c.p.N
	movable := 0
	for i := range c.t.Features {
		if f := &c.t.Features[i]; slices.Contains(r.Of, f.Name) && f.Actionable {
			movable++
		}
	}
	if movable <= r.AtMost {
		c.find(Warning, fmt.Sprintf("constraint %q", n.Text), 0, "it limits nothing: %s of them can change at all", plural(movable, "feature"))
	}
}

// links reports links that the data contradict.
func (c *checker) links() {
	for i := range c.t.Links {
		l := &c.t.Links[i]
		from, to := c.index(l.From), c.index(l.To)
		if from < 0 || to < 0 {
			continue
		}
		c.dead(l)
		about := fmt.Sprintf("link %s -> %s", l.From, l.To)
		if len(l.Map) > 0 {
			c.linkMap(l, from, to, about)
			continue
		}
		if r := c.correlation(from, to); r*l.Scale < 0 && (r > 0.3 || r < -0.3) {
			c.find(Warning, about, 0, "an increase drags the other way than in the data, where their correlation is %s", task.Decimal(task.Rounded(r, 2)))
		}
	}
}

// linkMap counts the people whose value is another than the map gives.
func (c *checker) linkMap(l *task.Link, from, to int, about string) {
	covered, broken := 0, 0
	ladder := c.t.Features[from].Kind.IsNumber()
	for row := range c.p.N {
		a, b := c.raws[from][c.codes[from][row]], c.raws[to][c.codes[to][row]]
		want, ok := mapped(l.Map, a, ladder)
		if !ok {
			continue
		}
		covered++
		if b != want && !sameNumber(b, want) {
			broken++
		}
	}
	switch {
	case covered == 0:
		c.find(Problem, about, 0, "no row has a value of %s that the link speaks of", l.From)
	case broken == covered:
		c.find(Problem, about, broken, "no row has the value of %s that the link gives for its %s", l.To, l.From)
	case float64(broken) > few*float64(covered):
		c.find(Warning, about, broken, "%s of the rows have another %s than the link gives for their %s", percent(float64(broken)/float64(covered)), l.To, l.From)
	}
}

// mapped returns the entry of a map for a value: of a category its own, of a number the last one at or below it.
func mapped(m []task.Pair, value string, ladder bool) (to string, ok bool) {
	v, isNumber := task.Number(value)
	best := 0.0
	for _, p := range m {
		x, numeric := task.Number(p.From)
		switch {
		case p.From == value || (isNumber && numeric && x == v):
			return p.To, true
		case ladder && isNumber && numeric && x <= v && (!ok || x > best):
			to, best, ok = p.To, x, true
		}
	}
	return to, ok
}

func (c *checker) index(name string) int {
	return slices.IndexFunc(c.t.Features, func(f task.Feature) bool { return f.Name == name })
}

// whole looks at the task as a whole.
func (c *checker) whole() {
	free := 0
	for i := range c.t.Features {
		f := &c.t.Features[i]
		if f.Actionable {
			free++
		} else if f.Mutable && !c.t.Drags(f.Name) {
			c.find(Warning, f.Name, 0, "it may change as a side effect, but no link drags it: it stays as it is")
		}
	}
	if free == 0 {
		c.find(Problem, "features", 0, "no feature is actionable: there is no recourse")
	}
	if k := c.t.Sparsity.MaxFeatures; k > free && free > 0 {
		c.find(Warning, "sparsity", 0, "max_features is %d, and %s can change: it limits nothing", k, plural(free, "feature"))
	}
}

// model checks that the model and the task belong together.
func (c *checker) model(ctx context.Context, m Model) error {
	if m.Dim() != c.t.Dim() {
		c.find(Problem, "model", 0, "the model has %d inputs, but the task's features make %d: each feature is one input, each value of a one-hot feature another", m.Dim(), c.t.Dim())
		return nil
	}
	logits, classes, err := m.Logits(ctx, c.p.X)
	if err != nil {
		return fmt.Errorf("running the model: %w", err)
	}
	index := c.t.Target.Index
	if index >= max(classes, 2) {
		c.find(Problem, "target.index", 0, "the model has no class %d; it has 0 to %d", index, max(classes, 2)-1)
		return nil
	}
	s := judge(logits, classes, c.p.Labels, index)
	if s.Rows == 0 {
		return nil
	}
	c.r.Score = &s
	other := best(logits, classes, c.p.Labels)
	switch {
	case s.Fits():
		if s.Accuracy < s.Majority {
			c.find(Warning, "model", 0, "%s", s.describe())
		}
	case other.Index != index && other.Fits():
		c.find(Problem, "target.index", 0, "it is %d, but class %d of the model is the favourable one: with it %s of %s are decided as labelled, with %d %s",
			index, other.Index, percent(other.Accuracy), plural(s.Rows, "row"), index, percent(s.Accuracy))
	default:
		c.find(Problem, "model", 0, "%s, and knows no more than their share: are order, mean and std of the features those that the model was trained with?", s.describe())
	}
	return nil
}
