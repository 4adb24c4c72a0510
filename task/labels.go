package task

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/agext/levenshtein"

	"cfq/internal/message"
)

// Bounds on what is kept of, and said about, the labels other than the favourable one.
const (
	maxLabels   = 1000
	shownLabels = 6
	fewLabels   = 20 // that many people may all have the unfavourable outcome without anything being wrong
)

// others counts the labels that are not the favourable one, as they are written.
type others struct {
	n    map[string]int
	more int // labels beyond the first maxLabels values
}

// label is a label value and how often it occurs.
type label struct {
	value string
	n     int
}

func (o *others) add(field string) {
	if _, ok := o.n[field]; ok {
		o.n[field]++
		return
	}
	if len(o.n) == maxLabels {
		o.more++
		return
	}
	if o.n == nil {
		o.n = map[string]int{}
	}
	o.n[strings.Clone(field)] = 1 // the field shares memory with its whole record
}

// sorted returns the values, the most frequent first; a number written in two ways is one value.
func (o *others) sorted() []label {
	numbers := map[float64]int{}
	var all []label
	for _, v := range slices.Sorted(maps.Keys(o.n)) {
		x, ok := Number(v)
		if i, seen := numbers[x]; ok && seen {
			all[i].n += o.n[v]
			continue
		}
		if ok {
			numbers[x] = len(all)
		}
		all = append(all, label{v, o.n[v]})
	}
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(b.n, a.n) })
	return all
}

// checkLabels warns of labels that count as unfavourable although they may not be meant so.
func (rd *reader) checkLabels() {
	all := rd.others.sorted()
	if len(all) == 0 {
		return
	}
	d := &rd.task.Data
	hint, certain := slip(d.Favourable, all)
	list := listLabels(all, rd.others.more)
	switch {
	case rd.favour == 0 && len(all) == 1 && hint == "" && rd.known < fewLabels:
		rd.note(fmt.Sprintf("no row has the favourable label %s in column %s: the label is %s", message.Quote(d.Favourable), message.Quote(d.Label), list))
	case rd.favour == 0:
		rd.warn(fmt.Sprintf("no row has the favourable label %s in column %s, so all count as unfavourable; the labels are %s%s",
			message.Quote(d.Favourable), message.Quote(d.Label), list, hint))
	case len(all) > 1 || certain:
		rd.warn(fmt.Sprintf("column %s: every label but %s counts as unfavourable: %s%s", message.Quote(d.Label), message.Quote(d.Favourable), list, hint))
	}
}

// listLabels lists the first values with their counts.
func listLabels(all []label, more int) string {
	var parts []string
	for _, l := range all[:min(shownLabels, len(all))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", message.Quote(l.value), l.n))
	}
	s := strings.Join(parts, ", ")
	switch rest := len(all) - len(parts); {
	case more > 0:
		s += fmt.Sprintf(" and more than %d other values", rest)
	case rest > 0:
		s += fmt.Sprintf(" and %d other values", rest)
	}
	return s
}

// slip says which of the labels is probably the favourable one written differently, if any; certain when only case, blanks or dashes differ.
func slip(favourable string, all []label) (hint string, certain bool) {
	want := fold(favourable)
	for _, l := range all {
		if fold(l.value) == want {
			return fmt.Sprintf("; %s differs from %s only in case or blanks: correct data.favourable or the file (data.trim removes blanks)",
				message.Quote(l.value), message.Quote(favourable)), true
		}
	}
	for _, l := range all {
		if v := fold(l.value); letters(want) && letters(v) && slipped(want, v) {
			return fmt.Sprintf("; did you mean %s?", message.Quote(l.value)), false
		}
	}
	return "", false
}

// maxLabel bounds the labels that are compared, together: the time grows with the square of their length.
const maxLabel = 200

// slipped says whether a and b differ as by a slip of the pen. A prefix such as in "paid" and "unpaid" is none.
func slipped(a, b string) bool {
	limit := 0
	switch n := min(len(a), len(b)); {
	case n >= 7:
		limit = 2
	case n >= 4:
		limit = 1
	}
	if len(a)+len(b) > maxLabel || strings.HasSuffix(a, b) || strings.HasSuffix(b, a) {
		return false
	}
	return levenshtein.Distance(a, b, nil) <= limit
}

// fold removes what people write differently without meaning anything by it.
func fold(s string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '_' || r == '-' {
			return -1
		}
		return r
	}, s), "."))
}

// letters says whether s is a word: names such as ">50K" and "<50K" differ by little and mean the opposite.
func letters(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}
