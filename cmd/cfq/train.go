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
	log        string
	overwrite  bool
}

func (f *trainFlags) variables() variables {
	objectives := lists.Map(fit.Objectives(), func(o qat.ObjectiveDoc) string { return string(o.Name) })
	o := &f.o.Train
	o.LearningRate = qat.DefaultRate
	return f.peopleFlags.variables().with(variables{
		"output": &f.out, "arch": &f.arch, "objective": cli.Choice(&o.Objective, objectives),
		"attributes": &f.o.Attributes, "log": &f.log, "overwrite": &f.overwrite,
		"epochs": &f.o.Epochs, "train-steps": &o.Steps, "weight-decay": &o.Decay, "validation": &f.validation,
		"learning-rate": &o.LearningRate, "train-seed": &o.Seed,
	})
}

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
	auto := f.o.Arch.Autoencoder()
	err = cmp.Or(
		e.conflict(auto, "FLAG: an autoencoder has one of its own", "objective"),
		refuseFlags(func(string) bool { return len(f.o.Attributes) > 0 && !auto },
			"FLAG: a classifier has no code; --arch autoencoder:SIZE,... has one", "attributes"),
	)
	if err != nil {
		return err
	}
	if f.objective, err = qat.FindObjective(f.o.Train.Objective); err != nil {
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
	teacher := recourse.TeacherOptions{Margin: in.task.Target.Margin, Workers: e.workers}
	f.o.Teacher = func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
		x, err := recourse.Teacher(ctx, m, in.allowed.set, people.X, teacher)
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
		return err
	}
	on, m := "training", r.Train
	if r.Validation != nil {
		on, m = "validation", *r.Validation
	}
	if m.Decisions != nil && m.Accuracy < m.Constant+slight {
		e.msg.Warn("%s: its accuracy on %s rows is %s, that of always the same decision %s: it may decide "+
			"nearly everyone alike", f.out, on, message.Percent(m.Accuracy, 2), message.Percent(m.Constant, 2))
	}
	return f.write(e, r)
}

// slight is how much better than always the same decision a model has to be.
const slight = 0.01

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
	return e.show(out, func(w *textView) {
		w.page("fitted", struct {
			*fit.Result
			Files, Next string
			Constant    float64 // accuracy of always the same decision
			LeastLoss   bool
		}{
			r, strings.Join(paths, ", "), fmt.Sprintf("cfq quantize %s -d %s -t %s -o %s", f.out, f.data, f.task,
				strings.TrimSuffix(f.out, ".onnx")+".q.onnx"),
			max(r.Favourable, 1-r.Favourable), r.Validation != nil && !f.objective.Recourse,
		})
	})
}
