package report

import (
	_ "embed" // the sentences
	"fmt"
	"io"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
	"cfq/recourse"
)

//go:embed words.txt
var sentences string

// words fills in one of the templates of words.txt and returns its lines.
func words(name string, data any) []string {
	return message.Words(sentences, name, template.FuncMap{
		"percent": percent, "fixed": fixed, "signed": signed, "change": change, "counts": counts, "fraction": fraction,
		"interval": interval, "confidence": confidence, "sizes": sizes, "margin": margin, "symbolAt": symbolAt,
		"tauValue": tauValue, "legend": legend, "metric": metrics.Must, "statuses": recourse.Statuses,
		"hundred": func(x eval.Float) eval.Float { return 100 * x },
		"ratio":   func(a, b int) eval.Float { return eval.Float(a) / eval.Float(b) },
	}, data)
}

// wordsOf are the parts of lines in which they are separated by tabs.
func wordsOf(name string, data any) (rows [][]string) {
	for _, line := range words(name, data) {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return rows
}

// writeLines writes a template of lines of a key, a tab and a value.
func writeLines(out io.Writer, name string, data any) {
	g := message.NewLines()
	for _, row := range wordsOf(name, data) {
		g.Add(row...)
	}
	g.Write(out, "")
}

func sizes(file, of int64) string {
	if file == 0 || of == 0 {
		return missing + "\t"
	}
	return percent(eval.Float(file)/eval.Float(of), 0) + "\t" + thousands(file) + " of " + byteCount(of)
}

// tally is a number of things, with what is said of one and of many.
type tally struct {
	n         int
	one, many string
}

func tallies(list ...tally) string {
	var parts []string
	for _, t := range list {
		if t.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.n, message.Plural(t.n, t.one, t.many)))
		}
	}
	return strings.Join(parts, ", ")
}
