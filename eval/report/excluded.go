package report

import (
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
	at := &r.Margins[r.Headline()]
	for _, x := range wordsOf("excluded", struct {
		*eval.Result
		Decoded bool
		FRR     eval.Rate
		T       string
	}{r, r.Margins[0].Estimate("pixel_distance").N > 0, at.Rate("frr"), margin(at.Margin)}) {
		if n, _ := strconv.Atoi(x[0]); n > 0 {
			list = append(list, Exclusion{x[2], n, x[1]})
		}
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
