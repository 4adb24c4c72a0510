package draft

import (
	"cmp"
	"fmt"
	"slices"

	"cfq/internal/message"
)

// candidate is a layout with as many inputs as the model has.
type candidate struct {
	layout
	cost  float64  // how far it is from what one would do first
	steps []string // what was done to make the number of inputs fit, in words
}

// Bounds on what is listed.
const (
	maxCandidates = 40
	maxSubsets    = 300
)

// candidates lists the layouts of the sources that have dim inputs, the most natural first. fixed says that the columns and their order were given.
func candidates(all []*source, dim int, fixed bool) []candidate {
	var out []candidate
	for bits := range 16 {
		l := layout{twoInputs: bits&1 != 0, own: bits&2 != 0, first: bits&4 != 0, split: bits&8 != 0}
		c := candidate{layout: l}
		c.explain(all)
		if len(c.steps) < onesIn(bits) {
			continue // a choice that makes no difference here
		}
		c.choose(all, dim, fixed, func(x candidate) { out = append(out, x) })
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	return out[:min(len(out), maxCandidates)]
}

func onesIn(bits int) (n int) {
	for ; bits > 0; bits >>= 1 {
		n += bits & 1
	}
	return n
}

// explain says what the layout does that one would not do first, as far as it makes a difference.
func (c *candidate) explain(all []*source) {
	has := func(test func(s *source) bool) bool { return slices.ContainsFunc(all, test) }
	say := func(on bool, cost float64, step string) {
		if on {
			c.cost += cost
			c.steps = append(c.steps, step)
		}
	}
	say(c.twoInputs && has(func(s *source) bool { return s.class == pair }), 1, "columns of two texts have two inputs each")
	say(c.own && has(func(s *source) bool { return !s.numeric && len(s.markers) > 0 }), 1, "a missing category has an input of its own")
	say(c.first && has(func(s *source) bool { return s.class == category }), 2, "the first value of each category has no input")
	say(c.split && has(func(s *source) bool { return s.class == grade }), 2, "columns of few whole numbers have an input for each number")
}

// choose finds columns so that there are dim inputs, and yields the layouts.
func (c *candidate) choose(all []*source, dim int, fixed bool, yield func(candidate)) {
	var used, spare []*source
	total := 0
	for _, s := range all {
		if s.leave != "" && !fixed {
			spare = append(spare, s)
			continue
		}
		used = append(used, s)
		total += c.width(s)
	}
	take := func(without, with []*source) {
		x := *c
		x.steps = slices.Clone(c.steps)
		x.columns = nil
		for _, s := range all {
			if (slices.Contains(used, s) && !slices.Contains(without, s)) || slices.Contains(with, s) {
				x.columns = append(x.columns, s)
			}
		}
		for _, s := range without {
			x.cost += 2
			x.steps = append(x.steps, fmt.Sprintf("column %s is no input", message.Quote(s.name)))
		}
		for _, s := range with {
			x.cost += 1.5
			x.steps = append(x.steps, fmt.Sprintf("column %s is an input after all (%s)", message.Quote(s.name), s.leave))
		}
		yield(x)
	}
	switch {
	case total == dim:
		take(nil, nil)
	case fixed:
	case total > dim:
		subsets(used, total-dim, 3, c.width, func(without []*source) { take(without, nil) })
	default:
		subsets(spare, dim-total, 3, c.width, func(with []*source) { take(nil, with) })
	}
}

// subsets yields the sets of at most most sources whose widths add up to sum, small sets first.
func subsets(all []*source, sum, most int, width func(*source) int, yield func([]*source)) {
	n := 0
	var extend func(from, left, size int, have []*source)
	extend = func(from, left, size int, have []*source) {
		if size == 0 {
			if left == 0 && n < maxSubsets {
				n++
				yield(slices.Clone(have))
			}
			return
		}
		for i := from; i < len(all) && n < maxSubsets; i++ {
			if w := width(all[i]); w <= left {
				extend(i+1, left-w, size-1, append(have, all[i]))
			}
		}
	}
	for size := 1; size <= most; size++ {
		extend(0, sum, size, nil)
	}
}
