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

	"cfq/internal/trouble"
)

// Exit codes of the command.
const (
	Passed       = 0 // done
	Missed       = trouble.Missed
	Unusable     = trouble.Unusable
	RunFailed    = trouble.RunFailed
	Fault        = trouble.Fault
	Inconclusive = trouble.Inconclusive
	Interrupted  = 130 // stopped by Ctrl-C
	Closed       = 141 // the reader of stdout has gone; nothing is said of it
)

// Error is an error that knows its exit code and, if it is a row of package trouble's table, what to do about it.
type Error struct {
	Code int    // one of the exit codes
	ID   string // of the row of the table, or ""
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error behind.
func (e *Error) Unwrap() error { return e.Err }

// Wrap makes err the error of the table with this ID, which gives it a hint and an exit code; for "", which is none, it
// is one of usage without a hint. A nil err stays nil.
func Wrap(err error, id string) error {
	if err == nil {
		return nil
	}
	e := &Error{Code: Unusable, ID: id, Err: err}
	if row, ok := trouble.Find(id); ok {
		e.Code = row.Code
	}
	return e
}

// WithCode gives err another exit code, and leaves its hint; a nil err stays nil.
func WithCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Err: err}
}

// Usagef reports a mistake in how the command was called, see [Wrap].
func Usagef(id, format string, args ...any) error {
	return Wrap(fmt.Errorf(format, args...), id)
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

// IDOf returns the ID in the table of the outermost error that has one, or "".
func IDOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.ID != "" {
			return e.ID
		}
		err = e.Err
	}
	return ""
}
