package codec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func outside(name string, n int64, entries ...string) []byte {
	b := cat(num(1, n), num(2, tUint8), str(8, name), num(14, 1))
	for i := 0; i < len(entries); i += 2 {
		b = append(b, msg(13, str(1, entries[i]), str(2, entries[i+1]))...)
	}
	return b
}

func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "sub", "w.bin"), []byte("0123456789"), 0o644))
	must.Do(t, os.Symlink("sub/w.bin", filepath.Join(dir, "link")))
	model := file(str(2, "g"),
		msg(5, outside("a", 4, "location", "sub/w.bin", "offset", "2", "length", "4", "checksum", "x")),
		msg(5, outside("b", 3, "location", "link", "offset", "7")),
		msg(5, outside("c", 4, "location", "sub/w.bin", "offset", "2")), // shared with a
		msg(5, outside("d", 0, "location", "sub/w.bin", "offset", "10")))
	path := filepath.Join(dir, "m.onnx")
	must.Do(t, os.WriteFile(path, model, 0o644))
	m := must.Get(codec.ReadFile(path))(t)
	for i, want := range []string{"2345", "789", "2345", ""} {
		if w := m.Graph.Inits[i]; string(w.Raw) != want || len(w.Extra) > 0 {
			t.Errorf("%s: %q, left over %q; want %q", w.Name, w.Raw, w.Extra, want)
		}
	}
	data := must.Get(codec.Marshal(m))(t)
	if _, err := codec.Read(data, ""); err != nil {
		t.Errorf("what was written is not inline: %v", err)
	}
	if _, err := codec.Read(model, ""); err == nil || !strings.Contains(err.Error(), "not read from a folder") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestExternalDataRefused(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "model")
	must.Do(t, os.Mkdir(dir, 0o755))
	secret := filepath.Join(top, "secret")
	for _, path := range []string{secret, filepath.Join(dir, "w")} {
		must.Do(t, os.WriteFile(path, []byte("0123456789"), 0o644))
	}
	must.Do(t, os.Symlink(secret, filepath.Join(dir, "absolute")))
	must.Do(t, os.Symlink("../secret", filepath.Join(dir, "relative")))
	must.Do(t, os.Symlink("..", filepath.Join(dir, "up")))
	for _, c := range []struct {
		tensor []byte
		want   string
	}{
		{outside("t", 4, "location", secret), "outside of the model's folder"},
		{outside("t", 4, "location", "../secret"), "outside of the model's folder"},
		{outside("t", 4, "location", "x/../../secret"), "outside of the model's folder"},
		{outside("t", 4, "location", "absolute"), "external data"},
		{outside("t", 4, "location", "relative"), "external data"},
		{outside("t", 4, "location", "up/secret"), "external data"},
		{outside("t", 4, "location", "."), "not a regular file"},
		{
			outside("t", 4, "location", "missing"),
			`initializer "t": external data file "missing" does not exist next to the model`,
		},
		{outside("t", 4), "no location"},
		{outside("t", 4, "location", "w", "offset", "-1"), `offset "-1"`},
		{outside("t", 4, "location", "w", "offset", "1e3"), `offset "1e3"`},
		{outside("t", 4, "location", "w", "offset", "7"), "beyond the end of w, which has 10 bytes"},
		{outside("t", 4, "location", "w", "offset", "9223372036854775807"), "beyond the end"},
		{outside("t", 4, "location", "w", "length", "3"), "takes 4 bytes, not 3"},
		{outside("t", 1<<40, "location", "w"), "beyond the end"},
		{outside("t", 1<<62, "location", "w"), "absurd shape"},
		{outside("t", -1, "location", "w"), "absurd shape"},
		{cat(outside("t", 4, "location", "w"), str(rawData, "1234")), "more than one place"},
	} {
		_, err := codec.Read(weights(c.tensor), dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `initializer "t"`) {
			t.Errorf("error %v, want one with %q that names the initializer", err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("one mistake, several errors: %v", err)
		}
	}
}

// TestExternalDataBomb: many tensors over the same small file do not add up.
func TestExternalDataBomb(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "w"), make([]byte, 1000), 0o644))
	var tensors [][]byte
	for i := range int64(100) {
		tensors = append(tensors, msg(5, outside(fmt.Sprint(i), 900, "location", "w", "offset", fmt.Sprint(i))))
	}
	if _, err := codec.Read(file(tensors...), dir); err == nil || !strings.Contains(err.Error(), "tensors overlap") {
		t.Errorf("error %.200v", err)
	}
}

func TestExternalAttribute(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "w"), []byte("abcd"), 0o644))
	attr := msg(5, str(1, "value"), num(20, 4), msg(5, outside("", 4, "location", "w")))
	m := must.Get(codec.Read(file(msg(1, str(2, "y"), str(4, "Constant"), attr)), dir))(t)
	if a := m.Graph.Nodes[0].Attr("value"); a == nil || a.Kind != graph.AttrTensor || string(a.T.Raw) != "abcd" {
		t.Errorf("attribute %+v", a)
	}
}

func TestExternalDataTooLarge(t *testing.T) {
	dir := t.TempDir()
	const n = 1 << 31
	must.Do(t, os.WriteFile(filepath.Join(dir, "w"), nil, 0o644))
	must.Do(t, os.Truncate(filepath.Join(dir, "w"), n)) // sparse
	path := filepath.Join(dir, "m.onnx")
	must.Do(t, os.WriteFile(path, file(str(2, "g"), msg(5, outside("a", n, "location", "w"))), 0o644))
	if _, err := codec.ReadFile(path); err == nil || !strings.Contains(err.Error(), "more than 2 GB of tensors") {
		t.Errorf("error %v", err)
	}
}

func TestExternalFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	must.Do(t, os.WriteFile(path, file(msg(5, outside("a", 4, "location", "w.bin", "offset", "0")),
		msg(5, outside("b", 4, "location", "w.bin")), msg(5, outside("c", 4, "location", "sub/v.bin")), msg(5, str(8, "d"))),
		0o600))
	want := []string{filepath.Join(dir, "sub", "v.bin"), filepath.Join(dir, "w.bin")}
	if got := codec.ExternalFiles(path); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := codec.ExternalFiles(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("of no file: %q", got)
	}
}
