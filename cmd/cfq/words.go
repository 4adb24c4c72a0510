package main

import (
	_ "embed" // the sentences
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/task"
)

//go:embed words.txt
var sentences string

// textView is what a command prints, by the templates of words.txt.
type textView struct {
	io.Writer
	*message.Templates
}

func newTextView(w io.Writer) *textView {
	return &textView{w, message.NewTemplates(sentences, template.FuncMap{
		"rowsUsed": rowsUsed, "shortName": shortName, "shorten": shorten, "split": strings.Split, "sqrt": math.Sqrt,
		"float": floatOf, "csv": csvNumber, "share": shareOf, "span": span, "curve": curveCells, "inPercent": sweepPercent,
		"complement": func(x eval.Float) eval.Float { return 1 - x },
		"decimal":    task.Decimal, "brief": brief, "interval": interval,
		"hundred": func(x float64) float64 { return 100 * x },
		"ratio":   func(a, b int) float64 { return float64(a) / float64(b) },
	})}
}

func (v *textView) lines(name string, data any) {
	for _, line := range v.Lines(name, data) {
		fmt.Fprintln(v, line)
	}
}

// paragraphs writes each line of a template as a paragraph, see [message.Paragraph].
func (v *textView) paragraphs(first, rest, name string, data any) {
	for _, line := range v.Lines(name, data) {
		message.Paragraph(v, first, rest, line)
	}
}

func (v *textView) grid(g *message.Grid, indent, name string, data any) {
	v.Grid(g, name, data).Write(v, indent)
}

// floatOf is a number of any type, or the one that a pointer leads to.
func floatOf(x any) float64 { return reflect.Indirect(reflect.ValueOf(x)).Float() }

// csvNumber writes a number; what is undefined is empty.
func csvNumber(x any) string {
	if v := floatOf(x); !math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return ""
}

// writeLog writes the rows of a template as a CSV file, if there is a path.
func writeLog(path, name string, data any) error {
	if path == "" {
		return nil
	}
	return cli.Write(path, func(w io.Writer) error {
		return csv.NewWriter(w).WriteAll(newTextView(w).Rows(name, data))
	})
}

// shorten is a text of a file in one line of a terminal.
func shorten(s string) string {
	const limit = 100
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		return fmt.Sprintf("%s... (%d characters; --json shows all)", strings.ToValidUTF8(s[:limit-30], ""), len(s))
	}
	return message.OneLine(s)
}
