package report

import (
	_ "embed" // the page's template and style
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"cfq/eval/gate"
	"cfq/internal/chart"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// pageTemplate is parsed once: that takes longer than to fill it in.
var pageTemplate = template.Must(template.New("page").Parse(pageHTML)) //nolint:gochecknoglobals // constant

// html is one page that asks the network for nothing and needs no script.
func (p *reportPage) html(w io.Writer) error {
	var out strings.Builder
	if err := pageTemplate.Execute(&out, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := io.WriteString(w, legible(out.String()))
	return err
}

// Style is that of the page.
func (p *reportPage) Style() template.CSS {
	return template.CSS(pageCSS) //nolint:gosec // our own, from a file of this package
}

// Class colours the verdict.
func (p *reportPage) Class() string { return styleOf(p.Verdict) }

// Lead is the first block if it belongs to the title; else nil.
func (p *reportPage) Lead() *pageBlock {
	if len(p.Blocks) > 0 && p.Blocks[0].Title == "" {
		return &p.Blocks[0]
	}
	return nil
}

// htmlSection is a block with an ID that is unique in the page.
type htmlSection struct {
	*pageBlock
	ID string
}

// Sections are the blocks after Lead.
func (p *reportPage) Sections() (all []htmlSection) {
	ids := map[string]int{}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if b == p.Lead() {
			continue
		}
		id := slug(b.Title)
		if ids[id]++; ids[id] > 1 {
			id += "-" + strconv.Itoa(ids[id])
		}
		all = append(all, htmlSection{b, id})
	}
	return all
}

func slug(title string) string {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	return "s-" + strings.Join(strings.FieldsFunc(strings.ToLower(title), other), "-")
}

// Closed says that the block is folded, which hides no figure.
func (b *pageBlock) Closed() bool { return b.Fold && len(b.Figures) == 0 }

// Beside says that the one figure and the table may stand side by side: a longer table gets the whole width.
func (b *pageBlock) Beside() bool {
	const maxBeside = 16
	return len(b.Figures) == 1 && len(b.Head) < wideTable && len(b.Rows) <= maxBeside
}

// SVG is the figure drawn.
func (c captionedChart) SVG() (template.HTML, error) {
	svg, err := chart.Figure(c.chart)
	return template.HTML(svg), err //nolint:gosec // drawn here, its words escaped
}

// stackedTable and wideTable are from how many columns on a table's rows are stacked where there is little room, and
// where there is not very much.
const (
	stackedTable = 4
	wideTable    = 9
)

type (
	htmlTable struct {
		Class string
		Head  []htmlCell
		Rows  [][]htmlCell
	}
	htmlCell struct {
		Text, Note, Class, Label string // Label is what the head says of the column
	}
)

// Table is nil without rows.
func (b *pageBlock) Table() *htmlTable {
	if len(b.Rows) == 0 {
		return nil
	}
	class := func(j int) string {
		const longText = 20 // letters, which are given room
		switch {
		case j >= b.Left:
			return ""
		case slices.ContainsFunc(b.Rows, func(r []string) bool { return j < len(r) && len(r[j]) >= longText }):
			return "left long"
		}
		return "left"
	}
	t := &htmlTable{}
	switch n := len(b.Rows[0]); {
	case n >= wideTable:
		t.Class = "wide"
	case n >= stackedTable:
		t.Class = "stack"
	}
	for j, text := range b.Head {
		t.Head = append(t.Head, htmlCell{Text: text, Class: class(j)})
	}
	for i, r := range b.Rows {
		row := make([]htmlCell, len(r))
		for j, text := range r {
			row[j] = htmlCell{Text: text, Class: strings.TrimSpace(class(j) + " " + b.styles[cellAt{i, j}])}
			if j < len(b.Head) {
				row[j].Label = b.Head[j]
			}
			if value, note, ok := strings.Cut(text, " ("); ok && j >= b.Left && strings.HasSuffix(note, ")") {
				row[j].Text, row[j].Note = value, strings.TrimSuffix(note, ")")
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func styleOf(v gate.Verdict) string {
	return map[gate.Verdict]string{gate.Pass: "good", gate.Fail: "bad", gate.Inconclusive: "unsure"}[v]
}
