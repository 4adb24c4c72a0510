package orttest

import (
	"testing"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

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
