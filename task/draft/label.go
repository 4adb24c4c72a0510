package draft

import (
	"fmt"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// target is the column of the outcome and what is known of it.
type target struct {
	column     string
	values     []string // most frequent first
	favourable string   // "" when nobody said it and it is not obvious
	guessed    bool     // the column was guessed
	obvious    bool     // favourable was guessed
	suffix     string   // of values that occur with and without
}

// usual are names of label columns.
func usual() []string {
	return []string{
		"label", "target", "class", "outcome", "decision", "y", "approved", "income", "default", "two_year_recid", "churn", "risk", "result", "accepted",
		"loan_status", "status", "response", "default.payment.next.month",
	}
}

// findLabel finds the outcome among the columns; nil when none looks like one. An error says that what was asked for is not there.
func findLabel(profiles []*profile, label, favourable string) (*target, error) {
	t := &target{column: label}
	at := slices.IndexFunc(profiles, func(p *profile) bool { return p.name == label })
	if label == "" {
		t.guessed = true
		if at = guessLabel(profiles); at < 0 {
			if favourable != "" {
				return nil, fmt.Errorf("no column looks like the outcome; name it, as %s is to be its favourable value", message.Quote(favourable))
			}
			return nil, nil
		}
		t.column = profiles[at].name
	}
	if at < 0 {
		names := make([]string, len(profiles))
		for i, p := range profiles {
			names[i] = p.name
		}
		return nil, fmt.Errorf("there is no column %s for the outcome; the file's columns are %s", message.Quote(label), list(names, 30))
	}
	p := profiles[at]
	t.values = slices.Clone(p.texts)
	count := func(s string) int { return p.counts[slices.Index(p.texts, s)] }
	slices.SortStableFunc(t.values, func(a, b string) int { return count(b) - count(a) })
	t.values, t.suffix = withoutStop(t.values)
	if len(t.values) > maxClasses {
		return nil, fmt.Errorf("column %s has %d values; an outcome has a few: name another column", message.Quote(t.column), len(t.values))
	}
	if favourable == "" {
		t.favourable, t.obvious = obvious(t.column, t.values), true
		return t, nil
	}
	i := slices.IndexFunc(t.values, func(v string) bool { return v == favourable || sameNumber(v, favourable) })
	if i < 0 {
		return nil, fmt.Errorf("column %s has no value %s; its values are %s", message.Quote(t.column), message.Quote(favourable), list(t.values, maxClasses))
	}
	t.favourable = t.values[i]
	return t, nil
}

// maxClasses is how many values an outcome may have.
const maxClasses = 20

// guessLabel returns the column that has two values and the name of an outcome, or else the last column when it has two values; -1 for none.
func guessLabel(profiles []*profile) int {
	two := func(p *profile) bool { v, _ := withoutStop(p.texts); return len(v) == 2 }
	for i := len(profiles) - 1; i >= 0; i-- {
		if p := profiles[i]; two(p) && slices.Contains(usual(), strings.ToLower(p.name)) {
			return i
		}
	}
	if last := len(profiles) - 1; last >= 0 && two(profiles[last]) && protected(profiles[last]) == "" {
		return last
	}
	return -1
}

// withoutStop merges values that differ in a final full stop, as in Adult's test file.
func withoutStop(values []string) (merged []string, suffix string) {
	for _, v := range values {
		if w := strings.TrimSuffix(v, "."); w != v {
			if _, ok := task.Number(v); !ok {
				v, suffix = w, "."
			}
		}
		if !slices.Contains(merged, v) {
			merged = append(merged, v)
		}
	}
	return merged, suffix
}

// obvious returns the value that people want, when words say so; "" otherwise.
func obvious(column string, values []string) string {
	if len(values) != 2 {
		return ""
	}
	wanted := []string{
		"approved", "approve", "accepted", "accept", "granted", "grant", "good", "paid", "fully paid", "repaid", "pass", "passed", "hired", "admitted", "eligible",
		"favourable", "favorable", "success", "low", "non-default", "no default", "low risk", "low_risk", ">50k",
	}
	found := ""
	for _, v := range values {
		if slices.Contains(wanted, strings.ToLower(strings.TrimSpace(v))) {
			if found != "" {
				return ""
			}
			found = v
		}
	}
	if found != "" {
		return found
	}
	yes := slices.IndexFunc(values, func(v string) bool {
		return slices.Contains([]string{"1", "1.0", "yes", "y", "true", "t"}, strings.ToLower(v))
	})
	no := slices.IndexFunc(values, func(v string) bool {
		return slices.Contains([]string{"0", "0.0", "no", "n", "false", "f"}, strings.ToLower(v))
	})
	bad, good := outcome(column)
	switch {
	case yes < 0 || no < 0 || bad == good:
		return ""
	case bad:
		return values[no]
	}
	return values[yes]
}
