package report

import (
	"io"
	"slices"
	"strings"
)

// markdown is a page with tables, in which what few readers need is closed.
func (p *reportPage) markdown(w io.Writer) error {
	var parts []string
	if h := p.Head(); h != "" {
		parts = append(parts, "# "+escape(h)+"\n")
	}
	for i := range p.Blocks {
		parts = append(parts, p.Blocks[i].markdown())
	}
	_, err := io.WriteString(w, legible(strings.Join(parts, "\n")))
	return err
}

func (b *pageBlock) markdown() string {
	var parts []string
	switch {
	case b.Fold:
		parts = append(parts, "<details><summary>"+escape(b.Title)+"</summary>\n")
	case b.Title != "":
		parts = append(parts, "## "+escape(b.Title)+"\n")
	}
	if len(b.Lines) > 0 {
		parts = append(parts, markdownLines(b.Lines, b.Bullet, b.Title == ""))
	}
	if len(b.Rows) > 0 {
		parts = append(parts, b.markdownTable())
	}
	if len(b.After) > 0 {
		parts = append(parts, markdownLines(b.After, len(b.After) > 1, false))
	}
	if b.Fold {
		parts = append(parts, "</details>\n")
	}
	return strings.Join(parts, "\n")
}

// markdownLines is a list, or paragraphs of which the first may be strong.
func markdownLines(lines []string, list, strong bool) string {
	before, between := "", "\n"
	if list {
		before, between = "- ", ""
	}
	var parts []string
	for i, l := range lines {
		if l = escape(l); strong && !list && i == 0 {
			l = "**" + l + "**"
		}
		parts = append(parts, before+l+"\n")
	}
	return strings.Join(parts, between)
}

func (b *pageBlock) markdownTable() string {
	head, rule := slices.Clone(b.Head), "|"
	for j := range b.Rows[0] {
		if b.Head == nil {
			head = append(head, "")
		}
		if j < b.Left {
			rule += "---|"
		} else {
			rule += "---:|"
		}
	}
	var out strings.Builder
	row := func(cells []string) {
		out.WriteByte('|')
		for _, c := range cells {
			out.WriteString(" " + escape(c) + " |")
		}
		out.WriteByte('\n')
	}
	row(head)
	out.WriteString(rule + "\n")
	for _, r := range b.Rows {
		row(r)
	}
	return out.String()
}

// escape keeps text from being read as markup, and addresses in it from becoming links.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`", "\\`",
		"[", `\[`, "]", `\]`, "#", `\#`, "://", "&#58;//", "www.", "www&#46;", "\n", " ").Replace(s)
}
