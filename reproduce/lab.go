package reproduce

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"cfq/internal/cli"
)

// Lab makes the files of tables in a folder: each by one command of cfq, and only when it is not there yet.
type Lab struct {
	Data, Out string // folders
	Seeds     int    // networks of each variant
	Sample    int    // people evaluated of each network, at most
	Workers   int    // commands at once
	// Version tells builds of cfq apart: files of another one are made anew.
	Version string
	// Run runs a command line of cfq, which writes its result to stdout, and returns the seconds of the processor that it
	// took.
	Run func(ctx context.Context, args []string, stdout io.Writer) (float64, error)
	// Progress is told how many of the files are there; nil = nobody.
	Progress func(done, total int)

	mu    sync.Mutex
	steps map[string]*step // by file
	sums  map[string]string
}

// step is a file and the command that makes it.
type step struct {
	file  string
	args  []string // without file, which comes last, or nowhere when it is what the command writes to stdout
	needs []*step
	from  []string // further files that it is made from

	once    sync.Once
	seconds float64
	err     error
	needed  bool // err is that of a step that it needs
	outcome Outcome
}

// made is what is kept beside a file: what it was made by. It is right as long as all of that is the same.
type made struct {
	Version string            `json:"version"`
	Command string            `json:"command"`
	From    map[string]string `json:"from"` // hashes of files
	Sum     string            `json:"sum"`  // hash of the files themselves
	Seconds float64           `json:"seconds"`
}

// Names of files.
const (
	modelFile   = "model.onnx"
	quantFile   = "quantized.onnx"
	reportFile  = "eval.json"
	actionsFile = "recourse.json"
	madeSuffix  = ".made.json"
)

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
	l.steps, l.sums = map[string]*step{}, map[string]string{}
	if err := l.prepare(ctx, tables); err != nil {
		return nil, err
	}
	plan := make([][][]*step, len(tables)) // by table, row and seed
	var all []*step
	for i, t := range tables {
		plan[i] = make([][]*step, len(t.Rows))
		for k, r := range t.Rows {
			for seed := 1; seed <= l.Seeds; seed++ {
				s := l.evaluation(r.Variant, seed)
				plan[i][k] = append(plan[i][k], s)
				if !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
		}
	}
	err := l.make(ctx, all)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, s := range all {
		err = errors.Join(err, s.read())
	}
	measured := make([][]Measured, len(tables))
	for i, t := range tables {
		for k, r := range t.Rows {
			m := Measured{Row: r}
			for _, s := range plan[i][k] {
				m.Outcomes = append(m.Outcomes, s.outcome)
				m.Seconds = append(m.Seconds, s.timed().seconds)
			}
			measured[i] = append(measured[i], m)
		}
	}
	return measured, err
}

// prepare writes the tasks and test rows of the data sets that tables need.
func (l *Lab) prepare(ctx context.Context, tables []Table) error {
	var sets []DataSet
	acts := map[string][]int{} // by data set: of how many test rows actions are looked for, at most
	written := map[string][]byte{}
	for _, t := range tables {
		for _, r := range t.Rows {
			v := r.Variant
			if v.Recourse != nil && !slices.Contains(acts[v.Data], l.most(v)) {
				acts[v.Data] = append(acts[v.Data], l.most(v))
			}
			if !slices.ContainsFunc(sets, func(d DataSet) bool { return d.Name == v.Data }) {
				sets = append(sets, dataSet(v.Data))
			}
			for _, form := range []string{"", v.Form} { // networks are trained, and rows drawn, by the task as it is
				text, err := taskOf(v.Data, form)
				if err != nil {
					return err
				}
				written[l.task(v.Data, form)] = text
			}
		}
	}
	if lines := missing(l.Data, sets); lines != nil {
		return &MissingError{lines}
	}
	for path, text := range written {
		if err := put(path, text); err != nil {
			return err
		}
	}
	for _, d := range sets {
		if err := l.choose(ctx, d, acts[d.Name]); err != nil {
			return fmt.Errorf("%s: %w", d.Title, err)
		}
	}
	return nil
}

// choose writes the test rows of a data set of one file, and as many of them as actions are looked for.
func (l *Lab) choose(ctx context.Context, d DataSet, acts []int) error {
	file := l.task(d.Name, "")
	path, _ := d.file(l.Data, cmp.Or(d.Test, d.Train))
	var rows []byte
	var err error
	if d.Test == "" {
		if rows, err = draw(ctx, path, file, nil, d.Rows); err == nil {
			err = put(l.rows(d), rows)
		}
	}
	for _, n := range acts {
		var some []byte
		if err == nil {
			some, err = draw(ctx, path, file, rows, cmp.Or(n, math.MaxInt))
		}
		if err == nil {
			err = put(l.sample(d, n), some)
		}
	}
	return err
}

// most is of how many test rows actions are looked for, at most; 0 = all.
func (l *Lab) most(v Variant) int {
	if v.Rows == 0 || l.Sample == 0 {
		return max(v.Rows, l.Sample)
	}
	return min(v.Rows, l.Sample)
}

func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return cli.Write(path, func(w io.Writer) error { _, err := w.Write(text); return err })
}

func (l *Lab) task(data, form string) string {
	name := "task.yaml"
	if form != "" {
		name = "task-" + form + ".yaml"
	}
	return filepath.Join(l.Out, data, name)
}

func (l *Lab) rows(d DataSet) string { return filepath.Join(l.Out, d.Name, "test-rows.json") }

func (l *Lab) sample(d DataSet, n int) string {
	return filepath.Join(l.Out, d.Name, fmt.Sprintf("test-rows-%d.json", n))
}

// people are the flags that say which rows are read.
func (l *Lab) people(v Variant, train bool) (flags, from []string) {
	d := dataSet(v.Data)
	name := d.Train
	if !train && d.Test != "" {
		name = d.Test
	}
	path, _ := d.file(l.Data, name)
	flags, from = []string{"-d", path, "-t", l.task(v.Data, v.Form)}, []string{path, l.task(v.Data, v.Form)}
	for _, name := range d.Beside {
		path, _ := d.file(l.Data, name)
		from = append(from, path)
	}
	if v.Form == inCodes {
		from = append(from, filepath.Join(l.Out, v.Data, decoderFile)) // the encoder is a step
	}
	if d.Test == "" {
		rows := l.rows(d)
		from = append(from, rows)
		if train {
			rows = "!" + rows
		}
		flags = append(flags, "--rows", rows)
	}
	return flags, from
}

// evaluation is the step that evaluates a variant on the network of a seed, behind those that train and quantize it.
func (l *Lab) evaluation(v Variant, seed int) *step {
	task := Variant{Data: v.Data} // the network does not depend on the cost of an action
	flags, from := l.people(task, true)
	dir := filepath.Join(l.Out, v.Data, folder(v.Train), fmt.Sprintf("seed-%d", seed))
	network := l.step(filepath.Join(dir, modelFile), nil, from, slices.Concat([]string{"train"}, flags, v.Train,
		[]string{"--train-seed", fmt.Sprint(seed), "-o"}))
	if v.Recourse != nil {
		return l.actions(v, network)
	}
	needs := []*step{network}
	if v.Form == inCodes {
		needs = append(needs, l.coder(v.Data))
	}
	flags, from = l.people(v, true)
	dir = filepath.Join(dir, folder(slices.Concat(form(v), v.Quantize)))
	quantized := l.step(filepath.Join(dir, quantFile), needs, from, slices.Concat(
		[]string{"quantize", network.file}, flags, v.Quantize, []string{"--allow-larger", "--force", "-o"}))
	flags, from = l.people(v, false)
	dir = filepath.Join(dir, folder(slices.Concat([]string{fmt.Sprint(l.Sample)}, v.Eval)))
	return l.step(filepath.Join(dir, reportFile), slices.Insert(needs, 1, quantized), from, slices.Concat(
		[]string{"eval", network.file, quantized.file}, flags, v.Eval, []string{
			"--margins", fmt.Sprint(Margin), "--noise", "0", "--sample", fmt.Sprint(l.Sample), "--report",
		}))
}

// coder is the step that trains the encoder and the decoder of a data set. Networks of all seeds have the same.
func (l *Lab) coder(data string) *step {
	flags, from := l.people(Variant{Data: data}, true)
	return l.step(filepath.Join(l.Out, data, encoderFile), nil, from, slices.Concat([]string{"train"}, flags,
		dataSet(data).Coder, []string{"-o"}))
}

// actions is the step that looks for the actions of a network.
func (l *Lab) actions(v Variant, network *step) *step {
	d := dataSet(v.Data)
	people, _ := d.file(l.Data, cmp.Or(d.Test, d.Train))
	task, rows := l.task(v.Data, v.Form), l.sample(d, l.most(v))
	from := []string{people, task, rows}
	args := slices.Concat([]string{"recourse", network.file, "-d", people, "-t", task, "--rows", rows}, v.Recourse)
	if d.Test != "" && slices.Contains(v.Recourse, "--robust") {
		calibration, _ := d.file(l.Data, d.Train)
		args, from = append(args, "--calibration", calibration), append(from, calibration)
	}
	name := folder(slices.Concat(form(v), v.Recourse, []string{fmt.Sprint(l.most(v))}))
	if !slices.Contains(v.Recourse, "--margin") {
		args = append(args, "--margin", fmt.Sprint(Margin))
	}
	args = append(args, "--json")
	return l.step(filepath.Join(filepath.Dir(network.file), name, actionsFile), []*step{network}, from, args)
}

func form(v Variant) []string {
	if v.Form == "" {
		return nil
	}
	return []string{v.Form}
}

// folder is flags as the name of a folder.
func folder(flags []string) string {
	name := strings.NewReplacer("--", "", "/", "_", " ", "_", ":", "-", "*", "x").Replace(strings.Join(flags, "-"))
	return strings.Trim(name, "-")
}

// step is the one step that makes a file.
func (l *Lab) step(file string, needs []*step, from, args []string) *step {
	if l.steps[file] == nil {
		l.steps[file] = &step{file: file, args: args, needs: needs, from: from}
	}
	return l.steps[file]
}

// make makes files, several at once. It goes on where one fails.
func (l *Lab) make(ctx context.Context, all []*step) error {
	var g errgroup.Group
	g.SetLimit(max(l.Workers, 1))
	done := 0
	for _, s := range all {
		g.Go(func() error {
			_ = l.build(ctx, s) // told of below
			l.mu.Lock()
			defer l.mu.Unlock()
			if done++; l.Progress != nil {
				l.Progress(done, len(all))
			}
			return nil
		})
	}
	err := g.Wait()
	for _, file := range slices.Sorted(maps.Keys(l.steps)) {
		if s := l.steps[file]; s.err != nil && !s.needed {
			err = errors.Join(err, s.err)
		}
	}
	return err
}

// build makes the file of a step, and before it those that it needs, unless they are there.
func (l *Lab) build(ctx context.Context, s *step) error {
	s.once.Do(func() { s.err = l.now(ctx, s) })
	return s.err
}

func (l *Lab) now(ctx context.Context, s *step) error {
	from := slices.Clone(s.from)
	for _, n := range s.needs {
		if err := l.build(ctx, n); err != nil {
			s.needed = true
			return err
		}
		from = append(from, n.file)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m := made{Version: l.Version, Command: l.shown(s), From: map[string]string{}}
	for _, path := range from {
		sum, err := l.sum(path)
		if err != nil {
			return err
		}
		m.From[l.short(path)] = sum
	}
	if old, ok := s.remembered(); ok && m.same(old) {
		s.seconds = old.Seconds
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	var err error
	if m.Seconds, err = l.run(ctx, s); err != nil {
		return err
	}
	if m.Sum, err = sumOf(s.outputs()...); err != nil {
		return err
	}
	s.seconds = m.Seconds
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return put(s.file+madeSuffix, append(text, '\n'))
}

// command is the whole command line of a step.
func (s *step) command() []string {
	switch filepath.Base(s.file) {
	case actionsFile:
		return s.args
	case reportFile:
		return append(slices.Clone(s.args), "json:"+s.file)
	case encoderFile:
		return append(slices.Clone(s.args), filepath.Join(filepath.Dir(s.file), coderFile))
	}
	return append(slices.Clone(s.args), s.file)
}

func (l *Lab) run(ctx context.Context, s *step) (float64, error) {
	if filepath.Base(s.file) != actionsFile {
		return l.Run(ctx, append(s.command(), "--overwrite"), io.Discard)
	}
	var out bytes.Buffer
	seconds, err := l.Run(ctx, s.command(), &out)
	if err != nil {
		return 0, err
	}
	return seconds, put(s.file, out.Bytes())
}

// timed is the step whose time stands for a row: the one before the evaluation, if there is one.
func (s *step) timed() *step {
	if filepath.Base(s.file) == reportFile {
		return s.needs[1]
	}
	return s
}

// outputs are all files that a step makes.
func (s *step) outputs() []string {
	if dir, name := filepath.Split(s.file); name == encoderFile {
		return []string{s.file, filepath.Join(dir, decoderFile)}
	}
	return []string{s.file}
}

// remembered is how a step was made, if its files are still as they were then.
func (s *step) remembered() (m made, ok bool) {
	text, err := os.ReadFile(s.file + madeSuffix)
	if err != nil || json.Unmarshal(text, &m) != nil {
		return m, false
	}
	sum, err := sumOf(s.outputs()...)
	return m, err == nil && sum == m.Sum
}

// same says whether a file that was made by old is what m would make.
func (m *made) same(old made) bool {
	return m.Version == old.Version && m.Command == old.Command && maps.Equal(m.From, old.From)
}

// sum is the hash of a file that does not change any more.
func (l *Lab) sum(path string) (string, error) {
	l.mu.Lock()
	sum, ok := l.sums[path]
	l.mu.Unlock()
	if ok {
		return sum, nil
	}
	sum, err := sumOf(path)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums[path] = sum
	return sum, nil
}

// sumOf is the hash of files, one behind the other.
func sumOf(paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if _, err := cli.CopyFrom(h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// shown is a step's command line, as it would be in the folder of the results.
func (l *Lab) shown(s *step) string {
	args := []string{"cfq"}
	for _, a := range s.command() {
		args = append(args, l.short(a))
	}
	return strings.Join(args, " ")
}

// short is an argument without the folder of data or of results in which its file is, so that these can be moved. One
// may be in the other: the inner one counts.
func (l *Lab) short(arg string) string {
	kind := ""
	for _, before := range []string{"!", "json:"} {
		if strings.HasPrefix(arg, before) {
			kind, arg = before, arg[len(before):]
		}
	}
	short := arg
	for _, dir := range []string{l.Out, l.Data} {
		inside, ok := strings.CutPrefix(arg, filepath.Clean(dir)+string(filepath.Separator))
		if ok && len(inside) < len(short) {
			short = inside
		}
	}
	return kind + short
}
