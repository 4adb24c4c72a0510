package draft

import (
	"fmt"
	"slices"
	"strings"

	"cfq/task"
)

// Words writes a constraint in one form, whatever form it was given in.
func Words(r *task.Rule) string {
	if len(r.Of) > 0 {
		return fmt.Sprintf("at most %d of %s change", r.AtMost, strings.Join(r.Of, ", "))
	}
	then := inequalities(r.Then)
	if len(r.If) == 0 {
		return then
	}
	return "if " + inequalities(r.If) + " then " + then
}

// inequalities writes a list of them; two that are each other's opposite are an equation.
func inequalities(all []task.Inequality) string {
	var out []string
	for i := 0; i < len(all); i++ {
		if i+1 < len(all) && opposite(&all[i], &all[i+1]) {
			out = append(out, sentence(&all[i], " = "))
			i++
			continue
		}
		out = append(out, sentence(&all[i], ""))
	}
	return strings.Join(out, " and ")
}

func opposite(a, b *task.Inequality) bool {
	return a.Bound == -b.Bound && !a.Strict && !b.Strict && slices.EqualFunc(a.Terms, b.Terms, func(s, t task.Term) bool {
		return s.Feature == t.Feature && s.Value == t.Value && s.Coef == -t.Coef
	})
}

// sentence writes one inequality with the given sign, or its own: terms stand on the side on which they are positive, and all on the left when
// they have one sign. What a category must or must not be is written so.
func sentence(q *task.Inequality, sign string) string {
	if text := membership(q); text != "" && sign == "" {
		return text
	}
	turn := 1.0
	if len(q.Terms) > 0 && !slices.ContainsFunc(q.Terms, func(t task.Term) bool { return t.Coef > 0 }) {
		turn = -1
	}
	if sign == "" {
		sign = map[bool]string{false: " <", true: " >"}[turn < 0]
		if !q.Strict {
			sign += "="
		}
		sign += " "
	}
	var left, right []string
	for _, t := range q.Terms {
		if coef := turn * t.Coef; coef > 0 {
			left = append(left, product(coef, &t))
		} else {
			right = append(right, product(-coef, &t))
		}
	}
	if len(left) == 0 {
		left = []string{"0"}
	}
	text := strings.Join(left, " + ") + sign + strings.Join(right, " + ")
	switch bound := turn * q.Bound; {
	case len(right) == 0:
		return text + task.Decimal(bound)
	case bound > 0:
		return text + " + " + task.Decimal(bound)
	case bound < 0:
		return text + " - " + task.Decimal(-bound)
	}
	return text
}

// product writes a term with a coefficient above 0.
func product(coef float64, t *task.Term) string {
	text := legible(t.Feature)
	if t.Value != "" {
		text = "(" + text + " = " + legible(t.Value) + ")"
	}
	if coef != 1 {
		text = task.Decimal(coef) + " * " + text
	}
	return text
}

// membership writes the inequality that says which values one category has, or which it has not; "" for any other.
func membership(q *task.Inequality) string {
	if len(q.Terms) == 0 || q.Strict {
		return ""
	}
	first := q.Terms[0]
	var values []string
	for _, t := range q.Terms {
		if t.Value == "" || t.Feature != first.Feature || t.Coef != first.Coef {
			return ""
		}
		values = append(values, legible(t.Value))
	}
	one, many := "=", "in"
	switch {
	case first.Coef == -1 && q.Bound == -1:
	case first.Coef == 1 && q.Bound == 0:
		one, many = "!=", "not in"
	default:
		return ""
	}
	if len(values) == 1 {
		return legible(first.Feature) + " " + one + " " + values[0]
	}
	return legible(first.Feature) + " " + many + " {" + strings.Join(values, ", ") + "}"
}
