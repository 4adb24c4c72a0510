package codec_test

import (
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func sparse(indices []byte, dims ...[]byte) []byte {
	return cat(msg(1, num(1, 2), num(2, 1), str(8, "s"), float32s(4, 5, 7)), msg(2, indices), cat(dims...))
}

// TestSparse: sparse tensors, of initializers and of Constant nodes, are read with their zeros.
func TestSparse(t *testing.T) {
	linear := cat(num(1, 2), num(2, 7), packed(7, 1, 5))
	want := []float32{0, 5, 0, 0, 0, 7}
	for _, c := range []struct {
		name string
		body []byte
	}{
		{"positions", sparse(linear, num(3, 2), num(3, 3))},
		{"coordinates", sparse(cat(num(1, 2), num(1, 2), num(2, 7), packed(7, 0, 1, 1, 2)), packed(3, 2, 3))},
	} {
		m := read(t, file(str(2, "g"), msg(15, c.body),
			msg(1, str(2, "k"), str(4, "Constant"), msg(5, str(1, "sparse_value"), num(20, 11), msg(22, c.body)))))
		for _, w := range []*graph.Tensor{m.Graph.Init("s"), m.Graph.Nodes[0].Constant()} {
			must.Same(must.In(t, c.name), want, must.Get(w.Floats())(t))
			must.Same(t, []int64{2, 3}, w.Dims)
		}
		must.Same(t, 1, len(read(t, must.Get(codec.Marshal(m))(t)).Graph.Inits))
	}
	for want, body := range map[string][]byte{
		"lies outside":       sparse(linear, num(3, 2), num(3, 2)),
		"2 values and [1]":   sparse(cat(num(1, 1), num(2, 7), packed(7, 1)), num(3, 6)),
		"2 values and [2 1]": sparse(cat(num(1, 2), num(1, 1), num(2, 7), packed(7, 1, 5)), num(3, 2), num(3, 3)),
		"store it densely":   sparse(linear, num(3, 1<<20)),
		"absurd shape":       sparse(linear, num(3, -6)),
		`"s" is float[2]`:    cat(msg(1, num(1, 2), num(2, 1), str(8, "s")), msg(2, linear), num(3, 6)),
	} {
		must.Fail(must.In(t, want), must.Err(codec.Read(file(str(2, "g"), msg(15, body)), "")), want)
	}
}
