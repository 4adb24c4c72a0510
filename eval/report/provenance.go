package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/lists"
	"cfq/internal/message"
)

func bullets(title string, lines []string) pageBlock {
	return pageBlock{Title: title, Lines: lines, Bullet: true}
}

func environment(variables map[string]string) pageBlock {
	names := slices.Sorted(maps.Keys(variables))
	return bullets("Set by the environment",
		lists.Map(names, func(name string) string { return name + "=" + variables[name] }))
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
func files(in *Inputs, models ...Entry) pageBlock {
	b := pageBlock{Title: "Files", Left: 2, Fold: true, Head: []string{
		"", "file", "size", "stored bits", "entries", "used", "sha256",
	}}
	other := func(role string, f File) Entry { return Entry{Alias: role, Model: Model{File: f}} }
	for _, f := range append(slices.Clone(models),
		other("people", in.Data), other("rows", in.RowsFile), other("task", in.Task), other("promises", in.Promises),
		other("overrides", in.Overrides), other("calibrated on", in.CalibrationRecord),
		other("encoding verified by", in.EncodingRecord), other("gate", in.GateFile), other("earlier report", in.Previous),
	) {
		if f.Name == "" {
			continue
		}
		bits, entries, used := missing, missing, missing
		if f.StoredBits > 0 {
			bits = strconv.FormatFloat(f.StoredBits, 'f', 2, 64)
		}
		if f.Entries > 0 {
			entries, used = strconv.Itoa(f.Entries), strconv.Itoa(f.Used)
		}
		b.row(f.Alias, f.Name, byteCount(f.Bytes), bits, entries, used, orMissing(f.SHA256[:min(12, len(f.SHA256))]))
	}
	return b
}

func runBlock(words *message.Templates, r *Run) pageBlock {
	b := pageBlock{Title: "How this report was made", Left: 2, Fold: true, Rows: words.Rows("run", r)}
	if len(b.Rows) > 0 {
		b.note("The same command with the same files gives the same report on this machine: it has no date. " +
			"The record of looks (QUANTIZED.looks) has the dates of verdicts.")
	}
	return b
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

func (v *evaluationView) footprint() pageBlock {
	b := pageBlock{Title: "Size and work", Left: 1, Head: []string{"", "original", "quantized", "ratio"}}
	if f := v.Result.Footprint; f != nil {
		b.Rows = v.words.Rows("footprint", f)
	}
	return b
}

func quotient(a, q float64) string {
	if a > 0 && q > 0 {
		return strconv.FormatFloat(q/a, 'f', 3, 64)
	}
	return missing
}

func (v *evaluationView) timing() pageBlock {
	t := v.Result.Timing
	if t == nil {
		return pageBlock{}
	}
	return pageBlock{
		Title: "Speed in ONNX Runtime, " + message.Count(t.Threads, "thread"), Left: 1,
		Head: []string{"", "original", "interval", "quantized", "interval", "runs", "speed-up"},
		Rows: v.words.Rows("timing", t),
		After: []string{"Medians of alternating runs of the two models on this machine. Only these numbers differ " +
			"between evaluations."},
	}
}

func speedUp(p eval.Pace) string {
	if !p.Full.Value.Defined() || !(p.Quant.Value > 0) {
		return missing
	}
	return fixed(p.Full.Value/p.Quant.Value, 2) + "x"
}

func layers(all []Layer, full bool) pageBlock {
	const maxBrief = 10
	b := pageBlock{Title: "Layers of the quantized model", Fold: true, Left: 1, Head: []string{
		"layer", "weights", "bits", "bytes", "sensitivity", "kernel",
	}}
	list := all
	if !full && len(all) > maxBrief {
		list = slices.SortedStableFunc(slices.Values(all), func(a, b Layer) int {
			return cmp.Compare(b.Sensitivity, a.Sensitivity)
		})[:maxBrief]
		b.note(fmt.Sprintf("The %d of %d layers with the largest sensitivity.", maxBrief, len(all)))
	}
	for _, l := range list {
		b.row(l.Node, thousands(int64(l.Weights)), strconv.FormatFloat(l.Bits, 'f', 2, 64), thousands(int64(l.Bytes)),
			fixed(l.Sensitivity, 4), orMissing(l.Kernel))
	}
	if slices.ContainsFunc(list, func(l Layer) bool { return l.Sensitivity.Defined() }) {
		b.note("sensitivity: mean l1 norm of the gradient of the loss by the layer's weights, at the original's recourse " +
			"points")
	}
	return b
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

func (v *evaluationView) excluded() pageBlock {
	b := pageBlock{Title: "Who is left out", Left: 1, Head: []string{"reason", "number", "left out of"}}
	for _, x := range Exclusions(v.Result) {
		b.row(x.Reason, strconv.Itoa(x.Count), x.From)
	}
	return b
}
