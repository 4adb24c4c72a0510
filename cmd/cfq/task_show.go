package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"cfq/internal/cli"
	"cfq/recourse"
	"cfq/task"
	"cfq/task/draft"
)

// show prints what a task file comes to.
func (f *taskFlags) show(e *env, args []string) error {
	args, err := atMost("show", args, "TASK", "MODEL")
	switch {
	case err != nil:
		return err
	case args[1] != "":
		return cli.Usagef("usage: cfq task show TASK", "%s is one argument too many", args[1])
	}
	t, err := readTask(args[0])
	if err != nil {
		return err
	}
	if e.json {
		_, err := e.stdout.Write(t.JSON())
		return err
	}
	set, err := recourse.Compile(t)
	if err != nil {
		return cli.Wrap(fmt.Errorf("task %s: %w", args[0], err), cli.Unusable, "")
	}
	return writeTask(e.stdout, t, set)
}

// writeTask shows a task to people.
func writeTask(out io.Writer, t *task.Task, set *recourse.ActionSet) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	if t.Data.Label == "" {
		line("outcome", "not known")
	} else {
		line("outcome", "%s, favourable: %s", t.Data.Label, t.Data.Favourable)
	}
	line("target", "class %d, margin %s", t.Target.Index, task.Decimal(t.Target.Margin))
	line("inputs", "%d of %s", t.Dim(), counted(len(t.Features), "feature"))
	line("cost", "%s", costWords(&t.Cost))
	if t.Sparsity.MaxFeatures > 0 {
		line("sparsity", "an action changes at most %s", counted(t.Sparsity.MaxFeatures, "feature"))
	} else {
		line("sparsity", "no limit")
	}
	line("hash", "%s", t.Hash())
	fmt.Fprintln(w, "\t")
	fmt.Fprintln(w, "feature\tkind\tinputs\tcan change\tdirection\tbounds\tstep\tat most\tweight\tcost")
	for i := range t.Features {
		f := &t.Features[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Kind, inputs(f), changes(t, f), dash(direction(f)), dash(span(f)), dash(step(f)), dash(limits(f)),
			task.Decimal(f.Weight), dash(unitCost(t, f, set)))
	}
	err := w.Flush()
	if len(t.Links) > 0 {
		fmt.Fprintln(out, "\nlinks")
		for _, l := range t.Links {
			fmt.Fprintf(out, "  %s\n", linkWords(&l))
		}
	}
	if len(t.Rules) > 0 {
		fmt.Fprintln(out, "\nconstraints")
		for i := range t.Rules {
			fmt.Fprintf(out, "  %s\n", draft.Words(&t.Rules[i]))
		}
	}
	return errors.Join(err, transitionsOf(out, t))
}

func costWords(c *task.Cost) string {
	s := fmt.Sprintf("%s, weights %s", c.Norm, c.Weights)
	if c.Norm == task.Mixed {
		s += fmt.Sprintf(", %s of it l1", task.Decimal(c.L1Ratio))
	}
	if c.Switches != "" {
		s += ", a change of value counts " + map[bool]string{true: "once", false: "as encoded"}[c.Switches == task.Once]
	}
	return s
}

func inputs(f *task.Feature) string {
	if f.Width == 1 {
		return strconv.Itoa(f.Offset)
	}
	return fmt.Sprintf("%d-%d", f.Offset, f.Offset+f.Width-1)
}

// changes says whether and how a feature can change.
func changes(t *task.Task, f *task.Feature) string {
	switch {
	case f.Actionable:
		return "yes"
	case t.Drags(f.Name):
		return "by a link"
	case f.Mutable:
		return "as a side effect"
	}
	return "no"
}

func direction(f *task.Feature) string {
	if !f.Actionable || f.Direction == task.Any {
		return ""
	}
	return string(f.Direction)
}

func span(f *task.Feature) string {
	if !f.Kind.IsNumber() {
		if len(f.Values) > 0 {
			return counted(len(f.Values), "value")
		}
		return ""
	}
	switch lo, hi := f.Bounds[0], f.Bounds[1]; {
	case math.IsInf(lo, 0) && math.IsInf(hi, 0) && f.Values != nil:
		return strings.Join(f.Values, " ")
	case math.IsInf(lo, 0) && math.IsInf(hi, 0):
		return ""
	case math.IsInf(lo, 0):
		return "up to " + task.Decimal(hi)
	case math.IsInf(hi, 0):
		return "from " + task.Decimal(lo)
	default:
		return task.Decimal(lo) + " to " + task.Decimal(hi)
	}
}

func step(f *task.Feature) string {
	if f.Step == 0 {
		return ""
	}
	return task.Decimal(f.Step)
}

// limits are the largest changes.
func limits(f *task.Feature) string {
	var out []string
	for _, l := range []struct {
		sign string
		v    float64
	}{{"+", f.MaxIncrease}, {"-", f.MaxDecrease}, {"±", f.MaxChange}} {
		if !math.IsInf(l.v, 0) {
			out = append(out, l.sign+task.Decimal(l.v))
		}
	}
	return strings.Join(out, " ")
}

// unitCost says what a change costs: of one step or raw unit at the mean, or of a change of value.
func unitCost(t *task.Task, f *task.Feature, set *recourse.ActionSet) string {
	if !f.Actionable {
		return ""
	}
	x, d := make([]float32, t.Dim()), make([]float32, t.Dim())
	for i := range t.Features {
		if g := &t.Features[i]; g.Kind == task.OneHot && g.Width > 0 {
			x[g.Offset] = 1
		}
	}
	switch f.Kind {
	case task.Numeric, task.Ordinal:
		unit, name := f.Step, "a step"
		if unit == 0 {
			unit, name = 1, "a unit"
		}
		d[f.Offset] = float32(unit / f.Std)
		if f.Direction == task.Decrease {
			d[f.Offset] = -d[f.Offset]
		}
		return fmt.Sprintf("%s %s", brief(set.Cost(x, d)), name)
	case task.OneHot:
		lo, hi := math.Inf(1), 0.0
		for from := range f.Width {
			for to := range f.Width {
				if from == to || (f.Transitions != nil && !slices.Contains(f.Transitions[f.Values[from]], f.Values[to])) {
					continue
				}
				clear(d)
				clear(x[f.Offset : f.Offset+f.Width])
				x[f.Offset+from], d[f.Offset+from], d[f.Offset+to] = 1, -1, 1
				c := set.Cost(x, d)
				lo, hi = min(lo, c), max(hi, c)
			}
		}
		switch {
		case hi == 0:
			return ""
		case brief(lo) == brief(hi):
			return brief(lo) + " a change"
		}
		return fmt.Sprintf("%s to %s a change", brief(lo), brief(hi))
	}
	d[f.Offset] = 1
	return brief(set.Cost(x, d)) + " a change"
}

// transitionsOf lists what may become what.
func transitionsOf(out io.Writer, t *task.Task) error {
	var errs []error
	for i := range t.Features {
		f := &t.Features[i]
		if f.Transitions == nil || !f.Actionable {
			continue
		}
		_, err := fmt.Fprintf(out, "\n%s\n", f.Name)
		errs = append(errs, err)
		for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
			_, err := fmt.Fprintf(out, "  %s -> %s\n", from, strings.Join(f.Transitions[from], ", "))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func linkWords(l *task.Link) string {
	if len(l.Map) == 0 {
		return fmt.Sprintf("%s changes with %s, %s for each unit", l.To, l.From, task.Decimal(l.Scale))
	}
	pairs := make([]string, len(l.Map))
	for i, p := range l.Map {
		pairs[i] = p.From + ": " + p.To
	}
	return fmt.Sprintf("%s follows %s: %s", l.To, l.From, strings.Join(pairs, ", "))
}
