package draft

import (
	"math"

	"cfq/task"
)

// room returns how far the raw values of a person are from breaking an inequality: its bound less the sum of its terms, in the units of the
// inequality; below 0 it is broken. value returns the raw value of a feature as text, "" when it is missing. The result is NaN when a term
// needs a number that there is not.
func room(q *task.Inequality, value func(feature string) string) float64 {
	sum := 0.0
	for _, t := range q.Terms {
		v := value(t.Feature)
		switch {
		case t.Value == "":
			x, ok := task.Number(v)
			if !ok {
				return math.NaN()
			}
			sum += t.Coef * x
		case v == t.Value || sameNumber(v, t.Value):
			sum += t.Coef
		}
	}
	return q.Bound - sum
}

// holds says whether an inequality holds for a person, up to the rounding of the sum. What cannot be told does not hold.
func holds(q *task.Inequality, value func(feature string) string) bool {
	slack := room(q, value)
	tolerance := 1e-9 * math.Max(1, math.Abs(q.Bound))
	if q.Strict {
		return slack > tolerance
	}
	return slack >= -tolerance
}

// allHold says whether all of the inequalities hold.
func allHold(all []task.Inequality, value func(feature string) string) bool {
	for i := range all {
		if !holds(&all[i], value) {
			return false
		}
	}
	return true
}
