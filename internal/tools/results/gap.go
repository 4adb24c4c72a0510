package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq/onnxio"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/qat/fit"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/mip"
	"cfq/task"
)

// gapMargin is the required margin, in logits, of the people in the table.
const gapMargin = 0.1

// gapModels are models of one task whose exact actions are known.
type gapModels struct {
	title string
	d     dataset
	files []string // exported models; without any, one is fitted to the training rows:
	arch  string   // a network of this architecture, or a logistic regression
}

// gapPeople is how many people are asked about of a network: each takes seconds.
const gapPeople = 40

func gapRows() []gapModels {
	d := datasets()
	networks := []string{"mlp2-s0.onnx", "mlp2-s1.onnx", "mlp2-s2.onnx", "mlp2-s3.onnx", "mlp2-s4.onnx"}
	rows := []gapModels{
		{"Adult, logistic regression", d[0], []string{"logreg-s0.onnx"}, ""},
		{"German, logistic regression", d[1], []string{"logreg-s0.onnx"}, ""},
		{"COMPAS, logistic regression fitted here", d[2], nil, ""},
		{"COMPAS, five networks", d[2], networks, ""},
	}
	for _, arch := range []string{"16,8", "32,16"} {
		for _, of := range d {
			title := fmt.Sprintf("%s, network %s", of.title, strings.ReplaceAll(arch, ",", "-"))
			rows = append(rows, gapModels{title, of, nil, "mlp:" + arch})
		}
	}
	return rows
}

// gap writes the table of the optimality gap: recourse.Solve against recourse.Exact.
func gap(ctx context.Context, w io.Writer, o settings) (err error) {
	if o.solver, err = mip.Find(""); err != nil {
		return err // networks of numbers need one
	}
	fmt.Fprint(w, "\n| model | norm | people | answered by | success, exact | success, solver | mean gap |"+
		" 95th percentile | largest |\n|---|---|---:|---|---:|---:|---:|---:|---:|\n")
	for _, r := range gapRows() {
		in, err := read(ctx, o, r.d)
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		norms := []task.Norm{task.L1, task.L2}
		if r.arch != "" {
			norms, o.sample = norms[:1], gapPeople // programs are linear
		}
		for _, norm := range norms {
			log.Printf("%s, %s", r.title, norm)
			g, err := r.measure(ctx, o, in, norm, gapMargin)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.title, norm, err)
			}
			fmt.Fprintf(w, "| %s | %s | %s |\n", r.title, norm, g.cells())
		}
	}
	fmt.Fprintln(w)
	return nil
}

// measure solves both ways under a norm of the cost.
func (r gapModels) measure(ctx context.Context, o settings, in data, norm task.Norm, margin float64) (*gaps, error) {
	t := *in.task
	t.Cost.Norm = norm
	set, err := constraint.Compile(&t)
	if err != nil {
		return nil, err
	}
	in.task, in.set = &t, set
	g := &gaps{methods: map[recourse.Method]int{}}
	models, err := r.models(ctx, in, o)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		if err := g.measure(ctx, m, in, margin, o); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// models opens the models of the row.
func (r gapModels) models(ctx context.Context, in data, o settings) (models []*onnxio.Model, err error) {
	if r.arch != "" {
		m, err := fitted(ctx, in, r.arch)
		return []*onnxio.Model{m}, err
	}
	if len(r.files) == 0 {
		m, err := logistic(ctx, in.train)
		if err != nil {
			return nil, err
		}
		return []*onnxio.Model{m}, nil
	}
	for _, file := range r.files {
		m, err := onnxio.Load(ctx, r.d.model(o, file), ort.Options{})
		if err != nil {
			return nil, err
		}
		models = append(models, m)
	}
	return models, nil
}

// fitted fits a network to the training rows, or to the first of them.
func fitted(ctx context.Context, in data, arch string) (*onnxio.Model, error) {
	a, err := fit.ParseArch(arch)
	if err != nil {
		return nil, err
	}
	rows := make([]int, min(in.train.N, 10_000))
	for i := range rows {
		rows[i] = i
	}
	r, err := fit.Train(ctx, in.task, in.train.Subset(rows), fit.Options{Arch: a})
	if err != nil {
		return nil, err
	}
	return onnxio.LoadBytes(ctx, r.Model, ort.Options{})
}

// gaps collects the comparisons of a row.
type gaps struct {
	people, exact, solver int // without those that no exact method answers
	open                  int // the latter
	methods               map[recourse.Method]int
	gap                   []float64
}

// measure solves for a sample of the people that a model refuses.
func (g *gaps) measure(ctx context.Context, m *onnxio.Model, in data, margin float64, o settings) (err error) {
	c, err := ptq.OpenFor(m, in.task, o.workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	x, err := refused(ctx, c, in.test, o.sample)
	if err != nil {
		return err
	}
	best, methods, err := recourse.Exact(ctx, c, in.set, x,
		recourse.ExactOptions{Margin: margin, Workers: o.workers, Solver: o.solver})
	if err != nil {
		return err
	}
	acts, err := recourse.Solve(ctx, c, in.set, x, recourse.SolveOptions{Margin: margin, Workers: o.workers})
	if err != nil {
		return err
	}
	for i := range best {
		g.add(methods[i], best[i], acts[i])
	}
	return nil
}

// refused returns at most sample of the people that the model refuses.
func refused(ctx context.Context, m recourse.Model, people *task.People, sample int) ([]float32, error) {
	margins, err := m.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	var rows []int
	for i, v := range margins {
		if v <= 0 {
			rows = append(rows, i)
		}
	}
	if len(rows) > sample {
		rng := rand.New(rand.NewPCG(1, 0))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		rows = rows[:sample]
		slices.Sort(rows)
	}
	var x []float32
	for _, i := range rows {
		x = append(x, people.X[i*people.Dim:(i+1)*people.Dim]...)
	}
	return x, nil
}

func (g *gaps) add(method recourse.Method, best, act recourse.Action) {
	if best.Status == recourse.AlreadyFavourable {
		return
	}
	if !method.Proved() {
		g.open++
		return
	}
	g.methods[method]++
	g.people++
	if best.Status == recourse.Found {
		g.exact++
	}
	if act.Status == recourse.Found {
		g.solver++
	}
	if best.Status == recourse.Found && act.Status == recourse.Found {
		g.gap = append(g.gap, act.Cost/best.Cost-1)
	}
}

func (g *gaps) cells() string {
	var methods []string
	for m, n := range g.methods {
		methods = append(methods, fmt.Sprintf("%d %s", n, m))
	}
	slices.Sort(methods)
	if g.open > 0 {
		methods = append(methods, fmt.Sprintf("%d not proved", g.open))
	}
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(g.people, 1))) }
	slices.Sort(g.gap)
	largest, mean := " | | ", stat.Mean(g.gap, nil)
	if len(g.gap) > 0 {
		p95 := stat.Quantile(0.95, stat.Empirical, g.gap, nil)
		largest = fmt.Sprintf("%.2f %% | %.2f %% | %.2f %%", 100*mean, 100*p95, 100*slices.Max(g.gap))
	}
	return fmt.Sprintf("%d | %s | %s | %s | %s",
		g.people, strings.Join(methods, ", "), share(g.exact), share(g.solver), largest)
}
