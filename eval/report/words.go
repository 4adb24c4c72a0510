package report

import (
	_ "embed" // the sentences
	"fmt"
	"slices"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/recourse"
)

//go:embed words.txt
var sentences string

func newSentences() *message.Templates {
	return message.NewTemplates(sentences, template.FuncMap{
		"percent": percent, "fixed": fixed, "signed": signed, "change": change, "counts": counts, "fraction": fraction,
		"interval": interval, "confidence": confidence, "sizes": sizes, "margin": margin, "symbolAt": symbolAt,
		"tauValue": tauValue, "legend": legend, "metric": metrics.Must, "statuses": recourse.Statuses,
		"bytes": byteCount, "tally": tally, "tallies": tallies, "quotient": quotient, "seconds": seconds,
		"float":     func(n int64) float64 { return float64(n) },
		"secondsOf": func(e eval.Estimate) string { return between(e, seconds) },
		"speedUp":   speedUp,
		"whole":     func(x float64) string { return thousands(int64(x)) },
		"hundred":   func(x eval.Float) eval.Float { return 100 * x },
		"ratio":     func(a, b int) eval.Float { return eval.Float(a) / eval.Float(b) },
	})
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
