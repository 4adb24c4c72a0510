package report

import (
	"fmt"
	"strconv"

	"cfq/eval"
)

// certificates shows how many promises provably survive.
func certificates(r *eval.Result) block {
	b := block{title: "Certificates"}
	b.table.head = []string{"t", "certified", "promises", "interval", "models apart"}
	radius := 0.0
	for _, a := range r.Margins {
		if p := a.Certified; p != nil {
			radius = p.Radius
			b.table.row(margin(a.Margin), percent(p.Certified.Value, 1), fraction(p.Certified), interval(p.Certified, 1), fixed(p.Apart.Value, 3))
		}
	}
	if len(b.table.rows) == 0 {
		return block{}
	}
	where := fmt.Sprintf("within %s (in model inputs) of the recourse point", margin(radius))
	if radius == 0 {
		where = "exactly at the recourse point"
	}
	b.after = []string{
		"certified: the quantized model approves whoever ends " + where + "; this is proved, not estimated. A promise without a certificate may hold all the same.",
		"models apart: by how much their margins can differ there at most, median person (logits)",
	}
	return b
}

// kindName is what a reader calls a way to measure logit perturbation.
func kindName(k eval.Perturbation) string {
	switch k {
	case eval.AtPoint:
		return "at the point"
	case eval.InBall:
		return "in a ball, sampled"
	case eval.FirstOrder:
		return "first order"
	}
	return string(k)
}

// perturbations shows the paper's safe margins: at the margin that stands for the curve, or at all.
func perturbations(r *eval.Result, how detail) block {
	b := block{title: "Logit perturbation and safe margins", fold: true}
	b.table.left = 1
	b.table.head = []string{"eps", "t", "mean", "p95", "max", "safe", "points", "broken inside", "outside"}
	for i, a := range r.Margins {
		if how == brief && i != r.Headline() {
			continue
		}
		for _, k := range eval.Perturbations() {
			p, ok := a.Perturbed[k]
			if !ok || p.N == 0 {
				continue
			}
			b.table.row(kindName(k), margin(a.Margin), fixed(p.Mean.Value, 3), fixed(p.P95.Value, 3), fixed(p.Max.Value, 3),
				percent(p.Safe.Value, 1), fraction(p.Safe), fraction(p.BrokenInside), fraction(p.BrokenOutside))
		}
	}
	if len(b.table.rows) == 0 {
		return block{}
	}
	b.after = []string{
		"eps: the largest difference of the two models' logits at or around the original's recourse points",
		"safe: points whose margin is more than twice eps; broken inside and outside: promises that break among them and among the others",
	}
	return b
}

// fewBroken and mostBroken are how many people whose promise breaks are shown.
const (
	fewBroken  = 5
	mostBroken = 200
)

// broken lists the people whose promise breaks and what would have held.
func broken(d *Document, how detail) block {
	n := len(d.Broken)
	if n == 0 {
		return block{}
	}
	shown := min(mostBroken, how.many(n, fewBroken))
	b := block{title: "Whose promise breaks, and what would have held", fold: how == brief, bullet: how == brief}
	if shown < n {
		b.after = append(b.after, fmt.Sprintf("%d of %d people are shown; the JSON report has all.", shown, n))
	}
	if how == brief {
		for i := range d.Broken[:shown] {
			b.lines = append(b.lines, brokenLine(&d.Broken[i]))
		}
		return b
	}
	b.table = table{head: []string{"line", "what was promised", "what would have held", "t", "margin", "quantized", "cost", "then"}, left: 3}
	for _, x := range d.Broken[:shown] {
		line := missing
		if x.Line > 0 {
			line = strconv.Itoa(x.Line)
		}
		b.table.row(line, sentence(x.Action), orMissing(x.Repair), margin(x.Margin), signed(x.Own, 3), signed(x.Other, 3), fixed(x.Cost, 3), fixed(x.RepairCost, 3))
	}
	b.after = append(b.after, "margin, quantized: of the two models at the recourse point (logits); then: the cost of what would have held")
	return b
}

// brokenLine is one person in a sentence.
func brokenLine(x *Broken) string {
	line := fmt.Sprintf("line %d: ", x.Line)
	if x.Line <= 0 {
		line = fmt.Sprintf("row %d: ", x.Row)
	}
	line += fmt.Sprintf("%s, at cost %s for margin %s; under the quantized model %s", sentence(x.Action), fixed(x.Cost, 3), signed(x.Own, 3), signed(x.Other, 3))
	if x.Repair != "" {
		line += fmt.Sprintf(". Would have held: %s, at cost %s", x.Repair, fixed(x.RepairCost, 3))
	}
	return line
}
