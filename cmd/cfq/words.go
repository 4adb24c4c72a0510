package main

import (
	_ "embed" // the sentences
	"fmt"
	"io"
	"math"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/internal/message"
	"cfq/task"
)

//go:embed words.txt
var sentences string

func templateLines(name string, data any) []string {
	return message.Words(sentences, name, template.FuncMap{
		"rowsUsed": rowsUsed, "shortName": shortName, "shorten": shorten, "split": strings.Split, "sqrt": math.Sqrt,
		"float":   func(x eval.Float) float64 { return float64(x) },
		"value":   func(x *float64) float64 { return *x },
		"decimal": task.Decimal,
		"hundred": func(x float64) float64 { return 100 * x },
		"ratio":   func(a, b int) float64 { return float64(a) / float64(b) },
	}, data)
}

func writeLines(w io.Writer, name string, data any) {
	for _, line := range templateLines(name, data) {
		fmt.Fprintln(w, line)
	}
}

// writeParagraphs writes each line of a template as a paragraph, see [message.Paragraph].
func writeParagraphs(w io.Writer, first, rest, name string, data any) {
	for _, line := range templateLines(name, data) {
		message.Paragraph(w, first, rest, line)
	}
}

// writeGrid writes the lines of a template, with tabs between columns, as rows of a grid.
func writeGrid(w io.Writer, g *message.Grid, indent, name string, data any) {
	for _, line := range templateLines(name, data) {
		g.Add(strings.Split(line, "\t")...)
	}
	g.Write(w, indent)
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
