package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

// checked is what recourse --promises tells of a promises file.
type checked struct {
	Promises   int            `json:"promises"`
	People     int            `json:"people"`     // who were promised something
	Among      int            `json:"among"`      // people read
	Rows       int            `json:"rows"`       // of the file
	Unreadable int            `json:"unreadable"` // of them
	Lost       int            `json:"lost"`       // promises to people who are not among those read
	Unpromised map[string]int `json:"unpromised"` // rows that promise nothing, by status
	Feasible   eval.Rate      `json:"feasible"`   // under the task
	Broken     []brokenCount  `json:"broken"`     // constraints, by the promises that break them
	First      []brokenLine   `json:"first_broken"`
	Valid      eval.Rate      `json:"valid"` // the model approves
	Margin     float64        `json:"margin"`
	Reached    eval.Rate      `json:"reached"` // of the required margin
	Margins    [5]eval.Float  `json:"margins"` // least, 5 %, median, 95 %, greatest
	Needless   int            `json:"needless"`
	Cost       costs          `json:"cost"`
	// Claimed is the largest difference between a margin that the file states and the one found; null when it states none.
	Claimed eval.Float `json:"claimed_margin_difference"`
}

type brokenCount struct {
	Constraint constraint.Constraint `json:"constraint"`
	Promises   int                   `json:"promises"`
}

type brokenLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// checkPromises reports what the task and the model make of a promises file.
func (j *recourseJob) checkPromises(ctx context.Context) error {
	if j.data == "" && j.out != "" {
		return cli.Usagef("-d data.csv names it", "--output: a promises file counts the rows of a data file, and there is none")
	}
	people, file, err := promised(ctx, j.e, j.data, j.rows, j.from, j.t, task.ReadOptions{})
	if err != nil {
		return err
	}
	set := j.set.of(people)
	j.set.warn(j.e)
	verdicts, err := promise.Judge(ctx, j.model, set, file)
	if err != nil {
		return runError(err)
	}
	c := newChecked(file, verdicts, j.margin)
	warnClaims(j.e, file, verdicts)
	if j.out != "" {
		if err := j.write(func(w io.Writer) error { return rewrite(w, j.t, set, file, verdicts) }); err != nil {
			return err
		}
	}
	if j.e.json {
		return writeJSON(j.e.stdout, c)
	}
	return c.write(j.e.stdout, j.out)
}

// rewrite writes the promises in the form of this program, with the costs and margins that were found.
func rewrite(w io.Writer, t *task.Task, set *constraint.Set, f *promise.File, verdicts []promise.Verdict) error {
	out, err := promise.NewWriter(w, t)
	if err != nil {
		return err
	}
	for i := range f.Promises {
		p, v := &f.Promises[i], &verdicts[i]
		err := out.Write(promise.Line{
			Row: f.People.Rows[p.Person], Line: f.People.Lines[p.Person], Before: v.Before, X: f.X(p),
			Action:  recourse.Action{Status: recourse.Found, Point: p.Point, Cost: v.Cost, Margin: v.Margin},
			Changes: set.Person(p.Person).Changes(f.X(p), p.Point),
		})
		if err != nil {
			return fmt.Errorf("promise of line %d: %w", p.Line, err)
		}
	}
	return out.Flush()
}

func newChecked(f *promise.File, verdicts []promise.Verdict, required float64) *checked {
	n := len(verdicts)
	c := &checked{
		Promises: n, Among: f.People.N, Rows: f.Rows, Unreadable: f.Failed, Lost: f.Missing, Unpromised: map[string]int{},
		Margin: required, Broken: []brokenCount{}, First: []brokenLine{}, Claimed: eval.Float(f.Difference(verdicts)),
	}
	for s, k := range f.Unpromised {
		c.Unpromised[s.String()] = k
	}
	counts, infeasible := promise.Broken(verdicts)
	for _, b := range counts {
		c.Broken = append(c.Broken, brokenCount{b.Constraint, b.Promises})
	}
	people := map[int]bool{}
	var valid, reached int
	paid, margins := make([]float64, n), make([]float64, n)
	for i := range verdicts {
		v := &verdicts[i]
		people[f.Promises[i].Person] = true
		paid[i], margins[i] = v.Cost, v.Margin
		valid += count(v.Valid(0))
		reached += count(v.Valid(required))
		c.Needless += count(v.Before > 0)
		if len(v.Broken) > 0 && len(c.First) < fewShown {
			c.First = append(c.First, brokenLine{f.Promises[i].Line, reason(v.Broken[0])})
		}
	}
	c.People = len(people)
	c.Feasible, c.Valid, c.Reached = eval.NewRate(n-infeasible, n, 0.95), eval.NewRate(valid, n, 0.95), eval.NewRate(reached, n, 0.95)
	c.Cost = costsOf(paid)
	for i, q := range []float64{0, 0.05, 0.5, 0.95, 1} {
		c.Margins[i] = eval.Float(eval.Quantile(margins, q))
	}
	return c
}

// reason says which constraint is broken and how.
func reason(v *constraint.Violation) string {
	if v.Feature == "" {
		return fmt.Sprintf("%s: %s", v.Constraint, v.Detail)
	}
	return fmt.Sprintf("feature %q: %s: %s", v.Feature, v.Constraint, v.Detail)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c *checked) write(out io.Writer, path string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	share := func(r eval.Rate) string { return fmt.Sprintf("%d of %d (%.1f %%)", r.Num, r.Den, 100*float64(r.Value)) }
	if path != "" {
		line("written to", "%s", path)
	}
	line("promises", "%d, to %d of %d people", c.Promises, c.People, c.Among)
	for _, s := range recourse.Statuses() {
		if k := c.Unpromised[s.String()]; k > 0 {
			line("  "+s.String(), "%d", k)
		}
	}
	if c.Lost+c.Unreadable > 0 {
		line("not checked", "%s that cannot be read, %s to people who are not among those read", counted(c.Unreadable, "row"), counted(c.Lost, "promise"))
	}
	line("the task allows", "%s", share(c.Feasible))
	for _, b := range c.Broken {
		line("  against "+string(b.Constraint), "%d", b.Promises)
	}
	for _, b := range c.First {
		line(fmt.Sprintf("    line %d", b.Line), "%s", b.Reason)
	}
	line("the model keeps", "%s", share(c.Valid))
	if c.Margin > 0 {
		line(fmt.Sprintf("  by margin %g", c.Margin), "%s", share(c.Reached))
	}
	if c.Needless > 0 {
		line("  as they are", "%s to people whom the model approves already", counted(c.Needless, "promise"))
	}
	m := c.Margins
	line("margins", "least %.3g, 5 %% below %.3g, median %.3g, 5 %% above %.3g, greatest %.3g",
		float64(m[0]), float64(m[1]), float64(m[2]), float64(m[3]), float64(m[4]))
	line("cost", "mean %.4g, median %.4g", float64(c.Cost.Mean), float64(c.Cost.Median))
	return w.Flush()
}
