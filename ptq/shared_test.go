package ptq

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/ptq/taskmodel"
	"cfq/recourse/constraint"
	"cfq/task"
)

func realPeople(t testing.TB, dir, name string) (*task.Task, *task.People) {
	t.Helper()
	tk, err := task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", name+".yaml"))
	must.Do(t, err)
	file := map[string]string{
		"adult": "adult.test.gz", "german": "german.data", "compas": "compas-scores-two-years.csv.gz",
		"bank": "bank-full.csv.gz", "default": "UCI_Credit_Card.csv.gz",
	}[name]
	var o task.ReadOptions
	if name != "adult" {
		if o.Only, err = task.LoadRows(filepath.Join(dir, "models", name, "split.json")); err != nil {
			t.Fatal(err)
		}
	}
	people := must.Get(task.Read(context.Background(), filepath.Join(dir, "data", name, file), tk, o))(t)
	return tk, people
}

// From the CSV to the logits of ONNX Runtime: every exported model gives the
// outputs that its exporter recorded.
func TestExpectedOutputs(t *testing.T) {
	t.Parallel()
	dir := realdata.Dir(t)
	files, err := filepath.Glob(filepath.Join(dir, "models", "*", "expected-*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no expected outputs: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if name != "german" && name != "compas" && !long() {
			continue
		}
		model := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "expected-"), ".csv")
		t.Run(name+"/"+model, func(t *testing.T) {
			tk, people := realPeople(t, dir, name)
			m := must.Get(codec.ReadFile(filepath.Join(filepath.Dir(file), model+".onnx")))(t)
			c := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
			defer c.Close()
			f := must.Get(os.Open(file))(t)
			defer f.Close()
			want := must.Get(csv.NewReader(f).ReadAll())(t)
			got, classes, err := c.Logits(context.Background(), people.X[:len(want)*tk.Dim()])
			must.Do(t, err)
			for i, row := range want {
				for j, text := range row {
					w := must.Get(strconv.ParseFloat(text, 64))(t)
					v := float64(got[i*classes+j])
					if len(row) == 1 { // a probability; the logit stands in front of the sigmoid
						v = 1 / (1 + math.Exp(-v))
					}
					must.Near(must.In(t, i, j), w, v, 1e-4)
				}
			}
		})
	}
}

// The main job on Adult: size, accuracy, kernels, and promises kept.
func TestAdult(t *testing.T) {
	needLong(t)
	t.Parallel()
	dir := realdata.Dir(t)
	tk, test := realPeople(t, dir, "adult")
	ctx := context.Background()
	train := must.Get(task.Read(ctx, filepath.Join(dir, "data", "adult", "adult.data.gz"), tk, task.ReadOptions{}))(t)
	path := filepath.Join(dir, "models", "adult", "mlp2-s0.onnx")
	m := must.Get(codec.ReadFile(path))(t)
	r := quantized(t, m, tk, train, mustRecipe(CFPTQ), Run{Workers: 2})
	if r.Bytes > 7500 {
		t.Errorf("%d bytes", r.Bytes)
	}
	for _, l := range r.Verified.Layers {
		if l.Kernel != "FusedGemm" && l.Kernel != "Gemm" {
			t.Errorf("layer %s runs as %s", l.Node, l.Kernel)
		}
	}
	q := must.Get(codec.Read(r.Model, ""))(t)
	f := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
	defer f.Close()
	g := must.Get(taskmodel.Open(loaded(t, q), tk, 2))(t)
	defer g.Close()
	set := must.Get(constraint.Compile(tk))(t)
	res := must.Get(eval.Compare(ctx, f, g, &eval.Batch{People: test, Set: set},
		eval.Options{Sample: 200, Seed: 1, Margins: []float64{0.1}}))(t)
	full, quantized := float64(res.Rate("accuracy_full").Value), float64(res.Rate("accuracy_quant").Value)
	if math.Abs(full-0.8577) > 5e-5 || math.Abs(full-quantized) > 0.005 {
		t.Errorf("accuracy %v, quantized %v; want 0.8577 and within 0.005 of it", full, quantized)
	}
	if vd, rvd := res.Margins[0].Rate("vd").Value, res.Margins[0].Rate("rvd").Value; vd > 0.05 || rvd > 0.05 {
		t.Errorf("VD(0.1) %v, RVD(0.1) %v", vd, rvd)
	}
}
