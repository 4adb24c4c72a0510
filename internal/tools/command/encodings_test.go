package command

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
	"cfq/task"
)

// encoded is how a training script made inputs of a field, and how a graph makes the loan model's inputs of these.
type encoded struct {
	of   func(field string) []float32
	undo func(b *graph.Builder, x string) string
}

func row(b *graph.Builder, v ...float32) string {
	return b.Const(graph.FromFloats("c", v, 1, int64(len(v))))
}

// affine is (value - mean) / std of a number that g standardises for the loan model, after a function of it.
func affine(f *task.Feature, mean, std float64, before func(float64) float64, inverse string) encoded {
	return encoded{
		func(s string) []float32 {
			v, _ := task.Number(s)
			return []float32{float32((before(v) - mean) / std)}
		},
		func(b *graph.Builder, x string) string {
			x = b.Op("Add", []string{b.Op("Mul", []string{x, row(b, float32(std))}), row(b, float32(mean))})
			shift := f.Number().Mean
			if inverse != "" {
				x, shift = b.Op(inverse, []string{x}), f.Number().Mean+1
			}
			return b.Op("Div", []string{b.Op("Sub", []string{x, row(b, float32(shift))}), row(b, float32(f.Number().Std))})
		},
	}
}

func same(v float64) float64 { return v }

// listed gives each value of a category inputs, which are apart from those of the others by 1 or more somewhere.
func listed(f *task.Feature, inputs func(i int) []float32) encoded {
	return encoded{
		func(s string) []float32 { return inputs(slices.Index(f.Values(), s)) },
		func(b *graph.Builder, x string) string {
			var hot []string
			for i := range f.Values() {
				away := b.Op("Abs", []string{b.Op("Sub", []string{x, row(b, inputs(i)...)})})
				away = b.Op("MatMul", []string{away, b.Const(graph.FromFloats("ones",
					slices.Repeat([]float32{1}, len(inputs(0))), int64(len(inputs(0))), 1))})
				hot = append(hot, b.Op("Relu", []string{b.Op("Sub", []string{row(b, 1), away})}))
			}
			return b.Op("Concat", hot, graph.IntAttr("axis", 1))
		},
	}
}

// binned is a one-hot of the bins between edges, of which the loan model gets the middle.
func binned(f *task.Feature, edges, middles []float64) encoded {
	at := func(s string) int {
		v, _ := task.Number(s)
		i := 0
		for i < len(edges) && v >= edges[i] {
			i++
		}
		return i
	}
	return encoded{
		func(s string) []float32 {
			x := make([]float32, len(middles))
			x[at(s)] = 1
			return x
		},
		func(b *graph.Builder, x string) string {
			w := make([]float32, len(middles))
			for i, v := range middles {
				w[i] = float32((v - f.Number().Mean) / f.Number().Std)
			}
			return b.Op("MatMul", []string{x, b.Const(graph.FromFloats("middles", w, int64(len(w)), 1))})
		},
	}
}

// encodingCase is an encoding of the loan data: how it differs from the loan model's own.
type encodingCase struct {
	name  string
	order func(features []task.Feature) []int              // nil: that of the loan model
	of    func(f *task.Feature, values []float64) *encoded // nil: the loan model's own
}

// moments are the mean and the standard deviation of a function of numbers.
func moments(v []float64, of func(float64) float64) (mean, std float64) {
	values := make([]float64, len(v))
	for i := range v {
		values[i] = of(v[i])
	}
	return stat.PopMeanStdDev(values, nil)
}

func percentile(sorted []float64, rank float64) float64 {
	at := rank * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-2)
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func encodings() []encodingCase {
	of := func(name string, make func(f *task.Feature, values []float64) encoded) func(*task.Feature, []float64) *encoded {
		return func(f *task.Feature, values []float64) *encoded {
			if f.Name != name {
				return nil
			}
			e := make(f, values)
			return &e
		}
	}
	numbers := func(make func(f *task.Feature, values []float64) encoded) func(*task.Feature, []float64) *encoded {
		return func(f *task.Feature, values []float64) *encoded {
			if f.Number() == nil {
				return nil
			}
			e := make(f, values)
			return &e
		}
	}
	one := func(n, i int) []float32 {
		x := make([]float32, n)
		if i >= 0 {
			x[i] = 1
		}
		return x
	}
	return []encodingCase{
		{name: "standardised, the order of the file"},
		{name: "categories first", order: func(all []task.Feature) (order []int) {
			for i := range all {
				if all[i].Number() == nil {
					order = append(order, i)
				}
			}
			for i := range all {
				if all[i].Number() != nil {
					order = append(order, i)
				}
			}
			return order
		}},
		{name: "raw numbers", of: numbers(func(f *task.Feature, _ []float64) encoded {
			return affine(f, 0, 1, same, "")
		})},
		{name: "numbers between 0 and 1", of: numbers(func(f *task.Feature, v []float64) encoded {
			return affine(f, v[0], v[len(v)-1]-v[0], same, "")
		})},
		{name: "log(1 + savings)", of: of("savings", func(f *task.Feature, v []float64) encoded {
			mean, std := moments(v, math.Log1p)
			return affine(f, mean, std, math.Log1p, "Exp")
		})},
		{name: "savings clipped at 1 and 99 %", of: of("savings", func(f *task.Feature, v []float64) encoded {
			low, high := percentile(v, 0.01), percentile(v, 0.99)
			clip := func(v float64) float64 { return min(max(v, low), high) }
			mean, std := moments(v, clip)
			return affine(f, mean, std, clip, "")
		})},
		{name: "income in five bins of equal size", of: of("income", func(f *task.Feature, v []float64) encoded {
			var edges, middles []float64
			for i := range 5 {
				middles = append(middles, percentile(v, (float64(i)+0.5)/5))
				if i > 0 {
					edges = append(edges, percentile(v, float64(i)/5))
				}
			}
			return binned(f, edges, middles)
		})},
		{name: "housing by its index", of: of("housing", func(f *task.Feature, _ []float64) encoded {
			sorted := slices.Sorted(slices.Values(f.Values()))
			return listed(f, func(i int) []float32 { return []float32{float32(slices.Index(sorted, f.Values()[i]))} })
		})},
		{name: "employment without the first value", of: of("employment", func(f *task.Feature, _ []float64) encoded {
			sorted := slices.Sorted(slices.Values(f.Values()))
			return listed(f, func(i int) []float32 { return one(4, slices.Index(sorted, f.Values()[i])-1) })
		})},
		{name: "guarantor as 1 for no", of: of("guarantor", func(*task.Feature, []float64) encoded {
			return encoded{
				func(s string) []float32 { return map[string][]float32{"no": {1}, "yes": {0}}[s] },
				func(b *graph.Builder, x string) string { return b.Op("Sub", []string{row(b, 1), x}) },
			}
		})},
		{name: "the cube of income", of: of("income", func(f *task.Feature, _ []float64) encoded {
			cube := func(v float64) float64 { return math.Pow((v-f.Number().Mean)/f.Number().Std, 3) }
			return encoded{
				func(s string) []float32 {
					v, _ := task.Number(s)
					return []float32{float32(cube(v))}
				},
				func(b *graph.Builder, x string) string { return b.Op("Tanh", []string{x}) },
			}
		})},
	}
}

// made returns the model behind an encoding and the inputs that the encoding makes of records.
func (c *encodingCase) made(m *graph.Model, t *task.Task, names []string, records [][]string) (
	*graph.Model, []float32,
) {
	order := make([]int, len(t.Features))
	for i := range order {
		order[i] = i
	}
	if c.order != nil {
		order = c.order(t.Features)
	}
	all := make([]encoded, len(t.Features))
	for i := range t.Features {
		f := &t.Features[i]
		var values []float64
		for _, rec := range records {
			if v, ok := task.Number(rec[slices.Index(names, f.Column)]); ok {
				values = append(values, v)
			}
		}
		slices.Sort(values)
		var e *encoded
		if c.of != nil {
			e = c.of(f, values)
		}
		if e == nil {
			e = &encoded{
				func(s string) []float32 {
					x := make([]float32, f.Width)
					if err := f.Encode(s, x); err != nil {
						panic(err)
					}
					return x
				},
				func(_ *graph.Builder, x string) string { return x },
			}
		}
		all[i] = *e
	}
	var x []float32
	for _, rec := range records {
		for _, i := range order {
			x = append(x, all[i].of(rec[slices.Index(names, t.Features[i].Column)])...)
		}
	}
	out := m.Clone()
	b := graph.NewBuilder(&graph.Graph{}, "undo.")
	parts, at := make([]string, len(all)), int64(0)
	for _, i := range order {
		first := records[0][slices.Index(names, t.Features[i].Column)]
		width := int64(len(all[i].of(first)))
		bound := func(v int64) string { return b.Const(graph.FromInts("at", []int64{v}, 1)) }
		parts[i] = all[i].undo(b, b.Op("Slice", []string{"encoded", bound(at), bound(at + width), bound(1)}))
		at += width
	}
	b.Op("Concat", parts, graph.IntAttr("axis", 1))
	in := &out.Graph.Inputs[0]
	b.G.Nodes[len(b.G.Nodes)-1].Outputs[0] = in.Name
	in.Name, in.Shape = "encoded", graph.Shape{in.Shape[0], {Size: at}}
	out.Graph.Nodes = slices.Concat(b.G.Nodes, out.Graph.Nodes)
	out.Graph.Inits = slices.Concat(out.Graph.Inits, b.G.Inits)
	return out, x
}

// differing is the share of rows that a model decides otherwise with a task file's encoding than with its owner's.
func differing(t *testing.T, m *graph.Model, path, data string, want []float32) string {
	t.Helper()
	ctx := context.Background()
	text, err := os.ReadFile(path)
	if err != nil {
		return "-"
	}
	tk, err := task.Parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	people, err := task.Read(ctx, data, tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := onnxio.FromGraph(ctx, m, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ptq.OpenFor(opened, tk, 1)
	if err != nil {
		return "does not fit"
	}
	defer c.Close()
	got, err := c.Margins(ctx, people.X)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, at := range people.Rows {
		if (got[i] > 0) != (want[at] > 0) {
			n++
		}
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(len(people.Rows)))
}

// Encodings of one data set: scores verify the encoding of the task file for the model that has it and for no other,
// and the gate knows which one that is.
func TestEncodings(t *testing.T) {
	orttest.Need(t)
	loans := filepath.Join("..", "..", "..", "testdata", "loans")
	data, err := filepath.Abs(filepath.Join(loans, "train.csv"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := codec.ReadFile(filepath.Join(loans, "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	tk, err := task.Load(filepath.Join(loans, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	var records [][]string
	for line := range strings.Lines(string(text)) {
		records = append(records, strings.Split(strings.TrimSpace(line), ","))
	}
	names, records := records[0], records[1:]
	own, err := os.ReadFile(filepath.Join(loans, "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table := fmt.Sprintf("%-36s %-14s %-10s %s\n", "encoding", "differ", "check", "gate")
	for _, c := range encodings() {
		model, x := c.made(m, tk, names, records)
		margins := scored(t, model, x)
		dir := t.TempDir()
		put := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file, err := codec.Marshal(model)
		if err != nil {
			t.Fatal(err)
		}
		put("model.onnx", string(file))
		model.Doc = "the same, as a file of its own" // quantization is not what is tested here
		if file, err = codec.Marshal(model); err != nil {
			t.Fatal(err)
		}
		put("quantized.onnx", string(file))
		scores := "row,score\n"
		for i := 0; i < 1000; i += 5 {
			scores += fmt.Sprintf("%d,%.8f\n", i, 1/(1+math.Exp(-float64(margins[i]))))
		}
		put("scores.csv", scores)
		put("rows.json", "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]")
		run := func(args ...string) (int, string) {
			cmd := exec.Command(filepath.Join(program, "cfq"), args...)
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput()
			return cmd.ProcessState.ExitCode(), string(out)
		}
		put("task.yaml", string(own))
		check, out := run("task", "check", "task.yaml", "model.onnx", "-d", data, "--scores", "scores.csv")
		verdict, says := run("gate", "model.onnx", "quantized.onnx", "-d", data, "-t", "task.yaml", "--rows", "rows.json",
			"--max-vd", "0.5", "--verified-encoding", "--looks-file", "none")
		differ := differing(t, model, filepath.Join(dir, "task.yaml"), data, margins)
		table += fmt.Sprintf("%-36s %-14s exit %-5d exit %d\n", c.name, differ, check, verdict)
		verified, same := check == 0 && verdict != 2, c.order == nil && c.of == nil
		if verified != same || (check == 0) != same || same && differ != "0.0 %" {
			t.Errorf("%s: %s rows differ, check exits with %d, gate with %d\n%s\n%s", c.name, differ, check, verdict, out,
				says)
		}
	}
	t.Logf("encodings\n%s", table)
}

// scored are the margins of class 1 that a model has for its own inputs.
func scored(t *testing.T, m *graph.Model, x []float32) []float32 {
	t.Helper()
	c, err := classifier.Open(context.Background(), m, ort.Options{}, classifier.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	margins, err := c.Margins(context.Background(), x)
	if err != nil {
		t.Fatal(err)
	}
	return margins
}
