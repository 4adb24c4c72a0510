package reproduce

import (
	_ "embed" // the page
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
	Protocol    string
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
		Protocol: t.protocol(results),
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
			if r := row.find(results, c.Metric); r != nil {
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

func (r *Row) find(results []Result, metric string) *Result {
	i := slices.IndexFunc(results, func(x Result) bool {
		return x.Data == r.Data && x.Part == r.Part && x.Method == r.Name && x.Against == "" && x.Metric == metric
	})
	if i < 0 {
		return nil
	}
	return &results[i]
}

func (t *Table) protocol(results []Result) string {
	first, versions := results[0], []string{}
	for _, r := range results {
		first.Sample = max(first.Sample, r.Sample)
		if !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	networks := "One network"
	if first.Seeds > 1 {
		networks = fmt.Sprintf("Mean ± standard deviation of %d networks", first.Seeds)
	}
	drawn := slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Recourse != "" })
	people := fmt.Sprintf("at most %d refused people of each", first.Sample)
	switch {
	case first.Sample == 0:
		people = "all refused people"
	case drawn:
		people = fmt.Sprintf("the refused people among at most %d test rows", first.Sample)
	}
	paper := ""
	if slices.ContainsFunc(results, func(r Result) bool { return !math.IsNaN(float64(r.Paper)) }) {
		paper = " The paper's numbers: " + t.Labels + "."
	}
	return fmt.Sprintf("%s, %s.%s Measured by cfq %s.", networks, people, paper, strings.Join(versions, ", "))
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

//go:embed results.md.txt
var resultsMarkdown string

// Markdown shows results as a section for each table.
func Markdown(results []Result) string {
	var b strings.Builder
	t := texttemplate.Must(texttemplate.New("").Funcs(texttemplate.FuncMap{"join": strings.Join}).Parse(resultsMarkdown))
	if err := t.Execute(&b, sections(results)); err != nil {
		panic(err)
	}
	return b.String()
}

//go:embed report.html
var reportPage string

// HTML writes results as one page that needs no other file.
func HTML(w io.Writer, results []Result) error {
	return template.Must(template.New("").Parse(reportPage)).Execute(w, struct {
		Sections   []tableSection
		Margin     float64
		Confidence float64
	}{sections(results), Margin, 100 * confidence})
}
