package report

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"cfq/eval/gate"
	"cfq/internal/chart"
	"cfq/internal/message"
)

// reportPage is what the views for people show: they differ in how they draw it. It is also what page.html is given.
type reportPage struct {
	Title   string
	Verdict gate.Verdict // "" without a gate
	Tiles   []tile
	Blocks  []pageBlock
	answer  int // the blocks that say what was asked for, with a gate; the rest is what it rests on
}

// pageBlock is a section of a page. In its table the first Left columns are aligned left, the others right.
type pageBlock struct {
	Title        string   // "" for the headline
	Lines, After []string // sentences before the table, and explanations under it
	Bullet       bool     // Lines are a list
	Fold         bool     // few readers need it: views that can close it do
	Head         []string // nil: none
	Rows         [][]string
	Left         int
	// styles are "good", "bad" or "unsure" for cells, by row and by column, of which prune takes none away before them.
	styles  map[[2]int]string
	Figures []captionedChart
}

type captionedChart struct {
	Caption string
	chart   chart.Chart
}

type tile struct{ Label, Value, Note string }

// add adds the blocks that say something: a table without rows needs no explanation.
func (p *reportPage) add(blocks ...pageBlock) {
	for _, b := range blocks {
		b.prune()
		explained := len(b.After) > 0 && (b.Head == nil || len(b.Rows) > 0)
		if explained || len(b.Lines)+len(b.Rows)+len(b.Figures) > 0 {
			p.Blocks = append(p.Blocks, b)
		}
	}
}

// Head is the title, after the verdict if there is one.
func (p *reportPage) Head() string {
	if p.Verdict == "" || p.Title == "" {
		return string(p.Verdict) + p.Title
	}
	return string(p.Verdict) + ": " + p.Title
}

func (b *pageBlock) row(cells ...string) { b.Rows = append(b.Rows, cells) }

func (b *pageBlock) note(lines ...string) { b.After = append(b.After, lines...) }

func (b *pageBlock) style(row, column int, style string) {
	if b.styles == nil {
		b.styles = map[[2]int]string{}
	}
	b.styles[[2]int{row, column}] = style
}

// prune takes out the columns that say nothing in any row.
func (b *pageBlock) prune() {
	for j := len(b.Head) - 1; j >= 0 && len(b.Rows) > 0; j-- {
		if slices.ContainsFunc(b.Rows, func(r []string) bool { return r[j] != missing }) {
			continue
		}
		b.Head = slices.Delete(b.Head, j, j+1)
		for i := range b.Rows {
			b.Rows[i] = slices.Delete(b.Rows[i], j, j+1)
		}
		if j < b.Left {
			b.Left--
		}
	}
}

// legible keeps names in files from steering what shows them, see [message.OneLine]; lines and tabs stay.
func legible(text string) string {
	return regexp.MustCompile("[^\n\t]+").ReplaceAllStringFunc(text, message.OneLine)
}

// writeText is for a terminal. With a gate it has what was asked for, and the promises that break.
func (p *reportPage) writeText(w io.Writer) error {
	var b strings.Builder
	if h := p.Head(); h != "" {
		b.WriteString(message.OneLine(h) + "\n\n")
	}
	for i := range p.Blocks {
		if bl := &p.Blocks[i]; p.Verdict == "" || i < p.answer || bl.Title == brokenTitle {
			if i > 0 {
				b.WriteByte('\n')
			}
			bl.writeText(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (b *pageBlock) writeText(w *strings.Builder) {
	indent := ""
	if b.Title != "" {
		w.WriteString(message.OneLine(b.Title) + "\n")
		indent = "  "
	}
	first, rest := indent, indent
	if b.Bullet {
		first, rest = indent+"- ", indent+"  "
	}
	for _, l := range b.Lines {
		message.Paragraph(w, first, rest, l)
	}
	g := message.Grid{Left: map[int]bool{}}
	for j := range b.Left {
		g.Left[j] = true
	}
	if b.Head != nil {
		g.Add(b.Head...)
	}
	for _, cells := range b.Rows {
		g.Add(cells...)
	}
	g.Write(w, "  ")
	if len(b.After) > 0 && len(b.Lines)+len(b.Rows) > 0 {
		w.WriteByte('\n')
	}
	rest = indent
	if len(b.Rows) > 0 { // a list of what its columns are
		rest += "  "
	}
	for _, l := range b.After {
		message.Paragraph(w, indent, rest, l)
	}
}
