package reproduce

import "cfq/eval"

// Report is a table as JSON.
type Report struct {
	Table   string        `json:"table"`
	Title   string        `json:"title"`
	Paper   string        `json:"paper"` // its tables
	Version string        `json:"version"`
	Seeds   int           `json:"seeds"`
	Sample  int           `json:"sample"`
	Margin  float64       `json:"margin"`
	Claims  []ClaimReport `json:"claims"`
	Rows    []RowReport   `json:"rows"`
}

// ClaimReport is a claim and what became of it.
type ClaimReport struct {
	Says     string    `json:"says"`
	Metric   string    `json:"metric"`
	Verdicts []Verdict `json:"verdicts"`
}

// RowReport is a row: what each metric is for each seed, and what the paper reports.
type RowReport struct {
	Data     string                  `json:"data"`
	Part     string                  `json:"part,omitempty"`
	Method   string                  `json:"method"`
	Commands []string                `json:"commands"` // of the first network
	Values   map[string][]eval.Float `json:"values"`
	Paper    map[string]eval.Float   `json:"paper,omitempty"`
}

// NewReport is a table that was measured.
func NewReport(t *Table, rows []Measured, l *Lab) Report {
	r := Report{
		Table: t.Name, Title: t.Title, Paper: t.Labels, Version: l.Version, Seeds: l.Seeds, Sample: l.Sample, Margin: Margin,
		Claims: []ClaimReport{}, Rows: []RowReport{},
	}
	for _, c := range t.Claims {
		r.Claims = append(r.Claims, ClaimReport{c.Says, c.Metric, c.Judge(rows)})
	}
	for i := range rows {
		m := &rows[i]
		row := RowReport{
			Data: m.Variant.Data, Part: m.Part, Method: m.Name, Commands: m.Commands,
			Values: map[string][]eval.Float{}, Paper: map[string]eval.Float{},
		}
		paper := t.paper(&m.Row)
		for k, c := range t.Columns {
			for seed := range m.Outcomes {
				row.Values[c.Metric] = append(row.Values[c.Metric], eval.Float(m.of(c.Metric, seed)))
			}
			if paper[k] != nil {
				row.Paper[c.Metric] = eval.Float(paper[k].Mean)
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}
