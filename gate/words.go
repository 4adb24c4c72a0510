package gate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// maxWord bounds the words that are compared: the time grows with the square of their length.
const maxWord = 200

// nearest returns the candidate most like s, or "" when none is close enough to be a slip of the pen.
func nearest(s string, candidates []string) string {
	if len(s) > maxWord {
		return ""
	}
	s = strings.ToLower(s)
	best, least := "", max(1, (len(s)+2)/3)+1
	for _, c := range candidates {
		// A metric may be known by its key in reports, or by some of its words.
		if s != "" && (strings.HasSuffix(s, "."+c) || strings.HasSuffix(c, "."+s) || strings.HasPrefix(c, s+".")) {
			return c
		}
		if d := levenshtein.Distance(s, strings.ToLower(c), nil); len(c) <= maxWord && d < least && d < max(len(s), len(c)) {
			best, least = c, d
		}
	}
	return best
}

// didYouMean is the clause to put behind a message about the unknown word s.
func didYouMean(s string, candidates []string) string {
	if n := nearest(s, candidates); n != "" {
		return fmt.Sprintf("; did you mean %s?", quote(n))
	}
	if len(candidates) == 0 {
		return ""
	}
	shown := make([]string, 0, maxListed)
	for _, c := range candidates[:min(len(candidates), maxListed)] {
		shown = append(shown, clip(c))
	}
	if more := len(candidates) - len(shown); more > 0 {
		return fmt.Sprintf("; one of: %s and %d more", strings.Join(shown, ", "), more)
	}
	return "; one of: " + strings.Join(shown, ", ")
}

// maxListed and maxQuote bound what a message lists, and repeats of a file.
const (
	maxListed = 12
	maxQuote  = 80
)

func clip(s string) string {
	n := 0
	for i := range s {
		if n == maxQuote {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

func quote(s string) string { return strconv.Quote(clip(s)) }
