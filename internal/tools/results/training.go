package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"syscall"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/qat"
	"cfq/qat/fit"
	"cfq/recourse"
	"cfq/task"
)

// trainings are the rows of a data set: without and with training, weights in few bits and computing in float.
func trainings(budgets ...float64) []variant {
	var out []variant
	for _, b := range budgets {
		for _, m := range []ptq.MethodName{ptq.CFPTQ, ptq.CFQQAT} {
			o := ptq.Options{Method: m, Budget: b, Compute: ptq.ComputeFloat}
			out = append(out, variant{fmt.Sprintf("%s, %.1f", m, b), o})
		}
	}
	return out
}

// integers are rows without and with training, computing on integers.
func integers() (out []variant) {
	for _, m := range []ptq.MethodName{ptq.CFPTQ, ptq.CFQQAT} {
		out = append(out, variant{fmt.Sprintf("%s, 4.0, integer", m), ptq.Options{
			Method: m, Budget: 4,
			Compute: ptq.ComputeInteger,
		}})
	}
	return out
}

// otherTrainings are trained rows besides those of cfq-qat: the paper's baselines and objectives at 4 bits, and ways to
// choose bit widths at 3 bits.
func otherTrainings() []variant {
	var out []variant
	at := func(budget float64, m ptq.MethodName, doc string, o ptq.Options) {
		o.Method, o.Budget = m, budget
		out = append(out, variant{fmt.Sprintf("%s, %.1f%s", m, budget, doc), o})
	}
	at(4, ptq.PACT, ", integer", ptq.Options{Compute: ptq.ComputeInteger})
	weights := ptq.Options{Compute: ptq.ComputeFloat}
	for _, m := range []ptq.MethodName{ptq.LSQ, ptq.MixedQAT, ptq.KDQAT, ptq.PruneQAT, ptq.CFQQATPaper} {
		at(4, m, "", weights)
	}
	weights.Objective = qat.Validity
	at(4, ptq.CFQQAT, ", objective validity", weights)
	weights.Objective = ""
	at(3, ptq.CFQQAT, ", widths by the knapsack", weights)
	weights.Allocator = ptq.AllocatorLearned
	at(3, ptq.CFQQAT, ", widths learned", weights)
	weights.Allocator = ptq.AllocatorUniform
	at(3, ptq.CFQQAT, ", one width", weights)
	return out
}

func trainingColumns() []column {
	return []column{
		{"bytes", "%.0f", func(m measured) eval.Float { return eval.Float(m.Bytes) }},
		{"accuracy", "%+.4f", func(m measured) eval.Float { return accuracy(m) - accuracyFull(m) }},
		{"VD(0.1)", "%.4f", vd},
		{"RVD(0.1)", "%.4f", rvd},
		{"CRG sums", "%+.4f", func(m measured) eval.Float { return m.eval.Margins[1].CRG.RatioOfSums.Value }},
		{"DirSim", "%.3f", func(m measured) eval.Float { return m.eval.Margins[1].DirSim.Value }},
		{"seconds", "%.0f", func(m measured) eval.Float { return eval.Float(m.seconds) }},
	}
}

// training writes the tables of cfq-qat beside cf-ptq. One variant runs at a time, so that its processor seconds are
// its own.
func training(ctx context.Context, w io.Writer, o settings) error {
	o.workers = 1
	budgets := map[string][]float64{
		"adult": {4, 3, 2.5, 2}, "german": {2.5, 2}, "compas": {2.5, 2}, "bank": {3, 2.5}, "default": {3, 2.5},
	}
	for _, d := range datasets() {
		vs := trainings(budgets[d.name]...)
		if d.name == "adult" {
			vs = append(vs, integers()...)
		}
		rows, err := measure(ctx, o, d, d.shared(o, min(o.seeds, d.networks)), vs)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		writeColumns(w, d.title+", without and with training", rows, trainingColumns())
	}
	return nil
}

// firstSeed is that of the first network that is trained here.
const firstSeed = 10

// own are networks that cfq train makes of the training rows.
func own(n int, objective qat.Objective) networks {
	return networks{n, func(ctx context.Context, in data, k int) (string, *onnxio.Model, error) {
		name := fmt.Sprintf("seed %d", firstSeed+k)
		arch, err := fit.ParseArch("mlp:64,32")
		if err != nil {
			return name, nil, err
		}
		r, err := fit.Train(ctx, in.task, in.train, fit.Options{
			Arch: arch, Train: qat.Options{Objective: objective, Seed: uint64(firstSeed + k)},
			Recourse: func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
				o := recourse.TeacherOptions{Margin: in.task.Target.Margin}
				x, err := recourse.Teacher(ctx, m, in.set, people.X, o)
				if err == nil {
					recourse.Point(x, people.X, x)
				}
				return x, err
			},
		})
		if err != nil {
			return name, nil, err
		}
		m, err := onnxio.LoadBytes(ctx, r.Model, ort.Options{})
		return name, m, err
	}}
}

// narrowTitle names Adult with few inputs.
const narrowTitle = "Adult, 10 inputs"

// trained writes the tables of networks that cfq train made, on which no setting was chosen, and of other trained
// methods.
func trained(ctx context.Context, w io.Writer, o settings) error {
	o.workers = 1
	budgets := map[string][]float64{"Adult": {4, 3, 2.5, 2}, "German": {2.5}, "COMPAS": {2}, narrowTitle: {2.5}}
	narrow := datasets()[0]
	narrow.title, narrow.task = narrowTitle, filepath.Join("internal", "tools", "results", "narrow.yaml")
	for _, d := range append(datasets(), narrow) {
		if budgets[d.title] == nil {
			continue
		}
		vs := trainings(budgets[d.title]...)
		if d.title == "Adult" {
			vs = append(vs, integers()...)
		}
		rows, err := measure(ctx, o, d, own(o.seeds, qat.Task), vs)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		writeColumns(w, d.title+", networks of cfq train", rows, trainingColumns())
	}
	adult := datasets()[0]
	for _, objective := range []qat.Objective{qat.RMargin, qat.RConsistency} {
		rows, err := measure(ctx, o, adult, own(min(o.seeds, 2), objective), trainings(2.5))
		if err != nil {
			return fmt.Errorf("%s: %w", objective, err)
		}
		writeColumns(w, fmt.Sprintf("%s, networks of cfq train --objective %s", adult.title, objective), rows,
			trainingColumns())
	}
	rows, err := measure(ctx, o, adult, adult.shared(o, min(o.seeds, 2)), otherTrainings())
	if err != nil {
		return fmt.Errorf("%s: %w", adult.title, err)
	}
	writeColumns(w, adult.title+", other trained methods", rows, trainingColumns())
	return nil
}

// processorSeconds is what the process has used so far.
func processorSeconds() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
