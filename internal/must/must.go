// Package must ends tests that cannot go on.
//
// In: the results of a call. Out: its value. The invariant: after a call there is no error.
package must

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
