// Command results measures on the real data sets and writes the tables of pages
// in docs/.
//
//	go run ./internal/tools/results -shared DIR [-page NAME]
//
// DIR holds data/ and models/ as described in docs/results.md. The numbers are
// those of the tool itself: cfq.Quantize writes each file, ONNX Runtime runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/renameio/v2"

	"cfq"
	"cfq/eval"
	"cfq/onnxio"
	"cfq/recourse"
	"cfq/task"
)

// page is a page of docs/ with tables between two marks.
type page struct {
	name   string
	tables func(ctx context.Context, w io.Writer, o settings) error
}

func pages() []page {
	return []page{
		{"results", results},
		{"robust", robust},
		{"gap", gap},
	}
}

// settings are the flags.
type settings struct {
	shared        string
	seeds, sample int
}

func main() {
	var o settings
	flag.StringVar(&o.shared, "shared", filepath.Join("..", "shared"), "folder that holds data/ and models/")
	only := flag.String("page", "results", "page of docs/ whose tables are replaced")
	flag.IntVar(&o.seeds, "seeds", 5, "models of each data set")
	flag.IntVar(&o.sample, "sample", 1000, "people evaluated of each model, at most")
	flag.Parse()
	if err := run(context.Background(), *only, o); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// dataset says where a data set's files are.
type dataset struct {
	name, title       string
	train, test, rows string // rows: the test rows of a single file
}

func datasets() []dataset {
	return []dataset{
		{name: "adult", title: "Adult", train: "adult.data.gz", test: "adult.test.gz"},
		{name: "german", title: "German", train: "german.data", test: "german.data", rows: "split.json"},
		{name: "compas", title: "COMPAS", train: "compas-scores-two-years.csv.gz", test: "compas-scores-two-years.csv.gz", rows: "split.json"},
	}
}

// variant is a row of the tables.
type variant struct {
	label string
	o     cfq.Options
}

func variants() []variant {
	var out []variant
	for _, scales := range []struct {
		label, scales string
	}{{"per tensor", cfq.ScaleTensor}, {"per channel", cfq.ScaleChannel}} {
		for _, v := range []variant{
			{"ptq, 8 bits", cfq.Options{Method: "ptq", Budget: 8}},
			{"ptq, 4 bits", cfq.Options{Method: "ptq", Budget: 4}},
			{"mixed-ptq, 4.0", cfq.Options{Method: "mixed-ptq", Budget: 4}},
			{"cf-ptq-calib, 4.0", cfq.Options{Method: "cf-ptq-calib", Budget: 4}},
			{"cf-ptq, 4.0", cfq.Options{Method: "cf-ptq", Budget: 4}},
			{"cf-ptq, 4.0, nearest rounding", cfq.Options{Method: "cf-ptq", Budget: 4, Rounding: cfq.RoundNearest}},
			{"cf-ptq, 4.0, paper's greedy rule", cfq.Options{Method: "cf-ptq", Budget: 4, Rounding: cfq.RoundNearest, Allocator: cfq.AllocatorPaper}},
		} {
			v.o.Scales = scales.scales
			v.label += ", " + scales.label
			out = append(out, v)
		}
	}
	return out
}

// run replaces the tables of a page.
func run(ctx context.Context, name string, o settings) error {
	for _, p := range pages() {
		if p.name != name {
			continue
		}
		out := filepath.Join("docs", name+".md")
		text, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		var tables bytes.Buffer
		if err := p.tables(ctx, &tables, o); err != nil {
			return err
		}
		begin, end := []byte("<!-- results: begin -->\n"), []byte("<!-- results: end -->")
		i, j := bytes.Index(text, begin), bytes.Index(text, end)
		if i < 0 || j < i {
			return fmt.Errorf("%s has no lines %q and %q", out, bytes.TrimSpace(begin), end)
		}
		i += len(begin)
		text = append(append(append([]byte{}, text[:i]...), tables.Bytes()...), text[j:]...)
		return renameio.WriteFile(out, text, 0o644)
	}
	return fmt.Errorf("there is no page %q", name)
}

// results writes the tables of the methods.
func results(ctx context.Context, w io.Writer, o settings) error {
	for _, d := range datasets() {
		rows, err := measure(ctx, o.shared, d, o.seeds, o.sample)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		write(w, d, rows, o.seeds)
	}
	return nil
}

// measure runs every variant on every model of a data set.
func measure(ctx context.Context, shared string, d dataset, seeds, sample int) ([]*row, error) {
	t, err := task.Load(filepath.Join("tasks", d.name+".yaml"))
	if err != nil {
		return nil, err
	}
	train, test, err := read(ctx, shared, d, t)
	if err != nil {
		return nil, err
	}
	rows := make([]*row, len(variants()))
	for seed := range seeds {
		path := filepath.Join(shared, "models", d.name, fmt.Sprintf("mlp2-s%d.onnx", seed))
		for i, v := range variants() {
			if rows[i] == nil {
				rows[i] = &row{label: v.label}
			}
			if err := one(ctx, path, t, train, test, v.o, sample, rows[i]); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", path, v.label, err)
			}
			fmt.Fprintf(os.Stderr, "results: %s, model %d of %d: %s\n", d.title, seed+1, seeds, v.label)
		}
	}
	return rows, nil
}

func read(ctx context.Context, shared string, d dataset, t *task.Task) (train, test *task.People, err error) {
	var inTrain, inTest task.ReadOptions
	if d.rows != "" {
		rows, err := task.LoadRows(filepath.Join(shared, "models", d.name, d.rows))
		if err != nil {
			return nil, nil, err
		}
		inTrain.Except, inTest.Only = rows, rows
	}
	train, err = task.Read(ctx, filepath.Join(shared, "data", d.name, d.train), t, inTrain)
	if err != nil {
		return nil, nil, err
	}
	test, err = task.Read(ctx, filepath.Join(shared, "data", d.name, d.test), t, inTest)
	return train, test, err
}

// one quantizes a model one way and adds what eval measures to r.
func one(ctx context.Context, path string, t *task.Task, train, test *task.People, o cfq.Options, sample int, r *row) (err error) {
	m, err := onnxio.ReadFile(path)
	if err != nil {
		return err
	}
	o.Workers = runtime.GOMAXPROCS(0)
	q, err := cfq.Quantize(ctx, m, t, train, o)
	if err != nil {
		return err
	}
	if len(q.Verified.Problems) > 0 {
		return fmt.Errorf("the written model is not what it should be: %v", q.Verified.Problems)
	}
	written, err := onnxio.Read(q.Model, "")
	if err != nil {
		return err
	}
	full, err := cfq.OpenFor(ctx, m, t, o.Engine, o.Workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.Close()) }()
	quantized, err := cfq.OpenFor(ctx, written, t, o.Engine, o.Workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, quantized.Close()) }()
	set, err := recourse.Compile(t)
	if err != nil {
		return err
	}
	res, err := eval.Compare(ctx, full, quantized, set, test, eval.Options{Sample: sample, Seed: 1, Workers: o.Workers})
	if err != nil {
		return err
	}
	r.add(q, res)
	return nil
}
