package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/records"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/ptq/record"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
	"cfq/task/draft"
)

const (
	hintNoRecord     = "cfq quantize writes it next to the model; --calibration-record names one that stands elsewhere"
	hintCalibratedOn = "use people that the model was not calibrated on; --calibration-record names the record " +
		"of those it was"
)

type peopleFlags struct {
	data, task, rows, promises, overrides string
}

func (f *peopleFlags) variables() variables {
	return variables{
		"data": &f.data, "task": &f.task, "rows": &f.rows, "promises": &f.promises, "overrides": &f.overrides,
	}
}

func (f *peopleFlags) paths(models ...string) []string {
	named := []string{f.data, f.task, f.rows, f.promises, f.overrides}
	return slices.Concat(named, models, lists.Join(models, codec.ExternalFiles))
}

type opened struct {
	task    *task.Task
	allowed *permitted
	set     *constraint.Set // of the people, by position
	people  *task.People
	issued  *promise.File // nil without --promises
	files   []*onnxio.Model
}

// open reads people and, with --promises, the promises of that file to them. The people are those of the data or,
// without any, the file's.
func (f *peopleFlags) open(ctx context.Context, e *env, models []string, read task.ReadOptions) (_ *opened, err error) {
	in, err := f.openFiles(ctx, e, models, f.checkPeople)
	if err != nil {
		return nil, err
	}
	if f.data != "" {
		if in.people, err = readPeople(ctx, e, f.data, f.rows, in.task, read); err != nil {
			return nil, err
		}
	}
	if f.promises != "" {
		if in.issued, err = promise.Read(ctx, f.promises, in.task, in.people); err != nil {
			return nil, promisesError(err, in.people == nil)
		}
		in.people = in.issued.People
		if err := warnPromises(e, f.promises, in.issued); err != nil {
			return nil, err
		}
	}
	in.set = in.allowed.of(in.people)
	in.allowed.warn(e)
	return in, nil
}

// openFiles opens the task and, once there are people, the models, which takes longest.
func (f *peopleFlags) openFiles(ctx context.Context, e *env, models []string, people func() error) (_ *opened,
	err error,
) {
	in := &opened{}
	var open []draft.Question
	if in.task, open, err = openTask(ctx, e, f.task); err != nil {
		return nil, err
	}
	if len(open) > 0 {
		e.msg.Warn("task %s leaves %s open, so that people may be read wrongly: answer them in the file, `cfq task check` "+
			"lists them; line %d: %s", f.task, message.Count(len(open), "question"), open[0].Line, open[0].Text)
	}
	if in.allowed, err = actionSet(f.task, f.overrides, in.task); err != nil {
		return nil, err
	}
	if err := people(); err != nil {
		return nil, err
	}
	for _, path := range models {
		m, err := loadModel(ctx, e, path, in.task)
		if err != nil {
			return nil, err
		}
		in.files = append(in.files, m)
	}
	return in, nil
}

type evaluationFlags struct {
	peopleFlags
	searchFlags
	groupFlags
	reportFlags

	perturbation  float64
	transfer      float64 // 0 for no proofs
	margins       []float64
	confidence    float64  // two-sided, of all intervals
	tables        []string // of records, in place of people
	piped         bool     // people come from stdin
	otherOriginal bool
}

type searchFlags struct {
	sample, restarts int
	seed             uint64
}

type groupFlags struct {
	by       []string
	minGroup int
}

type reportFlags struct {
	reports   []string
	records   string // a file or a folder to write them to
	overwrite bool
}

const noBy = "none"

func (f *evaluationFlags) variables() variables {
	return f.peopleFlags.variables().with(variables{
		"sample": &f.sample, "other-original": &f.otherOriginal, "seed": &f.seed, "restarts": &f.restarts, "by": &f.by,
		"min-group": &f.minGroup, "perturbation": &f.perturbation,
		"transfer": &f.transfer, "confidence": &f.confidence, "margins": &f.margins,
		"records": &f.records, "report": repeated{&f.reports}, "overwrite": &f.overwrite,
	})
}

type evaluatedFiles struct {
	paths    []string // of the models, the original's first
	models   []*classifier.Model
	sources  []report.File // the models' files as reports name them
	inputs   report.Inputs // the others
	same     bool          // a quantized model has the content of the original
	warnings []string      // doubts about the files, for the report
}

type peopleRead struct {
	total   *task.People // without rows
	promise *issued      // to them, of a file; nil without
	decoded *reconstructed
	survey  *report.Survey // of the people of the first quantized model
}

type evaluation struct {
	*opened // without people
	evaluatedFiles
	peopleRead

	e        *env
	f        *evaluationFlags
	known    *calibratedRows // rows that the quantized model was calibrated on
	out      *records.Output // nil when records are not written
	tabled   *measured       // records of tables, before they are used; nil without
	detailed bool            // a report shows layers and pictures
	closers  []io.Closer
}

func (f *reportFlags) outputs() (paths []string) {
	for _, spec := range f.reports {
		if _, path, _ := strings.Cut(spec, ":"); path != "" {
			paths = append(paths, path)
		}
	}
	if f.records != "" {
		paths = append(paths, f.records)
	}
	return paths
}

func (f *evaluationFlags) inputs(models []string) []string {
	known, _ := tables(f.tables) // an error is said when they are read
	return slices.Concat(known, lists.Map(models, record.Path), f.paths(models...))
}

func (f *evaluationFlags) open(ctx context.Context, e *env, paths []string) (_ *evaluation, err error) {
	if err := cli.Distinct(f.inputs(paths), f.outputs()); err != nil {
		return nil, err
	}
	d := &evaluation{e: e, f: f}
	d.known = &calibratedRows{d: d}
	d.paths = paths
	if d.opened, err = f.openFiles(ctx, e, paths, f.findPeople); err != nil {
		return nil, err
	}
	if err := cmp.Or(d.describe(), d.pairing()); err != nil {
		return nil, err
	}
	f.minGroup = max(f.minGroup, 1)
	if len(f.by) > 0 && !f.without() {
		if err := (eval.GroupBy{Specs: f.by}).Check(d.task.Attributes()); err != nil {
			return nil, f.badGroups(err)
		}
	}
	for i, path := range paths {
		m, err := openClassifier(ctx, e, path, d.files[i], d.task)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.models, d.closers = append(d.models, m), append(d.closers, m)
	}
	return d, nil
}

// Close frees the models and all records.
func (d *evaluation) Close() (err error) {
	for _, c := range slices.Backward(d.closers) {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (d *evaluation) options() eval.Options {
	return eval.Options{
		Sample: d.f.sample, Seed: d.f.seed, Confidence: d.f.confidence,
		Solver: recourse.SolveOptions{Restarts: d.f.restarts, Workers: d.e.workers}, Progress: d.e.progress(),
	}
}

func (f *groupFlags) without() bool { return len(f.by) == 1 && f.by[0] == noBy }

func (f *groupFlags) groupBy() *eval.GroupBy {
	if f.without() {
		return nil
	}
	return &eval.GroupBy{Specs: f.by, Min: f.minGroup}
}

func (f *groupFlags) badGroups(err error) error {
	return cli.Wrap(fmt.Errorf("groups by %s: %w", strings.Join(f.by, ", "), err),
		"a feature with subgroup: true, or a column under data: subgroups, tells people apart")
}

// pairing looks whether each quantized model belongs to the original, as far as the files say. Models the
// wrong way round are an error; what else is doubtful becomes a warning of the report.
func (d *evaluation) pairing() error {
	for _, path := range d.paths {
		size, sum, err := codec.Digest(path)
		if err != nil {
			return fmt.Errorf("hashing: %w", err)
		}
		d.sources = append(d.sources, report.File{Name: filepath.Base(path), SHA256: sum, Bytes: size})
	}
	original := recipe(d.files[0].Graph())
	for i := 1; i < len(d.paths); i++ {
		if err := d.files[0].SameKind(d.files[i]); err != nil { // a gate refuses it
			d.warn("%s: %v", d.paths[i], err)
		}
		switch from := recipe(d.files[i].Graph())["origin.model"]; {
		case original["origin.model"] != "" && strings.HasPrefix(d.sources[i].SHA256, original["origin.model"]):
			return cli.Usagef("give the original first, then the models made from it",
				"%s was quantized from %s: the order is reversed", d.paths[0], d.paths[i])
		case d.sources[0].SHA256 == d.sources[i].SHA256:
			d.same = true
			d.warn("%s and %s have the same content: a model keeps all promises of its own", d.paths[0], d.paths[i])
		case !strings.HasPrefix(d.sources[0].SHA256, from):
			err := fmt.Errorf("%s was quantized from another model than %s (its recipe says %.12s, and this is %.12s)",
				d.paths[i], d.paths[0], from, d.sources[0].SHA256)
			if !d.f.otherOriginal {
				return cli.Wrap(err, "give the model that it was made from; --other-original compares them all the same")
			}
			d.warn("%v", err)
		}
	}
	if len(original) > 0 && !d.same {
		d.warn("%s was itself quantized: the promises are its own, and not those of the model that it was made from",
			d.paths[0])
	}
	for i := range d.paths {
		for k := 1; k < i; k++ {
			if d.sources[i].SHA256 == d.sources[k].SHA256 {
				d.warn("%s and %s have the same content", d.paths[k], d.paths[i])
			}
		}
	}
	return nil
}

func (d *evaluation) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// maxMarginMismatch is how far, in logits, the margins that a promises file states may be from those found
// for a gate to rest on it.
const maxMarginMismatch = 0.05

func (d *evaluation) checkPromiseSource() error {
	if d.promise == nil || !(d.promise.tally.Difference() > maxMarginMismatch) {
		return nil
	}
	return cli.Wrap(fmt.Errorf("promises %s: the margins that the file states are up to %.3g logits from those of %s: "+
		"it was made for another model, task or data",
		d.f.promises, d.promise.tally.Difference(), d.paths[0]),
		"make the promises anew with cfq recourse for this model and these people")
}

const noisePeople = 500

// The values of --calibration-record besides a file.
const (
	noRecord       = "none"
	recordRequired = "required"
)

type calibratedRows struct {
	d        *evaluation
	path     string // of the record, noRecord, or "" for the one next to the model
	required bool
	record   *record.Rows
	found    string // path of the record; "" when there is none
	notes    []string
	problem  error      // why the record cannot be used
	unlike   eval.Tally // people beyond the ranges of the record, of those who were looked at
}

func (c *calibratedRows) read() error {
	if c.path == recordRequired {
		c.path, c.required = "", true
	}
	if c.path == noRecord {
		if c.required {
			return cli.Usagef(hintNoRecord, "--calibration-record none: the gate file requires one")
		}
		c.note("--calibration-record none: whether people are equal to rows that the model was calibrated on was not checked")
		return nil
	}
	path, model := c.path, c.d.paths[1]
	if path == "" {
		path = record.Path(model)
	} else if err := cli.Input("record of rows", path); err != nil {
		return err
	}
	rows, err := record.Load(path)
	missing := c.path == "" && errors.Is(err, fs.ErrNotExist)
	if missing && c.required {
		err = fmt.Errorf("there is no record %s of the rows that the model was calibrated on, and this gate requires one",
			path)
	} else if missing {
		return nil
	}
	if err != nil {
		return cli.Wrap(err, hintNoRecord)
	}
	if sum := c.d.sources[1].SHA256; rows.Model != sum {
		return cli.Wrap(fmt.Errorf("record of rows %s: it is that of another model, %.12s, and not of %s, %.12s", path,
			rows.Model, model, sum), "quantize again; --calibration-record names a record that stands elsewhere")
	}
	c.record, c.found = rows, path
	return nil
}

// look counts the people, and those of them who are unlike the rows that the model was calibrated on.
func (c *calibratedRows) look(p *task.People) {
	if c.record != nil {
		outside, of := c.record.Outside(p)
		c.unlike = eval.NewTally(c.unlike.Num+outside, c.unlike.Den+of)
	}
}

// count is how many people are equal to a row that the model was calibrated on. A verdict needs others.
func (c *calibratedRows) count(r *eval.Result) (known int, err error) {
	known = r.Records.Calibrated()
	r.Population.UnlikeRows = c.unlike
	if n := r.Records.Len(); n > 0 && known == n {
		err = cli.Wrap(fmt.Errorf("all %d people of the data are equal to rows that the model was calibrated on: none "+
			"is left for a verdict", n), hintCalibratedOn)
	}
	return known, err
}

// checkHeldOut says what is not known of the people. It is an error to judge a model by the very file that it
// was calibrated on when nothing says by which rows.
func (c *calibratedRows) checkHeldOut() error {
	if c.path == noRecord {
		return nil
	}
	d, origin := c.d, recipe(c.d.files[1].Graph())
	if from := origin["origin.task"]; c.record != nil { // rows that are encoded otherwise rarely have the same inputs
		if strings.HasPrefix(d.inputs.Task.SHA256, from) {
			return nil
		}
		text := fmt.Sprintf("the model was quantized with another task file than %s: if that encodes people differently, "+
			"those who are equal to calibration rows are not recognised", d.f.task)
		if c.required {
			return cli.Wrap(errors.New(text), "quantize with the task file that the gate is given")
		}
		c.note(text)
		return nil
	}
	if from := origin["origin.data"]; d.f.data != "" && from != "" && strings.HasPrefix(d.inputs.Data.SHA256, from) {
		return cli.Usagef(hintCalibratedOn, "the model was calibrated on rows of %s, and there is no record %s that says "+
			"which", d.f.data, record.Path(d.paths[1]))
	}
	c.note(fmt.Sprintf("there is no record %s: people who are equal to calibration rows cannot be recognised; "+
		"--calibration-record required makes this an error", record.Path(d.paths[1])))
	return nil
}

func (c *calibratedRows) note(text string) {
	c.notes = append(c.notes, text)
	c.d.e.msg.Warn("%s", text)
}
