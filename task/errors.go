package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Error is one mistake in a task file.
type Error struct {
	File      string
	Line, Col int // 1-based; 0 when the mistake has no place
	Msg       string
}

// Error returns "file:line:col: message".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// Errors are all mistakes of one task file in the order of their places.
type Errors []*Error

// Error returns one line per mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, x := range e {
		lines[i] = x.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single mistakes.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, x := range e {
		out[i] = x
	}
	return out
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
}

// nearest returns the candidate most like s, or "" when none is close enough to be a slip of the pen.
func nearest(s string, candidates []string) string {
	s = strings.ToLower(s)
	best, bestDist := "", max(1, (len(s)+2)/3)+1
	for _, c := range candidates {
		if d := levenshtein.Distance(s, strings.ToLower(c), nil); d < bestDist && d < max(len(s), len(c)) {
			best, bestDist = c, d
		}
	}
	return best
}

// didYouMean is the clause to put behind a message about the unknown word s: the likely word, or the list when it is short.
func didYouMean(s string, candidates []string) string {
	if n := nearest(s, candidates); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	if len(candidates) == 0 {
		return ""
	}
	return "; one of: " + shorten(candidates, 20)
}

// shorten lists at most limit words.
func shorten(words []string, limit int) string {
	if len(words) <= limit {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:limit], ", "), len(words)-limit)
}
