package codec_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
)

func linear() []byte {
	value := func(name string, dims ...[]byte) []byte {
		return cat(str(1, name), msg(2, msg(1, num(1, tFloat), msg(2, dims...))))
	}
	return file(msg(1, str(1, "x"), str(1, "w"), str(2, "y"), str(3, "mm"), str(4, "MatMul")), str(2, "linear"), msg(5,
		num(1, 2), num(1, 1), num(2, tFloat), str(8, "w"), float32s(floatData, 3, 4)), msg(11, value("x", msg(1, str(2, "N")),
		msg(1, num(1, 2)))), msg(12, value("y", msg(1, num(1, -1)), msg(1))))
}

func TestRead(t *testing.T) {
	m := must.Get(codec.Read(linear(), ""))(t)
	must.Same(t, &graph.Model{IRVersion: 8, Opsets: m.Opsets, Graph: &graph.Graph{
		Name:    "linear",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: graph.Shape{{Size: -1}, {Size: -1}}}},
		Inits:   []*graph.Tensor{graph.FromFloats("w", []float32{3, 4}, 2, 1)},
		Nodes:   []*graph.Node{{Name: "mm", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}},
	}}, m)
	must.Same(t, 17, m.Opset(""))
}

func TestReadRefuses(t *testing.T) {
	good := linear()
	for _, c := range []struct {
		name string
		data string
		want string
	}{
		{"empty", "", "the file is empty"},
		{"text", "age,color\n38,bl\xe4u\n", "the file is text, not an ONNX model"},
		{"git lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "git lfs pull"},
		{"html", "\n<!DOCTYPE html><html><body>404</body></html>", "HTML page"},
		{"json", "{\"error\": \"não encontrado\"}", "not an ONNX model"},
		{"white space", "\n \n", "not an ONNX model"},
		{"zip", "PK\x03\x04 and so on", "zip archive"},
		{"gzip", "\x1f\x8b\x08\x00\x00", "gzip"},
		{"ort", "\x30\x00\x00\x00ORTM\x00\x00", ".ort"},
		{"noise", "\xff\xfe\x00\x01\x02\xff\xff\xff\xff\xff\xff", "not an ONNX model"},
		{"no graph", string(cat(num(1, 8), msg(8, num(2, 17)))), "holds no graph"},
		{"no IR version", string(cat(msg(8, num(2, 17)), msg(7))), "no IR version"},
		{"no operator set", string(cat(num(1, 8), msg(7))), "no operator set"},
		{"graph of noise", string(cat(num(1, 8), msg(8, num(2, 17)), str(7, "\x0a\xff\xff\x01"))), "graph"},
		{"cyclic", string(file(msg(1, str(1, "b"), str(2, "a"), str(4, "Relu")),
			msg(1, str(1, "a"), str(2, "b"), str(4, "Relu")))), `or in a cycle`},
		{
			"dangling", string(file(msg(1, str(1, "gone"), str(2, "a"), str(3, "act"), str(4, "Relu")))),
			`Relu node "act" uses "gone"`,
		},
		{
			"output twice", string(file(msg(1, str(2, "a"), str(4, "C")), msg(1, str(2, "a"), str(4, "C")))),
			`defines "a", which is defined already`,
		},
		{"initializer twice", string(file(msg(5, num(2, 1), num(1, 0), str(8, "w")),
			msg(5, num(2, 1), num(1, 0), str(8, "w")))), `initializer "w" is defined twice`},
		{"no operator", string(file(msg(1, str(2, "a"), str(3, "n")))), `node "n": has no operator`},
		{"attribute tensor", string(file(msg(1, str(2, "a"), str(4, "Constant"),
			msg(5, str(1, "value"), num(20, 4), msg(5, num(1, 2),
				num(2, tFloat)))))), `Constant node "a": attribute "value": tensor`},
		{"attribute without tensor", string(file(msg(1, str(2, "a"), str(4, "Constant"),
			msg(5, str(1, "value"), num(20, 4))))), `attribute "value": has no tensor`},
		{"function", string(cat(good, msg(25, str(1, "F"), str(4, "p"), str(5, "q"),
			msg(7, str(1, "r"), str(2, "q"), str(4, "Relu"))))), `function "F": Relu node "q" uses "r"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			must.Fail(t, must.Err(codec.Read([]byte(c.data), "")), c.want)
		})
	}
}

func TestTruncated(t *testing.T) {
	good := linear()
	for n := range good {
		_, err := codec.Read(good[:n], "")
		if err == nil {
			t.Fatalf("%d of %d bytes are accepted", n, len(good))
		}
		if n > 20 && !strings.Contains(err.Error(), "truncated") {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
}

func TestReadFileRefuses(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.onnx")
	must.Do(t, os.WriteFile(huge, nil, 0o644))
	must.Do(t, os.Truncate(huge, 1<<31)) // sparse
	bad := filepath.Join(dir, "bad.onnx")
	must.Do(t, os.WriteFile(bad, linear()[:60], 0o644))
	for path, want := range map[string]string{
		dir:                        "is a directory",
		filepath.Join(dir, "none"): "no such file",
		huge:                       "more than 2 GB",
		os.DevNull:                 "not a regular file",
		bad:                        "bad.onnx: the file holds no graph that can be read: it is truncated",
	} {
		must.Fail(t, must.Err(codec.ReadFile(path)), want)
	}
}

func TestTooMany(t *testing.T) {
	for name, body := range map[string][]byte{
		"nodes":      bytes.Repeat([]byte{0x0a, 0}, 3<<20),
		"attributes": msg(1, str(4, "Op"), bytes.Repeat([]byte{0x2a, 0}, 3<<20)),
	} {
		must.Fail(must.In(t, name), must.Err(codec.Read(file(body), "")), "more than 2097152")
	}
}

func TestOldInputs(t *testing.T) {
	value := msg(2, msg(1, num(1, tFloat)))
	data := cat(num(1, 3), msg(8, num(2, 9)), msg(7, msg(1, str(1, "x"), str(1, "w"), str(2, "y"), str(4, "Mul")), msg(5,
		num(1, 1), num(2, tFloat), str(8, "w"), float32s(floatData, 3)), msg(11, str(1, "x"), value), msg(11, str(1, "w"),
		value), msg(12, str(1, "y"), value)))
	m := must.Get(codec.Read(data, ""))(t)
	if in := m.Graph.DataInputs(); len(m.Graph.Inputs) != 2 || len(in) != 1 || in[0].Name != "x" {
		t.Errorf("inputs %v, of data %v", m.Graph.Inputs, in)
	}
	must.Do(t, pass.Upgrade(m, nil))
	if len(m.Graph.Inputs) != 1 || m.IRVersion != 10 || m.Opset("") != 21 {
		t.Errorf("after the upgrade: %+v", m)
	}
}

func TestSparseInitializersAreNamed(t *testing.T) {
	values := msg(1, num(1, 2), num(2, 1), str(8, "s"), float32s(4, 5, 7))
	body := cat(values, msg(2, num(1, 2), num(2, 7), packed(7, 1, 5)))
	err := must.Err(codec.Read(file(str(2, "g"), msg(15, body)), ""))
	must.Fail(t, err, `initializer "s" is sparse: export the model with dense weights`)
}
