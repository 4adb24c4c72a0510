package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/ptq"
	"cfq/sensitivity"
	"cfq/task"
)

type sensitivityFlags struct {
	calibrationFlags

	look      ptq.ProfileOptions
	plot      string
	overwrite bool
}

func sensitivityCommand() command {
	return command{
		name:     "sensitivity",
		args:     "MODEL -d DATA -t TASK",
		operands: []string{"MODEL"},
		summary:  "show how much each layer matters, by gradient, curvature and quantization error",
		about: `
Measures each layer at the rows of the data, with their labels, and at the recourse
points of the people that the model refuses:

  gradient   mean l1 norm of the gradient of the loss by the layer's weights
  curvature  trace of the Hessian of the loss by the layer's weights (HAWQ-V2),
             estimated with random vectors
  error      quantization error of the margin: the layer alone at 2, 3, 4 or 8 bits

Nothing is written but the --plot. Use the training rows as data.`,
		examples: []string{
			"cfq sensitivity model.onnx -d train.csv -t task.yaml",
			"cfq sensitivity model.onnx -d train.csv -t task.yaml --plot profile.svg",
			"cfq sensitivity model.onnx -d train.csv -t task.yaml --method cf-ptq-paper --probes 256 --json",
		},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &sensitivityFlags{}
			f.addData(fs, "the calibration rows")
			fs.StringVar(&f.plot, "plot", "", "draw the profiles into an SVG `file`")
			cli.Require(fs, "plot", "a name that ends in .svg", func() bool { return filepath.Ext(f.plot) == ".svg" })
			f.addMethod(fs, "calibrate and round as this `method` of cfq quantize does")
			f.addSet(fs)
			fs.IntVar(&f.look.Probes, "probes", sensitivity.DefaultProbes,
				"random vectors for each trace; four times as many halve its standard error")
			cli.Within(fs, "probes", &f.look.Probes, 2, math.MaxInt, "2 or more, for a standard error")
			fs.Uint64Var(&f.look.Seed, "seed", 1, "seed of the random vectors")
			f.addRows(fs)
			f.addPromises(fs)
			fs.BoolVar(&f.overwrite, "overwrite", false, "replace the plot if it exists")
			more(fs, "probes", "seed")
			return f.run
		},
	}
}

func (f *sensitivityFlags) check(args []string) error {
	return writable(f.paths(args[0]), []string{f.plot}, f.overwrite)
}

func (f *sensitivityFlags) run(ctx context.Context, e *env, args []string) (err error) {
	if err := f.check(args); err != nil {
		return err
	}
	if f.look.Recipe, err = f.recipe(e.flags); err != nil {
		return err
	}
	in, run, err := f.openRun(ctx, e, args[0], task.ReadOptions{})
	if err != nil {
		return err
	}
	p, err := ptq.Sensitivity(ctx, in.files[0], in.task, in.people, f.look, run)
	if err != nil {
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	e.warn(p.Warnings)
	if f.plot != "" {
		err := cli.Write(f.plot, func(w io.Writer) error { return chart.Draw(w, profileCharts(p)...) })
		if err != nil {
			return err
		}
	}
	return e.show(p, func(w io.Writer) { writeProfile(w, p) })
}

// longestName is how much of a layer's name a table shows; names differ at their ends.
const longestName = 16

func shortName(name string) string {
	n := utf8.RuneCountInString(name)
	if n <= longestName {
		return name
	}
	return "…" + string([]rune(name)[n-longestName+1:])
}

type measuredAt struct {
	name string
	of   func(l *ptq.LayerProfile) *ptq.Importance
}

func places(p *ptq.Profile) []measuredAt {
	out := []measuredAt{{"factual rows", func(l *ptq.LayerProfile) *ptq.Importance { return l.Factual }}}
	if p.Recourse > 0 {
		out = append(out, measuredAt{"recourse points", func(l *ptq.LayerProfile) *ptq.Importance { return l.Recourse }})
	}
	return out
}

type measure struct {
	name, title, about string
	of                 func(i *ptq.Importance) *ptq.Score
}

func scoreMeasures(p *ptq.Profile) []measure {
	return []measure{
		{
			"gradient", "gradient per weight", "mean l1 norm of the gradient of a row's loss by the weights",
			func(i *ptq.Importance) *ptq.Score { return i.Gradient },
		},
		{
			"curvature", "curvature per weight, ± standard error",
			fmt.Sprintf("trace of the loss's Hessian by the weights, %d random vectors", p.Probes),
			func(i *ptq.Importance) *ptq.Score { return i.Trace },
		},
	}
}

func writeProfile(out io.Writer, p *ptq.Profile) {
	rows := message.Count(p.Factual, "row")
	if p.People > p.Factual {
		rows = fmt.Sprintf("%d of %d rows", p.Factual, p.People)
	}
	fmt.Fprintf(out, "%s on %s", p.Method, rows)
	if p.Recourse > 0 {
		what := "teacher recourse points"
		if p.Promised {
			what = "promised points"
		}
		fmt.Fprintf(out, " and %d %s, %d of them past the decision", p.Recourse, what, p.Reached)
	}
	fmt.Fprintln(out)
	for _, m := range scoreMeasures(p) {
		writeScores(out, p, m)
	}
	writeErrors(out, p)
}

func writeScores(out io.Writer, p *ptq.Profile, m measure) {
	at := slices.DeleteFunc(places(p), func(at measuredAt) bool { return m.of(at.of(&p.Layers[0])) == nil })
	if len(at) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s: %s (rank)\n", m.name, m.about)
	t := &message.Grid{}
	top, head := []string{"", ""}, []string{"layer", "weights"}
	for _, a := range at {
		top, head = append(top, a.name, ""), append(head, "in all", "per weight")
	}
	t.Add(top...)
	t.Add(head...)
	for i := range p.Layers {
		l := &p.Layers[i]
		row := []string{shortName(l.Node), strconv.Itoa(l.Weights)}
		for _, a := range at {
			s := m.of(a.of(l))
			value := fmt.Sprintf("%.3g", s.Value)
			if s.Err > 0 {
				value += fmt.Sprintf(" ±%.1g", s.Err)
			}
			row = append(row, value, fmt.Sprintf("%.2g (%d)", s.PerWeight, s.PerWeightRank))
		}
		t.Add(row...)
	}
	t.Write(out, "  ")
}

func writeErrors(out io.Writer, p *ptq.Profile) {
	how := "measured"
	if p.Errors != "exact" {
		how = "to first order"
	}
	fmt.Fprintf(out, "\nquantization error of the margin (rms, logits): one layer alone, %s\n", how)
	t := &message.Grid{}
	head := []string{"layer", "at"}
	for _, b := range p.BitWidths {
		head = append(head, fmt.Sprintf("%d bits", b))
	}
	t.Add(head...)
	for i := range p.Layers {
		l := &p.Layers[i]
		for _, a := range places(p) {
			row := []string{shortName(l.Node), a.name}
			for _, d := range a.of(l).MarginError {
				row = append(row, fmt.Sprintf("%.2g", math.Sqrt(d)))
			}
			t.Add(row...)
		}
	}
	t.Write(out, "  ")
}

func profileCharts(p *ptq.Profile) []chart.Chart {
	var names []string
	for _, l := range p.Layers {
		names = append(names, shortName(l.Node))
	}
	var charts []chart.Chart
	for _, m := range scoreMeasures(p) {
		c := chart.Chart{Title: m.title, X: m.name + " per weight", Log: true, Categories: names}
		for _, at := range places(p) {
			s := chart.Series{Name: at.name}
			for i := range p.Layers {
				score := m.of(at.of(&p.Layers[i]))
				if score == nil {
					break
				}
				c.Log = c.Log && score.PerWeight > 0
				s.Y = append(s.Y, score.PerWeight)
				if score.Err > 0 {
					e := score.Err / float64(p.Layers[i].Weights)
					s.Low, s.High = append(s.Low, score.PerWeight-e), append(s.High, score.PerWeight+e)
				}
			}
			if len(s.Low) != len(s.Y) {
				s.Low, s.High = nil, nil
			}
			if s.Y != nil {
				c.Series = append(c.Series, s)
			}
		}
		if c.Series != nil {
			charts = append(charts, c)
		}
	}
	for _, at := range places(p) {
		c := chart.Chart{
			Title: "one layer quantized alone, at " + at.name, X: "margin error (rms, logits)",
			Log: true, Categories: names,
		}
		for f, b := range p.BitWidths {
			s := chart.Series{Name: fmt.Sprintf("%d bits", b)}
			for i := range p.Layers {
				s.Y = append(s.Y, math.Sqrt(at.of(&p.Layers[i]).MarginError[f]))
			}
			c.Series = append(c.Series, s)
		}
		charts = append(charts, c)
	}
	return charts
}
