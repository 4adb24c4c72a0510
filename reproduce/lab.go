package reproduce

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cfq/internal/cli"
)

// Lab makes the files of tables in a folder: each by one command of cfq, and only when it is not there yet.
type Lab struct {
	Data, Out string // folders
	Seeds     int    // networks of each variant
	Sample    int    // people evaluated of each network, at most
	Workers   int    // commands at once
	// Version tells builds of cfq apart: files of another one are made again.
	Version string
	// Run runs a command line of cfq, which writes its result to stdout, and returns the seconds of the processor that it
	// took.
	Run func(ctx context.Context, args []string, stdout io.Writer) (float64, error)
	// Progress is told how many of the files are there; nil = nobody.
	Progress func(done, total int)

	mu     sync.Mutex
	steps  map[string]*labStep // by the files that they make
	hashes map[string]string
}

type measuredRow struct {
	Row
	steps []*labStep // that measure it, of each seed
}

// Measure runs what tables need. It returns their results, and all results: earlier ones of other tables, too. An error
// of a command leaves out what depends on it: the rest is measured, and the errors are returned together. Without
// results nothing was run.
func (l *Lab) Measure(ctx context.Context, tables []Table, earlier []Result) (measured, all []Result, err error) {
	rows, err := l.rows(ctx, tables)
	if rows == nil {
		return nil, nil, err
	}
	measured = []Result{}
	for i := range tables {
		measured = append(measured, l.results(&tables[i], rows[i])...)
	}
	return measured, merge(earlier, measured, tables), err
}

func (l *Lab) rows(ctx context.Context, tables []Table) ([][]measuredRow, error) {
	l.steps, l.hashes = map[string]*labStep{}, map[string]string{}
	if err := l.prepare(ctx, tables); err != nil {
		return nil, err
	}
	measured := make([][]measuredRow, len(tables))
	var all []*labStep
	for i, t := range tables {
		for _, r := range t.Rows {
			m := measuredRow{Row: r}
			for seed := range l.Seeds {
				x := l.measurement(&r.Variant, seed+1)
				if m.steps = append(m.steps, x); !slices.Contains(all, x) {
					all = append(all, x)
				}
			}
			measured[i] = append(measured[i], m)
		}
	}
	err := l.make(ctx, all)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return measured, err
}

// prepare writes the inputs of the commands, if all data are there: task files, and which rows are for tests.
func (l *Lab) prepare(ctx context.Context, tables []Table) error {
	var missing []string
	var rows []Row
	for _, t := range tables {
		rows = append(rows, t.Rows...)
	}
	for _, r := range rows {
		for _, line := range dataSet(r.Data).missing(l.Data) {
			if !slices.Contains(missing, line) {
				missing = append(missing, line)
			}
		}
	}
	if missing != nil {
		return cli.Wrap(fmt.Errorf("missing data:\n  %s", strings.Join(missing, "\n  ")),
			"put the files there, as they are published or gzipped")
	}
	written := map[string]bool{}
	for _, r := range rows {
		if err := l.inputs(ctx, &r.Variant, written); err != nil {
			return fmt.Errorf("%s: %w", dataSet(r.Data).Title, err)
		}
	}
	return nil
}

func (l *Lab) inputs(ctx context.Context, v *Variant, written map[string]bool) (err error) {
	d := dataSet(v.Data)
	write := func(file string, text func() ([]byte, error)) {
		if err != nil || written[file] {
			return
		}
		var content []byte
		if content, err = text(); err == nil {
			err = put(file, content)
		}
		written[file] = true
	}
	for _, form := range []string{"", v.Form} { // networks are trained, and rows drawn, by the task as it is
		write(l.task(d, form), func() ([]byte, error) { return taskOf(d.Name, form) })
	}
	path, among := l.data(d, cmp.Or(d.Test, d.Train)), ""
	if d.Test == "" {
		among = l.path(d, rowsFile)
		write(among, func() ([]byte, error) { return draw(ctx, path, l.task(d, ""), "", d.Rows) })
	}
	if n := l.most(v); v.Recourse != "" {
		write(l.sample(d, n), func() ([]byte, error) {
			return draw(ctx, path, l.task(d, ""), among, cmp.Or(n, math.MaxInt))
		})
	}
	return err
}

// most is the number of test rows of which actions are looked for, at most; 0 = all.
func (l *Lab) most(v *Variant) int {
	if v.Rows == 0 || l.Sample == 0 {
		return max(v.Rows, l.Sample)
	}
	return min(v.Rows, l.Sample)
}

// Files of an encoder and a decoder, and the name of both for the command that makes them; of test rows.
const (
	coderFile   = "coder.onnx"
	encoderFile = "coder.encoder.onnx"
	decoderFile = "coder.decoder.onnx"
	rowsFile    = "test-rows.json"
)

func (l *Lab) task(d *DataSet, form string) string {
	if form != "" {
		form = "-" + form
	}
	return l.path(d, "task"+form+".yaml")
}

func (l *Lab) sample(d *DataSet, n int) string { return l.path(d, fmt.Sprintf("test-rows-%d.json", n)) }

func (l *Lab) path(d *DataSet, name string) string { return filepath.Join(l.Out, d.Name, name) }

func (l *Lab) data(d *DataSet, name string) string {
	path, _ := d.file(l.Data, name)
	return path
}

// people are the flags that say whom a command reads.
func (l *Lab) people(d *DataSet, form string, train bool) []string {
	name, rows := cmp.Or(d.Test, d.Train), l.path(d, rowsFile)
	if train {
		name, rows = d.Train, "!"+rows
	}
	flags := []string{"-d", l.data(d, name), "-t", l.task(d, form)}
	if d.Test == "" {
		flags = append(flags, "--rows", rows)
	}
	return flags
}

// measurement evaluates a variant on the network of a seed, or looks for its actions.
func (l *Lab) measurement(v *Variant, seed int) *labStep {
	d := dataSet(v.Data)
	dir := l.path(d, filepath.Join(folder(v.Train), fmt.Sprintf("seed-%d", seed)))
	network := filepath.Join(dir, "model.onnx")
	l.step([]string{network}, d, "", "train", l.people(d, "", true), // it does not depend on the cost of an action
		strings.Fields(v.Train), []string{"--train-seed", fmt.Sprint(seed), "-o", network})
	if v.Recourse != "" {
		return l.actions(v, network)
	}
	if v.Form == inCodes { // networks of all seeds have the same encoder and decoder
		l.step([]string{l.path(d, encoderFile), l.path(d, decoderFile)}, d, "", "train", l.people(d, "", true),
			strings.Fields(d.Coder), []string{"-o", l.path(d, coderFile)})
	}
	dir = filepath.Join(dir, folder(v.Form, v.Quantize))
	quantized := filepath.Join(dir, "quantized.onnx")
	quantize := l.step([]string{quantized}, d, v.Form, "quantize", []string{network}, l.people(d, v.Form, true),
		strings.Fields(v.Quantize), []string{"--allow-larger", "--force", "-o", quantized})
	report := filepath.Join(dir, folder(fmt.Sprint(l.Sample), v.Eval), "eval.json")
	s := l.step([]string{report}, d, v.Form, "eval", []string{network, quantized}, l.people(d, v.Form, false),
		strings.Fields(v.Eval), []string{
			"--margins", fmt.Sprint(Margin), "--noise", "0", "--sample", fmt.Sprint(l.Sample), "--json",
		})
	s.timed = quantize
	return s
}

func (l *Lab) actions(v *Variant, network string) *labStep {
	d := dataSet(v.Data)
	flags := strings.Fields(v.Recourse)
	if d.Test != "" && strings.Contains(v.Recourse, "--robust") {
		flags = append(flags, "--calibration", l.data(d, d.Train))
	}
	if !strings.Contains(v.Recourse, "--margin") {
		flags = append(flags, "--margin", fmt.Sprint(Margin))
	}
	file := filepath.Join(filepath.Dir(network), folder(v.Form, v.Recourse, fmt.Sprint(l.most(v))), "recourse.json")
	return l.step([]string{file}, d, "", "recourse", []string{
		network, "-d", l.data(d, cmp.Or(d.Test, d.Train)), "-t", l.task(d, v.Form), "--rows", l.sample(d, l.most(v)),
	}, flags, []string{"--json"})
}

func folder(flags ...string) string {
	name := strings.NewReplacer("--", "", "/", "_", " ", "-", ":", "-", "*", "x").Replace(strings.Join(flags, " "))
	return strings.Trim(name, "-")
}
