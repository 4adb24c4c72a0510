// Package orttest lets tests say that they need ONNX Runtime, and run models in it.
//
// In: the environment (CFQ_REQUIRE_ORT, and what ort.Find reads). Out: options that work, or a test that is skipped, or
// failed where skipping would hide something. The invariant: with CFQ_REQUIRE_ORT=1 no test skips for want of the
// library.
package orttest

import (
	"errors"
	"os"
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Need returns options for a test that runs models. Without the library the test is skipped, or fails when
// CFQ_REQUIRE_ORT is 1; a library that is there and not usable fails the test in any case.
func Need(t testing.TB) ort.Options {
	t.Helper()
	_, err := ort.Find("")
	switch {
	case err == nil:
		return ort.Options{}
	case errors.Is(err, ort.ErrNotFound) && os.Getenv("CFQ_REQUIRE_ORT") != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	return ort.Options{}
}

// Run runs m once on the inputs and returns all of its outputs; any error fails the test.
func Run(t testing.TB, m *graph.Model, o ort.Options, in ...*graph.Tensor) []*graph.Tensor {
	t.Helper()
	s, err := ort.Open(m, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing to be done
	out, err := s.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
