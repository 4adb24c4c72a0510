package graph_test

import (
	"fmt"
	"testing"

	"cfq/onnxio/graph"
)

func TestShapeString(t *testing.T) {
	for _, c := range []struct {
		shape graph.Shape
		want  string
	}{
		{nil, "*"},
		{graph.Shape{}, "[]"},
		{graph.Fixed(2, 0), "[2,0]"},
		{graph.Shape{{Size: -1, Param: "N"}, {Size: 104}, {Size: -1}}, "[N,104,?]"},
		{graph.Shape{{Size: -1, Param: "a,b"}}, `["a,b"]`},
		{graph.Shape{{Size: -1, Param: "a\nb"}}, `["a\nb"]`},
	} {
		if got := fmt.Sprint(c.shape); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
