package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"cfq/eval"
	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/classifier"
	"cfq/ptq"
	"cfq/qat"
	"cfq/qat/fit"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// trainFlags are the flags of train.
type trainFlags struct {
	peopleFlags

	fs         *pflag.FlagSet
	out, arch  string
	o          fit.Options
	objective  qat.ObjectiveDoc
	validation float64
	teacher    recourse.TeacherOptions
	log        string
	overwrite  bool
	noCache    bool
}

func trainCommand() command {
	return command{
		name:    "train",
		args:    "-d DATA -t TASK --arch ARCH -o OUTPUT",
		summary: "train a classifier in full precision",
		about: `
Trains a network on the labels of the data and writes an ONNX model with two logits.
With the objective task, people who are held out choose the best of 16 rounds;
other objectives take the last one. A training that was stopped goes on where it was.`,
		notes: trainNotes(),
		page:  "method.md",
		examples: []string{
			"cfq train -d train.csv -t task.yaml --arch mlp:64,32 -o model.onnx",
			"cfq train -d train.csv -t task.yaml --arch logreg --validation 0 --epochs 50 -o model.onnx",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &trainFlags{fs: fs}
			fs.SortFlags = false
			f.add(fs)
			return f.run
		},
	}
}

// trainNotes explains architectures and objectives, from their tables.
func trainNotes() string {
	var b strings.Builder
	b.WriteString("Architectures:\n")
	for _, a := range fit.Archs() {
		item(&b, a.Name, a.Usage()+": "+a.Doc)
	}
	b.WriteString("\nObjectives:\n")
	for _, o := range fit.Objectives() {
		item(&b, string(o.Name), o.Doc)
	}
	return b.String()
}

func (f *trainFlags) add(fs *pflag.FlagSet) {
	f.addData(fs, "the people to train on")
	fs.StringVarP(&f.out, "output", "o", "", "the model `file`")
	fs.StringVar(&f.arch, "arch", "", "the `architecture`, such as mlp:64,32; see below")
	var objectives []string
	for _, o := range fit.Objectives() {
		objectives = append(objectives, string(o.Name))
	}
	cli.Choice(fs, &f.o.Train.Objective, "objective", qat.Task, objectives, "what training minimises; see below")
	f.addRows(fs)
	fs.StringVar(&f.log, "log", "",
		"write losses and accuracies of each round to a CSV `file`, and their curves to an SVG beside it")
	fs.BoolVar(&f.overwrite, "overwrite", false, "replace outputs that exist")
	group(fs, "Training", func(fs *pflag.FlagSet) {
		fs.Float64Var(&f.o.Epochs, "epochs", 0, "`passes` over the people; 0 is the default, 40, and at least 640 steps")
		fs.IntVar(&f.o.Train.Steps, "train-steps", 0, "`steps` of the optimizer, in place of --epochs")
		fs.IntVar(&f.o.Train.Batch, "batch", 0, "`rows` of a step; 0 is the default, 256 or as many as there are")
		cli.Within(fs, "batch", &f.o.Train.Batch, 0, 1<<16, "0 to 65536 rows")
		fs.Float64Var(&f.o.Train.Decay, "weight-decay", 0, "`factor` of half the squared weights in the loss")
		fs.Float64Var(&f.validation, "validation", 0.2,
			"`share` of the people who are not trained on, the same for every seed; 0 for none")
		cli.Within(fs, "validation", &f.validation, 0, cli.Below1, "a share below 1, such as 0.2, or 0 for none")
		addOptimizer(fs, &f.o.Train)
		fs.BoolVar(&f.noCache, "no-cache", false, "train from the start instead of going on from an earlier run")
	})
	group(fs, "Objectives that look at recourse", func(fs *pflag.FlagSet) {
		fs.IntVar(&f.o.Members, "members", 3, "r-consistency: `networks` that are trained together")
		cli.Within(fs, "members", &f.o.Members, 2, 64, "2 to 64")
		addWeight(fs, &f.o.Train.Eta, fit.Objectives(), "eta", "`weight` of the variance")
		addHinge(fs, &f.o.Train, fit.Objectives())
		addTeacherSteps(fs, &f.teacher)
	})
}

// check looks at the flags before any work is done.
func (f *trainFlags) check(args []string) (err error) {
	if err := arguments("train", args); err != nil {
		return err
	}
	if f.out == "" {
		return cli.Usagef("-o model.onnx names the file to write", "--output is missing")
	}
	if f.arch == "" {
		return cli.Usagef("--arch mlp:64,32 is a network with two hidden layers", "--arch is missing")
	}
	if f.o.Arch, err = fit.ParseArch(f.arch); err != nil {
		return cli.Wrap(err, cli.Unusable, "")
	}
	if f.o.Validation = f.validation; f.validation == 0 {
		f.o.Validation = -1
	}
	if err := f.o.Check(); err != nil {
		return cli.Wrap(err, cli.Unusable, "")
	}
	if err := f.checkObjective(); err != nil {
		return err
	}
	outputs := []string{f.out}
	if f.log != "" {
		if outputs = append(outputs, f.log, trainingPlot(f.log)); trainingPlot(f.log) == f.log {
			return errLogIsPlot(f.log)
		}
	}
	for _, path := range outputs {
		if err := cli.Output(path, f.overwrite); err != nil {
			return err
		}
	}
	return cli.Distinct(f.paths(), outputs)
}

// checkObjective finds the objective and reports flags that it has no use for.
func (f *trainFlags) checkObjective() (err error) {
	if f.objective, err = qat.FindObjective(f.o.Train.Objective); err != nil {
		return err
	}
	if f.fs.Changed("members") && !f.objective.Ensemble {
		return cli.Usagef("--objective r-consistency trains several", "--members: the objective %s trains one network",
			f.objective.Name)
	}
	if f.fs.Changed("teacher-steps") && !f.objective.Recourse {
		return cli.Usagef("--objective r-margin and r-consistency do",
			"--teacher-steps: the objective %s does not look at recourse", f.objective.Name)
	}
	return checkWeights(f.fs, f.objective, "--objective r-margin has beta and gamma, r-consistency has eta")
}

func (f *trainFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(args); err != nil {
		return err
	}
	tk, err := readTask(f.task)
	if err != nil {
		return err
	}
	set, err := actionSet(f.task, "", tk)
	if err != nil {
		return err
	}
	people, err := readPeople(ctx, e, f.data, f.rows, tk, task.ReadOptions{})
	if err != nil {
		return err
	}
	f.o.Engine, f.o.Workers = e.engine(), e.workers
	show := e.progress()
	f.o.Progress = func(r fit.Round, total int) {
		text := fmt.Sprintf("train: loss %.3g", r.Loss)
		if r.Validation != nil {
			text += fmt.Sprintf(", validation %.3g, accuracy %s", r.Validation.Loss, message.Percent(r.Validation.Accuracy, 1))
		}
		show(eval.Event{Stage: text, Done: r.Number, Total: total})
	}
	f.o.Recourse = f.teach(set.set, tk, e.workers)
	f.o.Settings = fmt.Sprintf("%+v", f.teacher)
	if !f.noCache {
		f.o.Checkpoint = func(sum [sha256.Size]byte) (qat.Checkpoint, error) {
			dir, err := ptq.TeacherCache()
			if err != nil {
				return nil, nil //nolint:nilerr // where the system has no place for a cache there is none
			}
			return ptq.KeptTraining(dir, e.engine(), sum)
		}
	}
	if f.o.Recipe, err = f.recipe(); err != nil {
		return err
	}
	r, err := fit.Train(ctx, tk, people, f.o)
	if err != nil {
		return runError(err)
	}
	if on, m := judged(r); m.Accuracy < m.Constant+slight {
		e.msg.Warn("%s: its accuracy on %s rows is %s, that of always the same decision %s: it may decide "+
			"nearly everyone alike", f.out, on, message.Percent(m.Accuracy, 2), message.Percent(m.Constant, 2))
	}
	return f.write(e, r)
}

// slight is how much better than always the same decision a model has to be.
const slight = 0.01

// judged are the rows that tell most of how well a model decides.
func judged(r *fit.Result) (string, fit.Metrics) {
	if r.Validation != nil {
		return "validation", *r.Validation
	}
	return "training", r.Train
}

// teach returns what finds recourse of people under a model as trained so far.
func (f *trainFlags) teach(set *constraint.Set, tk *task.Task, workers int) func(context.Context, *classifier.Model,
	*task.People) ([]float32, error) {
	return func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
		o := f.teacher
		o.Margin, o.Workers = tk.Target.Margin, workers
		x, err := recourse.Teacher(ctx, m, set, people.X, o)
		if err == nil {
			recourse.Point(x, people.X, x)
		}
		return x, err
	}
}

// recipe says which files the model was trained on.
func (f *trainFlags) recipe() (_ map[string]string, err error) {
	r := map[string]string{"cfq": release()}
	for key, path := range map[string]string{"data": f.data, "task": f.task, "rows": strings.TrimPrefix(f.rows, "!")} {
		if path == "" {
			continue
		}
		if _, r[key], err = fileHash(path); err != nil {
			return nil, err
		}
	}
	if strings.HasPrefix(f.rows, "!") {
		r["rows"] = "!" + r["rows"] // all others
	}
	return r, nil
}

// write puts the files in place, the model last, and says what was done.
func (f *trainFlags) write(e *env, r *fit.Result) error {
	if f.log != "" {
		if err := writeLog(f.log, fitTable(r), fitCharts(r)); err != nil {
			return err
		}
	}
	err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(r.Model); return err })
	if err != nil {
		return err
	}
	if !e.json {
		f.show(e.stdout, r)
		return nil
	}
	return writeJSON(e.stdout, struct {
		File   string `json:"file"`
		SHA256 string `json:"sha256"`
		*fit.Result
	}{f.out, fmt.Sprintf("%x", sha256.Sum256(r.Model)), r})
}

// show writes what came of a training.
func (f *trainFlags) show(out io.Writer, r *fit.Result) {
	fmt.Fprintf(out, "%s: %s, %s, %s\n", f.out, r.Arch, message.Count(r.Parameters, "parameter"),
		message.Count(len(r.Model), "byte"))
	chosen := fmt.Sprintf("round %d of %d", r.Chosen, len(r.Rounds))
	if r.Members > 0 {
		chosen = fmt.Sprintf("one of %d members after %s, the one nearest to their mean", r.Members, chosen)
	} else if r.Validation != nil && !f.objective.Recourse {
		chosen += ", which has the least validation loss"
	}
	say := func(format string, args ...any) { message.Paragraph(out, "  ", "    ", fmt.Sprintf(format, args...)) }
	say("trained for %s (%s), %.0f epochs; %s", message.Count(r.Steps, "step"), r.Objective, r.Epochs, chosen)
	say("%s of the labels are favourable; always the same decision would have an accuracy of %s",
		message.Percent(r.Favourable, 1), message.Percent(max(r.Favourable, 1-r.Favourable), 1))
	if r.Unlabelled > 0 {
		say("%s without a label left out", message.Count(r.Unlabelled, "row"))
	}
	fmt.Fprintln(out)
	g := &message.Grid{Left: map[int]bool{0: true}}
	g.Add("", "rows", "loss", "accuracy", "AUC")
	add := func(name string, m *fit.Metrics) {
		if m != nil {
			g.Add(name, strconv.Itoa(m.Rows), fmt.Sprintf("%.4f", m.Loss), message.Percent(m.Accuracy, 2),
				fmt.Sprintf("%.4f", m.AUC))
		}
	}
	add("train", &r.Train)
	add("validation", r.Validation)
	g.Write(out, "  ")
	fmt.Fprintf(out, "\nnext: cfq quantize %s -d %s -t %s -o %s\n", f.out, f.data, f.task,
		strings.TrimSuffix(f.out, ".onnx")+".q.onnx")
}

// fitTable has one line for each round of a training in full precision.
func fitTable(r *fit.Result) [][]string {
	rows := [][]string{{
		"round", "steps", "loss", "train_loss", "train_accuracy", "train_auc", "validation_loss", "validation_accuracy",
		"validation_auc",
	}}
	for i, x := range r.Rounds {
		row := []string{strconv.Itoa(i + 1), strconv.Itoa(x.Steps), number(x.Loss)}
		validation := fit.Metrics{Loss: math.NaN(), Accuracy: math.NaN(), AUC: math.NaN()}
		if x.Validation != nil {
			validation = *x.Validation
		}
		for _, m := range []fit.Metrics{x.Train, validation} {
			row = append(row, number(m.Loss), number(m.Accuracy), number(m.AUC))
		}
		rows = append(rows, row)
	}
	return rows
}

// fitCharts are the curves of a training in full precision.
func fitCharts(r *fit.Result) []chart.Chart {
	curves := []chart.Chart{
		{Title: "Cross-entropy", X: "steps", Y: "mean"}, {Title: "Accuracy", X: "steps", Y: "share"},
	}
	add := func(name string, of func(fit.Round) *fit.Metrics) {
		series := [2]chart.Series{{Name: name}, {Name: name}}
		for _, x := range r.Rounds {
			m := of(x)
			if m == nil {
				return
			}
			for k, v := range []float64{m.Loss, m.Accuracy} {
				series[k].X, series[k].Y = append(series[k].X, float64(x.Steps)), append(series[k].Y, v)
			}
		}
		for k := range curves {
			curves[k].Series = append(curves[k].Series, series[k])
		}
	}
	add("train", func(x fit.Round) *fit.Metrics { return &x.Train })
	add("validation", func(x fit.Round) *fit.Metrics { return x.Validation })
	return curves
}
