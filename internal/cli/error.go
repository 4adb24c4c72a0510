// Package cli is the command's manners: exit codes, messages, suggestions,
// environment, progress bars and files that are never half written.
//
// In: flags, errors, a stderr. Out: lines that begin with "cfq: error:", "cfq: hint:" or "cfq: warning:", and an exit
// code. The invariant: stdout is not touched here; it belongs to the result.
package cli

import (
	"cmp"
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
)

// Hints of mistakes that many places find. The printer puts the subcommand that was called for SUBCOMMAND.
const (
	HintArguments = "`cfq help SUBCOMMAND` shows the arguments, with examples"
	HintValue     = "`cfq SUBCOMMAND --help-all` says what the flag takes"
	HintConflict  = "leave the flag out, or give what it depends on; `cfq SUBCOMMAND --help-all` describes both"
	HintFolder    = "name a file in it"
)

const (
	hintFlags       = "`cfq SUBCOMMAND --help-all` lists the flags"
	hintNotAFile    = "name a regular file: save what comes from a pipe first"
	hintMissingFile = "check the name and the folder"
	hintSameFile    = "give each output a name of its own"
)

// Error is an error that knows its exit code and what to do about it.
type Error struct {
	Code int    // one of the exit codes
	Hint string // what to do, or ""; that of what it wraps, unless it has one of its own
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Wrap makes err one of usage, with a hint unless that is "". A nil err stays nil.
func Wrap(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Unusable, Hint: cmp.Or(hint, HintOf(err)), Err: err}
}

// WithCode gives err another exit code, and leaves its hint; a nil err stays nil.
func WithCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &Error{Code: code, Hint: HintOf(err), Err: err}
}

// Usagef reports a mistake in how the command was called, see [Wrap].
func Usagef(hint, format string, args ...any) error {
	return Wrap(fmt.Errorf(format, args...), hint)
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

// HintOf returns the hint of the outermost error that has one, or "".
func HintOf(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Hint
	}
	return ""
}
