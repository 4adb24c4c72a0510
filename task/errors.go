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

// maxShown is how many mistakes are written out: a file with more of them is not meant as a task file.
const maxShown = 50

// Error returns one line per mistake.
func (e Errors) Error() string {
	lines := make([]string, 0, min(len(e), maxShown+1))
	for _, x := range e[:min(len(e), maxShown)] {
		lines = append(lines, x.Error())
	}
	if more := len(e) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more mistakes", e[0].File, more))
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

// maxWord bounds the words that are compared: the time grows with the square of their length.
const maxWord = 200

// clause is a part of a message that is never shortened.
type clause string

// nearest returns the candidate most like s, or "" when none is close enough to be a slip of the pen.
func nearest(s string, candidates []string) string {
	if len(s) > maxWord {
		return ""
	}
	s = strings.ToLower(s)
	best, bestDist := "", max(1, (len(s)+2)/3)+1
	for _, c := range candidates {
		if len(c) > maxWord {
			continue
		}
		if d := levenshtein.Distance(s, strings.ToLower(c), nil); d < bestDist && d < max(len(s), len(c)) {
			best, bestDist = c, d
		}
	}
	return best
}

// didYouMean is the clause to put behind a message about the unknown word s: the likely word, or the list when it is short.
func didYouMean(s string, candidates []string) clause {
	if n := nearest(s, candidates); n != "" {
		return clause(fmt.Sprintf("; did you mean %s?", quote(n)))
	}
	if len(candidates) == 0 {
		return ""
	}
	return clause("; one of: " + shorten(candidates, 20))
}

// shorten lists at most limit words.
func shorten(words []string, limit int) string {
	shown := make([]string, 0, min(limit, len(words)))
	for _, w := range words[:min(limit, len(words))] {
		shown = append(shown, legible(w))
	}
	s := strings.Join(shown, ", ")
	if more := len(words) - len(shown); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
