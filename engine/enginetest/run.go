package enginetest

import (
	"testing"

	"cfq/engine"
	"cfq/graph"
)

// Run runs m once on the inputs and returns all of its outputs; any error fails the test.
func Run(t testing.TB, m *graph.Model, o engine.Options, in ...*graph.Tensor) []*graph.Tensor {
	t.Helper()
	s, err := engine.Open(m, o)
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
