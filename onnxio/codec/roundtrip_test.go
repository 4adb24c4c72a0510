package codec_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func TestUnknownFields(t *testing.T) {
	secret := func(s string) []byte { return str(999, s) }
	dims := msg(2, msg(1, num(1, 2), str(3, "CHANNEL")), msg(1, str(2, "N")), secret("in shape"))
	function := msg(25, str(1, "F"), str(10, "d"), str(4, "p"), str(5, "q"), str(6, "alpha"), msg(11, str(1, "beta"),
		num(3, 7)), msg(9, num(2, 17)), str(13, "overload"), msg(7, str(1, "p"), str(2, "q"), str(4, "LeakyRelu"), msg(5,
		str(1, "alpha"), num(20, 1), str(21, "alpha"))), secret("in function"))
	data := cat(num(1, 8), num(5, 3), msg(8, num(2, 17)), msg(14, str(1, "k"), str(2, "v")), secret("in model"),
		msg(20, secret("training")), function,
		msg(7, str(2, "g"), secret("in graph"), msg(14, str(1, "annotated")),
			msg(1, str(1, "c"), str(2, "y"), str(4, "If"), str(8, "overload"), secret("in node"),
				msg(5, str(1, "then_branch"), num(20, 5), msg(6, str(2, "body"), secret("in body")), secret("in attribute")),
				msg(5, str(1, "s"), num(20, 3)), // a string that was not written because it is empty
				msg(5, str(1, "tp"), num(20, 13), msg(14, msg(1, num(1, 1))))),
			msg(5, num(2, tBool), str(8, "c"), str(rawData, "\x01"), msg(16, str(1, "in"), str(2, "tensor")),
				secret("in tensor")),
			msg(11, str(1, "x"), msg(2, msg(1, num(1, 1), dims), str(6, "IMAGE")), secret("in value")),
			msg(11, str(1, "seq"), msg(2, msg(4, msg(1, msg(1, num(1, 1)))))),
			msg(12, str(1, "y"), msg(2, msg(1, num(1, 1), msg(2)))))) // a scalar
	m := read(t, data)
	if m.Graph.Outputs[0].Shape == nil || m.Graph.Inputs[1].DType != 0 {
		t.Errorf("types: %+v %+v", m.Graph.Outputs, m.Graph.Inputs)
	}
	out := must.Get(codec.Marshal(m))(t)
	must.Same(t, m, read(t, out))
	must.Same(t, fields(data), fields(out))
}

// fields takes a message apart, without regard to the order of different
// fields. Bytes that happen to be a message are treated as one.
func fields(data []byte) map[protowire.Number][]any {
	out := map[protowire.Number][]any{}
	for len(data) > 0 {
		field, typ, n := protowire.ConsumeField(data)
		if n < 0 {
			return nil
		}
		_, _, tag := protowire.ConsumeTag(data)
		value := data[tag:n]
		data = data[n:]
		if typ != protowire.BytesType {
			out[field] = append(out[field], string(value))
			continue
		}
		body, _ := protowire.ConsumeBytes(value)
		if inner := fields(body); len(body) > 0 && inner != nil {
			out[field] = append(out[field], inner)
		} else if len(body) > 0 || field != 3 && field != 4 { // an empty string of a known kind: the same as none
			out[field] = append(out[field], string(body))
		}
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genModel(t)
		data := must.Get(codec.Marshal(m))(t)
		got := must.Get(codec.Read(data, ""))(t)
		must.Same(t, m, got)
		if again, _ := codec.Marshal(m.Clone()); !bytes.Equal(data, again) {
			t.Fatal("a second time, other bytes")
		}
	})
}

func list[T any](t *rapid.T, name string, gen func(*rapid.T) T) []T {
	var out []T
	for range rapid.IntRange(0, 3).Draw(t, name) {
		out = append(out, gen(t))
	}
	return out
}

var (
	word  = rapid.SampledFrom([]string{"", "a", "b.weight", "/0/Gemm", "ü \xff"})
	extra = rapid.SampledFrom([][]byte{nil, str(999, "unknown"), num(1000, 5)})
)

func genModel(t *rapid.T) *graph.Model {
	m := &graph.Model{
		IRVersion:    rapid.Int64Range(1, 13).Draw(t, "ir"),
		Opsets:       append(list(t, "opsets", genOpset), graph.Opset{Version: 17}),
		ProducerName: word.Draw(t, "producer"), ProducerVersion: word.Draw(t, "version"), Doc: word.Draw(t, "doc"),
		Metadata: list(t, "metadata", func(t *rapid.T) graph.Meta {
			return graph.Meta{Key: word.Draw(t, "key"), Value: word.Draw(t, "value")}
		}),
		Graph: &graph.Graph{Name: word.Draw(t, "graph"), Values: list(t, "values", genValue), Extra: extra.Draw(t, "extra")},
		Extra: extra.Draw(t, "extra"),
		Functions: list(t, "functions", func(t *rapid.T) *graph.Function {
			return &graph.Function{
				Name: word.Draw(t, "function"), Domain: word.Draw(t, "domain"),
				Inputs: []string{"p"}, Outputs: []string{"q"},
				Attrs: list(t, "attrs", func(t *rapid.T) string { return word.Draw(t, "attr") }),
				Nodes: []*graph.Node{genNode(t, "p", "q")}, Opsets: list(t, "opsets", genOpset), Extra: extra.Draw(t, "extra"),
			}
		}),
	}
	in := genValue(t)
	in.Name = "x"
	m.Graph.Inputs = []graph.Value{in}
	w := genTensor(t)
	w.Name = "w"
	m.Graph.Inits = []*graph.Tensor{w}
	last := "x"
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		next := string(rune('k' + i))
		m.Graph.Nodes = append(m.Graph.Nodes, genNode(t, last, next))
		last = next
	}
	out := genValue(t)
	out.Name = last
	m.Graph.Outputs = []graph.Value{out}
	return m
}

func genOpset(t *rapid.T) graph.Opset {
	return graph.Opset{Domain: word.Draw(t, "domain"), Version: rapid.Int64Range(0, 25).Draw(t, "version")}
}

func genValue(t *rapid.T) graph.Value {
	v := graph.Value{Name: word.Draw(t, "value"), Extra: extra.Draw(t, "extra")}
	if rapid.Bool().Draw(t, "typed") {
		v.DType = graph.DType(rapid.Int32Range(1, 26).Draw(t, "dtype"))
		if rapid.Bool().Draw(t, "ranked") {
			v.Shape = append(graph.Shape{}, list(t, "dims", func(t *rapid.T) graph.Dim {
				if n := rapid.Int64Range(-1, 5).Draw(t, "dim"); n >= 0 {
					return graph.Dim{Size: n}
				}
				return graph.Dim{Size: -1, Param: word.Draw(t, "param")}
			})...)
		}
	}
	return v
}

func genNode(t *rapid.T, in, out string) *graph.Node {
	return &graph.Node{
		Name: word.Draw(t, "node"), Op: "Op", Domain: word.Draw(t, "domain"),
		Extra:  extra.Draw(t, "extra"),
		Inputs: []string{in, ""}, Outputs: []string{"", out}, Attrs: list(t, "attrs", genAttr),
	}
}

func genAttr(t *rapid.T) graph.Attr {
	a := graph.Attr{
		Name: word.Draw(t, "attr"), Kind: graph.AttrKind(rapid.Int32Range(1, 14).Draw(t, "kind")),
		Extra: extra.Draw(t, "extra"),
	}
	if rapid.IntRange(0, 4).Draw(t, "ref") == 0 {
		a.Ref = "outer"
		return a
	}
	switch a.Kind {
	case graph.AttrFloat:
		a.F = rapid.SampledFrom([]float32{0, 1, -.5, float32(math.Inf(1))}).Draw(t, "f")
	case graph.AttrInt:
		a.I = rapid.Int64().Draw(t, "i")
	case graph.AttrString:
		a.S = append([]byte{}, word.Draw(t, "s")...)
	case graph.AttrTensor:
		a.T = genTensor(t)
	case graph.AttrFloats:
		a.Floats = list(t, "floats", func(t *rapid.T) float32 { return rapid.Float32().Draw(t, "f") })
	case graph.AttrInts:
		a.Ints = list(t, "ints", func(t *rapid.T) int64 { return rapid.Int64().Draw(t, "i") })
	case graph.AttrStrings:
		a.Strings = list(t, "strings", func(t *rapid.T) []byte { return append([]byte{}, word.Draw(t, "s")...) })
	}
	return a
}

func genTensor(t *rapid.T) *graph.Tensor {
	w := &graph.Tensor{
		Name: word.Draw(t, "tensor"), DType: rapid.SampledFrom([]graph.DType{
			graph.Float, graph.Int64, graph.Int4,
			graph.Int2, graph.Bool, graph.String,
		}).Draw(t, "dtype"),
		Dims: list(t, "dims", func(t *rapid.T) int64 { return rapid.Int64Range(0, 3).Draw(t, "dim") }), Doc: word.Draw(t,
			"doc"), Extra: extra.Draw(t, "extra"),
	}
	if w.DType == graph.String {
		for range w.Len() {
			w.Strings = append(w.Strings, append([]byte{}, word.Draw(t, "element")...))
		}
		return w
	}
	w.Raw = rapid.SliceOfN(rapid.Byte(), w.DType.RawSize(w.Len()), w.DType.RawSize(w.Len())).Draw(t, "raw")
	return w
}

// TestRealFiles: what PyTorch wrote is written back byte by byte.
func TestRealFiles(t *testing.T) {
	dir := realdata.Dir(t, "models")
	paths := must.Get(filepath.Glob(filepath.Join(dir, "*", "*.onnx")))(t)
	if len(paths) == 0 {
		t.Fatalf("no models in %s", dir)
	}
	for _, path := range paths {
		got := must.Get(codec.Marshal(must.Get(codec.ReadFile(path))(t)))(t)
		if want, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", path)
		}
	}
}

func TestMarshalRefusesDamage(t *testing.T) {
	m := read(t, linear())
	m.Graph.Extra = []byte{0xff}
	must.Fail(t, must.Err(codec.Marshal(m)), "graph: extra fields")
}
