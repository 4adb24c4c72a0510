package draft

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"cfq/internal/message"
	"cfq/task"
)

// list names at most limit things.
func list(names []string, limit int) string {
	shown := make([]string, 0, limit)
	for _, n := range names[:min(limit, len(names))] {
		shown = append(shown, legible(n))
	}
	s := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// legible is s itself, unless a terminal or a reader would stumble over it.
func legible(s string) string {
	q := message.Quote(s)
	if s == "" || strings.ContainsAny(s, ",") || q != `"`+s+`"` {
		return q
	}
	return s
}

// percent writes a share.
func percent(share float64) string {
	switch p := 100 * share; {
	case share > 0 && p < 0.1:
		return "less than 0.1 %"
	case share < 1 && p > 99.9:
		return "more than 99.9 %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// plural writes a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// scalar writes s as a YAML scalar that is read back as the same text, quoted unless it is a plain word or number.
func scalar(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-. /+()", r))
	})
	first, last := byte(' '), byte(' ')
	if plain {
		first, last = s[0], s[len(s)-1]
	}
	if _, ok := task.Number(s); ok && plain && first != '.' && first != '+' && last != '.' && !strings.ContainsAny(s, "eE") {
		return s
	}
	letter := first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z'
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		plain = false
	}
	if plain && letter && last != ' ' && !strings.Contains(s, "  ") && !strings.Contains(s, " -") {
		return s
	}
	return strconv.Quote(s)
}
