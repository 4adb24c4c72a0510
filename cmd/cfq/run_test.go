package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cfq/internal/cli"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant/qdq"
)

// loans is a file of the synthetic example.
func loans(name string) string { return filepath.Join("..", "..", "testdata", "loans", name) }

// call runs a command line and returns what it wrote.
func call(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, said bytes.Buffer
	err = dispatch(ctx, args, &out, &cli.Printer{Out: &said})
	return out.String(), said.String(), err
}

func TestInterrupted(t *testing.T) {
	orttest.Need(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, model := filepath.Join(t.TempDir(), "report.json"), loans("model.onnx")
	stdout, _, err := call(ctx, "eval", model, model, "-d", loans("test.csv"), "-t", loans("task.yaml"), "--report",
		"json:"+out)
	if cli.Code(err) != cli.Interrupted || stdout != "" || exists(out) {
		t.Errorf("code %d (%v), stdout %q; a report: %v", cli.Code(err), err, stdout, exists(out))
	}
}

func TestInterruptedRecourse(t *testing.T) {
	orttest.Need(t)
	header, rows, _ := bytes.Cut(must.Get(os.ReadFile(loans("test.csv")))(t), []byte("\n"))
	data := filepath.Join(t.TempDir(), "people.csv")
	must.Do(t, os.WriteFile(data, append(append(header, '\n'), bytes.Repeat(rows, 200)...), 0o600))
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := make(chan bool, 1)
	go func() { // until the first batch has been written
		for ctx.Err() == nil {
			files, _ := filepath.Glob(filepath.Join(dir, ".cfq-*.tmp")) // it grows there until it takes its place
			for _, f := range files {
				if info, err := os.Stat(f); err == nil && info.Size() > 0 {
					began <- true
					cancel()
					return
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	stdout, _, err := call(ctx, "recourse", loans("model.onnx"), "-d", data, "-t", loans("task.yaml"), "-o",
		filepath.Join(dir, "promises.csv"))
	if cli.Code(err) != cli.Interrupted || stdout != "" || len(began) == 0 {
		t.Errorf("code %d (%v), stdout %q, began %d", cli.Code(err), err, stdout, len(began))
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

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
		model := must.Get(codec.Marshal(&graph.Model{
			IRVersion: 8, Opsets: []graph.Opset{{Version: 17}, {Domain: "ai.onnx.ml", Version: 3}}, Graph: g,
		}))(t)
		for name, text := range map[string]string{
			"model.onnx": string(model), "people.csv": "job,income\na,1\nb,-3\n,-2\n",
			"task.yaml": "version: 1\ntarget: {index: 1, output: logits}\nfeatures:\n" +
				"  - {name: job, kind: onehot, values: [a, b]}\n  - {name: income, kind: numeric, bounds: [-9, 9]}\n",
		} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		out, said, err := call(t.Context(), "recourse", filepath.Join(dir, "model.onnx"), "-d",
			filepath.Join(dir, "people.csv"), "-t", filepath.Join(dir, "task.yaml"), "--ort-lib", lib)
		const why = `line 4, column "job": the value is missing, and the model refuses that`
		if err != nil || !strings.Contains(out, want) || strings.Contains(said, why) != (zeros == 0) {
			t.Errorf("zeros %d: %v\n%s%s", zeros, err, out, said)
		}
	}
}

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
	out, _, err := call(t.Context(), "inspect", path, "--ort-lib", lib)
	must.Do(t, err)
	want := "quantize  it is a file that ONNX Runtime does not load (ONNX Runtime does not implement an operator for " +
		"the types " +
		"it has here: Acosh"
	must.Has(t, out, want)
}

func TestFixedLayersAreListed(t *testing.T) {
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
	m.Graph.Inputs = []graph.Value{{Name: "x", DType: graph.Double, Shape: graph.Fixed(1, 3)}}
	m.Graph.Inits = []*graph.Tensor{graph.FromNumbers("w", graph.Double, make([]float64, 6), 3, 2)}
	m.Graph.Nodes = []*graph.Node{{Name: "fc", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}}}
	m.Graph.Outputs = []graph.Value{{Name: "y", DType: graph.Double}}
	got := must.Get(qdq.Layers(m))(t)
	want := []qdq.LayerNote{{
		Node: "fc", Op: "MatMul", In: 3, Out: 2, Bits: 64, Container: "double",
		Note:      "stays in float: its weights are double, not float32",
		LayerRole: qdq.LayerRole{Columns: 3, Output: "y", Activation: 32, Fixed: "its weights are double, not float32"},
	}}
	want[0].Rows, want[0].Held = map[int]int{64: 2}, 64
	must.Same(t, want, got)
	// A subgraph has no canonical form: the layers are listed as they stand, with the error.
	branch := []graph.Attr{{Name: "then_branch", Kind: graph.AttrGraph}}
	m.Graph.Nodes = append(m.Graph.Nodes, &graph.Node{Name: "if", Op: "If", Attrs: branch})
	if got, err := qdq.Layers(m); err == nil || len(got) != 1 || got[0].Note != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Weights in a file next to the model are part of it in all that is recorded about it.
func TestExternalWeightsAreOfTheModel(t *testing.T) {
	lib := orttest.Need(t).Lib
	dir := t.TempDir()
	model, weights := filepath.Join(dir, "model.onnx"), filepath.Join(dir, "w.bin")
	m := must.Get(codec.ReadFile(loans("model.onnx")))(t)
	w := m.Graph.Inits[0]
	must.Do(t, os.WriteFile(weights, w.Raw, 0o600))
	w.Raw, w.Extra = nil, []byte("\x6a\x11\x0a\x08location\x12\x05w.bin\x70\x01")
	must.Do(t, os.WriteFile(model, must.Get(codec.Marshal(m))(t), 0o600))
	table, doc := filepath.Join(dir, "r.parquet"), filepath.Join(dir, "r.json")
	people := []string{model, loans("model.onnx"), "-d", loans("test.csv"), "-t", loans("task.yaml"), "--ort-lib", lib}
	_, _, err := call(t.Context(), append([]string{"eval", "--sample=5", "--records", table, "--report", "json:" + doc},
		people...)...)
	must.Do(t, err)
	made := must.Get(madeFrom(map[string]string{"model": model, "data": weights}))(t)

	raw := must.Get(os.ReadFile(weights))(t)
	raw[0] ^= 1
	must.Do(t, os.WriteFile(weights, raw, 0o600))
	now := must.Get(madeFrom(map[string]string{"model": model}))(t)
	if made["model"] == now["model"] {
		t.Error("the recipe does not tell the weights apart")
	}
	out, _, err := call(t.Context(), "inspect", model, "--json", "--ort-lib", lib)
	must.Do(t, err)
	must.Has(t, out, now["model"])
	_, _, err = call(t.Context(), "summarize", model, loans("model.onnx"), table, "-t", loans("task.yaml"),
		"--ort-lib", lib)
	must.Fail(t, err, "were not made with the files")
	args := []string{"gate", "--sample=5", "--max-vd", ".5", "--previous", doc, "--looks-file", "none"}
	_, _, err = call(t.Context(), append(args, people...)...)
	must.Fail(t, err, "its original is")
}

// BenchmarkStream measures rows as a stream and in a file, one worker each.
func BenchmarkStream(b *testing.B) {
	orttest.Need(b)
	data := loans("test.csv")
	rows := bytes.Count(must.Get(os.ReadFile(data))(b), []byte("\n")) - 1
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for name, flags := range map[string][]string{
		"file":   {"-d", data, "-o", filepath.Join(b.TempDir(), "promises.csv"), "--overwrite"},
		"stream": {"--stream"},
	} {
		b.Run(name, func(b *testing.B) {
			args := append([]string{"recourse", loans("model.onnx"), "-t", loans("task.yaml"), "--workers", "1"}, flags...)
			for range b.N {
				os.Stdin = must.Get(os.Open(data))(b)
				_, _, err := call(b.Context(), args...)
				must.Do(b, err)
				os.Stdin.Close()
			}
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
