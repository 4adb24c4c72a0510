package codec_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// The tests build files with these functions from field numbers alone, so that
// they do not depend on onnx.proto. References: onnx.proto of the standard.

func cat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func num(field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), uint64(v))
}

func str(field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), v)
}

func msg(field protowire.Number, parts ...[]byte) []byte { return str(field, string(cat(parts...))) }

func packed(field protowire.Number, vs ...int64) []byte {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return str(field, string(b))
}

func float32s(field protowire.Number, vs ...float32) []byte {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendFixed32(b, math.Float32bits(v))
	}
	return str(field, string(b))
}

func float64s(field protowire.Number, vs ...float64) []byte {
	var b []byte
	for _, v := range vs {
		b = protowire.AppendFixed64(b, math.Float64bits(v))
	}
	return str(field, string(b))
}

func file(graphFields ...[]byte) []byte {
	return cat(num(1, 8), msg(8, num(2, 17)), msg(7, graphFields...))
}

func weights(tensorFields ...[]byte) []byte {
	return file(str(2, "g"), msg(5, tensorFields...))
}

func readWeights(dir string, tensorFields ...[]byte) (*graph.Tensor, error) {
	m, err := codec.Read(weights(tensorFields...), dir)
	if err != nil {
		return nil, err
	}
	return m.Graph.Inits[0], nil
}

func read(t *testing.T, data []byte) *graph.Model {
	t.Helper()
	return must.Get(codec.Read(data, ""))(t)
}
