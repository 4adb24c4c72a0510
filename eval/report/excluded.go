package report

import (
	"fmt"
	"strconv"

	"cfq/eval"
)

// Exclusion is people, rows or promises that numbers leave out.
type Exclusion struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	From   string `json:"from"` // what they are left out of
}

// Exclusions lists the people, rows and promises that r leaves out, with the reasons; promises are those at the
// headline margin.
func Exclusions(r *eval.Result) (list []Exclusion) {
	add := func(n int, from, reason string, a ...any) {
		if n > 0 {
			list = append(list, Exclusion{fmt.Sprintf(reason, a...), n, from})
		}
	}
	const everything, promises, sharing = "everything", "promises", "bounds"
	p := &r.Population
	filter := "rows left out by the task's filter"
	if len(r.Margins) > 0 && r.Margins[0].Estimate("pixel_distance").N > 0 {
		filter += ", or because the decoder alone gets the person approved"
	}
	add(p.Filtered, everything, "%s", filter)
	add(p.LeftOut-p.Filtered, everything, "rows left out by --rows")
	add(p.Unreadable, everything, "rows that cannot be read")
	if p.People > 0 {
		add(p.Read-p.People, sharing, "further rows of people who have one: a person counts once, by the worst row")
	}
	if p.UnlabelledRows.Den > 0 {
		add(p.UnlabelledRows.Num, "accuracy", "people without an outcome")
	}
	add(p.Favoured, promises, "people that the original approves: there is nothing to promise")
	if r.Settings.Sample > 0 {
		add(p.Refused-p.Evaluated, promises, "refused people who are not in the random sample (seed %d)", r.Settings.Seed)
	}
	if h := r.Headline(); h >= 0 && r.Issued == nil {
		a := &r.Margins[h]
		frr := a.Rate("frr")
		add(frr.Den-frr.Num, promises, "refused people without a recourse at margin %s", margin(a.Margin))
	}
	if g := r.Issued; g != nil {
		add(g.Unjudgeable.Num, promises, "issued promises that nothing can be said of")
		add(g.Unsampled, promises, "issued promises to people who are not in the random sample")
	}
	for i := range r.Groups {
		add(r.Groups[i].Without, "groups by "+r.Groups[i].By, "people without a value of %s", r.Groups[i].By)
	}
	for i := range r.SensitivityToCopies {
		o := &r.SensitivityToCopies[i]
		add(p.People-o.Result.Population.People, "the second verdict", "people not counted: %s", o.Name)
	}
	return list
}

func excluded(d *Document) pageBlock {
	b := pageBlock{Title: "Who is left out", Left: 1, Head: []string{"reason", "number", "left out of"}}
	for _, x := range Exclusions(d.Result) {
		b.row(x.Reason, strconv.Itoa(x.Count), x.From)
	}
	return b
}
