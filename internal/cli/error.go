// Package cli is the command's manners: exit codes, messages, suggestions,
// environment, progress bars and files that are never half written.
//
// In: flags, errors, a stderr. Out: lines that begin with "cfq: error:",
// "cfq: hint:" or "cfq: warning:", and an exit code. The invariant: stdout is
// not touched here; it belongs to the result.
package cli

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes of the command.
const (
	Passed       = 0   // done
	Missed       = 1   // done, but a target was not reached
	Unusable     = 2   // the usage, the task file, the data or the model is wrong
	RunFailed    = 3   // something failed while running
	Fault        = 4   // the program is at fault
	Inconclusive = 5   // too few people to say
	Interrupted  = 130 // stopped by Ctrl-C
	Closed       = 141 // the reader of stdout has gone; nothing is said of it
)

// Error is an error that knows its exit code and what could be done about it.
type Error struct {
	Code int    // one of the exit codes
	Hint string // one sentence for the user, or ""
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error behind.
func (e *Error) Unwrap() error { return e.Err }

// Wrap gives err an exit code and a hint; a nil err stays nil. When err carries
// a hint already, an empty hint keeps it.
func Wrap(err error, code int, hint string) error {
	if err == nil {
		return nil
	}
	if hint == "" {
		hint = HintOf(err)
	}
	return &Error{Code: code, Hint: hint, Err: err}
}

// Usagef reports a mistake in how the command was called.
func Usagef(hint, format string, args ...any) error {
	return &Error{Code: Unusable, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Code returns the exit code that err stands for: that of the outermost Error,
// Interrupted for a cancelled context, and RunFailed for anything else.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return Passed
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.As(err, &e):
		return e.Code
	}
	return RunFailed
}

// HintOf returns the hint that err carries, or "".
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}
