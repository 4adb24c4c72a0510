package report

import (
	"io"
	"strings"
)

// Markdown writes d as a Markdown page with tables, of which those that few need are closed.
func Markdown(w io.Writer, d *Document) error { return pageOf(d, brief).markdown(w) }

func compareMarkdown(w io.Writer, c *Comparison) error { return comparisonPage(c, brief).markdown(w) }

func (p *reportPage) markdown(w io.Writer) error {
	var b strings.Builder
	if h := p.head(); h != "" {
		b.WriteString("# " + escape(h) + "\n\n")
	}
	for i, bl := range p.blocks {
		if i > 0 {
			b.WriteByte('\n')
		}
		markdownBlock(&b, bl)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownBlock(b *strings.Builder, bl pageBlock) {
	parts := 0
	gap := func() {
		if parts++; parts > 1 {
			b.WriteByte('\n')
		}
	}
	switch {
	case bl.fold && bl.title != "":
		gap()
		b.WriteString("<details><summary>" + escape(bl.title) + "</summary>\n")
		defer b.WriteString("\n</details>\n")
	case bl.title != "":
		gap()
		b.WriteString("## " + escape(bl.title) + "\n")
	}
	if len(bl.lines) > 0 {
		gap()
		markdownLines(b, bl.lines, bl.bullet, bl.title == "")
	}
	if len(bl.table.rows) > 0 {
		gap()
		markdownTable(b, bl.table)
	}
	if len(bl.after) > 0 {
		gap()
		markdownLines(b, bl.after, len(bl.after) > 1, false)
	}
}

func markdownLines(b *strings.Builder, lines []string, list, strong bool) {
	for i, l := range lines {
		switch {
		case list:
			b.WriteString("- " + escape(l) + "\n")
		case i == 0 && strong:
			b.WriteString("**" + escape(l) + "**\n")
		case i == 0:
			b.WriteString(escape(l) + "\n")
		default:
			b.WriteString("\n" + escape(l) + "\n")
		}
	}
}

func markdownTable(b *strings.Builder, t textTable) {
	columns := 0
	for _, r := range t.rows {
		columns = max(columns, len(r))
	}
	head := t.head
	if head == nil {
		head = make([]string, columns)
	}
	row := func(cells []string) {
		b.WriteByte('|')
		for _, c := range cells {
			b.WriteString(" " + escape(c) + " |")
		}
		b.WriteByte('\n')
	}
	row(head)
	b.WriteByte('|')
	for j := range columns {
		if j < t.left {
			b.WriteString("---|")
		} else {
			b.WriteString("---:|")
		}
	}
	b.WriteByte('\n')
	for _, r := range t.rows {
		row(r)
	}
}

// escape keeps text from being read as markup, and addresses in it from becoming links.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`", "\\`",
		"[", `\[`, "]", `\]`, "#", `\#`, "://", "&#58;//", "www.", "www&#46;", "\n", " ").Replace(s)
}
