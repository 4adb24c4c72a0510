package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"cfq/internal/cli"
	"cfq/task"
	"cfq/task/draft"
)

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
	o, err := readOptions(f.data, f.rows)
	if err != nil {
		return err
	}
	people, err := task.Read(ctx, f.data, t, o)
	if err != nil {
		return dataError(err)
	}
	var model draft.Model
	if args[1] != "" {
		m, _, err := openAny(ctx, e, args[1])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		model = m
	}
	for _, note := range people.Notes {
		e.msg.Note("%s: %s", f.data, note)
	}
	r, err := draft.Check(ctx, t, people, model)
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
		return cli.Wrap(fmt.Errorf("%s does not fit %s: %s", args[0], f.data, counted(n, "problem")), cli.Unusable, "")
	}
	return nil
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeCheck shows a report to people.
func writeCheck(out io.Writer, t *task.Task, r *draft.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "rows\t%d, %d read, %d left out by the filter\n", r.Rows, r.Read, r.Filtered)
	if s := r.Score; s != nil {
		fmt.Fprintf(w, "model\t%.1f %% of %d rows decided as labelled (the more frequent outcome alone: %.1f %%), class index %d\n", 100*s.Accuracy, s.Rows, 100*s.Majority, s.Index)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nfeature\tkind\tbelow\tabove\toff the step\tmissing\tmean: task\tdata\tstd: task\tdata")
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Kind, count(c.Below), count(c.Above), count(c.Off), count(c.Missing), mean, pointed(c.Mean), std, pointed(c.Std))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Rules) > 0 {
		fmt.Fprintln(w, "\nconstraint\tabout\tbroken by people as they are")
		for _, c := range r.Rules {
			fmt.Fprintf(w, "%s\t%s\t%d\n", c.Text, counted(c.Applies, "row"), c.Broken)
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
	fmt.Fprintf(out, "%s, %s\n", counted(problems, "problem"), counted(len(r.Findings)-problems, "warning"))
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
