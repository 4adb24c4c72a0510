package report

import (
	"bytes"
	_ "embed" // the page's template and style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/internal/chart"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// pageTemplate is parsed once: that takes longer than to fill it in.
var pageTemplate = template.Must(template.New("page").Parse(pageHTML)) //nolint:gochecknoglobals // constant

// HTML writes d as one page that asks the network for nothing and needs no script.
func HTML(w io.Writer, d *Document) error {
	return pageOf(d, full).html(w, tiles(d))
}

func compareHTML(w io.Writer, c *Comparison) error { return comparisonPage(c, full).html(w, nil) }

// What the template is given.
type (
	htmlPage struct {
		Head, Title, Class string
		Verdict            gate.Verdict
		Style              template.CSS
		Lead               *lead
		Tiles              []tile
		Sections           []htmlSection
	}
	lead        struct{ Lines, After []string }
	htmlSection struct {
		ID, Title      string
		Lines, After   []string
		Bullet, Closed bool
		Beside         bool // the one picture and the table may stand side by side
		Figures        []htmlFigure
		People         []htmlPerson
		Table          *htmlTable
	}
	htmlFigure struct {
		Caption string
		SVG     template.HTML
	}
	htmlPerson struct {
		Who    string
		Images []shot
	}
	shot struct {
		Label string
		URL   template.URL
	}
	htmlTable struct {
		Class string
		Head  []htmlCell
		Rows  [][]htmlCell
	}
	htmlCell struct {
		Text, Note, Class, Label string // Label is what the head says of the column
		Meter                    template.HTML
	}
	// tile is a number at the top of the page.
	tile struct{ Label, Value, Note string }
)

func (p *reportPage) html(w io.Writer, tiles []tile) error {
	v := htmlPage{
		Head: p.head(), Title: p.title, Verdict: p.verdict, Class: styleOf(p.verdict), Tiles: tiles,
		Style: template.CSS(pageCSS), //nolint:gosec // our own, from a file of this package
	}
	if v.Title == "" {
		v.Title = "Recourse under quantization"
	}
	if v.Head == "" {
		v.Head = v.Title
	}
	ids := map[string]int{}
	for i := range p.blocks {
		b := &p.blocks[i]
		if i == 0 && b.title == "" && len(b.table.rows) == 0 {
			v.Lead = &lead{b.lines, b.after}
			continue
		}
		s, err := sectionOf(b)
		if err != nil {
			return err
		}
		if ids[s.ID]++; ids[s.ID] > 1 {
			s.ID += "-" + strconv.Itoa(ids[s.ID])
		}
		v.Sections = append(v.Sections, s)
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func sectionOf(b *pageBlock) (htmlSection, error) {
	s := htmlSection{
		ID: slug(b.title), Title: b.title, Lines: b.lines, After: b.after, Bullet: b.bullet,
		Closed: b.fold && len(b.figures) == 0,
	}
	var err error
	if s.Table, err = gridOf(&b.table); err != nil {
		return s, err
	}
	s.Beside = len(b.figures) == 1 && len(b.table.head) < wideTable && len(b.table.rows) <= maxBeside
	for _, f := range b.figures {
		var svg strings.Builder
		if err := chart.Figure(&svg, f.chart); err != nil {
			return s, fmt.Errorf("report: %w", err)
		}
		//nolint:gosec // drawn here, its words escaped
		s.Figures = append(s.Figures, htmlFigure{f.caption, template.HTML(svg.String())})
	}
	for _, p := range b.people {
		of := htmlPerson{Who: p.Who}
		for _, m := range p.Images {
			url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(m.PNG)
			of.Images = append(of.Images, shot{m.Label, template.URL(url)}) //nolint:gosec // letters and digits, made here
		}
		s.People = append(s.People, of)
	}
	return s, nil
}

// maxBeside is how many rows of a table stand beside a picture: longer ones get the whole width.
const maxBeside = 16

const longText = 20

// stackedTable and wideTable are from how many columns on a table's rows are stacked where there is little room, and
// where there is not very much.
const (
	stackedTable = 4
	wideTable    = 9
)

// meterColumn is where the meters of a table stand.
const meterColumn = 2

func gridOf(t *textTable) (*htmlTable, error) {
	if len(t.rows) == 0 {
		return nil, nil
	}
	class := func(j int) string {
		switch {
		case j >= t.left:
			return ""
		case slices.ContainsFunc(t.rows, func(r []string) bool { return j < len(r) && len(r[j]) >= longText }):
			return "left long"
		}
		return "left"
	}
	g := &htmlTable{}
	switch n := len(t.rows[0]); {
	case n >= wideTable:
		g.Class = "wide"
	case n >= stackedTable:
		g.Class = "stack"
	}
	for j, text := range t.head {
		g.Head = append(g.Head, htmlCell{Text: text, Class: class(j)})
	}
	for i, r := range t.rows {
		row := make([]htmlCell, len(r))
		for j, text := range r {
			row[j] = htmlCell{Text: text, Class: strings.TrimSpace(class(j) + " " + t.styles[cellAt{i, j}])}
			if j < len(t.head) {
				row[j].Label = t.head[j]
			}
			if value, note, ok := strings.Cut(text, " ("); ok && j >= t.left && strings.HasSuffix(note, ")") {
				row[j].Text, row[j].Note = value, strings.TrimSuffix(note, ")")
			}
		}
		if t.meters != nil {
			c := htmlCell{Class: "meter", Label: "against the limit", Text: missing}
			if m, ok := t.meters[i]; ok {
				var svg strings.Builder
				if err := m.Write(&svg); err != nil {
					return nil, fmt.Errorf("report: %w", err)
				}
				c.Text, c.Meter = m.words, template.HTML(svg.String()) //nolint:gosec // numbers, drawn here
			}
			row = slices.Insert(row, meterColumn, c)
		}
		g.Rows = append(g.Rows, row)
	}
	if t.meters != nil {
		g.Head = slices.Insert(g.Head, meterColumn, htmlCell{Text: "against the limit", Class: "meter"})
	}
	return g, nil
}

func styleOf(v gate.Verdict) string {
	switch v {
	case gate.Pass:
		return "good"
	case gate.Fail:
		return "bad"
	case gate.Inconclusive:
		return "unsure"
	}
	return ""
}

func slug(title string) string {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	return "s-" + strings.Join(strings.FieldsFunc(strings.ToLower(title), other), "-")
}

func tiles(d *Document) []tile {
	r := d.Result
	i := r.Headline()
	if i < 0 || r.Population.Evaluated == 0 {
		return nil
	}
	a := &r.Margins[i]
	var out []tile
	add := func(label, value, note string) {
		if value != missing {
			out = append(out, tile{label, value, note})
		}
	}
	rate := func(name, id string) {
		x := a.Rate(id)
		add(name+", "+symbolAt(id, a.Margin), percent(x.Value, 1), fraction(x)+", "+interval(x, 1))
	}
	rate("promises that break", "vd")
	rate("promises of the quantized model that the original breaks", "rvd")
	if t := r.Tau01; t.Value.Defined() {
		note := "tau01, logits"
		if t.Extrapolated {
			note += ", extrapolated"
		}
		add("margin at which at most 1 % break", tauValue(t, 2), note)
	}
	if p := a.Rate("certified.share"); p.Den > 0 {
		radius := float64(a.Of("certified.radius").Value)
		add("certified", percent(p.Value, 1), fraction(p)+", within "+margin(radius))
	}
	noise := "median person, " + symbolAt("crg.median", a.Margin)
	if x := a.Estimate("crg_noise.abs_mean"); x.N > 0 {
		noise += "; solver's noise " + percent(x.Value, 1)
	}
	add("change of the cost of recourse", change(a.Estimate("crg.median").Value, 1), noise)
	add("accuracy", percent(r.Rate("accuracy_quant").Value, 1), "original "+percent(r.Rate("accuracy_full").Value, 1))
	if n := d.Quantized.Bytes; n > 0 && d.Full.Bytes > 0 {
		add("size of the file", percent(eval.Float(float64(n)/float64(d.Full.Bytes)), 0),
			thousands(n)+" of "+byteCount(d.Full.Bytes))
	}
	return out
}
