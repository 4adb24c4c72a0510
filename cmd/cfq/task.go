package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/recourse/constraint"
	"cfq/task"
	"cfq/task/draft"
)

type taskFlags struct {
	data, rows, out   string
	label, favourable string
	encoding, scores  string
	features, columns []string
	overwrite         bool
}

func (f *taskFlags) variables() variables {
	return variables{
		"data": &f.data, "rows": &f.rows, "output": &f.out, "encoding": &f.encoding, "scores": &f.scores,
		"label": &f.label, "favourable": &f.favourable, "features": &f.features, "columns": &f.columns,
		"overwrite": &f.overwrite,
	}
}

func taskActions() []string { return []string{"init", "check", "show"} }

func (f *taskFlags) run(ctx context.Context, e *env, args []string) error {
	if len(args) == 0 {
		return cli.Usagef(cli.HintArguments, "the action is missing: cfq task init, check or show")
	}
	action, rest := args[0], args[1:]
	if !slices.Contains(taskActions(), action) {
		if s := cli.Suggest(action, taskActions()); s != "" {
			return cli.Usagef(cli.HintArguments, "unknown action %q; did you mean cfq task %s?", action, s)
		}
		return cli.Usagef(cli.HintArguments, "unknown action %q: want init, check or show", action)
	}
	none := fmt.Sprintf("cfq task %s has no FLAG", action)
	err := cmp.Or(
		e.conflict(action != "init", none, "output", "encoding", "label", "favourable", "features", "columns",
			"overwrite"),
		e.conflict(action != "check", none, "scores"),
	)
	if err != nil {
		return err
	}
	switch action {
	case "init":
		return f.init(ctx, e, rest)
	case "check":
		return f.check(ctx, e, rest)
	}
	return f.show(e, rest)
}

// atMost returns the arguments behind the action: those named, of which the last may be missing and is "" then.
func atMost(action string, have []string, names ...string) ([]string, error) {
	wanted := names[:min(max(len(have), len(names)-1), len(names))]
	return slices.Concat(have, []string{"", ""})[:len(names)], arguments("task "+action, have, wanted...)
}

func (f *taskFlags) init(ctx context.Context, e *env, args []string) (err error) {
	args, err = atMost("init", args, "MODEL")
	if err != nil {
		return err
	}
	err = cmp.Or(dataFile(f.data), writable([]string{f.data, args[0]}, []string{f.out}, f.overwrite))
	if err != nil {
		return err
	}
	rows, err := readSelection(f.rows)
	if err != nil {
		return err
	}
	p, err := f.draft(ctx, e, args[0], rows)
	if err != nil {
		return dataError(err)
	}
	for _, n := range p.Notes {
		e.msg.Note("%s", n)
	}
	for _, q := range p.Questions {
		e.msg.Warn("line %d: QUESTION: %s", q.Line, q.Text)
	}
	if n := len(p.Questions); n > 0 {
		e.msg.Warn("the draft has %s; `cfq task check` refuses it until they are answered in the file",
			message.Count(n, "open question"))
	}
	text := p.Text
	if e.json {
		text = p.Task.JSON()
	}
	if f.out != "" {
		if err := cli.Write(f.out, cli.Content(p.Text)); err != nil {
			return err
		}
		e.msg.Note("%s written; `cfq task show %s` shows what it means", f.out, f.out)
	}
	if f.out == "" || e.json {
		_, err = e.stdout.Write(text)
	}
	return err
}

func (f *taskFlags) draft(ctx context.Context, e *env, model string, rows task.ReadOptions) (*draft.Draft, error) {
	var enc *draft.Encoding
	if f.encoding != "" {
		err := cli.Input("encoding", f.encoding)
		if err == nil {
			enc, err = draft.ReadEncoding(f.encoding)
		}
		if err != nil {
			return nil, err
		}
	}
	if enc != nil && f.features != nil {
		return nil, cli.Usagef(cli.HintConflict, "--features and --encoding exclude each other")
	}
	var m *draft.Model
	if model != "" {
		file, err := loadModel(ctx, e, model, nil)
		if err != nil {
			return nil, err
		}
		why, err := obstacle(ctx, file)
		if err != nil {
			return nil, err
		}
		if why != nil && !why.Already {
			e.msg.Warn("model %s cannot be quantized: %s", model, says(why))
		}
		m = described(file)
	}
	return draft.New(ctx, draft.Source{Path: f.data, Names: f.columns, Rows: rows}, draft.Options{
		Label: f.label, Favourable: f.favourable, Features: f.features, Encoding: enc, File: filepath.Base(f.data),
	}, m)
}

func described(m *onnxio.Model) *draft.Model {
	d := &draft.Model{
		Inputs: m.Dim(), Scales: m.ScalesNumbers(), Classes: m.Classes(), Labels: m.Labels(),
		Imputed: m.Imputed,
	}
	d.Sizes = lists.Map(m.Input().Shape[1:], func(size graph.Dim) int { return int(size.Size) })
	for _, c := range m.Columns() {
		d.Columns = append(d.Columns, draft.ModelColumn{
			Name: c.Name, Values: c.Values, Impute: c.Blank, Text: c.DType == graph.String,
		})
	}
	return d
}

func (f *taskFlags) check(ctx context.Context, e *env, args []string) (err error) {
	if args, err = atMost("check", args, "TASK", "MODEL"); err != nil {
		return err
	}
	t, questions, err := openTask(ctx, e, args[0])
	if err != nil {
		return err
	}
	rows, err := readOptions(f.data, f.rows)
	if err != nil {
		return err
	}
	in := &opened{task: t}
	if args[1] != "" { // which may be of a kind that is refused: no need to read millions of rows then
		m, err := loadModel(ctx, e, args[1], t)
		if err != nil {
			return err
		}
		in.files = append(in.files, m)
	}
	if in.people, err = task.Read(ctx, f.data, t, rows); err != nil {
		return dataError(cli.Wrap(err, hintData))
	}
	var margins []float32
	var known draft.Evidence
	if in.files != nil {
		if margins, err = in.margins(ctx, e, args[1], in.people.X); err != nil {
			return err
		}
		if known.Model, err = in.shows(args[0]); err != nil {
			return err
		}
	}
	if f.scores != "" {
		if in.files == nil {
			return cli.Usagef("give the model after the task file", "--scores needs the MODEL that has them")
		}
		s, err := readScores(ctx, f.scores, f.rows)
		if err == nil {
			known.Scores, err = in.compare(ctx, e, args[1], s)
		}
		if err != nil {
			return err
		}
	}
	for _, note := range in.people.Notes {
		e.msg.Note("%s: %s", f.data, note)
	}
	set, err := constraint.Compile(t)
	if err != nil {
		return cli.WithCode(fmt.Errorf("task %s: %w", args[0], err), cli.Unusable)
	}
	r, err := draft.Check(t, questions, in.people, set.Factual(in.people.X), margins, known)
	if err != nil {
		return err
	}
	var latent *taskmodel.LatentCheck
	if in.files != nil {
		if latent, err = checkModel(ctx, e, args[1], in, r); err != nil {
			return err
		}
	}
	if err := e.page("checked", checked{r, latent, t.Columns()}); err != nil {
		return err
	}
	if n := r.Problems(); n > 0 {
		return cli.Wrap(fmt.Errorf("%s does not fit %s: %s", args[0], f.data, message.Count(n, "problem")),
			"each problem in the list says what to change")
	}
	return f.record(e, args, t, r.Verification)
}

func (in *opened) margins(ctx context.Context, e *env, path string, x []float32) (_ []float32, err error) {
	c, err := openClassifier(ctx, e, path, in.files[0], in.task)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Margins(ctx, x)
}

// checkModel adds to a report what is wrong with the model, and with the encoder and the decoder of the task.
func checkModel(ctx context.Context, e *env, path string, in *opened, r *draft.Report) (*taskmodel.LatentCheck, error) {
	err := r.CompareScalings(in.task, in.people, func(x []float32) ([]float32, error) {
		return in.margins(ctx, e, path, x)
	})
	var latent *taskmodel.LatentCheck
	if err == nil && in.task.Latent != nil {
		latent, err = checkLatent(ctx, e, in, r)
	}
	if err != nil {
		return nil, err
	}
	o, err := obstacle(ctx, in.files[0])
	switch {
	case err != nil || o == nil || o.Already:
	case o.Recourse:
		r.Find(draft.Problem, "model", "there is no recourse, and it cannot be quantized: "+says(o))
	default:
		r.Find(draft.Warning, "model", "it cannot be quantized: "+says(o))
	}
	return latent, err
}

func shareOf(n, all int) string {
	if n == 0 {
		return "-"
	}
	return message.Percent(float64(n)/float64(max(all, 1)), 1)
}

func brief(v float64) string {
	if math.Abs(v) >= 1e4 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

func (f *taskFlags) show(e *env, args []string) error {
	if err := arguments("task show", args, "TASK"); err != nil {
		return err
	}
	t, err := loadTask(args[0])
	switch {
	case err != nil:
		return err
	case e.json:
		_, err := e.stdout.Write(t.JSON())
		return err
	}
	newTextView(e.stdout).page("task", t)
	return nil
}

type taskFeature struct {
	*task.Feature
	Inputs string // positions among the model's inputs
	Moves  bool   // with another feature
	Limits string // of a change
}

func taskFeatures(t *task.Task) (rows []taskFeature) {
	at, entries := 0, t.Entries()
	for i := range entries {
		f := taskFeature{Feature: &entries[i], Moves: t.Moves(entries[i].Name)}
		if n := f.ModelInputs(); n > 0 {
			f.Inputs = strconv.Itoa(at)
			if at += n; n > 1 {
				f.Inputs += fmt.Sprintf("-%d", at-1)
			}
		}
		var limits []string
		for k, most := range []float64{f.MaxIncrease, f.MaxDecrease, f.MaxChange} {
			if !math.IsInf(most, 0) {
				limits = append(limits, []string{"+", "-", "±"}[k]+task.Decimal(most))
			}
		}
		f.Limits = strings.Join(limits, " ")
		rows = append(rows, f)
	}
	return rows
}

func span(f *task.Feature) string {
	values, bounds := f.Values(), interval(f.Bounds[0], f.Bounds[1])
	if f.Category() == nil && bounds != "" || values == nil {
		return bounds
	}
	hot, ok := f.Encoding.(*task.OneHot)
	if f.Category() == nil {
		return strings.Join(values, " ")
	}
	words := message.Count(len(values), "value")
	if ok && hot.MissingValues != nil {
		words = message.Count(len(values)-len(hot.MissingValues), "value") + ", not known: " +
			strings.Join(hot.MissingValues, " ")
	}
	return words
}

func interval(lo, hi float64) string {
	switch {
	case math.IsInf(lo, 0) && math.IsInf(hi, 0):
		return ""
	case math.IsInf(lo, 0):
		return "up to " + task.Decimal(hi)
	case math.IsInf(hi, 0):
		return "from " + task.Decimal(lo)
	}
	return task.Decimal(lo) + " to " + task.Decimal(hi)
}
