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
	steps  map[string]*labStep // by file
	hashes map[string]string
}

// MissingError says which files of the data sets are not there.
type MissingError struct{ Files []string }

func (e *MissingError) Error() string {
	return "missing data:\n  " + strings.Join(e.Files, "\n  ")
}

// Measured is what one row came to: an outcome for each seed, nil where a command failed, and the seconds of the
// processor that the command took.
type Measured struct {
	Row
	Outcomes []Outcome
	Seconds  []float64
}

// Measure runs what tables need and returns the rows of each. An error of a command leaves out what depends on it: the
// rest is measured, and the errors are returned together.
func (l *Lab) Measure(ctx context.Context, tables []Table) ([][]Measured, error) {
	l.steps, l.hashes = map[string]*labStep{}, map[string]string{}
	if err := l.prepare(ctx, tables); err != nil {
		return nil, err
	}
	measured := make([][]Measured, len(tables))
	var all []*labStep
	var finish []func()
	for i, t := range tables {
		for _, r := range t.Rows {
			m := Measured{Row: r, Outcomes: make([]Outcome, l.Seeds), Seconds: make([]float64, l.Seeds)}
			for seed := range l.Seeds {
				last, timed := l.measurement(r.Variant, seed+1)
				if !slices.Contains(all, last) {
					all = append(all, last)
				}
				finish = append(finish, func() { m.Outcomes[seed], m.Seconds[seed] = last.outcome, timed.seconds })
			}
			measured[i] = append(measured[i], m)
		}
	}
	err := l.make(ctx, all)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, f := range finish {
		f()
	}
	return measured, err
}

// prepare writes the inputs of the commands, if all data are there.
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
		return &MissingError{missing}
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
	path, _ := d.file(l.Data, cmp.Or(d.Test, d.Train))
	among := ""
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

func (l *Lab) people(d *DataSet, form string, train bool) (flags, from []string) {
	name := d.Train
	if !train {
		name = cmp.Or(d.Test, d.Train)
	}
	path, _ := d.file(l.Data, name)
	from = []string{path, l.task(d, form)}
	flags = []string{"-d", path, "-t", l.task(d, form)}
	for _, name := range d.Beside {
		path, _ := d.file(l.Data, name)
		from = append(from, path)
	}
	if form == inCodes {
		from = append(from, l.path(d, decoderFile)) // the encoder is a step
	}
	if d.Test == "" {
		rows := l.path(d, rowsFile)
		from = append(from, rows)
		if train {
			rows = "!" + rows
		}
		flags = append(flags, "--rows", rows)
	}
	return flags, from
}

// measurement is the step that evaluates a variant on the network of a seed, or looks for its actions, and the step of
// which the time counts: the one that quantizes, or looks for actions.
func (l *Lab) measurement(v Variant, seed int) (last, timed *labStep) {
	d := dataSet(v.Data)
	flags, from := l.people(d, "", true) // the network does not depend on the cost of an action
	dir := l.path(d, filepath.Join(folder(v.Train), fmt.Sprintf("seed-%d", seed)))
	network := &labStep{file: filepath.Join(dir, "model.onnx"), from: from}
	network.args = slices.Concat([]string{"train"}, flags, strings.Fields(v.Train),
		[]string{"--train-seed", fmt.Sprint(seed), "-o", network.file})
	network = l.once(network)
	if v.Recourse != "" {
		s := l.actions(&v, network)
		return s, s
	}
	needs := []*labStep{network}
	if v.Form == inCodes {
		needs = append(needs, l.coder(d))
	}

	flags, from = l.people(d, v.Form, true)
	dir = filepath.Join(dir, folder(v.Form, v.Quantize))
	quantized := &labStep{file: filepath.Join(dir, "quantized.onnx"), needs: needs, from: from}
	quantized.args = slices.Concat([]string{"quantize", network.file}, flags, strings.Fields(v.Quantize),
		[]string{"--allow-larger", "--force", "-o", quantized.file})
	quantized = l.once(quantized)

	flags, from = l.people(d, v.Form, false)
	dir = filepath.Join(dir, folder(fmt.Sprint(l.Sample), v.Eval))
	last = &labStep{
		file: filepath.Join(dir, "eval.json"), needs: append(needs, quantized), from: from, parse: readEvaluation,
	}
	last.args = slices.Concat([]string{"eval", network.file, quantized.file}, flags, strings.Fields(v.Eval), []string{
		"--margins", fmt.Sprint(Margin), "--noise", "0", "--sample", fmt.Sprint(l.Sample), "--json",
	})
	return l.once(last), quantized
}

// coder is the step that trains the encoder and the decoder of a data set. Networks of all seeds have the same.
func (l *Lab) coder(d *DataSet) *labStep {
	flags, from := l.people(d, "", true)
	return l.once(&labStep{
		file: l.path(d, encoderFile), also: []string{l.path(d, decoderFile)}, from: from,
		args: slices.Concat([]string{"train"}, flags, strings.Fields(d.Coder), []string{"-o", l.path(d, coderFile)}),
	})
}

func (l *Lab) actions(v *Variant, network *labStep) *labStep {
	d := dataSet(v.Data)
	people, _ := d.file(l.Data, cmp.Or(d.Test, d.Train))
	task, rows := l.task(d, v.Form), l.sample(d, l.most(v))
	from := []string{people, task, rows}
	args := slices.Concat([]string{"recourse", network.file, "-d", people, "-t", task, "--rows", rows},
		strings.Fields(v.Recourse))
	if d.Test != "" && strings.Contains(v.Recourse, "--robust") {
		calibration, _ := d.file(l.Data, d.Train)
		args, from = append(args, "--calibration", calibration), append(from, calibration)
	}
	if !strings.Contains(v.Recourse, "--margin") {
		args = append(args, "--margin", fmt.Sprint(Margin))
	}
	dir := folder(v.Form, v.Recourse, fmt.Sprint(l.most(v)))
	return l.once(&labStep{
		file: filepath.Join(filepath.Dir(network.file), dir, "recourse.json"), args: append(args, "--json"),
		needs: []*labStep{network}, from: from, parse: readActions,
	})
}

func (l *Lab) once(s *labStep) *labStep {
	if l.steps[s.file] == nil {
		l.steps[s.file] = s
	}
	return l.steps[s.file]
}

func folder(flags ...string) string {
	name := strings.NewReplacer("--", "", "/", "_", " ", "-", ":", "-", "*", "x").Replace(strings.Join(flags, " "))
	return strings.Trim(name, "-")
}
