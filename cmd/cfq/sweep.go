package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/task"
)

type sweepFlags struct {
	calibrationFlags

	test, testRows, out string
	methods             []string
	budgets, margins    []float64
	sample, restarts    int
	seed                uint64
	overwrite           bool
}

// The files of a sweep.
const (
	sweepPoints = "points.jsonl"
	sweepTable  = "curves.csv"
	sweepSVG    = "curves.svg"
)

func (f *sweepFlags) variables() variables {
	return f.calibrationFlags.variables().with(variables{
		"test": &f.test, "test-rows": &f.testRows, "output": &f.out, "methods": f.addMethods, "budgets": &f.budgets,
		"margin": &f.margins, "sample": &f.sample, "seed": &f.seed, "restarts": &f.restarts, "overwrite": &f.overwrite,
	})
}

func (f *sweepFlags) addMethods(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if known := ptq.MethodNames(); !slices.Contains(known, name) || slices.Contains(f.methods, name) {
			return fmt.Errorf("want %s, each once", message.Or(known))
		}
		f.methods = append(f.methods, name)
	}
	return nil
}

func (f *sweepFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	o := ptq.SweepOptions{Methods: f.methods, Budgets: f.budgets, Settings: f.set, Options: eval.Options{
		Margins: f.margins, Sample: f.sample, Seed: f.seed,
		Solver: recourse.SolveOptions{Restarts: f.restarts, Workers: e.workers}, Progress: e.progress(),
	}}
	common, err := o.Recipe(ptq.CFPTQ)
	if err != nil {
		return cli.Wrap(err, hintRecipe)
	}
	read := f.reading(&common, 1)
	in, err := f.peopleFlags.open(ctx, e, args, read)
	if err != nil {
		return err
	}
	test, err := readPeople(ctx, e, f.test, f.testRows, in.task, task.ReadOptions{})
	if err != nil {
		return err
	}
	log, err := f.openLog(e, args[0])
	if err != nil {
		return err
	}
	if n := len(log.points); n > 0 {
		e.msg.Note("%s: %s finished before", log.path, message.Count(n, "point"))
	}
	if o.Origin, err = f.origin(args[0], in.people, read.Seed); err != nil {
		return err
	}
	o.Done, o.Finished = log.points, log.add
	r, err := ptq.Sweep(ctx, in.files[0], in.task, in.people, test, o)
	if ctx.Err() != nil {
		e.msg.Warn("%s in %s; the same command goes on from there", message.Count(len(log.points), "point"), log.path)
	}
	if err != nil {
		return fmt.Errorf("model %s: %w", args[0], err)
	}
	warnLeftOut(r.LeftOut, args[0], e.msg.Warn)
	return f.write(e, log, r, common.Allocate.Cost)
}

func (f *sweepFlags) path(name string) string { return filepath.Join(f.out, name) }

func (f *sweepFlags) outputs() []string {
	return []string{f.path(sweepPoints), f.path(sweepTable), f.path(sweepSVG)}
}

func (f *sweepFlags) check(args []string) error {
	switch {
	case f.test == "" && f.testRows == "":
		return cli.Usagef("--test test.csv names rows that are not those of --data; --test-rows chooses rows of --data",
			"--test is missing")
	case f.test == "":
		f.test = f.data
	}
	made, err := outputFolder(f.out)
	if err != nil || !made {
		return err
	}
	return cli.Distinct(append(f.paths(args[0]), f.test, f.testRows), f.outputs())
}

// sweepLog is a file of JSON lines with the finished points of a sweep, behind a line of hashes of all that they
// depend on. It is written anew for each point, and so it is whole whenever a run is stopped.
type sweepLog struct {
	path   string
	inputs map[string]string
	points []ptq.SweepPoint
}

func (l *sweepLog) add(p ptq.SweepPoint) error {
	l.points = append(l.points, p)
	return l.write()
}

func (l *sweepLog) write() error {
	return cli.Write(l.path, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		err := enc.Encode(l.inputs)
		for _, p := range l.points {
			if p.Same != 0 {
				p.Measured = nil // that of the other budget
			}
			err = errors.Join(err, enc.Encode(p))
		}
		return err
	})
}

func (l *sweepLog) read(text []byte) error {
	dec, have := json.NewDecoder(bytes.NewReader(text)), map[string]string{}
	if dec.Decode(&have) != nil {
		return fmt.Errorf("%s: it is not the log of a sweep", l.path)
	}
	var other []string
	for _, key := range slices.Sorted(maps.Keys(l.inputs)) {
		if have[key] != l.inputs[key] {
			other = append(other, strings.ReplaceAll(key, "_", " "))
		}
	}
	if other != nil {
		return fmt.Errorf("%s: it is the log of a sweep with other inputs: %s", l.path, strings.Join(other, ", "))
	}
	for dec.More() {
		var p ptq.SweepPoint
		if err := dec.Decode(&p); err != nil {
			return fmt.Errorf("%s: point %d: %w", l.path, len(l.points)+1, err)
		}
		l.points = append(l.points, p)
	}
	return nil
}

// hashes names all that the points depend on. The program is in it because another one may give other points.
func (f *sweepFlags) hashes(e *env, model string) (map[string]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	lib, err := ort.Find(e.lib)
	if err != nil {
		return nil, err
	}
	only := func(rows string) string { return strings.TrimPrefix(rows, "!") }
	out := map[string]string{
		"onnx_runtime": fmt.Sprintf("%s, threads %d", lib.Version, e.threads),
		"options": fmt.Sprint(f.methods, f.budgets, f.set, f.margins, f.sample, f.seed, f.restarts, f.rows,
			f.testRows),
	}
	for key, paths := range map[string][]string{
		"program": {program}, "task": {f.task},
		"calibration_rows": {f.data, only(f.rows)}, "test_rows": {f.test, only(f.testRows)},
	} {
		for _, path := range paths {
			file, err := source(path)
			if err != nil {
				return nil, err
			}
			out[key] += file.SHA256
		}
	}
	_, out["model"], err = codec.Digest(model)
	return out, err
}

func (f *sweepFlags) openLog(e *env, model string) (*sweepLog, error) {
	if err := os.Mkdir(f.out, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, cli.Usagef("", "output: %w", err)
	}
	l := &sweepLog{path: f.path(sweepPoints)}
	text, err := os.ReadFile(l.path)
	begun := !errors.Is(err, fs.ErrNotExist)
	for _, path := range f.outputs() {
		if err := cli.Output(path, f.overwrite || begun); err != nil {
			return nil, err
		}
	}
	if l.inputs, err = f.hashes(e, model); err != nil {
		return nil, err
	}
	switch {
	case f.overwrite:
		return l, l.write()
	case begun:
		err = l.read(text)
	}
	return l, cli.Wrap(err, "name another folder behind -o; --overwrite begins anew in this one")
}

func (f *sweepFlags) write(e *env, log *sweepLog, r *ptq.SweepResult, cost string) error {
	v := newSweepView(r, cost)
	v.Files = strings.Join(f.outputs(), ", ")
	log.points = r.Points
	err := errors.Join(writeLog(f.path(sweepTable), "curves", v), cli.Write(f.path(sweepSVG), v.draw), log.write())
	if err != nil {
		return err
	}
	e.warn(v.warnings())
	return e.show(struct {
		Inputs map[string]string `json:"inputs"`
		*ptq.SweepResult
	}{log.inputs, r}, func(w *textView) { w.page("sweep", v) })
}

type sweepView struct {
	*ptq.SweepResult
	cost   string
	First  *eval.Result // of the points that were measured
	At     int          // the required margin that stands for all
	Margin float64      // its value
	Files  string
}

func newSweepView(r *ptq.SweepResult, cost string) *sweepView {
	v := &sweepView{SweepResult: r, cost: cost}
	fits := slices.IndexFunc(r.Points, func(p ptq.SweepPoint) bool { return p.Measured != nil })
	v.First = r.Points[fits].Measured // a sweep of which nothing fits is an error
	v.At = v.First.Headline()
	v.Margin = v.First.Margins[v.At].Margin // the same for all
	return v
}

// curveCells are those of a metric in curves.csv: its value, and of a share its bounds and counts. They are empty for a
// model that does not fit.
func curveCells(p *ptq.SweepPoint, at int, id string) string {
	m := metrics.Must(id)
	cells := []string{""}
	if m.Kind == metrics.Share && id != "accuracy_full" {
		cells = make([]string, 5)
	}
	if p.Unfit != "" {
		return strings.Join(cells, "\t")
	}
	x := p.Measured.Metric(&m, at)
	for i, number := range []eval.Float{x.Value, x.Lo, x.Hi}[:min(len(cells), 3)] {
		if number.Defined() {
			cells[i] = strconv.FormatFloat(float64(number), 'g', -1, 64)
		}
	}
	if len(cells) > 1 {
		cells[3], cells[4] = strconv.Itoa(x.Num), strconv.Itoa(x.N)
	}
	return strings.Join(cells, "\t")
}

func (v *sweepView) warnings() []string {
	var list []string
	for i := range v.Points {
		if p := &v.Points[i]; len(p.Problems) > 0 {
			list = append(list, fmt.Sprintf("%s at %g: quantize would not write this file: %s", p.Method, p.Budget,
				p.Problems[0]))
		}
	}
	for _, w := range v.First.Warnings {
		lacks := func(p ptq.SweepPoint) bool { return p.Unfit == "" && !slices.Contains(p.Measured.Warnings, w) }
		if !slices.ContainsFunc(v.Points, lacks) {
			list = append(list, w) // of the data, then
		}
	}
	return list
}

func (v *sweepView) draw(w io.Writer) error {
	budget := "budget, " + v.cost + " per weight"
	if v.cost == "bytes" || v.cost == "bops" {
		budget = "budget, bits per weight of " + v.cost
	}
	at, full := fmt.Sprintf("(%g)", v.Margin), float64(v.First.Rate("accuracy_full").Value)
	var charts []chart.Chart
	for _, c := range []struct {
		title, y, id string
		ends         bool // the interval of the accuracy is about other people, while all points are of the same ones
	}{
		{"VD" + at, "the original's promises that break", "vd", true},
		{"RVD" + at, "its own promises the original refuses", "rvd", true},
		{"CRG" + at, "more cost, ratio of sums", "crg.ratio_of_sums", false},
		{fmt.Sprintf("Accuracy (original %.4f)", full), "accuracy", "accuracy_quant", false},
	} {
		m := metrics.Must(c.id)
		for _, size := range []bool{false, true} {
			drawn := chart.Chart{Title: c.title + " over the budget", X: budget, Y: c.y}
			if size {
				drawn.Title, drawn.X = c.title+" over the size", "file size in bytes"
			}
			for i := range v.Points { // in the order of the methods
				p := &v.Points[i]
				if p.Unfit != "" || size && p.Same != 0 { // the same file
					continue
				}
				x, y, last := p.Budget, p.Measured.Metric(&m, v.At), len(drawn.Series)-1
				if size {
					x = float64(p.Bytes)
				}
				if last < 0 || drawn.Series[last].Name != p.Method {
					drawn.Series = append(drawn.Series, chart.Series{Name: p.Method})
					last++
				}
				s := &drawn.Series[last]
				s.X, s.Y = append(s.X, x), append(s.Y, float64(y.Value))
				if c.ends {
					s.Low, s.High = append(s.Low, float64(y.Lo)), append(s.High, float64(y.Hi))
				}
			}
			charts = append(charts, drawn)
		}
	}
	return chart.Draw(w, charts...)
}

// sweepPercent shows a share in percent, in five characters; the heading has the unit.
func sweepPercent(x eval.Float) string {
	percent := 100 * float64(x)
	switch s := fmt.Sprintf("%.1f", percent); {
	case !x.Defined():
		return "-"
	case s == "-0.0":
		return "0.0"
	case s == "100.0" || len(s) > len("-99.9"):
		return fmt.Sprintf("%.0f", percent)
	default:
		return s
	}
}
