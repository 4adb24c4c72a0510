// Package must ends tests that cannot go on.
//
// In: results. Out: their value. The invariant: after a call, what it asks for holds.
package must

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// TB is what ends a test: testing.TB, or a rapid.T.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

type labelled struct {
	TB
	labels []any
}

// In is t for one of several cases: what ends the test says which one.
func In(t TB, labels ...any) TB { return labelled{t, labels} }

func (l labelled) Fatal(args ...any) {
	l.Helper()
	l.TB.Fatal(strings.TrimSpace(fmt.Sprintln(l.labels...)) + ": " + fmt.Sprint(args...))
}

func (l labelled) Fatalf(format string, args ...any) {
	l.Helper()
	l.Fatal(fmt.Sprintf(format, args...))
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

// Err returns what a call fails with: must.Fail(t, must.Err(f()), "no column").
func Err[T any](_ T, err error) error { return err }

// Same ends the test where got is not want, by their private fields too.
func Same[T any](t TB, want, got T, options ...cmp.Option) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // a tenth of the work
	}
	private := cmp.Exporter(func(reflect.Type) bool { return true })
	if d := cmp.Diff(want, got, append(slices.Clip(options), private)...); d != "" {
		t.Fatal(d)
	}
}

// Near ends the test where got is further than within from want, or is NaN.
func Near[T ~float32 | ~float64](t TB, want, got T, within float64) {
	t.Helper()
	if !(math.Abs(float64(got-want)) <= within) {
		t.Fatalf("%v, want %v (within %v)", got, want, within)
	}
}

// Has ends the test where text does not contain want.
func Has(t TB, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Fatalf("no %q in\n%s", want, text)
	}
}

// Fail ends the test where err is nil, or does not say want.
func Fail(t TB, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want one that says %q", err, want)
	}
}
