package reproduce

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"cfq/eval"
)

// Result is a row of results.csv: a metric of a method over the networks of several seeds, or its difference from that
// of another method.
type Result struct {
	Table    string     `json:"table"`
	Data     string     `json:"data"`
	Part     string     `json:"part"`    // as Row.Part
	Model    string     `json:"model"`   // architecture, as --arch has it
	Method   string     `json:"method"`  // as Row.Name
	Against  string     `json:"against"` // "" or a method: the values are differences from it, network by network
	Bits     string     `json:"bits"`    // budget; "" where nothing is quantized
	Metric   string     `json:"metric"`  // as Column.Metric
	Sample   int        `json:"sample"`  // people of each network at most, or test rows among which they are; 0 = all
	Seeds    int        `json:"seeds"`
	Networks int        `json:"networks"` // of these seeds with a value
	Mean     eval.Float `json:"mean"`
	SD       eval.Float `json:"sd"`    // NaN of one network
	Paper    eval.Float `json:"paper"` // NaN where the paper has no number
	PaperSD  eval.Float `json:"paper_sd"`
	Version  string     `json:"version"` // of cfq and ONNX Runtime
}

// field is a column of results.csv: the name and a pointer to a string, an int or an eval.Float.
type field struct {
	name  string
	value any
}

func (r *Result) fields() []field {
	return []field{
		{"table", &r.Table},
		{"data", &r.Data},
		{"part", &r.Part},
		{"model", &r.Model},
		{"method", &r.Method},
		{"against", &r.Against},
		{"bits", &r.Bits},
		{"metric", &r.Metric},
		{"sample", &r.Sample},
		{"seeds", &r.Seeds},
		{"networks", &r.Networks},
		{"mean", &r.Mean},
		{"sd", &r.SD},
		{"paper", &r.Paper},
		{"paper_sd", &r.PaperSD},
		{"version", &r.Version},
	}
}

// WriteResults writes results.csv.
func WriteResults(w io.Writer, results []Result) error {
	out := csv.NewWriter(w)
	var head []string
	for _, f := range new(Result).fields() {
		head = append(head, f.name)
	}
	records := [][]string{head}
	for i := range results {
		var record []string
		for _, f := range results[i].fields() {
			record = append(record, f.text())
		}
		records = append(records, record)
	}
	return out.WriteAll(records)
}

func (f field) text() string {
	switch v := f.value.(type) {
	case *string:
		return *v
	case *int:
		return strconv.Itoa(*v)
	case *eval.Float:
		if !math.IsNaN(float64(*v)) {
			return strconv.FormatFloat(float64(*v), 'g', 6, 64)
		}
	}
	return ""
}

// ReadResults reads what WriteResults writes.
func ReadResults(r io.Reader) ([]Result, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = len(new(Result).fields())
	records, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	var results []Result
	for i, record := range records {
		var row Result
		for k, f := range row.fields() {
			if i == 0 && record[k] != f.name {
				return nil, fmt.Errorf("column %d is called %q, want %q", k+1, record[k], f.name)
			}
			if err := f.set(record[k]); i > 0 && err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", i, f.name, err)
			}
		}
		if i > 0 {
			results = append(results, row)
		}
	}
	return results, nil
}

func (f field) set(text string) (err error) {
	switch v := f.value.(type) {
	case *string:
		*v = text
	case *int:
		*v, err = strconv.Atoi(text)
	case *eval.Float:
		x := math.NaN()
		if text != "" {
			x, err = strconv.ParseFloat(text, 64)
		}
		*v = eval.Float(x)
	}
	return err
}

// Merge replaces the results of the given tables in old by measured ones.
func Merge(old, measured []Result, tables []Table) []Result {
	is := func(name string) func(Table) bool { return func(t Table) bool { return t.Name == name } }
	kept := slices.DeleteFunc(slices.Clone(old), func(r Result) bool { return slices.ContainsFunc(tables, is(r.Table)) })
	all, order := slices.Concat(kept, measured), Tables()
	slices.SortStableFunc(all, func(a, b Result) int {
		return cmp.Compare(slices.IndexFunc(order, is(a.Table)), slices.IndexFunc(order, is(b.Table)))
	})
	return all
}

// Results are the results of a table that was measured: of its rows, then of its claims. What no network has a value of
// is left out.
func (l *Lab) Results(t *Table, rows []Measured) []Result {
	var all []Result
	add := func(m *Measured, against, metric string, values []float64, paper *Number) {
		if len(values) == 0 {
			return
		}
		mean, sd := stat.MeanStdDev(values, nil)
		if paper == nil {
			paper = &Number{math.NaN(), math.NaN()}
		}
		all = append(all, Result{
			Table: t.Name, Data: m.Variant.Data, Part: m.Part, Model: flagValue(m.Variant.Train, "--arch"), Method: m.Name,
			Against: against, Bits: flagValue(m.Variant.Quantize, "--budget"), Metric: metric, Sample: l.most(m.Variant),
			Seeds: len(m.Outcomes), Networks: len(values), Mean: eval.Float(mean), SD: eval.Float(sd),
			Paper: eval.Float(paper.Mean), PaperSD: eval.Float(paper.SD), Version: l.Version,
		})
	}
	for i := range rows {
		paper := t.paper(&rows[i].Row)
		for k, c := range t.Columns {
			add(&rows[i], "", c.Metric, rows[i].values(c.Metric), paper[k])
		}
	}
	for _, c := range t.Claims {
		for i := range rows {
			k := slices.IndexFunc(rows, func(r Measured) bool { return r.Name == c.Upper && r.Where() == rows[i].Where() })
			if rows[i].Name == c.Lower && k >= 0 {
				add(&rows[i], c.Upper, c.Metric, differences(&rows[i], &rows[k], c.Metric), nil)
			}
		}
	}
	return all
}

// flagValue is the value of a flag, "" without it.
func flagValue(args []string, name string) string {
	if at := slices.Index(args, name); at >= 0 {
		return args[at+1]
	}
	return ""
}

// of is the value of a metric on the network of a seed; NaN when it is not known.
func (m *Measured) of(metric string, seed int) float64 {
	switch {
	case m.Outcomes[seed] == nil:
		return math.NaN()
	case metric == Seconds:
		return m.Seconds[seed]
	}
	return m.Outcomes[seed].of(metric, cmp.Or(m.Solver, m.Part))
}

// values are those of all seeds that have one.
func (m *Measured) values(metric string) []float64 {
	var all []float64
	for seed := range m.Outcomes {
		if v := m.of(metric, seed); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return all
}

// differences are those of a metric, on the networks of which both rows have it.
func differences(a, b *Measured, metric string) []float64 {
	var all []float64
	for seed := range a.Outcomes {
		if d := a.of(metric, seed) - b.of(metric, seed); !math.IsNaN(d) {
			all = append(all, d)
		}
	}
	return all
}
