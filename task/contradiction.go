package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"cfq/internal/lists"
)

// contradiction names constraints that no person can fulfil together within the bounds of what actions change: as few
// of them as contradict each other. It is nil when there are none. Rules with If hold for some people only, and are
// left out. Shares of categories count as possible, so not every contradiction is found.
func contradiction(t *Task) error {
	rules := lists.Filter(t.Rules, func(r Rule) bool { return r.If == nil && r.Of == nil })
	if len(rules) == 0 || !t.contradictory(rules) {
		return nil
	}
	for i := len(rules) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(rules), i, i+1); len(fewer) > 0 && t.contradictory(fewer) {
			rules = fewer
		}
	}
	if len(rules) == 1 {
		return fmt.Errorf("no value within the bounds fulfils the constraint %q", rules[0].Text)
	}
	texts := lists.Map(rules, func(r Rule) string { return strconv.Quote(r.Text) })
	return fmt.Errorf("the constraints %s contradict each other: no values within the bounds fulfil them together",
		strings.Join(texts, " and "))
}

// contradictory reports whether no values fulfil the rules. A linear program looks for the least amount, in units of
// each row's largest coefficient, by which all of them have to give way.
func (t *Task) contradictory(rules []Rule) bool {
	const give, strict = 1e-7, 1e-6
	at := map[Term]int{} // columns of a number and of the values of a category
	var rows []map[int]float64
	var bounds []float64
	add := func(row map[int]float64, bound float64, isStrict bool) {
		size := 0.0
		for _, v := range row {
			size = max(size, math.Abs(v))
		}
		if size == 0 {
			return
		}
		for j := range row {
			row[j] /= size
		}
		if bound /= size; isStrict {
			bound -= strict * max(1, math.Abs(bound))
		}
		rows, bounds = append(rows, row), append(bounds, bound)
	}
	column := func(q Term) int {
		q.Coef = 0
		if _, known := at[q]; !known {
			at[q] = len(at) + 1 // column 0 is the amount
			if q.Value != "" {
				add(map[int]float64{at[q]: -1}, 0, false)
			}
		}
		return at[q]
	}
	for _, r := range rules {
		for _, q := range r.Then {
			row := map[int]float64{}
			for _, term := range q.Terms {
				row[column(term)] += term.Coef
			}
			add(row, q.Bound, q.Strict)
		}
	}
	for i := range t.Features {
		f, one := &t.Features[i], map[int]float64{}
		for q, j := range at {
			if q.Feature == f.Name && q.Value != "" {
				one[j] = 1 // at most one of its values holds
			}
		}
		add(one, 1, false)
		j, known := at[Term{Feature: f.Name}]
		if !known || !f.Actionable || f.Number() == nil {
			continue
		}
		if !math.IsInf(f.Bounds[1], 0) {
			add(map[int]float64{j: 1}, f.Bounds[1], false)
		}
		if !math.IsInf(f.Bounds[0], 0) {
			add(map[int]float64{j: -1}, -f.Bounds[0], false)
		}
	}
	limits, cost := mat.NewDense(len(rows), len(at)+1, nil), make([]float64, len(at)+1)
	cost[0] = 1
	for i, row := range rows {
		limits.Set(i, 0, -max(1, math.Abs(bounds[i])))
		for j, v := range row {
			limits.Set(i, j, v)
		}
	}
	c, a, b := lp.Convert(cost, limits, bounds, nil, nil)
	least, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	return err == nil && least > give
}
