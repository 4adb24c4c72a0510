package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the longest line of a sentence in the text view; tables and file
// names may be wider.
const width = 92

// Text writes d for a terminal: plain characters, no colours, the result first.
func Text(w io.Writer, d *Document) error {
	p := pageOf(d, brief)
	if d.Gate != nil { // a verdict is an answer; the other views have what it rests on
		b := broken(d, brief)
		p.blocks = p.blocks[:p.answer]
		if len(b.lines)+len(b.table.rows) > 0 {
			p.blocks = append(p.blocks, b)
		}
	}
	return p.text(w)
}

func compareText(w io.Writer, c *Comparison) error { return comparisonPage(c, brief).text(w) }

func (p *page) text(w io.Writer) error {
	var b strings.Builder
	if h := p.head(); h != "" {
		b.WriteString(oneLine(h) + "\n\n")
	}
	for i, bl := range p.blocks {
		if i > 0 {
			b.WriteByte('\n')
		}
		textBlock(&b, bl)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine keeps what a file says from breaking lines or steering the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

func textBlock(b *strings.Builder, bl block) {
	indent := ""
	if bl.title != "" {
		b.WriteString(bl.title + "\n")
		indent = "  "
	}
	for _, l := range bl.lines {
		if bl.bullet {
			Paragraph(b, indent+"- ", indent+"  ", l)
		} else {
			Paragraph(b, indent, indent, l)
		}
	}
	g := Grid{Left: map[int]bool{}, rows: bl.table.rows}
	if bl.table.head != nil {
		g.rows = slices.Concat([][]string{bl.table.head}, g.rows)
	}
	for j := range bl.table.left {
		g.Left[j] = true
	}
	g.Write(b, "  ")
	if len(bl.after) > 0 && len(bl.lines)+len(bl.table.rows) > 0 {
		b.WriteByte('\n')
	}
	rest := indent
	if len(bl.table.rows) > 0 { // a list of what its columns are
		rest += "  "
	}
	for _, l := range bl.after {
		Paragraph(b, indent, rest, l)
	}
}

// Paragraph writes text in lines, broken at blanks but not before a percent sign. The first line starts with first and
// the others with rest.
func Paragraph(w io.Writer, first, rest, text string) {
	const glue = "\u00a0"
	line, fresh := first, true
	for word := range strings.SplitSeq(strings.ReplaceAll(oneLine(text), " %", glue+"%"), " ") {
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
	rows  [][]string
	notes map[int]string // behind a row, without a column: no column gets as wide as that
}

// NewLines returns a grid of which all columns are aligned left.
func NewLines() *Grid {
	g := &Grid{Left: map[int]bool{}}
	for j := range 16 {
		g.Left[j] = true
	}
	return g
}

// Add adds a row.
func (g *Grid) Add(cells ...string) { g.rows = append(g.rows, cells) }

// Line adds a row of a key and a value.
func (g *Grid) Line(key, format string, args ...any) { g.Add(key, fmt.Sprintf(format, args...)) }

// Note puts text behind the last row.
func (g *Grid) Note(text string) {
	if g.notes == nil {
		g.notes = map[int]string{}
	}
	g.notes[len(g.rows)-1] = text
}

// Write writes the rows as lines, each behind indent, without blanks at their ends.
func (g *Grid) Write(w io.Writer, indent string) {
	var widths []int
	for _, r := range g.rows {
		for j, c := range r {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(oneLine(c)))
		}
	}
	for i, r := range g.rows {
		line := indent
		for j, c := range r {
			if j > 0 {
				line += "  "
			}
			c = oneLine(c)
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c))
			if g.Left[j] {
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
