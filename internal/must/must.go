// Package must ends tests that cannot go on.
//
// In: results. Out: their value. The invariant: after a call, what it asks for holds.
package must

import (
	"strings"

	"github.com/google/go-cmp/cmp"
)

// TB is what ends a test: testing.TB, or a rapid.T.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Get returns v for the test, which ends where err is not nil: x := must.Get(f())(t).
func Get[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test where err is not nil.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same ends the test where got is not want.
func Same(t TB, want, got any, options ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, options...); d != "" {
		t.Fatal(d)
	}
}

// Fail ends the test where err is nil, or does not say want.
func Fail(t TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatal("error ", err, ", want ", want)
	}
}
