package infer

import (
	"fmt"
	"slices"
	"strings"

	"cfq/task"
)

// Words writes a constraint in one form: sums of terms, compared with a number.
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

// sentence writes one inequality with the given sign, or its own. One whose terms are all negative is written the other way round.
func sentence(q *task.Inequality, sign string) string {
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
	var b strings.Builder
	for i, t := range q.Terms {
		coef := turn * t.Coef
		switch {
		case i == 0 && coef < 0:
			b.WriteString("-")
			coef = -coef
		case i > 0 && coef < 0:
			b.WriteString(" - ")
			coef = -coef
		case i > 0:
			b.WriteString(" + ")
		}
		if coef != 1 {
			b.WriteString(decimal(coef) + " ")
		}
		b.WriteString(legible(t.Feature))
		if t.Value != "" {
			b.WriteString("=" + legible(t.Value))
		}
	}
	if len(q.Terms) == 0 {
		b.WriteString("0")
	}
	return b.String() + sign + decimal(turn*q.Bound)
}
