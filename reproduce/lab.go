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
	"cfq/internal/lists"
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
	rows := lists.Join(tables, func(t Table) []Row { return t.Rows })
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

// labStep is a command that makes files. What it reads are files of its command line, and those beside.
type labStep struct {
	files  []string // that it makes
	args   []string
	beside []string
	timed  *labStep // the one of which the time counts, of a measurement; nil: it itself

	once    sync.Once
	seconds float64
	err     error
	blocked bool // err is that of a step that it needs
	outcome outcome
}

func (l *Lab) step(files []string, d *DataSet, form, command string, args ...[]string) *labStep {
	if s := l.steps[files[0]]; s != nil {
		return s
	}
	s := &labStep{files: files, args: append([]string{command}, slices.Concat(args...)...)}
	for _, name := range d.Beside {
		s.beside = append(s.beside, l.data(d, name))
	}
	if form == inCodes { // the task names them
		s.beside = append(s.beside, l.path(d, encoderFile), l.path(d, decoderFile))
	}
	for _, file := range files {
		l.steps[file] = s
	}
	return s
}

// provenance is what is kept next to a file: what it was made by. The file is right as long as all of that is the same.
type provenance struct {
	Version string            `json:"version"`
	Command string            `json:"command"`
	From    map[string]string `json:"from"` // hashes of files
	Sum     string            `json:"sum"`  // hash of the files themselves
	Seconds float64           `json:"seconds"`
}

const provenanceSuffix = ".made.json"

func (l *Lab) make(ctx context.Context, all []*labStep) error {
	var g errgroup.Group
	g.SetLimit(max(l.Workers, 1))
	var done int
	for _, s := range all {
		g.Go(func() error {
			_ = l.build(ctx, s) // collected below
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
		if s := l.steps[file]; !s.blocked && file == s.files[0] {
			err = errors.Join(err, s.err)
		}
	}
	return err
}

func (l *Lab) build(ctx context.Context, s *labStep) error {
	s.once.Do(func() {
		from := map[string]string{}
		for _, arg := range slices.Concat(s.args, s.beside) {
			path := strings.TrimPrefix(arg, "!")
			need := l.steps[path]
			if need == s {
				continue
			}
			if need != nil {
				if s.err = l.build(ctx, need); s.err != nil {
					s.blocked = true
					return
				}
			} else if info, err := os.Stat(path); err != nil || info.IsDir() {
				continue
			}
			if from[l.short(path)], s.err = l.hash(path); s.err != nil {
				return
			}
		}
		if s.err = l.update(ctx, s, from); s.err == nil && s.prints() {
			s.outcome, s.err = readOutcome(s.args[0], s.files[0])
		}
	})
	return s.err
}

// prints says that the command prints a measurement; others write models.
func (s *labStep) prints() bool { return s.args[0] == "eval" || s.args[0] == "recourse" }

// update runs the command, unless the same one has made the files from the same ones before.
func (l *Lab) update(ctx context.Context, s *labStep, from map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := provenance{Version: l.Version, Command: "cfq " + strings.Join(lists.Map(s.args, l.short), " "), From: from}
	if old, ok := s.made(); ok && p.Version == old.Version && p.Command == old.Command && maps.Equal(p.From, old.From) {
		s.seconds = old.Seconds
		return nil
	}
	args, out := s.args, bytes.Buffer{}
	if !s.prints() {
		args = append(slices.Clone(args), "--overwrite")
	}
	err := os.MkdirAll(filepath.Dir(s.files[0]), 0o755)
	if err == nil {
		p.Seconds, err = l.Run(ctx, args, &out)
	}
	if err == nil && s.prints() {
		err = put(s.files[0], out.Bytes())
	}
	if err == nil {
		p.Sum, err = hashOf(s.files...)
	}
	if err != nil {
		return err
	}
	s.seconds = p.Seconds
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return put(s.files[0]+provenanceSuffix, append(text, '\n'))
}

func (s *labStep) made() (p provenance, ok bool) {
	text, err := os.ReadFile(s.files[0] + provenanceSuffix)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return p, false
	}
	sum, err := hashOf(s.files...)
	return p, err == nil && sum == p.Sum
}

func (l *Lab) hash(path string) (sum string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, ok := l.hashes[path]
	if !ok {
		if sum, err = hashOf(path); err == nil {
			l.hashes[path] = sum
		}
	}
	return sum, err
}

func hashOf(paths ...string) (string, error) {
	h := sha256.New()
	for _, path := range paths {
		if _, err := cli.CopyFrom(h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return cli.Write(path, cli.Content(text))
}

// short is an argument without the folder of data or of results in which its file is, so that these can be moved. One
// may be in the other: the inner one counts.
func (l *Lab) short(arg string) string {
	bare := strings.TrimPrefix(arg, "!")
	short := bare
	for _, dir := range []string{l.Out, l.Data} {
		inside, ok := strings.CutPrefix(bare, filepath.Clean(dir)+string(filepath.Separator))
		if ok && len(inside) < len(short) {
			short = inside
		}
	}
	return strings.TrimSuffix(arg, bare) + short
}
