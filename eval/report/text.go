package report

import (
	"io"
	"strings"

	"cfq/internal/message"
)

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

func (p *reportPage) text(w io.Writer) error {
	var b strings.Builder
	if h := p.head(); h != "" {
		b.WriteString(message.OneLine(h) + "\n\n")
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

func textBlock(b *strings.Builder, bl pageBlock) {
	indent := ""
	if bl.title != "" {
		b.WriteString(bl.title + "\n")
		indent = "  "
	}
	for _, l := range bl.lines {
		if bl.bullet {
			message.Paragraph(b, indent+"- ", indent+"  ", l)
		} else {
			message.Paragraph(b, indent, indent, l)
		}
	}
	g := message.Grid{Left: map[int]bool{}}
	for j := range bl.table.left {
		g.Left[j] = true
	}
	if bl.table.head != nil {
		g.Add(bl.table.head...)
	}
	for _, cells := range bl.table.rows {
		g.Add(cells...)
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
		message.Paragraph(b, indent, rest, l)
	}
}
