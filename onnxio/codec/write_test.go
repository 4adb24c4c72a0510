package codec_test

import (
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func read(t *testing.T, data []byte) *graph.Model {
	t.Helper()
	return must.Get(codec.Read(data, ""))(t)
}

func TestMarshalRefusesDamage(t *testing.T) {
	m := read(t, linear())
	m.Graph.Extra = []byte{0xff}
	if _, err := codec.Marshal(m); err == nil || !strings.Contains(err.Error(), "graph: extra fields") {
		t.Errorf("damaged extra fields: %v", err)
	}
}
