package eval

import (
	"fmt"
	"strings"
)

// MetricsMarkdown returns the documentation page of the metrics.
func MetricsMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

What ` + "`cfq eval`" + ` measures. This page is generated from the table in package eval.

f is the full-precision model, g the quantized one, m(x) a model's logit margin for the favourable outcome. A model approves a person if and only if the
margin is above 0. A recourse, or promise, is the cheapest feasible action that brings a refused person to the required margin t (t = 0: just over
the boundary). The people evaluated are those whom f refuses, or a random sample of them.

Validity alone can be cheated: a model that approves a little sooner breaks no promise. So every VD comes with its mirror RVD, a signed
cost gap, and the decisions that differ. At t = 0 a promise ends on the boundary and breaks at the slightest difference: VD(0) is near one half for any good
quantization. Read VD at a margin.

Rates are given with their counts and a 95 % Wilson interval. A rate of nobody is null.

**Given promises.** With ` + "`--promises`" + ` the promises of f are those of a [promises file](promises.md), one for each person (the cheapest that f keeps). At margin t
those count whose own margin under f is t or more; the recourse of g is computed as ever. So VD(t) is the share of the file's promises of margin t
or more that g breaks, and FRR(t) the share of evaluated people who have one. tau01 is then exact: the points do not move, and the promises below t
are left out. CRG compares the price of the promise with what g asks for margin t: read it at the margin that the promises were made for. Promises that f itself
does not keep are promises at no margin and counted as ` + "`given.invalid`" + `; those that the task does not allow count all the same and are
` + "`given.infeasible`" + `; those to people who are not evaluated are ` + "`given.others`" + `.

| metric | symbol | unit | better | key |
|---|---|---|---|---|
`)
	cell := strings.NewReplacer("|", `\|`)
	text := strings.NewReplacer("<", "&lt;", ">", "&gt;")
	metrics := Metrics()
	for _, m := range metrics {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", m.Name, cell.Replace(m.Symbol), m.Unit, m.Better, m.Key)
	}
	b.WriteString("\n## Definitions\n")
	for _, m := range metrics {
		title := m.Name
		if m.Symbol != "" {
			title = m.Symbol + ": " + title
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\nSource: %s.\n", title, text.Replace(m.Definition), m.Source)
	}
	return b.String()
}
