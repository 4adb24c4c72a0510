package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/internal/cli"
	"cfq/internal/extsort"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/onnxio/refuse"
	"cfq/ptq"
	"cfq/ptq/taskmodel"
	"cfq/qat/fit"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
	"cfq/task/draft"
)

// Hints of errors that several commands meet.
const (
	hintData          = "`cfq task check TASK -d DATA` compares a task file with data, column by column"
	hintTaskFile      = "docs/task.md describes every key; `cfq task show` prints what a file means"
	hintMissingData   = "-d data.csv names the data"
	hintMissingTask   = "-t task.yaml names the task file"
	hintMissingOutput = "-o names the file or folder to write"
)

// classified gives an error that nothing is said of yet its exit code: what was given cannot be used, or there is no
// ONNX Runtime, whatever failed for that.
func classified(err error) error {
	var said *cli.Error
	var input *ptq.InputError
	var people *fit.InputError
	var refused *refuse.Refusal
	var none *promise.NoNumber
	var answers *onnxio.AnswerError
	switch {
	case errors.Is(err, ort.ErrNotFound):
		return cli.WithCode(cli.Wrap(err,
			"`cfq doctor` says where it is looked for; --ort-lib and CFQ_ORT_LIB name one of your own; "+
				"`make ort` fetches one"), cli.RunFailed)
	case errors.As(err, &said):
	case errors.As(err, &input), errors.As(err, &people), errors.As(err, &refused), errors.As(err, &none),
		errors.As(err, &answers):
		return cli.WithCode(err, cli.Unusable)
	}
	return err
}

// loadModel opens a model, and tells the task, if there is one, what the model requires of people.
func loadModel(ctx context.Context, e *env, path string, t *task.Task) (*onnxio.Model, error) {
	if err := cli.Input("model", path); err != nil {
		return nil, err
	}
	m, err := onnxio.Load(ctx, path, e.engine())
	if err == nil && t != nil {
		taskmodel.Require(t, m)
	}
	return m, unusableModel(path, err)
}

func unusableModel(path string, err error) error {
	var unread *codec.FileError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, codec.ErrMissingData):
		return cli.Wrap(fmt.Errorf("model: %w", err),
			"the weights are in other files: copy them next to the model, under the names that the exporter gave them")
	case errors.As(err, &unread) && !unread.IsModel:
		return cli.Wrap(fmt.Errorf("model: %w", err),
			"an exported ONNX model is needed here; data goes behind -d, the task file behind -t")
	case unread != nil:
		return cli.Wrap(fmt.Errorf("model: %w", err), "the model breaks a rule of ONNX: export it again, or mend it")
	}
	return cli.Wrap(fmt.Errorf("model %s: %w", path, err),
		"`cfq inspect` says what the file holds; docs/models.md lists the models that work")
}

func obstacle(ctx context.Context, m *onnxio.Model) (*ptq.Obstacle, error) {
	err := ptq.Quantizable(ctx, m)
	if o := (*ptq.Obstacle)(nil); errors.As(err, &o) {
		return o, nil
	}
	return nil, err
}

func advised(ctx context.Context, m *onnxio.Model, err error) error {
	o, failed := obstacle(ctx, m)
	if failed != nil || o == nil || o.Already {
		return err
	}
	if o.Instead == "" { // the error says what to do
		return cli.WithCode(err, cli.Unusable)
	}
	return cli.Wrap(fmt.Errorf("%w; %s", err, o.Instead), "export what the message says, and try `cfq inspect` on it")
}

func says(o *ptq.Obstacle) string {
	if o.Instead == "" {
		return o.Error()
	}
	return o.Error() + "; " + o.Instead
}

// openTask reads a task file and the models that it names; open are questions of its draft without an answer.
func openTask(ctx context.Context, e *env, path string) (t *task.Task, open []draft.Question, err error) {
	if t, err = loadTask(path); err != nil {
		return nil, nil, err
	}
	if err := taskmodel.OpenLatent(ctx, t, e.engine()); err != nil {
		return nil, nil, cli.WithCode(fmt.Errorf("task %s: %w", path, err), cli.Unusable)
	}
	text, err := os.ReadFile(path)
	return t, draft.Questions(text), dataError(err)
}

func loadTask(path string) (*task.Task, error) {
	if path == "" {
		return nil, cli.Usagef(hintMissingTask, "--task is missing")
	}
	if err := cli.Input("task file", path); err != nil {
		return nil, err
	}
	if strings.EqualFold(filepath.Ext(path), ".onnx") {
		return nil, cli.Usagef(cli.HintArguments, "%s is a model, where a task file is expected", path)
	}
	t, err := task.Load(path)
	return t, cli.Wrap(err, hintTaskFile)
}

func openClassifier(ctx context.Context, e *env, path string, m *onnxio.Model, t *task.Task) (
	*classifier.Model, error,
) {
	c, err := taskmodel.OpenForPeople(ctx, m, t, e.workers)
	if err != nil {
		return nil, unusableModel(path, err)
	}
	return c, nil
}

type permitted struct {
	set       *constraint.Set // of the rows of the data
	overrides string
	list      []task.Override
	unseen    map[int]bool // rows with overrides that were not among the people yet
}

func actionSet(taskPath, overrides string, t *task.Task) (*permitted, error) {
	set, err := constraint.Compile(t)
	if err != nil {
		return nil, cli.Wrap(fmt.Errorf("task %s: %w", taskPath, err), hintTaskFile)
	}
	a := &permitted{set: set, overrides: overrides, unseen: map[int]bool{}}
	if overrides == "" {
		return a, nil
	}
	if err := cli.Input("overrides file", overrides); err != nil {
		return nil, err
	}
	if a.list, err = t.Overrides(overrides); err != nil {
		return nil, cli.WithCode(err, cli.Unusable)
	}
	if a.set, err = set.Override(a.list); err != nil {
		return nil, cli.WithCode(fmt.Errorf("overrides %s: %w", overrides, err), cli.Unusable)
	}
	for _, o := range a.list {
		a.unseen[o.Row] = true
	}
	return a, nil
}

func (a *permitted) of(p *task.People) *constraint.Set {
	for _, row := range p.Rows {
		delete(a.unseen, row)
	}
	return a.set.Select(p.Rows)
}

func (a *permitted) warn(e *env) {
	if len(a.unseen) > 0 {
		rows := slices.Sorted(maps.Keys(a.unseen))
		e.msg.Warn("%s: %s not among the people read, the first is row %d", a.overrides,
			message.Count(len(rows), "row"), rows[0])
	}
}

func readPeople(
	ctx context.Context, e *env, path, spec string, t *task.Task, o task.ReadOptions,
) (*task.People, error) {
	chosen, err := readOptions(path, spec)
	if err != nil {
		return nil, err
	}
	o.Only, o.Except = chosen.Only, chosen.Except
	p, err := task.Read(ctx, path, t, o)
	if err != nil {
		return nil, dataError(cli.Wrap(err, hintData))
	}
	warnRows(e, path, p)
	if p.Undrawn > 0 {
		e.msg.Note("%s: %d of %d rows were drawn", path, p.N, p.N+p.Undrawn)
	}
	return p, nil
}

// streamPeople hands the people of a data file on in batches, see [task.Stream]. Errors of each are returned as they
// are.
func streamPeople(
	ctx context.Context, path string, t *task.Task, o task.ReadOptions, size int, each func(*task.People) error,
) (*task.People, error) {
	var failed error
	all, err := task.Stream(ctx, path, t, o, size, func(p *task.People) error {
		failed = each(p)
		return failed
	})
	if failed != nil {
		return nil, failed
	}
	return all, dataError(cli.Wrap(err, hintData))
}

func readOptions(path, spec string) (task.ReadOptions, error) {
	if err := dataFile(path); err != nil {
		return task.ReadOptions{}, err
	}
	return readSelection(spec)
}

func dataFile(path string) error {
	if path == "" {
		return cli.Usagef(hintMissingData, "--data is missing")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := task.ImagesIn(path); err != nil {
			return cli.Usagef(cli.HintFolder, "data file %s is a directory, and not one of images: %w", path, err)
		}
		return nil
	}
	return cli.Input("data file", path)
}

func readSelection(spec string) (o task.ReadOptions, err error) {
	if spec == "" {
		return o, nil
	}
	path, others := strings.CutPrefix(spec, "!")
	if err := cli.Input("row file", path); err != nil {
		return o, err
	}
	rows, err := task.LoadRows(path)
	if others {
		o.Except = rows
	} else {
		o.Only = rows
	}
	return o, cli.WithCode(err, cli.Unusable)
}

func dataError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, extsort.ErrFile):
		return cli.WithCode(cli.Wrap(err, "TMPDIR names a folder with more room"), cli.RunFailed)
	}
	return cli.WithCode(err, cli.Unusable)
}

func warnRows(e *env, path string, p *task.People) {
	for _, note := range p.Notes {
		e.msg.Note("%s: %s", path, note)
	}
	for _, w := range p.Warnings {
		e.msg.Warn("%s: %s", path, w)
	}
	warnProblems(e, fmt.Sprintf("%s: %d of %d rows could not be read and are left out", path, p.Failed, p.Total),
		p.Problems, p.Failed)
}

func madeFrom(files map[string]string) (_ map[string]string, err error) {
	r := map[string]string{"cfq": release()}
	for key, path := range files {
		if path == "" {
			continue
		}
		hash := fileHash
		if key == "model" {
			hash = codec.Digest
		}
		if _, r[key], err = hash(path); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fileHash returns the size of a file and its SHA-256 in hexadecimal. Images in a folder, and labels in a file of their
// own, count.
func fileHash(path string) (size int64, sum string, err error) {
	h := sha256.New()
	if files, err := task.ImagesIn(path); err == nil { // a folder of images
		for _, file := range files {
			n, sum, err := fileHash(filepath.Join(path, filepath.FromSlash(file)))
			if err != nil {
				return 0, "", err
			}
			size += n
			fmt.Fprintf(h, "%q %s\n", file, sum)
		}
		return size, hex.EncodeToString(h.Sum(nil)), nil
	}
	for _, file := range []string{path, task.Beside(path)} {
		if file == "" {
			continue
		}
		n, err := cli.CopyFrom(h, file)
		if err != nil {
			return 0, "", err
		}
		size += n
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

func outputFolder(path string) (made bool, err error) {
	if path == "" {
		return false, cli.Usagef(hintMissingOutput, "--output is missing")
	}
	info, err := os.Stat(path)
	switch {
	case path == "-" || errors.Is(err, fs.ErrNotExist):
		return false, cli.Output(path, false)
	case err != nil:
		return false, cli.Usagef("", "output: %w", err)
	case !info.IsDir():
		return false, cli.Usagef("name a folder", "output %s is a file", path)
	}
	return true, nil
}
