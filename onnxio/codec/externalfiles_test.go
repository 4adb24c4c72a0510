package codec

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"cfq/internal/must"
	"cfq/internal/onnxpb"
)

func TestExternalFiles(t *testing.T) {
	dir := t.TempDir()
	external := func(name, file string) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{
			Name: proto.String(name),
			ExternalData: []*onnxpb.StringStringEntryProto{
				{Key: proto.String("location"), Value: proto.String(file)},
				{Key: proto.String("offset"), Value: proto.String("0")},
			},
		}
	}
	data := must.Get(proto.Marshal(&onnxpb.ModelProto{Graph: &onnxpb.GraphProto{Initializer: []*onnxpb.TensorProto{
		external("a", "w.bin"), external("b", "w.bin"), external("c", "sub/v.bin"), {Name: proto.String("d")},
	}}}))(t)
	path := filepath.Join(dir, "m.onnx")
	must.Do(t, os.WriteFile(path, data, 0o600))
	want := []string{filepath.Join(dir, "sub", "v.bin"), filepath.Join(dir, "w.bin")}
	if got := ExternalFiles(path); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ExternalFiles(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("of no file: %q", got)
	}
}
