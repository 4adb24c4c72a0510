package draft

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/task"
)

// Bounds on the search, so that it ends in seconds.
const (
	trialRows  = 1500
	finalRows  = 20000
	maxRounds  = 6
	maxMended  = 4
	maxSwapped = 10 // values of a group whose order is looked for
)

// search finds the layout that the model decides best with.
type search struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call of Infer
	model  Model
	labels []int8
	rows   []int // of a trial
	trial
}

// run tries the candidates with both orders and all scalings, mends those that do best, and keeps the best of them.
func (s *search) run(all []candidate, fixed bool, scalings []scaling) error {
	s.rows = sample(s.labels, trialRows)
	var trials []trial
	for _, c := range all {
		for _, numbersFirst := range []bool{false, true} {
			if fixed && numbersFirst {
				continue
			}
			c.numbersFirst = numbersFirst
			s.trial = trial{}
			for _, scale := range scalings {
				c.scaling = scale
				if err := s.try(c, strong); err != nil {
					return err
				}
			}
			trials = append(trials, s.trial)
		}
	}
	// A quick look at what does best, then a long one at the best of them and at what one would do first.
	natural := byLoss(trials[:min(2, len(trials))])
	quick, err := s.mendAll(byLoss(trials)[:min(maxMended, len(trials))], scalings, false)
	if err != nil {
		return err
	}
	s.rows = sample(s.labels, 2*trialRows)
	long, err := s.mendAll([]trial{natural[0], quick[0]}, scalings, true)
	if err != nil {
		return err
	}
	s.trial = long[0]
	return nil
}

// mendAll mends layouts, the same one once, and returns them, the best first.
func (s *search) mendAll(all []trial, scalings []scaling, orders bool) ([]trial, error) {
	var out []trial
	for i, t := range all {
		if slices.ContainsFunc(all[:i], func(o trial) bool { return o.top.same(&t.top) }) {
			continue
		}
		if err := s.mend(t.top, scalings, orders); err != nil {
			return nil, err
		}
		out = append(out, s.trial)
	}
	return byLoss(out), nil
}

// byLoss returns the trials, the best first.
func byLoss(all []trial) []trial {
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b trial) int { return cmp.Compare(a.penalised(), b.penalised()) })
	return out
}

// same says whether two candidates differ in nothing that mend does not change.
func (c *candidate) same(o *candidate) bool {
	return c.numbersFirst == o.numbersFirst && c.twoInputs == o.twoInputs && c.own == o.own && c.first == o.first && c.split == o.split && slices.Equal(c.columns, o.columns)
}

// trial is a candidate and how well the model decides by it.
type trial struct {
	top  candidate
	loss float64 // of all rows, in nats; a row that cannot be read is one of which nothing is known
}

// penalised is the loss more for what is less natural.
func (t *trial) penalised() float64 { return t.loss + strong*t.top.cost }

// Nats of all rows of a trial by which the loss must be smaller for what is less natural, and for what is no less natural.
const strong, weak = 4, 1

// try takes the candidate when it is better than the one at hand by the given nats.
func (s *search) try(c candidate, nats float64) error {
	score, err := s.judge(&c.layout, s.rows)
	if err != nil {
		return err
	}
	loss := float64(len(s.rows)-score.Rows) * math.Ln2
	if score.Rows > 0 {
		loss += score.Loss * float64(score.Rows)
	}
	if s.trial.top.columns == nil || loss < s.trial.loss-nats {
		s.trial = trial{c, loss}
	}
	return nil
}

// mend tries what a single choice more or less makes of a layout, until nothing helps; with orders, also other orders of values.
func (s *search) mend(c candidate, scalings []scaling, orders bool) error {
	s.trial = trial{}
	if err := s.try(c, strong); err != nil {
		return err
	}
	for range maxRounds {
		before := s.trial.loss
		for _, change := range s.changes(scalings, orders) {
			c := s.trial.top
			nats := change(&c)
			if err := s.try(c, nats); err != nil {
				return err
			}
		}
		if s.trial.loss >= before {
			break
		}
	}
	return nil
}

// changes are the single choices that leave the number of inputs as it is. Each returns the nats that it must be worth.
func (s *search) changes(scalings []scaling, orders bool) []func(*candidate) float64 {
	out := []func(*candidate) float64{
		func(c *candidate) float64 { c.appearance = !c.appearance; return strong },
		func(c *candidate) float64 { c.flags = !c.flags; return strong },
	}
	for _, k := range scalings {
		out = append(out, func(c *candidate) float64 { c.scaling = k; return strong })
	}
	for _, f := range s.trial.top.features() {
		if orders && f.Kind == task.OneHot && f.Width <= maxSwapped {
			out = append(out, swaps(f.from)...)
		}
		if f.Kind != task.Binary || f.ofSet != "" || f.from.group != "" {
			continue
		}
		out = append(out, func(c *candidate) float64 {
			flipped := maps.Clone(c.flipped)
			if flipped == nil {
				flipped = map[string]bool{}
			}
			flipped[f.Name] = !flipped[f.Name]
			c.flipped = flipped
			return weak
		})
	}
	return out
}

// judge runs the model on rows as the layout encodes them.
func (s *search) judge(l *layout, rows []int) (Score, error) {
	x, kept := encode(l.features(), l.missing(), rows)
	if len(kept) == 0 {
		return Score{}, nil
	}
	logits, classes, err := s.model.Logits(s.ctx, x)
	if err != nil {
		return Score{}, fmt.Errorf("running the model: %w", err)
	}
	labels := make([]int8, len(kept))
	for i, r := range kept {
		labels[i] = s.labels[r]
	}
	return best(logits, classes, labels), nil
}

// sample returns at most n of the rows whose outcome is known, drawn without regard to their order.
func sample(labels []int8, n int) []int {
	var rows []int
	for i, l := range labels {
		if l >= 0 {
			rows = append(rows, i)
		}
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a sample, no secret
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:min(n, len(rows))]
	slices.Sort(rows)
	return rows
}

// swaps are the changes of the order of a group's values by two places.
func swaps(s *source) []func(*candidate) float64 {
	var out []func(*candidate) float64
	for i := range maxSwapped {
		for j := range i {
			out = append(out, func(c *candidate) float64 {
				nats := float64(strong)
				if len(c.orders) > 0 {
					nats = weak // an encoder that does not sort sorts nothing
				}
				order := slices.Clone(c.values(s))
				if c.first || i >= len(order) {
					return strong
				}
				order[i], order[j] = order[j], order[i]
				orders := maps.Clone(c.orders)
				if orders == nil {
					orders = map[string][]string{}
				}
				orders[s.name] = order
				c.orders = orders
				return nats
			})
		}
	}
	return out
}
