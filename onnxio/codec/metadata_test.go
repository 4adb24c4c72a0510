package codec_test

import (
	"bytes"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
)

// TestStripMetadata: what exporters note is gone, and all else stays, also in the model that was cloned.
func TestStripMetadata(t *testing.T) {
	home := "/home/me/train.py"
	m := read(t, cat(num(1, 8), msg(8, num(2, 17)), str(6, "made in a lab"), msg(14, str(1, "k"), str(2, "v")), msg(7,
		msg(1, str(1, "x"), str(2, "y"), str(4, "Relu"), str(6, home), str(8, "o"), msg(9, str(2, home), str(1, "trace"))),
		msg(16, str(2, home), str(1, "scope")),
		msg(11, str(1, "x"), msg(4, str(2, home), str(1, "note"))), msg(12, str(1, "y")))))
	before := must.Get(codec.Marshal(m))(t)
	c := m.Clone()
	if keys := codec.StripMetadata(c); !slices.Equal(keys, []string{"doc_string", "note", "scope", "trace"}) {
		t.Errorf("removed %q", keys)
	}
	after := must.Get(codec.Marshal(c))(t)
	left := read(t, after)
	if v, _ := left.Meta("k"); bytes.Contains(after, []byte("home")) || v != "v" || left.Doc == "" {
		t.Errorf("left: %q", after)
	}
	if got := left.Graph.Nodes[0].Extra; !bytes.Equal(got, str(8, "o")) {
		t.Errorf("the node's other fields are %q", got)
	}
	if again := must.Get(codec.Marshal(m))(t); !bytes.Equal(again, before) {
		t.Error("the model that was cloned has changed")
	}
}
