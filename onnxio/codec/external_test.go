package codec_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
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
	must.Get(codec.Read(data, ""))(t)
	must.Fail(t, must.Err(codec.Read(model, "")), "not read from a folder")
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
	must.Fail(t, must.Err(codec.Read(file(tensors...), dir)), "tensors overlap")
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
	must.Fail(t, must.Err(codec.ReadFile(path)), "more than 2 GB of tensors")
}

func TestDigest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	write := func(name string, data []byte) { must.Do(t, os.WriteFile(filepath.Join(dir, name), data, 0o600)) }
	digest := func(model []byte) (int64, string) {
		write("m.onnx", model)
		size, sum, err := codec.Digest(path)
		must.Do(t, err)
		return size, sum
	}
	inline := file(msg(5, str(8, "a")))
	size, sum := digest(inline)
	must.Same(t, int64(len(inline)), size)
	must.Same(t, fmt.Sprintf("%x", sha256.Sum256(inline)), sum)
	stale := append(outside("a", 4, "location", "gone"), num(14, 0)...) // a location that no longer counts
	digest(file(msg(5, stale)))

	held := func(name string) []byte { return outside(name, 2, "location", "./"+name+".bin", "offset", "1") }
	attr := func(number protowire.Number, body []byte) []byte { return msg(1, msg(5, msg(number, body))) }
	model := cat(file(msg(5, held("a")), msg(5, outside("again", 1, "location", "a.bin")), attr(5, held("b")),
		attr(6, msg(5, held("c"))), attr(11, attr(10, held("d"))), msg(15, msg(1, held("e")), msg(2, held("f"))),
		attr(22, msg(1, held("g")))), msg(25, msg(7, msg(5, msg(5, held("h")))), msg(11, msg(5, held("i")))))
	names := strings.Split("abcdefghi", "")
	for _, name := range names {
		write(name+".bin", []byte("0123"))
	}
	size, sum = digest(model)
	must.Same(t, int64(len(model)+4*len(names)), size)
	seen := map[string]string{sum: "none"}
	for _, name := range names {
		write(name+".bin", []byte("0120"))
		if _, sum = digest(model); seen[sum] != "" {
			t.Errorf("%s.bin changed, and the digest is that of %s", name, seen[sum])
		}
		seen[sum] = name
	}
	must.Do(t, os.Remove(filepath.Join(dir, "b.bin")))
	_, _, err := codec.Digest(path)
	must.Fail(t, err, `external data file "b.bin" does not exist next to the model`)
}

func TestExternalFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	must.Do(t, os.WriteFile(path, file(msg(5, outside("a", 4, "location", "w.bin", "offset", "0")), msg(5, outside("b", 4,
		"location", "w.bin")), msg(5, outside("c", 4, "location", "sub/v.bin")), msg(5, str(8, "d"))), 0o600))
	want := []string{filepath.Join(dir, "sub", "v.bin"), filepath.Join(dir, "w.bin")}
	must.Same(t, want, codec.ExternalFiles(path))
	if got := codec.ExternalFiles(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("of no file: %q", got)
	}
}

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

// FuzzRead: no bytes make Read panic, take long or take memory out of
// proportion, and what it accepts is written and read back the same.
func FuzzRead(f *testing.F) {
	f.Add(linear())
	f.Add(linear()[:40])
	f.Add(cat(linear(), msg(25, str(1, "F"), str(4, "p"), str(5, "q"), msg(7, str(1, "p"), str(2, "q"), str(4, "Relu")))))
	f.Add(weights(num(1, 3), num(2, tInt4), packed(int32Data, 0x21, 0x0f), str(8, "w")))
	f.Add(weights(num(1, 1<<40), num(1, 1<<40), num(2, tFloat), str(8, "w")))
	f.Add(weights(outside("w", 4, "location", "../w", "offset", "1", "length", "4")))
	f.Add(file(msg(1, str(2, "a"), str(4, "Constant"),
		msg(5, str(1, "value"), num(20, 4), msg(5, num(2, tFloat), float32s(floatData, 1))))))
	f.Add(file(msg(11, str(1, "x"), msg(2, msg(1, num(1, 1), msg(2, msg(1, num(1, -5)), msg(1, str(3, "denotation")))),
		str(6, "IMAGE")))))
	f.Add(file(bytes.Repeat([]byte{0x0a, 0}, 500), bytes.Repeat([]byte{0x2a, 0}, 500)))
	f.Fuzz(func(t *testing.T, data []byte) {
		start, before := time.Now(), allocated()
		m, err := codec.Read(data, "")
		if used, limit := allocated()-before, uint64(1<<20+2000*len(data)); used > limit {
			t.Errorf("%d bytes of input took %d bytes of memory", len(data), used)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%d bytes of input took %v", len(data), took)
		}
		if err != nil {
			return
		}
		first := must.Get(codec.Marshal(m))(t)
		again := must.Get(codec.Read(first, ""))(t)
		if second, err := codec.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Errorf("written again, other bytes (%v)", err)
		}
		_ = pass.Upgrade(again, nil)
	})
}

// allocated is the number of bytes that the process has allocated so far. Unlike
// runtime.ReadMemStats it does not stop all goroutines, which took half of the fuzzer's time.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
