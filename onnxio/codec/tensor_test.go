package codec_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
)

// Data types and fields of TensorProto, by the standard's numbers.
const (
	tFloat, tUint8, tInt8, tUint16, tInt16, tInt32, tInt64, tString, tBool = 1, 2, 3, 4, 5, 6, 7, 8, 9

	tFloat16, tDouble, tUint32, tUint64, tComplex, tBFloat16, tUint4, tInt4, tInt2 = 10, 11, 12, 13, 14, 16, 21, 22, 26

	floatData, int32Data, stringData, int64Data, rawData, doubleData, uint64Data = 4, 5, 6, 7, 9, 10, 11
)

func TestTypedData(t *testing.T) {
	for _, c := range []struct {
		dtype int64
		n     int64
		data  []byte
		want  string // hexadecimal, little endian
	}{
		{tFloat, 2, float32s(floatData, 1, -2), "0000803f000000c0"},
		{tDouble, 1, float64s(doubleData, 1), "000000000000f03f"},
		{tInt64, 2, packed(int64Data, -2, 1), "feffffffffffffff0100000000000000"},
		{tInt64, 2, cat(num(int64Data, -2), num(int64Data, 1)), "feffffffffffffff0100000000000000"}, // not packed
		{tInt32, 2, packed(int32Data, -2, 258), "feffffff02010000"},
		{tInt16, 2, packed(int32Data, -2, 258), "feff0201"},
		{tUint16, 1, packed(int32Data, 65535), "ffff"},
		{tInt8, 2, packed(int32Data, -128, 127), "807f"},
		{tUint8, 2, packed(int32Data, 0, 255), "00ff"},
		{tBool, 2, packed(int32Data, 0, 1), "0001"},
		{tFloat16, 1, packed(int32Data, 0x3c00), "003c"},
		{tBFloat16, 1, packed(int32Data, 0x3f80), "803f"},
		{tInt4, 3, packed(int32Data, 0x21, 0x0f), "210f"},
		{tUint4, 2, packed(int32Data, 0xf1), "f1"},
		{tInt2, 5, packed(int32Data, 0xe4, 3), "e403"},
		{tUint32, 1, packed(uint64Data, 1<<32-1), "ffffffff"},
		{tUint64, 1, packed(uint64Data, -1), "ffffffffffffffff"},
		{tFloat, 1, str(rawData, "\x00\x00\x80\x3f"), "0000803f"},
		{tFloat, 0, nil, ""},
	} {
		w, err := readWeights("", num(1, c.n), num(2, c.dtype), c.data, str(8, "w"))
		if err != nil {
			t.Errorf("type %d: %v", c.dtype, err)
			continue
		}
		if got := fmt.Sprintf("%x", w.Raw); got != c.want || len(w.Extra) > 0 {
			t.Errorf("%s: %s, want %s; left over % x", w.DType, got, c.want, w.Extra)
		}
	}
}

func TestStringData(t *testing.T) {
	w, err := readWeights("", num(1, 2), num(2, tString), str(stringData, "a"), str(stringData, ""), str(8, "w"))
	if err != nil || len(w.Strings) != 2 || string(w.Strings[0]) != "a" || w.Raw != nil {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestUnknownType(t *testing.T) {
	data := float32s(floatData, 1, 2)
	w, err := readWeights("", num(1, 1), num(2, tComplex), data, str(8, "w"))
	if err != nil || w.Raw != nil || !bytes.Equal(w.Extra, data) {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestBadTensors(t *testing.T) {
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"raw too long", cat(num(1, 2), num(2, tFloat), str(rawData, "123456789")), "8 bytes, but holds 9"},
		{"too few elements", cat(num(1, 3), num(2, tFloat), float32s(floatData, 1, 2)), "12 bytes, but holds 8"},
		{"no elements", cat(num(1, 3), num(2, tFloat)), "12 bytes, but holds 0"},
		{"odd packing", cat(num(1, 3), num(2, tInt4), packed(int32Data, 1)), "2 bytes, but holds 1"},
		{"out of range", cat(num(1, 1), num(2, tInt8), packed(int32Data, 128)), "element 0 is 128, which is not a int8"},
		{"negative unsigned", cat(num(1, 1), num(2, tUint8), packed(int32Data, -1)), "which is not a uint8"},
		{"not a boolean", cat(num(1, 1), num(2, tBool), packed(int32Data, 2)), "which is not a bool"},
		{"beyond uint32", cat(num(1, 1), num(2, tUint32), packed(uint64Data, 1<<32)), "which is not a uint32"},
		{"wrong field", cat(num(1, 1), num(2, tFloat), packed(int64Data, 1)), "in a field for another type"},
		{"two places", cat(num(1, 1), num(2, tFloat), float32s(floatData, 1), str(rawData, "1234")), "more than one place"},
		{"two lists", cat(num(1, 1), num(2, tFloat), float32s(floatData, 1), packed(int64Data, 1)), "more than one place"},
		{"string in raw", cat(num(1, 1), num(2, tString), str(rawData, "a")), "string tensor without string data"},
		{"negative dimension", cat(num(1, -1), num(2, tFloat)), "negative dimension -1"},
		{"absurd shape", cat(num(1, 1<<62), num(1, 1<<62), num(2, tFloat), str(rawData, "")), "absurd shape"},
		{"absurd shape without elements", cat(num(1, 1<<62), num(1, 0), num(2, tFloat), str(rawData, "")), "absurd shape"},
	} {
		_, err := readWeights("", c.body, str(8, "the weights"))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
			`initializer "the weights"`) {
			t.Errorf("%s: error %v, want one with %q that names the initializer", c.name, err, c.want)
		}
	}
}

// TestStripMetadata: what exporters note is gone, and all else stays, also in the model that was cloned.
func TestStripMetadata(t *testing.T) {
	home := "/home/me/train.py"
	m := read(t, cat(num(1, 8), msg(8, num(2, 17)), str(6, "made in a lab"), msg(14, str(1, "k"), str(2, "v")), msg(7,
		msg(1, str(1, "x"), str(2, "y"), str(4, "Relu"), str(6, home), str(8, "o"), msg(9, str(2, home), str(1, "trace"))),
		msg(16, str(2, home), str(1, "scope")),
		msg(11, str(1, "x"), msg(4, str(2, home), str(1, "note"))), msg(12, str(1, "y")))))
	before := must.Get(codec.Marshal(m))(t)
	c := m.Clone()
	must.Same(t, []string{"doc_string", "note", "scope", "trace"}, codec.StripMetadata(c))
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
