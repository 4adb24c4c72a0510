package reproduce

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// of is the value of a metric on the network of a seed; NaN when it is not known.
func (m *Measured) of(metric string, seed int) float64 {
	switch {
	case m.Outcomes[seed] == nil:
		return math.NaN()
	case metric == Seconds:
		return m.Seconds[seed]
	}
	return m.Outcomes[seed].of(metric, cmp.Or(m.Solver, m.Part))
}

// values are those of all seeds that have one.
func (m *Measured) values(metric string) []float64 {
	var all []float64
	for seed := range m.Outcomes {
		if v := m.of(metric, seed); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return all
}

// number is a mean and a standard deviation as text, and of how many networks unless it is of all.
func number(format string, values []float64, networks int) string {
	text := "not measured"
	switch len(values) {
	case 0:
	case 1:
		text = fmt.Sprintf(format, values[0])
	default:
		mean, sd := stat.MeanStdDev(values, nil)
		text = spread(format, mean, sd)
	}
	if n := len(values); n > 0 && n < networks {
		text += fmt.Sprintf(" (%d of %d)", n, networks)
	}
	return text
}

// spread is a mean and what is around it, without the sign of the latter.
func spread(format string, mean, sd float64) string {
	return fmt.Sprintf(format+" ± "+strings.ReplaceAll(format, "+", ""), mean, sd)
}

// Page is a table as Markdown: what holds, the numbers, and what they were measured by.
func Page(t *Table, rows []Measured, l *Lab) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", t.Title)
	if claims := t.claims(rows); claims != "" {
		fmt.Fprintf(&b, "\n%s\n", claims)
	}
	b.WriteString("\n| data | method |")
	for _, c := range t.Columns {
		fmt.Fprintf(&b, " %s |", c.Head)
		if c.Paper {
			b.WriteString(" paper |")
		}
	}
	b.WriteString("\n|---|---|")
	for _, c := range t.Columns {
		b.WriteString(strings.Repeat("---:|", 1+count(c.Paper)))
	}
	b.WriteString("\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s |", r.Where(), r.Name)
		paper := t.paper(&r.Row)
		for k, c := range t.Columns {
			fmt.Fprintf(&b, " %s |", number(c.Format, r.values(c.Metric), len(r.Outcomes)))
			if c.Paper {
				fmt.Fprintf(&b, " %s |", paper[k].text(c.Format))
			}
		}
		b.WriteString("\n")
	}
	if same := t.same(rows); same != "" {
		fmt.Fprintf(&b, "\n%s\n", same)
	}
	paper := ""
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Paper }) {
		paper = fmt.Sprintf("; columns headed paper are what the paper reports (%s)", t.Labels)
	}
	fmt.Fprintf(&b, "\n%s%s. %s, at a required margin of %g logits; `cfq explain METRIC` defines the columns. Made by "+
		"cfq %s.\n", networks(l.Seeds), paper, t.people(l.Sample), Margin, l.Version)
	if len(t.Claims) > 0 {
		fmt.Fprintf(&b, "\nA claim is tested on the differences between its two rows, network by network: it holds, or does "+
			"not hold, where a one-sided t test at %g %% shows that, and is not shown elsewhere. Tests are not corrected for "+
			"their number. In brackets: mean ± standard deviation of the differences, negative where they agree with the "+
			"claim.\n", 100*confidence)
	}
	if slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Metric == "rvd" }) {
		b.WriteString("\nRead VD and RVD together: a model that approves too many people breaks few of the original's " +
			"promises, but the original would keep few of its own.\n")
	}
	if t.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", t.Note)
	}
	b.WriteString("\nThe commands of the first network. Files of data sets are in the data folder, all others in that " +
		"of the results:\n\n```sh\n")
	var once []string
	for i := range rows {
		once = withNew(once, rows[i].Commands)
	}
	fmt.Fprintf(&b, "%s\n```\n", strings.Join(once, "\n"))
	return b.String()
}

// same says which methods are the same in all numbers of every network, and where: what tells them apart changed
// nothing, as bit widths may that end at the budget in all layers.
func (t *Table) same(rows []Measured) string {
	places := map[string][]string{} // by methods
	var order []string
	for i := range rows {
		var names []string
		for k := range rows {
			if rows[k].Where() == rows[i].Where() && t.equal(&rows[i], &rows[k]) {
				if k < i { // which has told
					names = nil
					break
				}
				names = append(names, rows[k].Name)
			}
		}
		if len(names) < 2 {
			continue
		}
		all := strings.Join(names, " and ")
		if places[all] == nil {
			order = append(order, all)
		}
		places[all] = append(places[all], rows[i].Where())
	}
	var b strings.Builder
	for _, names := range order {
		fmt.Fprintf(&b, "The same for every network on %s: %s. ", strings.Join(places[names], ", "), names)
	}
	if len(order) > 0 {
		b.WriteString("These models differ in nothing that is measured here.")
	}
	return b.String()
}

// equal says whether two rows of different methods have the same numbers in all columns.
func (t *Table) equal(a, b *Measured) bool {
	if a == b {
		return true
	}
	known := false
	for seed := range a.Outcomes {
		for _, c := range t.Columns {
			x, y := a.of(c.Metric, seed), b.of(c.Metric, seed)
			if c.Metric == Seconds || c.Metric == Time || math.IsNaN(x) && math.IsNaN(y) {
				continue
			}
			if x != y {
				return false
			}
			known = true
		}
	}
	return known
}

// networks says what numbers are of.
func networks(n int) string {
	if n == 1 {
		return "Numbers of one network"
	}
	return fmt.Sprintf("Mean ± standard deviation over %d networks that differ in their seed", n)
}

// people says who is evaluated, 0 = all. Actions are looked for among rows that are drawn before any network sees them.
func (t *Table) people(sample int) string {
	drawn := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Variant.Recourse != nil })
	switch {
	case sample == 0:
		return "All people in the test rows that the original refuses are evaluated"
	case drawn:
		return fmt.Sprintf("People that the original refuses, of at most %d test rows, are evaluated", sample)
	}
	return fmt.Sprintf("At most %d people that the original refuses are evaluated of each network", sample)
}

// text is what the paper reports, nothing when that is nothing.
func (n *Number) text(format string) string {
	switch {
	case n == nil:
		return ""
	case math.IsNaN(n.SD):
		return fmt.Sprintf(format, n.Mean)
	}
	return spread(format, n.Mean, n.SD)
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Where is the data set and the part of it that a row is about.
func (r *Row) Where() string {
	name := dataSet(r.Variant.Data).Title
	if r.Part != "" {
		name += ", " + r.Part
	}
	return name
}
