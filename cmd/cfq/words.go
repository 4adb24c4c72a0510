package main

import (
	_ "embed" // the sentences
	"encoding/csv"
	"encoding/json"
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
		"columns":    func(indent string) string { return block{Kind: "columns", First: indent}.mark() },
		"numbers":    func(indent string, left ...int) string { return block{"numbers", indent, "", left}.mark() },
		"paragraphs": func(first, rest string) string { return block{"paragraphs", first, rest, nil}.mark() },
		"lines":      func() string { return block{}.mark() },
		"blank":      func() string { return block{Kind: "blank"}.mark() },
		"behind":     func() string { return noteMark },

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

// block says what the lines of a page behind its mark are, up to the next one: paragraphs or, with an indent, the rows
// of a grid of columns or of numbers; else they stand as they are, behind a blank line or not.
type block struct {
	Kind, First, Rest string
	Left              []int // columns of text in a grid of numbers
}

// What no text of a file contains: the beginning of a line that is the mark of a block, and of what stands behind a row
// of a grid without a column.
const blockMark, noteMark = "\x00", "\x01"

func (b block) mark() string {
	text, _ := json.Marshal(b) // texts and numbers
	return blockMark + string(text)
}

// page writes a template: its lines, in blocks.
func (v *textView) page(name string, data any) {
	var now block
	var grid *message.Grid
	for _, line := range append(v.Lines(name, data), block{}.mark()) {
		text, begins := strings.CutPrefix(line, blockMark)
		switch {
		case begins:
			if grid != nil {
				grid.Write(v, now.First)
			}
			now, grid = block{}, nil
			_ = json.Unmarshal([]byte(text), &now) // which mark has made
			switch now.Kind {
			case "columns":
				grid = message.NewLines()
			case "numbers":
				grid = &message.Grid{Left: map[int]bool{}}
				lists.Mark(grid.Left, now.Left...)
			case "blank":
				fmt.Fprintln(v)
			}
		case grid != nil:
			row, note, _ := strings.Cut(line, noteMark)
			grid.Add(strings.Split(row, "\t")...)
			grid.Note(note)
		case now.Kind == "paragraphs":
			first, rest := now.First, now.Rest
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
