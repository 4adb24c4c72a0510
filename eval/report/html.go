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

// html is one page that asks the network for nothing and needs no script.
func (p *reportPage) html(w io.Writer) error {
	var out strings.Builder
	if err := template.Must(template.New("page").Parse(pageHTML)).Execute(&out, p); err != nil {
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

func styleOf(v gate.Verdict) string {
	return map[gate.Verdict]string{gate.Pass: "good", gate.Fail: "bad", gate.Inconclusive: "unsure"}[v]
}

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
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if b == p.Lead() {
			continue
		}
		id := "s-" + strings.Join(strings.FieldsFunc(strings.ToLower(b.Title), other), "-")
		if ids[id]++; ids[id] > 1 {
			id += "-" + strconv.Itoa(ids[id])
		}
		all = append(all, htmlSection{b, id})
	}
	return all
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

type htmlCell struct {
	Text, Note, Class, Label string // Label is what the head says of the column
}

// TableClass says how rows are stacked where there is little room.
func (b *pageBlock) TableClass() string {
	switch n := len(b.Rows[0]); {
	case n >= wideTable:
		return "wide"
	case n >= stackedTable:
		return "stack"
	}
	return ""
}

// HeadCells are those above the table.
func (b *pageBlock) HeadCells() (row []htmlCell) {
	for j, class := range b.columnClasses() {
		if b.Head != nil {
			row = append(row, htmlCell{Text: b.Head[j], Class: class})
		}
	}
	return row
}

// Cells are those of the table.
func (b *pageBlock) Cells() [][]htmlCell {
	rows, classes := make([][]htmlCell, len(b.Rows)), b.columnClasses()
	for i, r := range b.Rows {
		for j, text := range r {
			c := htmlCell{Text: text, Class: strings.TrimSpace(classes[j] + " " + b.styles[[2]int{i, j}])}
			if b.Head != nil {
				c.Label = b.Head[j]
			}
			if value, note, ok := strings.Cut(text, " ("); ok && j >= b.Left && strings.HasSuffix(note, ")") {
				c.Text, c.Note = value, strings.TrimSuffix(note, ")")
			}
			rows[i] = append(rows[i], c)
		}
	}
	return rows
}

func (b *pageBlock) columnClasses() []string {
	const longText = 20 // letters, which are given room
	classes := make([]string, len(b.Rows[0]))
	for j := range classes[:min(b.Left, len(classes))] {
		classes[j] = "left"
		if slices.ContainsFunc(b.Rows, func(r []string) bool { return len(r[j]) >= longText }) {
			classes[j] = "left long"
		}
	}
	return classes
}
