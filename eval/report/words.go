package report

import (
	"cmp"
	_ "embed" // the sentences
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/internal/statistics"
	"cfq/recourse"
)

//go:embed words.txt
var sentences string

// pageWords are the templates of sentences and of sections.
type pageWords struct{ *message.Templates }

// section is a section of a page as its template describes it.
func (w pageWords) section(name string, data any) (b pageBlock) {
	for _, line := range w.Lines(name, data) {
		switch what, text, _ := strings.Cut(line, " "); what {
		case "title":
			b.Title = text
		case "left":
			b.Left, _ = strconv.Atoi(text)
		case "fold":
			b.Fold = true
		case "head":
			b.Head = strings.Split(text, "\t")
		case "row":
			b.row(strings.Split(text, "\t")...)
		case "line":
			b.Lines = append(b.Lines, text)
		case "after":
			b.note(text)
		default:
			panic(fmt.Sprintf("section %s: what is %q?", name, line))
		}
	}
	return b
}

func newSentences() pageWords {
	return pageWords{message.NewTemplates(sentences, template.FuncMap{
		"percent": percent, "fixed": fixed, "signed": signed, "change": change, "counts": counts, "fraction": fraction,
		"interval": interval, "confidence": confidence, "sizes": sizes, "margin": margin, "symbolAt": symbolAt,
		"tauValue": tauValue, "legend": legend, "metric": metrics.Must, "statuses": recourse.Statuses,
		"bytes": byteCount, "tally": tally, "tallies": tallies, "quotient": quotient, "seconds": seconds,
		"nameOf": nameOf, "exclusions": Exclusions, "perturbations": eval.Perturbations, "speedUp": speedUp,
		"verdictOf": verdictOf,
		"cut": func(s, sep string) [2]string {
			before, after, _ := strings.Cut(s, sep)
			return [2]string{before, after}
		},
		"decisions": func() []metrics.Metric {
			return lists.Filter(metrics.All(), func(m metrics.Metric) bool { return strings.HasPrefix(m.Key(), "decisions.") })
		},
		"difference": difference,
		"isShare":    func(v eval.Value) bool { return v.Kind == metrics.Share },
		"points": func(e eval.Estimate) string {
			return between(e, func(x eval.Float) string { return signed(100*x, 1) })
		},
		"models":     func() map[string]string { return map[string]string{"full": "original", "quant": "quantized"} },
		"sides":      func() map[string]string { return map[string]string{"": "original", "r": "quantized model"} },
		"float":      func(n int64) float64 { return float64(n) },
		"fourDigits": func(e eval.Estimate) string { return between(e, func(x eval.Float) string { return fixed(x, 4) }) },
		"grouped":    func(n int) string { return thousands(int64(n)) },
		"hundred":    func(x eval.Float) eval.Float { return 100 * x },
		"least": func(r eval.Rate, confidence float64) eval.Float {
			return eval.Float(statistics.ClopperPearsonLower(r.Num, r.Den, confidence))
		},
		"ratio":     func(a, b int) eval.Float { return eval.Float(a) / eval.Float(b) },
		"secondsOf": func(e eval.Estimate) string { return between(e, seconds) },
		"upTo":      func(x eval.Float) string { return fixed(eval.Float(math.Ceil(1000*float64(x))/1000), 3) },
		"value":     func(a eval.AtMargin, id ...string) eval.Value { return a.Of(strings.Join(id, "")) },
		"whole":     func(x float64) string { return thousands(int64(x)) },
	})}
}

func sizes(file, of int64) string {
	if file == 0 || of == 0 {
		return missing + "\t"
	}
	return percent(eval.Float(file)/eval.Float(of), 0) + "\t" + thousands(file) + " of " + byteCount(of)
}

// tally is a number of things and what is said of one or of many; tallies are those that are not "".
func tally(n int, one, many string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, message.Plural(n, one, many))
}

func tallies(list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), ", ")
}

const missing = "-"

func orMissing(s string) string { return cmp.Or(s, missing) }

func percent(x eval.Float, decimals int) string { return message.Percent(float64(x), decimals) }

func confidence(c float64) string { return fmt.Sprintf("%.6g %%", 100*c) }

// interval shows the bounds of a rate: "1.0-3.2 %".
func interval(r eval.Rate, decimals int) string {
	if r.Den == 0 {
		return missing
	}
	return fmt.Sprintf("%.*f-%.*f %%", decimals, 100*float64(r.Lo), decimals, 100*float64(r.Hi))
}

func counts(r eval.Rate) string { return fmt.Sprintf("%d of %d", r.Num, r.Den) }

// fraction is counts for a crowded table: "12/640".
func fraction(r eval.Rate) string {
	if r.Den == 0 {
		return missing
	}
	return fmt.Sprintf("%d/%d", r.Num, r.Den)
}

// between shows the ends of an interval, each as show does; one that is not known is left open.
func between(e eval.Estimate, show func(eval.Float) string) string {
	switch lo, hi := e.Lo.Defined(), e.Hi.Defined(); {
	case lo && hi:
		return show(e.Lo) + " to " + show(e.Hi)
	case lo:
		return ">= " + show(e.Lo)
	case hi:
		return "<= " + show(e.Hi)
	}
	return missing
}

func seconds(x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case x >= 1:
		return fixed(x, 2) + " s"
	case x >= 1e-3:
		return fixed(x/1e-3, 2) + " ms"
	}
	return fixed(x/1e-6, 1) + " us"
}

func amount(unit string, x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case unit == "share":
		return percent(x, 1)
	case unit == "ratio":
		return fixed(100*x, 1) + " %"
	case unit == "seconds":
		return seconds(x)
	case unit == "bytes", unit == "bit operations", unit == "rows/s":
		return thousands(int64(x))
	}
	return fixed(x, 3)
}

// difference is that of two amounts: of shares and ratios in percentage points.
func difference(unit string, x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case unit == "share", unit == "ratio":
		return signed(100*x, 1) + " pp"
	case !slices.Contains([]string{"seconds", "bytes", "bit operations", "rows/s"}, unit):
		return signed(x, 3)
	case x < 0:
		return "-" + amount(unit, -x)
	case x > 0:
		return "+" + amount(unit, x)
	}
	return "0"
}

// fixed shows a number with a number of decimals, without the sign of what is rounded to 0; signed shows all others.
func fixed(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	s := strconv.FormatFloat(float64(x), 'f', decimals, 64)
	if zero := strconv.FormatFloat(0, 'f', decimals, 64); s == "-"+zero {
		return zero
	}
	return s
}

func signed(x eval.Float, decimals int) string {
	s := fixed(x, decimals)
	if x > 0 && s != fixed(0, decimals) {
		return "+" + s
	}
	return s
}

// change shows a relative change in per cent, with its sign.
func change(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	return signed(100*x, decimals) + " %"
}

func margin(t float64) string { return strconv.FormatFloat(t, 'g', -1, 64) }

// symbolAt returns a metric's symbol with t in it: "VD(0.1)".
func symbolAt(id string, t float64) string {
	s := metrics.Must(id).Symbol
	if stem, ok := strings.CutSuffix(s, "(t)"); ok && stem != "" {
		return stem + "(" + margin(t) + ")"
	}
	return s
}

func byteCount(n int64) string {
	if n == 0 {
		return missing
	}
	return thousands(n) + " bytes"
}

func thousands(n int64) string {
	if n/1000 == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), max(n%1000, -(n%1000)))
}

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
		row := append([]string{k}, lists.Map(entries, func(e Entry) string { return orMissing(e.Recipe[k]) })...)
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
