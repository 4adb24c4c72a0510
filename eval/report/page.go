package report

import (
	_ "embed" // the form of a page
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/chart"
	"cfq/internal/message"
)

// reportPage is what the views for people show: they differ in how they draw it. It is also what page.html is given.
type reportPage struct {
	Title    string
	Verdict  gate.Verdict // "" without a gate
	Accepted string       // by the gate, unverified; "" for nothing
	Tiles    [][]string   // label, value and note
	Blocks   []pageBlock
	answer   int // the blocks that say what was asked for, with a gate; the rest is what it rests on
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

// add adds the blocks that say something: a table without rows needs no explanation.
func (p *reportPage) add(blocks ...pageBlock) {
	for _, b := range blocks {
		if b.prune(); b.Head != nil && b.Rows == nil {
			b.Head, b.After = nil, nil
		}
		if len(b.Lines)+len(b.After)+len(b.Rows)+len(b.Figures) > 0 {
			p.Blocks = append(p.Blocks, b)
		}
	}
}

// Head is the title, after the verdict if there is one.
func (p *reportPage) Head() string {
	verdict := string(p.Verdict)
	if p.Accepted != "" {
		verdict += " with " + p.Accepted
	}
	if verdict == "" || p.Title == "" {
		return verdict + p.Title
	}
	return verdict + ": " + p.Title
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

// brokenChart shows the promises that break: over the required margins, or at one margin in each of some results that
// have names.
func brokenChart(caption string, r *eval.Result, names []string, at []eval.AtMargin) []captionedChart {
	const maxBars = 60 // the table has all
	c := chart.Chart{X: "required margin t, logits", Y: "promises that break, %"}
	labels := []string{"VD(t)", "RVD(t), mirrored"}
	if names != nil {
		n := min(maxBars, len(names))
		caption += " (t = " + margin(at[0].Margin) + ")"
		c, at = chart.Chart{X: "promises that break, %", Categories: names[:n]}, at[:n]
		labels = []string{"VD", "RVD"}
	}
	return shareChart(caption, r, c, at, []string{"vd", "rvd"}, labels)
}

func shareChart(
	caption string, r *eval.Result, c chart.Chart, at []eval.AtMargin, ids, labels []string,
) []captionedChart {
	for k, id := range ids {
		s := chart.Series{Name: labels[k]}
		known := false
		for _, a := range at {
			x := a.Rate(id)
			s.X, s.Y = append(s.X, a.Margin), append(s.Y, 100*float64(x.Value))
			s.Low, s.High = append(s.Low, 100*float64(x.Lo)), append(s.High, 100*float64(x.Hi))
			known = known || x.Value.Defined()
		}
		if known {
			c.Series = append(c.Series, s)
		}
	}
	if c.Series == nil {
		return nil
	}
	return []captionedChart{{caption + ". Error bars: " + confidence(r.Settings.Confidence) + " intervals.", c}}
}

// distribution shows the margins of both models at the original's recourse points.
func distribution(a *eval.AtMargin) []captionedChart {
	n := a.Of("margins_full.n").N
	if n == 0 {
		return nil
	}
	// Where margins reach far up, the boundary would be a hair at the left; what lies beyond almost everyone is cut off.
	most := max(a.Of("margins_full.p95").Value, a.Of("margins_quant.p95").Value)
	c := chart.Chart{X: "margin at the recourse point, logits", Y: "people, %"}
	for k, name := range []string{"original", "quantized"} {
		s := chart.Series{Name: name, NoMarkers: true}
		low := 0.0
		for _, step := range a.Steps[k] {
			if step.Margin > float64(most) {
				break
			}
			y := 100 * float64(step.UpTo) / float64(n)
			s.X, s.Y = append(s.X, step.Margin, step.Margin), append(s.Y, low, y)
			low = y
		}
		c.Series = append(c.Series, s)
	}
	return []captionedChart{{
		"Distribution of the margins at the original's recourse points (t = " + margin(a.Margin) + "). " +
			"Left of 0 the model refuses: there the quantized model's curve is VD.", c,
	}}
}

//go:embed page.md.txt
var pageMarkdown string

// markdown is a page with tables, in which what few readers need is closed.
func (p *reportPage) markdown(w io.Writer) error {
	var out strings.Builder
	t := template.Must(template.New("").Funcs(template.FuncMap{"escape": escape}).Parse(pageMarkdown))
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	text := regexp.MustCompile("\n{3,}").ReplaceAllString(strings.TrimSpace(out.String()), "\n\n")
	_, err := io.WriteString(w, legible(text)+"\n")
	return err
}

// escape keeps text from being read as markup, and addresses in it from becoming links.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`", "\\`",
		"[", `\[`, "]", `\]`, "#", `\#`, "://", "&#58;//", "www.", "www&#46;", "\n", " ").Replace(s)
}
