package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/recourse/constraint"
	"cfq/task"
	"cfq/task/draft"
)

// taskFlags are the flags of task.
type taskFlags struct {
	data, rows, out         string
	label, favourable, from string
	encoding                string
	features, columns       []string
	overwrite               bool
	given                   *pflag.FlagSet
}

func taskCommand() command {
	return command{
		name:    "task",
		args:    "init | check TASK | show TASK, [MODEL]",
		actions: taskActions(),
		summary: "draft a task file from data, check one against data, or show what it says",
		about: `
  cfq task init -d DATA [MODEL] [-o TASK]      write a draft
  cfq task init -d DATA --from TASK            fill in what a task file lacks
  cfq task check TASK -d DATA [MODEL]          find what does not fit; exit code 2 if anything
  cfq task show TASK                           print what the task file means

init reads kinds, bounds (1st to 99th percentile), steps and shares from the data. The
data do not tell how the model's inputs are made: in which order, with which mean and
std. --encoding names a JSON file that does, as training scripts write it:

  {"target": "favourable = 1", "features": [
    {"column": "age",  "kind": "numeric", "mean": 38.6, "std": 13.6},
    {"column": "sex",  "kind": "binary",  "one": "F", "zero": "M"},
    {"column": "home", "kind": "onehot",  "values": ["rent", "own"]}]}

The list has the order of the inputs. A onehot column may also be one entry for each
input, with "value". What remains open is marked QUESTION in the draft and listed on
stderr. --from keeps every byte of a task file and adds bounds, shares, mad and
quantiles, and mean and std from --encoding.

check reports open questions, rows that cannot be read, values out of bounds and
constraints that people of the data break. It rejects a model that decides worse than
the more frequent outcome alone. Warnings do not change the exit code.`,
		examples: []string{
			"cfq task init -d train.csv --encoding encoding.json --label income --favourable '>50K' -o task.yaml",
			"cfq task init -d train.csv --from task.yaml -o task.yaml --overwrite",
			"cfq task check task.yaml -d train.csv model.onnx",
			"cfq task show task.yaml",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &taskFlags{given: fs}
			fs.SortFlags = false
			fs.StringVarP(&f.data, "data", "d", "", "init, check: the data `file`, CSV (also gzipped) or Parquet")
			fs.StringVar(&f.rows, "rows", "", rowsHelp)
			fs.StringVarP(&f.out, "output", "o", "", "init: the task `file` to write; else stdout")
			fs.StringVar(&f.encoding, "encoding", "", "init: a JSON `file` that declares how the model's inputs are made")
			fs.StringVar(&f.label, "label", "", "init: `column` of the outcome")
			fs.StringVar(&f.favourable, "favourable", "", "init: its `value` that people want")
			fs.StringSliceVar(&f.features, "features", nil,
				"init: `columns` that are the model's inputs, in their order, separated by commas")
			fs.StringSliceVar(&f.columns, "columns", nil, "init: `names` of the columns of a file without header")
			fs.StringVar(&f.from, "from", "", "init: the task `file` whose gaps are to be filled")
			fs.BoolVar(&f.overwrite, "overwrite", false, "init: replace a task file that exists")
			return f.run
		},
	}
}

func taskActions() []string { return []string{"init", "check", "show"} }

func (f *taskFlags) run(ctx context.Context, e *env, args []string) error {
	usage := "`cfq help task` says more"
	if len(args) == 0 {
		return cli.Usagef(usage, "the action is missing: cfq task init, check or show")
	}
	action, rest := args[0], args[1:]
	if !slices.Contains(taskActions(), action) {
		if s := cli.Suggest(action, taskActions()); s != "" {
			return cli.Usagef(usage, "unknown action %q; did you mean cfq task %s?", action, s)
		}
		return cli.Usagef(usage, "unknown action %q: want init, check or show", action)
	}
	var unknown []string
	for _, name := range []string{
		"output", "encoding", "label", "favourable", "features", "columns", "from",
		"overwrite",
	} {
		if action != "init" && f.given.Changed(name) {
			unknown = append(unknown, "--"+name)
		}
	}
	if len(unknown) > 0 {
		return cli.Usagef(usage, "cfq task %s has no %s", action, strings.Join(unknown, ", "))
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
	needed := len(names) - 1
	if len(have) < needed {
		names = names[:needed]
	}
	if len(have) < needed || len(have) > len(names) {
		return nil, cli.Wrap(arguments("task", have, names...), cli.Unusable,
			fmt.Sprintf("usage: cfq task %s %s ...; `cfq help task` says more", action, strings.Join(names, " ")))
	}
	return append(slices.Clone(have), "")[:len(names)], nil
}

// init writes a draft, or a task file whose gaps are filled.
func (f *taskFlags) init(ctx context.Context, e *env, args []string) (err error) {
	args, err = atMost("init", args, "MODEL")
	if err != nil {
		return err
	}
	if err := dataFile(f.data); err != nil {
		return err
	}
	if f.out != "" {
		inputs := []string{f.data, args[0]}
		if err := errors.Join(cli.Output(f.out, f.overwrite), cli.Distinct(inputs, []string{f.out})); err != nil {
			return cli.Wrap(err, cli.Unusable, cli.HintOf(err))
		}
	}
	rows, err := readSelection(f.rows)
	if err != nil {
		return err
	}
	var enc *draft.Encoding
	if f.encoding != "" {
		if err := cli.Input("encoding", f.encoding); err != nil {
			return err
		}
		if enc, err = draft.ReadEncoding(f.encoding); err != nil {
			return dataError(err)
		}
	}
	var p *draft.Draft
	if f.from != "" {
		p, err = f.fill(ctx, rows, enc)
	} else {
		p, err = f.draft(ctx, e, args[0], rows, enc)
	}
	if err != nil {
		return err
	}
	for _, n := range p.Notes {
		e.msg.Note("%s", n)
	}
	for _, q := range p.Questions {
		e.msg.Warn("line %d: QUESTION: %s", q.Line, q.Text)
	}
	if n := len(p.Questions); n > 0 {
		e.msg.Warn("the draft has %s; `cfq task check` refuses it until they are answered in the file", message.Count(n,
			"open question"))
	}
	return f.put(e, p)
}

// draft makes a task file from data.
func (f *taskFlags) draft(
	ctx context.Context, e *env, model string, rows task.ReadOptions, enc *draft.Encoding,
) (_ *draft.Draft, err error) {
	o := draft.Options{
		Label: f.label, Favourable: f.favourable, Features: f.features, Encoding: enc, File: filepath.Base(f.data),
	}
	if enc != nil && f.features != nil {
		return nil, cli.Usagef("--encoding lists the columns in the model's order",
			"--features and --encoding exclude each other")
	}
	if model != "" {
		m, err := loadModel(ctx, e, model)
		if err != nil {
			return nil, err
		}
		o.Inputs = m.Dim()
	}
	table, err := draft.Open(ctx, f.data, f.columns, rows)
	if err != nil {
		return nil, dataError(err)
	}
	p, err := draft.FromData(ctx, table, o)
	if err != nil {
		return nil, dataError(err)
	}
	return p, nil
}

// fill fills the gaps of the task file that --from names.
func (f *taskFlags) fill(ctx context.Context, rows task.ReadOptions, enc *draft.Encoding) (*draft.Draft, error) {
	for _, name := range []string{"label", "favourable", "features", "columns"} {
		if f.given.Changed(name) {
			return nil, cli.Usagef("change the task file itself", "--from keeps what the task file says: remove --%s", name)
		}
	}
	if err := cli.Input("task file", f.from); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.from)
	if err != nil {
		return nil, dataError(err)
	}
	p, err := draft.Fill(ctx, f.from, text, f.data, rows, enc)
	if err != nil {
		return nil, dataError(err)
	}
	return p, nil
}

// put writes the task file where it is wanted.
func (f *taskFlags) put(e *env, p *draft.Draft) error {
	if f.out != "" {
		if err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(p.Text); return err }); err != nil {
			return err
		}
		e.msg.Note("%s written; `cfq task show %s` shows what it means", f.out, f.out)
	}
	text := p.Text
	switch {
	case e.json:
		text = p.Task.JSON()
	case f.out != "":
		return nil
	}
	_, err := e.stdout.Write(text)
	return err
}

// check holds a task file against data, and against a model when there is one.
func (f *taskFlags) check(ctx context.Context, e *env, args []string) (err error) {
	args, err = atMost("check", args, "TASK", "MODEL")
	if err != nil {
		return err
	}
	t, err := readTask(args[0])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return dataError(err)
	}
	o, err := readOptions(f.data, f.rows)
	if err != nil {
		return err
	}
	people, err := task.Read(ctx, f.data, t, o)
	if err != nil {
		return dataError(err)
	}
	var margins []float32
	if args[1] != "" {
		if margins, err = marginsOf(ctx, e, args[1], t, people); err != nil {
			return err
		}
	}
	for _, note := range people.Notes {
		e.msg.Note("%s: %s", f.data, note)
	}
	set, err := constraint.Compile(t)
	if err != nil {
		return cli.Wrap(fmt.Errorf("task %s: %w", args[0], err), cli.Unusable, "")
	}
	r, err := draft.Check(t, draft.Questions(text), people, set.Factual(people.X), margins)
	if err != nil {
		return runError(err)
	}
	if e.json {
		err = writeJSON(e.stdout, r)
	} else {
		err = writeCheck(e.stdout, t, r)
	}
	if err != nil {
		return err
	}
	if n := r.Problems(); n > 0 {
		return cli.Wrap(fmt.Errorf("%s does not fit %s: %s", args[0], f.data, message.Count(n, "problem")), cli.Unusable, "")
	}
	return nil
}

// marginsOf runs the model at path on people.
func marginsOf(ctx context.Context, e *env, path string, t *task.Task, people *task.People) (_ []float32, err error) {
	loaded, err := loadModel(ctx, e, path)
	if err != nil {
		return nil, err
	}
	m, err := openClassifier(e, path, loaded, t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	margins, err := m.Margins(ctx, people.X)
	return margins, runError(err)
}

// writeCheck shows a report to people.
func writeCheck(out io.Writer, t *task.Task, r *draft.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "rows\t%d, %d read, %d left out by the filter\n", r.Rows, r.Read, r.Filtered)
	if s := r.Score; s != nil {
		fmt.Fprintf(w,
			"model\t%.1f %% of %d rows decided as labelled (the more frequent outcome alone: %.1f %%), class index %d\n",
			100*s.Accuracy, s.Rows, 100*s.Majority, s.Index)
	}
	if r.Encoding != "" {
		fmt.Fprintf(w, "encoding\t%s: no scores of the model's owner have been compared\n", r.Encoding)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nfeature\tkind\tbelow\tabove\tmissing\tmean: task\tdata\tstd: task\tdata")
	for i, c := range r.Features {
		f := &t.Features[i]
		count := func(n int) string {
			if n == 0 {
				return "-"
			}
			return strconv.FormatFloat(100*float64(n)/float64(max(r.Read, 1)), 'f', 1, 64) + " %"
		}
		mean, std := "-", "-"
		if c.Mean != nil && (f.Mean != 0 || f.Std != 1) {
			mean, std = brief(f.Mean), brief(f.Std)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Kind, count(c.Below), count(c.Above),
			count(c.Missing), mean, pointed(c.Mean), std, pointed(c.Std))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Rules) > 0 {
		fmt.Fprintln(w, "\nconstraint\tabout\tbroken by people as they are")
		for _, c := range r.Rules {
			fmt.Fprintf(w, "%s\t%s\t%d\n", c.Text, message.Count(c.Applies, "row"), c.Broken)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(out)
	for _, x := range r.Findings {
		fmt.Fprintf(out, "%s: %s: %s\n", x.Level, x.About, x.Text)
	}
	problems := r.Problems()
	fmt.Fprintf(out, "%s, %s\n", message.Count(problems, "problem"), message.Count(len(r.Findings)-problems, "warning"))
	return nil
}

// brief writes a number with five digits at most, and those before the point in any case.
func brief(v float64) string {
	if math.Abs(v) >= 1e4 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

func pointed(v *float64) string {
	if v == nil {
		return "-"
	}
	return brief(*v)
}

// show prints what a task file comes to.
func (f *taskFlags) show(e *env, args []string) error {
	args, err := atMost("show", args, "TASK", "MODEL")
	switch {
	case err != nil:
		return err
	case args[1] != "":
		return cli.Usagef("usage: cfq task show TASK", "unexpected argument %s", args[1])
	}
	t, err := readTask(args[0])
	if err != nil {
		return err
	}
	if e.json {
		_, err := e.stdout.Write(t.JSON())
		return err
	}
	set, err := constraint.Compile(t)
	if err != nil {
		return cli.Wrap(fmt.Errorf("task %s: %w", args[0], err), cli.Unusable, "")
	}
	return writeTask(e.stdout, t, set)
}

// writeTask shows a task to people.
func writeTask(out io.Writer, t *task.Task, set *constraint.Set) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	if t.Data.Label == "" {
		line("outcome", "not known")
	} else {
		line("outcome", "%s, favourable: %s", t.Data.Label, t.Data.Favourable)
	}
	line("target", "class %d, margin %s", t.Target.Index, task.Decimal(t.Target.Margin))
	line("inputs", "%d of %s", t.Dim(), message.Count(len(t.Features), "feature"))
	line("cost", "%s", costWords(&t.Cost))
	if t.Sparsity.MaxFeatures > 0 {
		line("sparsity", "an action changes at most %s", message.Count(t.Sparsity.MaxFeatures, "feature"))
	} else {
		line("sparsity", "no limit")
	}
	line("hash", "%s", t.Hash())
	fmt.Fprintln(w, "\t")
	fmt.Fprintln(w, "feature\tkind\tinputs\tcan change\tdirection\tbounds\tstep\tat most\tweight\tcost")
	for i := range t.Features {
		f := &t.Features[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Kind, inputs(f), changes(t, f),
			cmp.Or(direction(f), "-"), cmp.Or(span(f), "-"), cmp.Or(step(f), "-"), cmp.Or(limits(f), "-"),
			task.Decimal(f.Weight), cmp.Or(unitCost(t, f, set), "-"))
	}
	err := w.Flush()
	if len(t.Links) > 0 {
		fmt.Fprintln(out, "\nlinks")
		for _, l := range t.Links {
			fmt.Fprintf(out, "  %s\n", linkWords(&l))
		}
	}
	if len(t.Rules) > 0 {
		fmt.Fprintln(out, "\nconstraints")
		for i := range t.Rules {
			fmt.Fprintf(out, "  %s\n", t.Rules[i].Text)
		}
	}
	return errors.Join(err, transitionsOf(out, t))
}

func costWords(c *task.Cost) string {
	s := fmt.Sprintf("%s, weights %s", c.Norm, c.Weights)
	if c.Norm == task.Mixed {
		s += fmt.Sprintf(", %s of it l1", task.Decimal(c.L1Ratio))
	}
	if c.Switches != "" {
		s += ", a change of value counts " + map[bool]string{true: "once", false: "as encoded"}[c.Switches == task.Once]
	}
	return s
}

func inputs(f *task.Feature) string {
	if f.Width == 1 {
		return strconv.Itoa(f.Offset)
	}
	return fmt.Sprintf("%d-%d", f.Offset, f.Offset+f.Width-1)
}

// changes says whether and how a feature can change.
func changes(t *task.Task, f *task.Feature) string {
	switch {
	case f.Actionable:
		return "yes"
	case t.Moves(f.Name):
		return "by a link"
	case f.Mutable:
		return "as a side effect"
	}
	return "no"
}

func direction(f *task.Feature) string {
	if !f.Actionable || f.Direction == task.Any {
		return ""
	}
	return string(f.Direction)
}

func span(f *task.Feature) string {
	if !f.Kind.IsNumber() {
		if len(f.Values) > 0 {
			return message.Count(len(f.Values), "value")
		}
		return ""
	}
	switch lo, hi := f.Bounds[0], f.Bounds[1]; {
	case math.IsInf(lo, 0) && math.IsInf(hi, 0) && f.Values != nil:
		return strings.Join(f.Values, " ")
	case math.IsInf(lo, 0) && math.IsInf(hi, 0):
		return ""
	case math.IsInf(lo, 0):
		return "up to " + task.Decimal(hi)
	case math.IsInf(hi, 0):
		return "from " + task.Decimal(lo)
	default:
		return task.Decimal(lo) + " to " + task.Decimal(hi)
	}
}

func step(f *task.Feature) string {
	if f.Step == 0 {
		return ""
	}
	return task.Decimal(f.Step)
}

// limits are the largest changes.
func limits(f *task.Feature) string {
	var out []string
	for _, l := range []struct {
		sign string
		v    float64
	}{{"+", f.MaxIncrease}, {"-", f.MaxDecrease}, {"±", f.MaxChange}} {
		if !math.IsInf(l.v, 0) {
			out = append(out, l.sign+task.Decimal(l.v))
		}
	}
	return strings.Join(out, " ")
}

// unitCost says what a change costs: of one step or raw unit at the mean, or of a change of value.
func unitCost(t *task.Task, f *task.Feature, set *constraint.Set) string {
	if !f.Actionable {
		return ""
	}
	x, d := make([]float32, t.Dim()), make([]float32, t.Dim())
	for i := range t.Features {
		if g := &t.Features[i]; g.Kind == task.OneHot && g.Width > 0 {
			x[g.Offset] = 1
		}
	}
	switch f.Kind {
	case task.Numeric, task.Ordinal:
		unit, name := f.Step, "a step"
		if unit == 0 {
			unit, name = 1, "a unit"
		}
		d[f.Offset] = float32(unit / f.Std)
		if f.Direction == task.Decrease {
			d[f.Offset] = -d[f.Offset]
		}
		return fmt.Sprintf("%s %s", brief(set.Cost(x, d)), name)
	case task.OneHot:
		lo, hi := math.Inf(1), 0.0
		for from := range f.Width {
			for to := range f.Width {
				if from == to || (f.Transitions != nil && !slices.Contains(f.Transitions[f.Values[from]], f.Values[to])) {
					continue
				}
				clear(d)
				clear(x[f.Offset : f.Offset+f.Width])
				x[f.Offset+from], d[f.Offset+from], d[f.Offset+to] = 1, -1, 1
				c := set.Cost(x, d)
				lo, hi = min(lo, c), max(hi, c)
			}
		}
		switch {
		case hi == 0:
			return ""
		case brief(lo) == brief(hi):
			return brief(lo) + " a change"
		}
		return fmt.Sprintf("%s to %s a change", brief(lo), brief(hi))
	}
	d[f.Offset] = 1
	return brief(set.Cost(x, d)) + " a change"
}

// transitionsOf lists what may become what.
func transitionsOf(out io.Writer, t *task.Task) error {
	var errs []error
	for i := range t.Features {
		f := &t.Features[i]
		if f.Transitions == nil || !f.Actionable {
			continue
		}
		_, err := fmt.Fprintf(out, "\n%s\n", f.Name)
		errs = append(errs, err)
		for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
			_, err := fmt.Fprintf(out, "  %s -> %s\n", from, strings.Join(f.Transitions[from], ", "))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func linkWords(l *task.Link) string {
	if len(l.Map) == 0 {
		return fmt.Sprintf("%s changes with %s, %s for each unit", l.To, l.From, task.Decimal(l.Scale))
	}
	pairs := make([]string, len(l.Map))
	for i, p := range l.Map {
		pairs[i] = p.From + ": " + p.To
	}
	return fmt.Sprintf("%s follows %s: %s", l.To, l.From, strings.Join(pairs, ", "))
}
