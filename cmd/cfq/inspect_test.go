package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/cli"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

func TestInspectNotImplemented(t *testing.T) {
	lib := orttest.Need(t).Lib
	g := &graph.Graph{Name: "test"}
	for _, at := range []*[]graph.Value{&g.Inputs, &g.Outputs} {
		*at = []graph.Value{{Name: "x", DType: graph.Double, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}}
	}
	g.Outputs[0].Name = "y"
	b := graph.NewBuilder(g, "t_")
	b.Append(&graph.Node{Op: "Acosh", Inputs: []string{"x"}, Outputs: []string{"curved"}})
	weights := graph.FromNumbers("w", graph.Double, []float32{1, 2, 3, 4}, 2, 2)
	g.Inits = append(g.Inits, weights)
	b.Append(&graph.Node{Op: "MatMul", Inputs: []string{"curved", "w"}, Outputs: []string{"y"}})
	data := must.Get(codec.Marshal(&graph.Model{IRVersion: 9, Opsets: []graph.Opset{{Version: 18}}, Graph: g}))(t)
	path := filepath.Join(t.TempDir(), "model.onnx")
	must.Do(t, os.WriteFile(path, data, 0o600))
	var out bytes.Buffer
	args := []string{"inspect", path, "--ort-lib", lib}
	must.Do(t, dispatch(t.Context(), args, &out, &cli.Printer{Out: io.Discard}))
	want := "it cannot be quantized: ONNX Runtime does not implement an operator for the types it has here: Acosh"
	if !strings.Contains(out.String(), want) {
		t.Errorf("%q is not in\n%s", want, out.String())
	}
}
