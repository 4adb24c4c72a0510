package config

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a file.
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

// Errors are all mistakes of one file in the order of their places.
type Errors []*Error

// maxShown is how many mistakes are written out: a file with more of them is not meant as what it is read for.
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

// sorted is the list by place, mistakes at one place in the order in which they were found.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return e
}
