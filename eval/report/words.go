package report

import (
	_ "embed" // the sentences
	"fmt"
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
