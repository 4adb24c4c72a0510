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
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

//go:embed words.txt
var sentences string

// textView is what a command prints, by the pages of words.txt.
type textView struct {
	io.Writer
	*message.Templates
}

func newTextView(w io.Writer) *textView {
	v := &textView{Writer: w}
	v.Templates = message.NewTemplates(sentences, template.FuncMap{
		"begin": func(words ...any) string {
			return strings.Join(lists.Map(words, func(word any) string { return blockMark + fmt.Sprint(word) }), "")
		},
		"behind": func() string { return noteMark },

		"shortName": func(s string) string { return message.Tail(message.OneLine(s), 16) },
		"rowsUsed":  rowsUsed, "shorten": shorten, "split": strings.Split, "sqrt": math.Sqrt,
		"float": floatOf, "csv": csvNumber, "share": shareOf, "span": span, "curve": curveCells, "inPercent": sweepPercent,
		"complement": func(x eval.Float) eval.Float { return 1 - x }, "scores": layerScores, "widths": layerTable,
		"decimal": task.Decimal, "brief": brief, "interval": interval, "rows": taskFeatures,
		"inputs":  func(f *task.Feature) []string { return v.Lines("made inputs", f) },
		"hundred": func(x float64) float64 { return 100 * x },
		"ratio":   func(a, b int) float64 { return float64(a) / float64(b) },
	})
	return v
}

// What no text of a file contains: the mark in front of each word of a line that begins a block, and in front of what
// stands behind a row of a grid without a column.
const blockMark, noteMark = "\x00", "\x01"

// page writes a template: its lines, in blocks. The words that begin a block say what its lines are: paragraphs, with
// what stands before the first line and before the others of each; columns of text, with their indent; numbers, with
// the indent and which columns are of text; lines, as they are, and blank, the same behind a blank line.
func (v *textView) page(name string, data any) {
	words := []string{"lines"}
	var grid *message.Grid
	for _, line := range append(v.Lines(name, data), blockMark+"lines") {
		text, begins := strings.CutPrefix(line, blockMark)
		switch {
		case begins:
			if grid != nil {
				grid.Write(v, words[1])
			}
			words, grid = strings.Split(text, blockMark), nil
			switch words[0] {
			case "columns":
				grid = message.NewLines()
			case "numbers":
				grid = &message.Grid{Left: map[int]bool{}}
				for _, column := range words[2:] {
					at, _ := strconv.Atoi(column) // of a template
					grid.Left[at] = true
				}
			case "blank":
				fmt.Fprintln(v)
			}
		case grid != nil:
			row, note, _ := strings.Cut(line, noteMark)
			grid.Add(strings.Split(row, "\t")...)
			grid.Note(note)
		case words[0] == "paragraphs":
			first, rest := words[1], words[2]
			if label, text, ok := strings.Cut(line, "\t"); ok {
				first, rest, line = label, strings.Repeat(" ", len(label)), text
			}
			message.Paragraph(v, first, rest, line)
		default:
			fmt.Fprintln(v, line)
		}
	}
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
