package main

import (
	"bytes"
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

// TestRequired: a file whose look-up fails for what it does not know judges no person without a category.
func TestRequired(t *testing.T) {
	lib := orttest.Need(t).Lib
	for zeros, want := range map[int64]string{0: "people                2\n", 1: "people                3\n"} {
		dir := t.TempDir()
		g := &graph.Graph{Name: "test"}
		batch := graph.Dim{Size: -1, Param: "N"}
		g.Inputs = []graph.Value{
			{Name: "job", DType: graph.String, Shape: graph.Shape{batch, {Size: 1}}},
			{Name: "income", DType: graph.Float, Shape: graph.Shape{batch, {Size: 1}}},
		}
		b := graph.NewBuilder(g, "t_")
		b.Append(&graph.Node{
			Op: "OneHotEncoder", Domain: "ai.onnx.ml", Inputs: []string{"job"}, Outputs: []string{"codes"},
			Attrs: []graph.Attr{
				{Name: "cats_strings", Kind: graph.AttrStrings, Strings: [][]byte{[]byte("a"), []byte("b")}},
				graph.IntAttr("zeros", zeros),
			},
		})
		x := b.Op("Concat", []string{b.Op("Flatten", []string{"codes"}), "income"}, graph.IntAttr("axis", 1))
		y := b.Op("MatMul", []string{x, b.Const(graph.FromFloats("w", []float32{0, 1, 0, 2, -1, 1}, 3, 2))})
		g.Outputs = []graph.Value{{Name: y, DType: graph.Float, Shape: graph.Shape{batch, {Size: 2}}}}
		model, err := codec.Marshal(&graph.Model{
			IRVersion: 8, Opsets: []graph.Opset{{Version: 17}, {Domain: "ai.onnx.ml", Version: 3}}, Graph: g,
		})
		must.Do(t, err)
		for name, text := range map[string]string{
			"model.onnx": string(model), "people.csv": "job,income\na,1\nb,-3\n,-2\n",
			"task.yaml": "version: 1\ntarget: {index: 1, output: logits}\nfeatures:\n" +
				"  - {name: job, kind: onehot, values: [a, b]}\n  - {name: income, kind: numeric, bounds: [-9, 9]}\n",
		} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		var out, said bytes.Buffer
		err = dispatch(t.Context(), []string{
			"recourse", filepath.Join(dir, "model.onnx"), "-d", filepath.Join(dir, "people.csv"), "-t",
			filepath.Join(dir, "task.yaml"), "--ort-lib", lib,
		}, &out, &cli.Printer{Out: &said})
		const why = `line 4, column "job": the value is missing, and the model refuses that`
		if err != nil || !strings.Contains(out.String(), want) || strings.Contains(said.String(), why) != (zeros == 0) {
			t.Errorf("zeros %d: %v\n%s%s", zeros, err, out.String(), said.String())
		}
	}
}
