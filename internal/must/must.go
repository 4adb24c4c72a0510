// Package must ends tests that cannot go on.
//
// In: the results of a call. Out: its value. The invariant: after a call there is no error.
package must

import "testing"

// Get returns v for the test, which ends where err is not nil: x := must.Get(f())(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}

// Do ends the test where err is not nil.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
