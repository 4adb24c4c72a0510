package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// gapMargin is the required margin, in logits, of the people in the table.
const gapMargin = 0.1

// gapModels are models whose exact actions are known, with the people to look at.
type gapModels struct {
	title string
	load  loader
}

// loader reads models of one task and the people that they decide on.
type loader func(ctx context.Context, o settings) ([]*graph.Model, *task.Task, *task.People, error)

func gapRows() []gapModels {
	networks := []string{"mlp2-s0.onnx", "mlp2-s1.onnx", "mlp2-s2.onnx", "mlp2-s3.onnx", "mlp2-s4.onnx"}
	return []gapModels{
		{title: "Adult, logistic regression", load: fromShared(datasets()[0], "logreg-s0.onnx")},
		{title: "German, logistic regression", load: fromShared(datasets()[1], "logreg-s0.onnx")},
		{title: "COMPAS, logistic regression", load: fittedTo(datasets()[2])},
		{title: "COMPAS, five networks", load: fromShared(datasets()[2], networks...)},
	}
}

// gap writes the table of the optimality gap: recourse.Solve against recourse.Exact.
func gap(ctx context.Context, w io.Writer, o settings) error {
	fmt.Fprint(w, "\n| model | norm | people | answered by | success, exact | success, solver | mean gap | 95th percentile | largest |\n")
	fmt.Fprint(w, "|---|---|---:|---|---:|---:|---:|---:|---:|\n")
	for _, r := range gapRows() {
		models, t, people, err := r.load(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		for _, norm := range []task.Norm{task.L1, task.L2} {
			tn := *t
			tn.Cost.Norm = norm
			var g gaps
			for _, m := range models {
				if err := g.measure(ctx, m, &tn, people, gapMargin, o.sample); err != nil {
					return fmt.Errorf("%s, %s: %w", r.title, norm, err)
				}
			}
			line := fmt.Sprintf("| %s | %s | %s |\n", r.title, norm, g.cells())
			fmt.Fprint(os.Stderr, line)
			fmt.Fprint(w, line)
		}
	}
	fmt.Fprintln(w)
	return nil
}

// gaps collects the comparisons of a row.
type gaps struct {
	people, exact, solver int // without those that no exact method answers
	methods               map[recourse.Method]int
	gap                   []float64
}

// measure solves for a sample of the refused people both ways.
func (g *gaps) measure(ctx context.Context, m *graph.Model, t *task.Task, people *task.People, margin float64, sample int) (err error) {
	const workers = 2
	c, err := ptq.OpenFor(ctx, m, t, ort.Options{}, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	set, err := constraint.Compile(t)
	if err != nil {
		return err
	}
	x, err := refused(ctx, c, people, sample)
	if err != nil {
		return err
	}
	best, methods, err := recourse.Exact(ctx, c, set, x, recourse.ExactOptions{Margin: margin, Workers: workers})
	if err != nil {
		return err
	}
	acts, err := recourse.Solve(ctx, c, set, x, recourse.SolveOptions{Margin: margin, Workers: workers})
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
	if g.methods == nil {
		g.methods = map[recourse.Method]int{}
	}
	if g.methods[method]++; !method.Proved() {
		return
	}
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
	share := func(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }
	slices.Sort(g.gap)
	out := []string{fmt.Sprint(g.people), strings.Join(methods, ", "), share(g.exact, g.people), share(g.solver, g.people)}
	if len(g.gap) == 0 {
		out = append(out, "", "", "")
	} else {
		for _, v := range []float64{stat.Mean(g.gap, nil), stat.Quantile(0.95, stat.Empirical, g.gap, nil), g.gap[len(g.gap)-1]} {
			out = append(out, fmt.Sprintf("%.2f %%", 100*v))
		}
	}
	return strings.Join(out, " | ")
}

// fromShared loads exported models and the test rows of a data set.
func fromShared(d dataset, files ...string) loader {
	return func(ctx context.Context, o settings) ([]*graph.Model, *task.Task, *task.People, error) {
		t, err := task.Load(filepath.Join("examples", "tasks", d.name+".yaml"))
		if err != nil {
			return nil, nil, nil, err
		}
		_, test, err := read(ctx, o.shared, d, t)
		if err != nil {
			return nil, nil, nil, err
		}
		var ms []*graph.Model
		for _, f := range files {
			m, err := codec.ReadFile(filepath.Join(o.shared, "models", d.name, f))
			if err != nil {
				return nil, nil, nil, err
			}
			ms = append(ms, m)
		}
		return ms, t, test, nil
	}
}

// fittedTo makes a logistic regression of a data set's training rows, where no exported one is at hand.
func fittedTo(d dataset) loader {
	return func(ctx context.Context, o settings) ([]*graph.Model, *task.Task, *task.People, error) {
		t, err := task.Load(filepath.Join("examples", "tasks", d.name+".yaml"))
		if err != nil {
			return nil, nil, nil, err
		}
		train, test, err := read(ctx, o.shared, d, t)
		if err != nil {
			return nil, nil, nil, err
		}
		w, b, err := fitLogistic(train)
		if err != nil {
			return nil, nil, nil, err
		}
		return []*graph.Model{logistic(w, b)}, t, test, nil
	}
}
