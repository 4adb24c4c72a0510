package report

import (
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
			wrap(b, l, indent+"- ", indent+"  ")
		} else {
			wrap(b, l, indent, indent)
		}
	}
	textTable(b, bl.table)
	if len(bl.after) > 0 && len(bl.lines)+len(bl.table.rows) > 0 {
		b.WriteByte('\n')
	}
	rest := indent
	if len(bl.table.rows) > 0 { // a list of what its columns are
		rest += "  "
	}
	for _, l := range bl.after {
		wrap(b, l, indent, rest)
	}
}

// wrap writes a sentence, broken at blanks but not before a percent sign; the first
// line starts with first and the others with rest.
func wrap(b *strings.Builder, s, first, rest string) {
	const glue = "\u00a0"
	line := first
	fresh := true
	for _, word := range strings.Split(strings.ReplaceAll(oneLine(s), " %", glue+"%"), " ") {
		word = strings.ReplaceAll(word, glue, " ")
		if !fresh && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, fresh = rest, true
		}
		if !fresh {
			line += " "
		}
		line += word
		fresh = false
	}
	b.WriteString(line + "\n")
}

func textTable(b *strings.Builder, t table) {
	var rows [][]string
	if t.head != nil {
		rows = append(rows, t.head)
	}
	rows = append(rows, t.rows...)
	var widths []int
	for i, r := range rows {
		rows[i] = slices.Clone(r)
		for j, c := range r {
			c = oneLine(c)
			rows[i][j] = c
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(c))
		}
	}
	for _, r := range rows {
		line := " "
		for j, c := range r {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c))
			if j < t.left {
				line += " " + c + pad
			} else {
				line += " " + pad + c
			}
			if j < len(r)-1 {
				line += " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
