package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/lists"
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

func (f *trainFlags) variables() variables {
	objectives := lists.Map(fit.Objectives(), func(o qat.ObjectiveDoc) string { return string(o.Name) })
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
	in, err := f.openFiles(ctx, e, nil, f.checkPeople)
	if err != nil {
		return err
	}
	people, err := readPeople(ctx, e, f.data, f.rows, in.task, task.ReadOptions{Keep: f.o.Attributes})
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
	f.teacher.Margin, f.teacher.Workers = in.task.Target.Margin, e.workers
	f.o.Teacher = func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
		x, err := recourse.Teacher(ctx, m, in.allowed.set, people.X, f.teacher)
		if err == nil {
			recourse.Point(x, people.X, x)
		}
		return x, err
	}
	if f.o.Recipe, err = f.recipe(); err != nil {
		return err
	}
	r, err := fit.Train(ctx, in.task, people, f.o)
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
	if err := writeLog(f.log, "fit log", r); err != nil {
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
	return e.show(out, func(w *textView) { f.show(w, r) })
}

func (f *trainFlags) show(out *textView, r *fit.Result) {
	paths := f.models()
	fmt.Fprintf(out, "%s: %s, %s, %s\n", strings.Join(paths, ", "), r.Arch, message.Count(r.Parameters, "parameter"),
		message.Count(len(r.Model)+len(r.Decoder), "byte"))
	out.paragraphs("  ", "    ", "trained", struct {
		*fit.Result
		Constant  float64 // accuracy of always the same decision
		LeastLoss bool
	}{r, max(r.Favourable, 1-r.Favourable), r.Validation != nil && !f.objective.Recourse})
	fmt.Fprintln(out)
	out.grid(&message.Grid{Left: map[int]bool{0: true}}, "  ", "fits", r)
	if r.Train.Coding == nil {
		fmt.Fprintf(out, "\nnext: cfq quantize %s -d %s -t %s -o %s\n", f.out, f.data, f.task,
			strings.TrimSuffix(f.out, ".onnx")+".q.onnx")
		return
	}
	fmt.Fprintln(out)
	out.paragraphs("  ", "  ", "coding", r)
	if on, m := judged(r); m.Attributes != nil {
		fmt.Fprintln(out)
		out.grid(&message.Grid{Left: map[int]bool{0: true}}, "  ", "attributes", m)
		fmt.Fprintf(out, "  (%s rows; root mean square error and standard deviation in the attribute's unit)\n", on)
	}
}
