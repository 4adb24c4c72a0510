package reproduce

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	texttemplate "text/template"
)

type tableSection struct {
	Name, Title string
	Claims      []string
	Head        []string // the first two are of text, all others of numbers
	Rows        [][]string
	Note        string

	Seeds, Sample int    // 0 = everybody
	Drawn         bool   // the sample is of test rows
	Paper         string // its tables with these numbers
	Versions      []string
}

func sections(results []Result) []tableSection {
	var all []tableSection
	for _, t := range Tables() {
		of := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Table != t.Name })
		if len(of) > 0 {
			all = append(all, t.section(of))
		}
	}
	return all
}

func (t *Table) section(results []Result) tableSection {
	s := tableSection{
		Name: t.Name, Title: t.Title, Claims: t.verdicts(results), Head: []string{"data", "method"}, Note: t.Note,
		Seeds: results[0].Seeds, Drawn: slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Recourse != "" }),
	}
	for _, r := range results {
		s.Sample = max(s.Sample, r.Sample)
		if !slices.Contains(s.Versions, r.Version) {
			s.Versions = append(s.Versions, r.Version)
		}
		if r.Paper.Defined() {
			s.Paper = t.Labels
		}
	}
	for _, c := range t.columns {
		s.Head = append(s.Head, c.Head)
		if slices.Contains(t.Paper, c.Head) {
			s.Head = append(s.Head, "paper")
		}
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		cells, measured := []string{place(row.Data, row.Part), row.Name}, false
		for _, c := range t.columns {
			value, paper := "not measured", ""
			k := slices.IndexFunc(results, func(x Result) bool {
				return x.Data == row.Data && x.Part == row.Part && x.Method == row.Name && x.Against == "" && x.Metric == c.Metric
			})
			if k >= 0 {
				r := &results[k]
				value, paper, measured = r.cell(c.Format), meanAndSD(c.Format, float64(r.Paper), float64(r.PaperSD)), true
			}
			cells = append(cells, value)
			if slices.Contains(t.Paper, c.Head) {
				cells = append(cells, paper)
			}
		}
		if measured {
			s.Rows = append(s.Rows, cells)
		}
	}
	return s
}

func (r *Result) cell(format string) string {
	text := meanAndSD(format, float64(r.Mean), float64(r.SD))
	if r.Networks < r.Seeds {
		text += fmt.Sprintf(" (%d of %d)", r.Networks, r.Seeds)
	}
	return text
}

func meanAndSD(format string, mean, sd float64) string {
	switch {
	case math.IsNaN(mean):
		return ""
	case math.IsNaN(sd):
		return fmt.Sprintf(format, mean)
	}
	return fmt.Sprintf(format+" ± "+strings.ReplaceAll(format, "+", ""), mean, sd)
}

// pages are the template of the page in Markdown, of that in HTML, and of what both say of a table.
//
//go:embed results.md.txt report.html protocol.txt
var pages embed.FS

// Markdown shows results as a section for each table.
func Markdown(results []Result) string {
	var b strings.Builder
	t := texttemplate.New("results.md.txt").Funcs(texttemplate.FuncMap{"join": strings.Join})
	t = texttemplate.Must(t.ParseFS(pages, "results.md.txt", "protocol.txt"))
	if err := t.Execute(&b, sections(results)); err != nil {
		panic(err)
	}
	return b.String()
}

// HTML writes results as one page that needs no other file.
func HTML(w io.Writer, results []Result) error {
	t := template.New("report.html").Funcs(template.FuncMap{"join": strings.Join})
	return template.Must(t.ParseFS(pages, "report.html", "protocol.txt")).Execute(w, struct {
		Sections   []tableSection
		Margin     float64
		Confidence float64
	}{sections(results), Margin, 100 * confidence})
}
