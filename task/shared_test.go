package task

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"cfq/internal/must"
	"cfq/internal/onnxpb"
	"cfq/internal/realdata"
)

// published are the data sets with a task file, the file they are evaluated on, and the counts that their publishers
// state.
var published = []struct {
	name, data, split                     string
	people, favourable, failed, filteredN int
}{
	{"adult", "adult/adult.test.gz", "", 16281, 3846, 0, 0},
	{"german", "german/german.data", "german/split.json", 1000, 700, 0, 0},
	{"compas", "compas/compas-scores-two-years.csv.gz", "compas/split.json", 6172, -1, 0, 7214 - 6172},
	{"bank", "bank/bank-full.csv.gz", "bank/split.json", 45211, 5289, 0, 0},
	{"default", "default/UCI_Credit_Card.csv.gz", "default/split.json", 30000, 23364, 0, 0},
}

// The published data sets are read whole, and the rows that models were exported with give the logits recorded then.
func TestPublishedDataGivesTheModelsLogits(t *testing.T) {
	dir := realdata.Dir(t)
	for _, p := range published {
		t.Run(p.name, func(t *testing.T) {
			people := must.Get(Read(t.Context(), filepath.Join(dir, "data", p.data), load(t, p.name), ReadOptions{}))(t)
			favourable := 0
			for _, l := range people.Labels {
				if l == 1 {
					favourable++
				}
			}
			if people.N != p.people || people.Failed != p.failed || people.Filtered != p.filteredN || (p.favourable >= 0 &&
				favourable != p.favourable) {
				t.Errorf("%d people, %d favourable, %d failed, %d filtered; problems %v", people.N, favourable, people.Failed,
					people.Filtered, people.Problems)
			}
			if len(people.Notes)+len(people.Warnings) > 0 {
				t.Errorf("notes: %v, warnings: %v", people.Notes, people.Warnings)
			}
			if p.split != "" {
				rows := must.Get(LoadRows(filepath.Join(dir, "models", p.split)))(t)
				for i, row := range rows {
					at, ok := slices.BinarySearch(people.Rows, row)
					if rows[i] = at; !ok {
						t.Fatalf("row %d is not there", row)
					}
				}
				people = people.Subset(rows)
			}
			net := readMLP(t, filepath.Join(dir, "models", p.name, "mlp2-s0.onnx"))
			want := readMatrix(t, filepath.Join(dir, "models", p.name, "expected-mlp2-s0.csv"))
			for i, w := range want {
				got := net.run(people.X[i*people.Dim : (i+1)*people.Dim])
				for j := range w {
					must.Near(must.In(t, i, people.Lines[i]), w[j], got[j], 1e-4)
				}
			}
			if p.name != "adult" { // the accuracy of the others is published with another split
				return
			}
			right := 0
			for i := range people.N {
				z := net.run(people.X[i*people.Dim : (i+1)*people.Dim])
				if (z[1] > z[0]) == (people.Labels[i] == 1) {
					right++
				}
			}
			accuracy := float64(right) / float64(people.N)
			must.Near(t, 0.8577, accuracy, 5e-5)
		})
	}
}

func TestAdultTrainingDataHasTheFiguresOfItsTask(t *testing.T) {
	dir := realdata.Dir(t)
	task := load(t, "adult")
	path := filepath.Join(dir, "data", "adult", "adult.data.gz")
	people := must.Get(Read(context.Background(), path, task, ReadOptions{}))(t)
	must.Same(t, 32561, people.N)
	sums := make([]float64, people.Dim) // standardised on these rows: mean 0 in each numeric column
	for i, x := range people.X {
		sums[i%people.Dim] += float64(x)
	}
	for i := range 5 {
		if m := sums[i] / float64(people.N); math.Abs(m) > 1e-5 {
			t.Errorf("%s has mean %v", task.InputNames()[i], m)
		}
	}
	for i := range task.Features {
		c := task.Features[i].Category()
		if c == nil {
			continue
		}
		for j, s := range c.coding().Shares {
			must.Near(t, s, sums[task.Features[i].Offset+j]/float64(people.N), 1e-6)
		}
	}
}

func load(t *testing.T, name string) *Task {
	t.Helper()
	return must.Get(Load(filepath.Join("..", "reproduce", "testdata", "tasks", name+".yaml")))(t)
}

// mlp is a chain of Gemm layers with ReLU between them, evaluated in double precision: an opinion on the encoding that
// owes nothing to the rest of the project.
type mlp struct{ w, b [][]float64 }

func (m *mlp) run(x []float32) []float64 {
	in := make([]float64, len(x))
	for i, v := range x {
		in[i] = float64(v)
	}
	for l, w := range m.w {
		out := slices.Clone(m.b[l])
		for i := range out {
			for j, v := range in {
				out[i] += w[i*len(in)+j] * v
			}
			if l < len(m.w)-1 {
				out[i] = max(0, out[i])
			}
		}
		in = out
	}
	return in
}

// readMLP takes the initializers of an ONNX file, in order: weight [out, in], bias [out], and so on.
func readMLP(t *testing.T, path string) *mlp {
	t.Helper()
	var m mlp
	var file onnxpb.ModelProto
	must.Do(t, proto.Unmarshal(must.Get(os.ReadFile(path))(t), &file))
	for _, tensor := range file.Graph.Initializer {
		var values []float64
		for raw := tensor.RawData; len(raw) >= 4; raw = raw[4:] {
			values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
		if len(tensor.Dims) == 2 {
			m.w = append(m.w, values)
		} else {
			m.b = append(m.b, values)
		}
	}
	if len(m.w) == 0 || len(m.w) != len(m.b) {
		t.Fatalf("%s: %d weights and %d biases", path, len(m.w), len(m.b))
	}
	return &m
}

func readMatrix(t *testing.T, path string) [][]float64 {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close() //nolint:errcheck // read only
	recs := must.Get(csv.NewReader(f).ReadAll())(t)
	out := make([][]float64, len(recs))
	for i, r := range recs {
		for _, s := range r {
			out[i] = append(out[i], must.Get(strconv.ParseFloat(s, 64))(t))
		}
	}
	return out
}

func TestPublishedDataHasNoCounters(t *testing.T) {
	dir := realdata.Dir(t)
	for _, p := range published {
		if p.people > 10_000 && os.Getenv("CFQ_LONG") != "1" {
			continue
		}
		full := load(t, p.name)
		for _, features := range []int{len(full.Features), 2} {
			tk := *full
			tk.Features, tk.Data.Label = tk.Features[:features], ""
			people := must.Get(Read(t.Context(), filepath.Join(dir, "data", p.data), &tk, ReadOptions{Hash: true}))(t)
			e := NewEquality(people.OtherColumns)
			for i, content := range people.Content {
				e.Add(content, people.Others[i])
			}
			if i := e.counter(make([]bool, len(e.columns))); i >= 0 {
				t.Errorf("%s, %d features: column %s", p.name, features, people.OtherColumns[i])
			}
		}
	}
}
