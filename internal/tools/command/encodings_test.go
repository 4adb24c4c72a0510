package command

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
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

// encodingCase is an encoding of the loan data: how it differs from the loan model's own.
type encodingCase struct {
	name  string
	order func(features []task.Feature) []int              // nil: that of the loan model
	of    func(f *task.Feature, values []float64) *encoded // nil: the loan model's own
}

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
		{name: "housing by its index", of: of("housing", func(f *task.Feature, _ []float64) encoded {
			sorted := slices.Sorted(slices.Values(f.Values()))
			return listed(f, func(i int) []float32 { return []float32{float32(slices.Index(sorted, f.Values()[i]))} })
		})},
		{name: "guarantor as 1 for no", of: of("guarantor", func(*task.Feature, []float64) encoded {
			return encoded{
				func(s string) []float32 { return map[string][]float32{"no": {1}, "yes": {0}}[s] },
				func(b *graph.Builder, x string) string { return b.Op("Sub", []string{row(b, 1), x}) },
			}
		})},
	}
}

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

// Encodings of one data set: scores verify the encoding of the task file for the model that has it and for no other,
// and the gate knows which one that is.
func TestEncodings(t *testing.T) {
	m, tk := must.Get(codec.ReadFile(loans("model.onnx")))(t), must.Get(task.Load(loans("task.yaml")))(t)
	data, own := loans("train.csv"), must.Get(os.ReadFile(loans("task.yaml")))(t)
	records := must.Get(csv.NewReader(bytes.NewReader(must.Get(os.ReadFile(data))(t))).ReadAll())(t)
	names, records := records[0], records[1:]
	for i, c := range encodings() {
		if i%4 > 0 && !long() {
			continue
		}
		w := newWorkdir(t)
		model, x := c.made(m, tk, names, records)
		margins := scored(t, model, x)
		w.model("model.onnx", model)
		model.Doc = "the same, as a file of its own" // quantization is not what is tested here
		w.model("quantized.onnx", model)
		scores := "row,score\n"
		for i := 0; i < 1000; i += 5 {
			scores += fmt.Sprintf("%d,%.8f\n", i, 1/(1+math.Exp(-float64(margins[i]))))
		}
		w.put("scores.csv", []byte(scores))
		w.put("rows.json", []byte("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]"))
		w.put("task.yaml", own)
		check, out := w.run("task", "check", "task.yaml", "model.onnx", "-d", data, "--scores", "scores.csv")
		_, says := w.run("gate", "model.onnx", "quantized.onnx", "-d", data, "-t", "task.yaml", "--rows", "rows.json",
			"--max-vd", "0.5", "--looks-file", "none", "--sample", "3")
		same := c.order == nil && c.of == nil
		if (check == 0) != same || strings.Contains(says, "The encoding is verified") != same {
			t.Errorf("%s: check exits with %d\n%s\n%s", c.name, check, out, says)
		}
	}
}

func scored(t *testing.T, m *graph.Model, x []float32) []float32 {
	t.Helper()
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, ort.Options{}))(t)
	c := must.Get(classifier.New(loaded, classifier.Options{}))(t)
	defer c.Close()
	return must.Get(c.Margins(context.Background(), x))(t)
}
