package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/ptq"
	"cfq/task"
)

type sensitivityFlags struct {
	calibrationFlags

	look ptq.ProfileOptions
}

func sensitivityCommand() command {
	return command{
		name:     "sensitivity",
		operands: []string{"MODEL"},
		setup: func(fs *pflag.FlagSet) runFunc {
			f := &sensitivityFlags{}
			f.addData(fs, "the calibration rows")
			f.addMethod(fs, "calibrate and round as this `method` of cfq quantize does")
			f.addSet(fs)
			fs.IntVar(&f.look.Probes, "probes", ptq.DefaultProbes,
				"random vectors for each trace; four times as many halve its standard error")
			cli.Within(fs, "probes", &f.look.Probes, 2, math.MaxInt, "2 or more, for a standard error")
			fs.Uint64Var(&f.look.Seed, "seed", 1, "seed of the random vectors")
			f.addRows(fs)
			f.addPromises(fs)
			more(fs, "probes", "seed")
			return f.run
		},
	}
}

func (f *sensitivityFlags) run(ctx context.Context, e *env, args []string) (err error) {
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
	place string
	*ptq.Importance
}

func places(l *ptq.LayerProfile) []measuredAt {
	all := []measuredAt{{"factual rows", l.Factual}, {"recourse points", l.Recourse}}
	return slices.DeleteFunc(all, func(a measuredAt) bool { return a.Importance == nil })
}

func writeProfile(out io.Writer, p *ptq.Profile) {
	fmt.Fprintf(out, "%s on %s", p.Method, rowsUsed(p.Factual, p.People))
	if p.Recourse > 0 {
		what := "teacher recourse points"
		if p.Promised {
			what = "promised points"
		}
		fmt.Fprintf(out, " and %d %s, %d of them past the decision", p.Recourse, what, p.Reached)
	}
	fmt.Fprintln(out)
	writeScores(out, p, "gradient: mean l1 norm of the gradient of a row's loss by the weights",
		func(i *ptq.Importance) *ptq.Score { return i.Gradient })
	writeScores(out, p,
		fmt.Sprintf("curvature: trace of the loss's Hessian by the weights, %d random vectors", p.Probes),
		func(i *ptq.Importance) *ptq.Score { return i.Trace })
	writeErrors(out, p)
}

func writeScores(out io.Writer, p *ptq.Profile, title string, score func(*ptq.Importance) *ptq.Score) {
	scored := func(l *ptq.LayerProfile) []measuredAt {
		return slices.DeleteFunc(places(l), func(a measuredAt) bool { return score(a.Importance) == nil })
	}
	at := scored(&p.Layers[0])
	if len(at) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s (rank)\n", title)
	t := &message.Grid{}
	top, head := []string{"", ""}, []string{"layer", "weights"}
	for _, a := range at {
		top, head = append(top, a.place, ""), append(head, "in all", "per weight")
	}
	t.Add(top...)
	t.Add(head...)
	for i := range p.Layers {
		l := &p.Layers[i]
		row := []string{shortName(l.Node), strconv.Itoa(l.Weights)}
		for _, a := range scored(l) {
			s := score(a.Importance)
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
		for _, a := range places(l) {
			row := []string{shortName(l.Node), a.place}
			for _, d := range a.MarginError {
				row = append(row, fmt.Sprintf("%.2g", math.Sqrt(d)))
			}
			t.Add(row...)
		}
	}
	t.Write(out, "  ")
}
