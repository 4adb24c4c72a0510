package message

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"cfq/internal/lists"
)

// width is the longest line of a paragraph; tables and file names may be wider.
const width = 92

// OneLine keeps what a file says from breaking lines, from steering the terminal and from changing the direction in
// which text is read.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// Paragraph writes text in lines, broken at blanks but not before a percent sign. The first line starts with first and
// the others with rest.
func Paragraph(w io.Writer, first, rest, text string) {
	const glue = "\u00a0"
	line, fresh := first, true
	for word := range strings.SplitSeq(strings.ReplaceAll(OneLine(text), " %", glue+"%"), " ") {
		word = strings.ReplaceAll(word, glue, " ")
		if !fresh && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(w, line)
			line, fresh = rest, true
		}
		if !fresh {
			line += " "
		}
		line, fresh = line+word, false
	}
	fmt.Fprintln(w, line)
}

// Grid is text in columns, aligned right except for those of Left.
type Grid struct {
	Left  map[int]bool
	left  bool // all columns
	rows  [][]string
	notes map[int]string // behind a row, without a column: no column gets as wide as that
}

// NewLines returns a grid of which all columns are aligned left.
func NewLines() *Grid { return &Grid{left: true} }

// Add adds a row.
func (g *Grid) Add(cells ...string) {
	row := lists.Map(cells, OneLine)
	g.rows = append(g.rows, row)
}

// Note puts text behind the last row.
func (g *Grid) Note(text string) {
	if g.notes == nil {
		g.notes = map[int]string{}
	}
	g.notes[len(g.rows)-1] = OneLine(text)
}

// Write writes the rows as lines, each behind indent, without blanks at their ends.
func (g *Grid) Write(w io.Writer, indent string) {
	var widths []int
	for _, r := range g.rows {
		for j, c := range r {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(c))
		}
	}
	for i, r := range g.rows {
		line := indent
		for j, c := range r {
			if j > 0 {
				line += "  "
			}
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c))
			if g.left || g.Left[j] {
				line += c + pad
			} else {
				line += pad + c
			}
		}
		if note := g.notes[i]; note != "" {
			line += "  " + note
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
