package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
)

func bullets(title string, lines []string) pageBlock {
	return pageBlock{Title: title, Lines: lines, Bullet: true}
}

// recipes shows how models were made, side by side: what they differ in, then the rest if it is wanted.
func recipes(title string, rest bool, entries ...Entry) pageBlock {
	b := pageBlock{Title: title, Fold: true, Left: 1 + len(entries)}
	keys := map[string]string{}
	for _, e := range entries {
		if e.Alias != "" {
			if b.Head == nil {
				b.Head = []string{""}
			}
			b.Head = append(b.Head, e.Alias)
		}
		maps.Copy(keys, e.Recipe)
	}
	var same [][]string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		row := []string{k}
		for _, e := range entries {
			row = append(row, orMissing(e.Recipe[k]))
		}
		if slices.ContainsFunc(row[1:], func(s string) bool { return s != row[1] }) {
			b.row(row...)
		} else if rest {
			same = append(same, row)
		}
	}
	b.Rows = append(b.Rows, same...)
	return b
}

// files lists the files that a report is about: the models, under their names, and the others.
func (w pageWords) files(in *Inputs, models ...Entry) pageBlock {
	other := func(role string, f File) Entry { return Entry{Alias: role, Model: Model{File: f}} }
	return w.section("files", append(slices.Clone(models),
		other("people", in.Data), other("rows", in.RowsFile), other("task", in.Task), other("promises", in.Promises),
		other("overrides", in.Overrides), other("calibrated on", in.CalibrationRecord),
		other("encoding verified by", in.EncodingRecord), other("gate", in.GateFile), other("earlier report", in.Previous),
	))
}

// CommandLine is the command as a shell takes it; "" when it is not known.
func (r *Run) CommandLine() string {
	if len(r.Command) == 0 {
		return ""
	}
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+"
	line := []string{"cfq"}
	for _, a := range r.Command {
		if a == "" || strings.Trim(a, plain) != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line = append(line, a)
	}
	return strings.Join(line, " ")
}

func quotient(a, q float64) string {
	if a > 0 && q > 0 {
		return strconv.FormatFloat(q/a, 'f', 3, 64)
	}
	return missing
}

func speedUp(p eval.Pace) string {
	if !p.Full.Value.Defined() || !(p.Quant.Value > 0) {
		return missing
	}
	return fixed(p.Full.Value/p.Quant.Value, 2) + "x"
}

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
	for _, x := range newSentences().Rows("excluded", struct {
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
