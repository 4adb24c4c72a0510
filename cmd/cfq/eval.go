package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"cfq/classifier"
	"cfq/eval"
	"cfq/graph"
	"cfq/internal/cli"
	"cfq/onnxio"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/report"
	"cfq/task"
)

// evalFlags are the flags of eval.
type evalFlags struct {
	data, task, rows   string
	from, overrides    string
	margins            numbers
	sample             int
	seed               uint64
	restarts           int
	reports            []string
	records, overwrite bool
}

func evalCommand() command {
	return command{
		name:    "eval",
		args:    "FULL QUANTIZED -d DATA -t TASK",
		summary: "measure how much of a model's recourse its quantized version keeps",
		about: `
Runs both models in ONNX Runtime. For each person whom the full-precision model
refuses it finds the cheapest change that the task file allows and that this
model accepts with a required logit margin, and asks the quantized model (VD:
the share that it refuses), and the other way round (RVD). Beside these: cost
gaps, decisions on the people as they are, and the margin error, each with its
counts. docs/metrics.md defines them.

With --promises the promises of the full-precision model are those of a file, such as
cfq recourse writes, each at the margin that it has. A file with factual rows of
its own needs no --data.

Rows of the data that cannot be read are counted and reported, never dropped
in silence.`,
		examples: []string{
			"cfq eval model.onnx model.q.onnx -d test.csv -t task.yaml",
			"cfq eval model.onnx model.q.onnx -d test.csv -t task.yaml --margins 0,0.1,0.5 --report md:report.md",
			"cfq eval model.onnx model.q.onnx -d test.csv -t task.yaml --promises promises.csv",
			"cfq eval model.onnx model.q.onnx -d all.csv -t task.yaml --rows split.json --json > report.json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &evalFlags{}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "the people: a CSV `file`, also gzipped")
			fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVar(&f.from, "promises", "", fromHelp)
			fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
			fs.Var(&f.margins, "margins", "required logit `margins`, separated by commas; else 0,0.1,0.25,0.5 and the task's")
			fs.IntVar(&f.sample, "sample", 0, "evaluate a random sample of this many refused people; 0 takes all")
			fs.Uint64Var(&f.seed, "seed", 1, "seed of the sample and of the solver")
			fs.IntVar(&f.restarts, "restarts", 0, "random restarts of the solver; 0 is the solver's default")
			fs.StringArrayVar(&f.reports, "report", nil, "write a `report`: text:FILE, json:FILE or md:FILE; without :FILE to stdout in place of the text; may be repeated")
			fs.BoolVar(&f.records, "records", false, "put one record per person into JSON reports")
			fs.BoolVar(&f.overwrite, "overwrite", false, "replace reports that exist")
			return f.run
		},
	}
}

func (f *evalFlags) run(ctx context.Context, e *env, args []string) (err error) {
	if err := arguments("eval", args, "FULL", "QUANTIZED"); err != nil {
		return err
	}
	outputs, err := parseReports(f.reports, f.overwrite)
	if err != nil {
		return err
	}
	var paths []string
	for _, o := range outputs {
		if o.path != "" {
			paths = append(paths, o.path)
		}
	}
	inputs := append(onnxio.ExternalFiles(args[0]), onnxio.ExternalFiles(args[1])...)
	if err := cli.Distinct(append(inputs, args[0], args[1], f.data, f.task, f.rows, f.from, f.overrides), paths); err != nil {
		return err
	}
	if f.sample < 0 {
		return cli.Usagef("0 takes all", "--sample %d: there are no such people", f.sample)
	}
	t, err := readTask(f.task)
	if err != nil {
		return err
	}
	if len(f.margins) == 0 {
		f.margins = numbers{0, 0.1, 0.25, 0.5, t.Target.Margin}
	}
	set, err := actionSet(f.task, f.overrides, t)
	if err != nil {
		return err
	}
	var files [2]*graph.Model
	for i, path := range args {
		if files[i], err = readModel(path); err != nil {
			return err
		}
	}
	people, given, err := promised(ctx, e, f.data, f.rows, f.from, t)
	if err != nil {
		return err
	}
	who := set.of(people)
	set.warn(e)
	var models [2]*classifier.Model
	for i, path := range args {
		if models[i], err = openClassifier(ctx, e, path, files[i], t); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, models[i].Close()) }()
	}
	result, err := f.compare(ctx, e, models, who, people, given)
	if err != nil {
		return runError(err)
	}
	doc, err := f.document(args, files, result)
	if err != nil {
		return err
	}
	if given != nil {
		doc.Warnings = append(doc.Warnings, unused(f.from, given)...)
	}
	show := report.Text
	if e.json {
		show = report.JSON
	}
	for _, o := range outputs {
		if o.path == "" {
			show = o.write
			continue
		}
		if err := cli.Write(o.path, func(w io.Writer) error { return o.write(w, doc) }); err != nil {
			return err
		}
	}
	return show(e.stdout, doc)
}

func (f *evalFlags) compare(ctx context.Context, e *env, models [2]*classifier.Model, set *recourse.ActionSet, people *task.People, given *promise.File) (*eval.Result, error) {
	promises, _, err := chosen(ctx, e, models[0], set, given)
	if err != nil {
		return nil, err
	}
	return eval.Compare(ctx, models[0], models[1], set, people, eval.Options{
		Promises: promises,
		Margins:  f.margins, Sample: f.sample, Seed: f.seed, Workers: e.workers,
		Solver:   recourse.SolveOptions{Restarts: f.restarts},
		Progress: e.progress(),
	})
}

// numbers is a flag's list of numbers, shown as it is written.
type numbers []float64

func (n *numbers) Type() string { return "numbers" }

func (n *numbers) String() string {
	words := make([]string, len(*n))
	for i, v := range *n {
		words[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(words, ",")
}

// Set reads numbers that are finite and not negative.
func (n *numbers) Set(s string) error {
	var list numbers
	for word := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%q is not a number of 0 or more", word)
		}
		list = append(list, v)
	}
	*n = list
	return nil
}

// document adds to the result where it came from.
func (f *evalFlags) document(args []string, models [2]*graph.Model, result *eval.Result) (*report.Document, error) {
	var files [6]report.File
	for i, path := range []string{args[0], args[1], f.data, f.task, f.from, f.overrides} {
		if path == "" {
			continue
		}
		size, sum, err := fileHash(path)
		if err != nil {
			return nil, fmt.Errorf("hashing: %w", err)
		}
		files[i] = report.File{Name: filepath.Base(path), SHA256: sum, Bytes: size}
	}
	d := &report.Document{
		Title: fmt.Sprintf("%s against %s", files[1].Name, files[0].Name), Tool: "cfq " + release(),
		Full:      report.Model{File: files[0], WeightBits: weightBits(models[0])},
		Quantized: report.Model{File: files[1], WeightBits: weightBits(models[1])},
		Data:      files[2], Task: files[3], Promises: files[4], Overrides: files[5], Recipe: recipe(models[1]), Result: result,
	}
	if f.records {
		d.Records = result.Records
	}
	return d, nil
}

// view writes a report.
type view = func(io.Writer, *report.Document) error

// output is a report to be written to a file, or to stdout when path is "".
type output struct {
	path  string
	write view
}

// parseReports reads the values of --report and checks that they can be written.
func parseReports(specs []string, overwrite bool) ([]output, error) {
	views := map[string]view{"text": report.Text, "json": report.JSON, "md": report.Markdown}
	var outs []output
	for _, spec := range specs {
		kind, path, ok := strings.Cut(spec, ":")
		o := output{path: path, write: views[kind]}
		switch {
		case o.write == nil:
			hint := "the kinds are text, json and md, as in md:FILE"
			if s := cli.Suggest(kind, []string{"text", "json", "md"}); s != "" {
				hint = fmt.Sprintf("did you mean %s?", s)
			}
			return nil, cli.Usagef(hint, "--report %s: there is no report of the kind %q", spec, kind)
		case ok && path == "":
			return nil, cli.Usagef("as in "+kind+":FILE; without the colon it goes to stdout", "--report %s names no file", spec)
		case slices.ContainsFunc(outs, func(x output) bool { return x.path == path }):
			return nil, cli.Usagef("", "--report %s: that place is taken by another report", spec)
		}
		if path != "" {
			if err := cli.Output(path, overwrite); err != nil {
				return nil, err
			}
		}
		outs = append(outs, o)
	}
	return outs, nil
}
