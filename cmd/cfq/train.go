package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/qat/fit"
	"cfq/recourse"
	"cfq/task"
)

type trainFlags struct {
	peopleFlags

	out, arch  string
	o          fit.Options
	objective  qat.ObjectiveDoc
	validation float64
	teacher    recourse.TeacherOptions
	weights    map[string]*float64 // values of the flags
	log        string
	overwrite  bool
}

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

func (f *trainFlags) variables() variables {
	var objectives []string
	for _, o := range fit.Objectives() {
		objectives = append(objectives, string(o.Name))
	}
	o := &f.o.Train
	o.LearningRate = qat.DefaultRate
	v := f.peopleFlags.variables().with(variables{
		"output": &f.out, "arch": &f.arch, "objective": cli.Choice(&o.Objective, objectives),
		"attributes": &f.o.Attributes, "log": &f.log, "overwrite": &f.overwrite,
		"epochs": &f.o.Epochs, "train-steps": &o.Steps, "batch": &o.Batch, "weight-decay": &o.Decay,
		"validation": &f.validation, "learning-rate": &o.LearningRate, "train-seed": &o.Seed, "members": &f.o.Members,
		"teacher-steps": &f.teacher.Steps,
	})
	f.weights = map[string]*float64{}
	for _, name := range objectiveWeights() {
		weight := qat.DefaultWeight(name)
		f.weights[name], v[name] = &weight, &weight
	}
	return v
}

func objectiveWeights() []string { return []string{"eta", "beta", "gamma"} }

func (f *trainFlags) check(e *env) (err error) {
	if f.out == "" {
		return cli.Usagef(hintMissingOutput, "--output is missing")
	}
	if f.arch == "" {
		return cli.Usagef("--arch mlp:64,32 is a network with two hidden layers", "--arch is missing")
	}
	if f.o.Arch, err = fit.ParseArch(f.arch); err != nil {
		return cli.WithCode(err, cli.Unusable)
	}
	f.o.Validation = &f.validation
	if err := f.o.Check(); err != nil {
		return cli.WithCode(err, cli.Unusable)
	}
	if err := f.checkObjective(e); err != nil {
		return err
	}
	return writable(f.paths(), append(f.models(), f.log), f.overwrite)
}

func (f *trainFlags) models() []string {
	if !f.o.Arch.Autoencoder() {
		return []string{f.out}
	}
	base := strings.TrimSuffix(f.out, ".onnx")
	return []string{base + ".encoder.onnx", base + ".decoder.onnx"}
}

func (f *trainFlags) checkObjective(e *env) (err error) {
	if f.o.Arch.Autoencoder() && e.changed("objective") {
		return cli.Usagef(cli.HintConflict, "--objective: an autoencoder has one of its own")
	}
	if len(f.o.Attributes) > 0 && !f.o.Arch.Autoencoder() {
		return cli.Usagef(cli.HintConflict, "--attributes: a classifier has no code; --arch autoencoder:SIZE,... has one")
	}
	if f.objective, err = qat.FindObjective(f.o.Train.Objective); err != nil {
		return err
	}
	name := string(f.objective.Name)
	err = cmp.Or(
		e.conflict(!f.objective.Ensemble,
			"FLAG: the objective "+name+" trains one network; r-consistency trains several", "members"),
		e.conflict(!f.objective.Recourse,
			"FLAG: the objective "+name+" does not look at recourse; r-margin and r-consistency do", "teacher-steps"),
	)
	for _, weight := range objectiveWeights() {
		if e.given(weight) {
			*f.o.Train.Named(weight) = f.weights[weight]
		}
		err = cmp.Or(err, e.conflict(!slices.Contains(f.objective.Weights, weight),
			"FLAG: the objective "+name+" has none", weight))
	}
	return err
}

func (f *trainFlags) run(ctx context.Context, e *env, _ []string) error {
	if err := f.check(e); err != nil {
		return err
	}
	tk, err := readTask(ctx, e, f.task)
	if err != nil {
		return err
	}
	set, err := actionSet(f.task, "", tk)
	if err != nil {
		return err
	}
	people, err := readPeople(ctx, e, f.data, f.rows, tk, task.ReadOptions{Keep: f.o.Attributes})
	if err != nil {
		return err
	}
	f.o.Engine, f.o.Workers = e.engine(), e.workers
	show := e.progress()
	f.o.Progress = func(r fit.Round, total int) {
		text := fmt.Sprintf("train: loss %.3g", r.Loss)
		if r.Validation != nil {
			text += fmt.Sprintf(", validation %.3g", r.Validation.Loss)
			if r.Validation.Decisions != nil {
				text += ", accuracy " + message.Percent(r.Validation.Accuracy, 1)
			}
		}
		show(eval.Event{Stage: text, Done: r.Number, Total: total})
	}
	f.teacher.Margin, f.teacher.Workers = tk.Target.Margin, e.workers
	f.o.Teacher = func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
		x, err := recourse.Teacher(ctx, m, set.set, people.X, f.teacher)
		if err == nil {
			recourse.Point(x, people.X, x)
		}
		return x, err
	}
	if f.o.Recipe, err = f.recipe(); err != nil {
		return err
	}
	r, err := fit.Train(ctx, tk, people, f.o)
	if err != nil {
		return runError(err)
	}
	if on, m := judged(r); m.Decisions != nil && m.Accuracy < m.Constant+slight {
		e.msg.Warn("%s: its accuracy on %s rows is %s, that of always the same decision %s: it may decide "+
			"nearly everyone alike", f.out, on, message.Percent(m.Accuracy, 2), message.Percent(m.Constant, 2))
	}
	return f.write(e, r)
}

// slight is how much better than always the same decision a model has to be.
const slight = 0.01

func judged(r *fit.Result) (string, fit.Metrics) {
	if r.Validation != nil {
		return "validation", *r.Validation
	}
	return "training", r.Train
}

func (f *trainFlags) recipe() (map[string]string, error) {
	r, err := madeFrom(map[string]string{"data": f.data, "task": f.task, "rows": strings.TrimPrefix(f.rows, "!")})
	if err == nil && strings.HasPrefix(f.rows, "!") {
		r["rows"] = "!" + r["rows"] // all others
	}
	return r, err
}

func (f *trainFlags) write(e *env, r *fit.Result) error {
	if err := writeLog(f.log, fitTable(r)); err != nil {
		return err
	}
	paths, content := f.models(), [][]byte{r.Model, r.Decoder}
	for i, path := range slices.Backward(paths) {
		if err := cli.Write(path, cli.Content(content[i])); err != nil {
			return err
		}
	}
	out := struct {
		File          string `json:"file"` // of an autoencoder the encoder
		SHA256        string `json:"sha256"`
		Decoder       string `json:"decoder,omitempty"`
		DecoderSHA256 string `json:"decoder_sha256,omitempty"`
		*fit.Result
	}{File: paths[0], SHA256: fmt.Sprintf("%x", sha256.Sum256(r.Model)), Result: r}
	if len(paths) > 1 {
		out.Decoder, out.DecoderSHA256 = paths[1], fmt.Sprintf("%x", sha256.Sum256(r.Decoder))
	}
	return e.show(out, func(w io.Writer) { f.show(w, r) })
}

func (f *trainFlags) show(out io.Writer, r *fit.Result) {
	paths := f.models()
	fmt.Fprintf(out, "%s: %s, %s, %s\n", strings.Join(paths, ", "), r.Arch, message.Count(r.Parameters, "parameter"),
		message.Count(len(r.Model)+len(r.Decoder), "byte"))
	writeParagraphs(out, "  ", "    ", "trained", struct {
		*fit.Result
		Constant  float64 // accuracy of always the same decision
		LeastLoss bool
	}{r, max(r.Favourable, 1-r.Favourable), r.Validation != nil && !f.objective.Recourse})
	fmt.Fprintln(out)
	writeGrid(out, &message.Grid{Left: map[int]bool{0: true}}, "  ", "fits", r)
	if r.Train.Coding != nil {
		showCoding(out, r)
		return
	}
	fmt.Fprintf(out, "\nnext: cfq quantize %s -d %s -t %s -o %s\n", f.out, f.data, f.task,
		strings.TrimSuffix(f.out, ".onnx")+".q.onnx")
}

func showCoding(out io.Writer, r *fit.Result) {
	fmt.Fprintln(out)
	writeParagraphs(out, "  ", "  ", "coding", r)
	if on, m := judged(r); m.Attributes != nil {
		fmt.Fprintln(out)
		writeGrid(out, &message.Grid{Left: map[int]bool{0: true}}, "  ", "attributes", m)
		fmt.Fprintf(out, "  (%s rows; root mean square error and standard deviation in the attribute's unit)\n", on)
	}
}

func fitColumns(m *fit.Metrics) (names []string, values []float64) {
	if m.Coding == nil {
		return []string{"loss", "accuracy", "auc"}, []float64{m.Loss, m.Accuracy, m.AUC}
	}
	names, values = []string{"loss", "error", "mean_error"}, []float64{m.Loss, m.Error, m.MeanError}
	if m.Rendered != nil {
		names, values = append(names, "rendered_error"), append(values, *m.Rendered)
	}
	return names, values
}

func fitTable(r *fit.Result) [][]string {
	names, _ := fitColumns(&r.Train)
	head := []string{"round", "steps", "loss"}
	for _, rows := range []string{"train_", "validation_"} {
		for _, name := range names {
			head = append(head, rows+name)
		}
	}
	table := [][]string{head}
	for i, x := range r.Rounds {
		row := make([]string, len(head)) // without people held out the last cells are empty
		row[0], row[1], row[2] = strconv.Itoa(i+1), strconv.Itoa(x.Steps), csvNumber(x.Loss)
		for k, m := range []*fit.Metrics{&x.Train, x.Validation} {
			if m != nil {
				_, values := fitColumns(m)
				for j, v := range values {
					row[3+k*len(names)+j] = csvNumber(v)
				}
			}
		}
		table = append(table, row)
	}
	return table
}

func writeLog(path string, table [][]string) error {
	if path == "" {
		return nil
	}
	return cli.Write(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(table) })
}

// csvNumber writes a number; what is undefined is empty.
func csvNumber(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
