package reproduce

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"cfq/eval"
)

// Key says what a result is of.
type Key struct {
	Table   string `json:"table"`
	Data    string `json:"data"`
	Part    string `json:"part"`    // as Row.Part
	Model   string `json:"model"`   // architecture, as --arch has it
	Method  string `json:"method"`  // as Row.Name
	Against string `json:"against"` // "" or a method: the values are differences from it, network by network
	Bits    string `json:"bits"`    // budget; "" where nothing is quantized
	Metric  string `json:"metric"`  // as Column.Metric
}

// Result is a row of results.csv: a metric of a method over the networks of several seeds, or its difference from that
// of another method.
type Result struct {
	Key
	Sample   int        `json:"sample"` // people of each network at most, or test rows among which they are; 0 = all
	Seeds    int        `json:"seeds"`
	Networks int        `json:"networks"` // of these seeds with a value
	Mean     eval.Float `json:"mean"`
	SD       eval.Float `json:"sd"`    // NaN of one network
	Paper    eval.Float `json:"paper"` // NaN where the paper has no number
	PaperSD  eval.Float `json:"paper_sd"`
	Version  string     `json:"version"` // of cfq and ONNX Runtime
}

// resultField is a column of results.csv: the name and a pointer to a string, an int or an eval.Float.
type resultField struct {
	name  string
	value any
}

func (r *Result) fields() []resultField {
	return []resultField{
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
	records := make([][]string, 1+len(results))
	for _, f := range new(Result).fields() {
		records[0] = append(records[0], f.name)
	}
	for i := range results {
		for _, f := range results[i].fields() {
			records[i+1] = append(records[i+1], f.text())
		}
	}
	return csv.NewWriter(w).WriteAll(records)
}

func (f resultField) text() string {
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

func (f resultField) set(text string) (err error) {
	switch v := f.value.(type) {
	case *string:
		*v = text
	case *int:
		*v, err = strconv.Atoi(text)
	case *eval.Float:
		var x float64
		x, err = strconv.ParseFloat(cmp.Or(text, "NaN"), 64)
		*v = eval.Float(x)
	}
	return err
}

// Merge replaces the results of the given tables in old by measured ones.
func Merge(old, measured []Result, tables []Table) []Result {
	in := func(tables []Table, r Result) int {
		return slices.IndexFunc(tables, func(t Table) bool { return t.Name == r.Table })
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(r Result) bool { return in(tables, r) >= 0 })
	all, order := slices.Concat(kept, measured), Tables()
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Compare(in(order, a), in(order, b)) })
	return all
}

// Results are the results of a table that was measured: of its rows, then of its claims. What no network has a value of
// is left out. What depends on a command that failed stays as it is in earlier results.
func (l *Lab) Results(t *Table, rows []Measured, earlier []Result) []Result {
	var all []Result
	add := func(m, minus *Measured, metric string, paper Number) {
		values := differences(m, minus, metric)
		mean, sd := stat.MeanStdDev(values, nil)
		r := Result{
			Key: Key{
				Table: t.Name, Data: m.Data, Part: m.Part, Model: flagValue(m.Train, "--arch"),
				Method: m.Name, Bits: flagValue(m.Quantize, "--budget"), Metric: metric,
			},
			Sample: l.most(&m.Variant), Seeds: len(m.Outcomes), Networks: len(values), Mean: eval.Float(mean),
			SD: eval.Float(sd), Paper: paper.Mean, PaperSD: paper.SD, Version: l.Version,
		}
		failed := slices.Contains(m.Outcomes, nil)
		if minus != nil {
			r.Against, failed = minus.Name, failed || slices.Contains(minus.Outcomes, nil)
		}
		k := slices.IndexFunc(earlier, func(e Result) bool { return e.Key == r.Key })
		switch {
		case failed && k >= 0:
			all = append(all, earlier[k])
		case len(values) > 0:
			all = append(all, r)
		}
	}
	for i := range rows {
		paper := t.paper(&rows[i].Row)
		for k, c := range t.columns {
			add(&rows[i], nil, c.Metric, paper[k])
		}
	}
	for _, c := range t.Claims {
		for i := range rows {
			k := slices.IndexFunc(rows, func(r Measured) bool {
				return r.Name == c.Upper && r.Data == rows[i].Data && r.Part == rows[i].Part
			})
			if rows[i].Name == c.Lower && k >= 0 {
				add(&rows[i], &rows[k], c.Metric, Number{numberOrNaN(""), numberOrNaN("")})
			}
		}
	}
	return all
}

func flagValue(flags, name string) string {
	_, after, _ := strings.Cut(flags, name+" ")
	value, _, _ := strings.Cut(after, " ")
	return value
}

func (m *Measured) of(metric string, seed int) float64 {
	switch {
	case m.Outcomes[seed] == nil:
		return math.NaN()
	case metric == Seconds:
		return m.Seconds[seed]
	}
	return m.Outcomes[seed].of(metric, cmp.Or(m.Solver, m.Part))
}

func differences(m, minus *Measured, metric string) []float64 {
	var all []float64
	for seed := range m.Outcomes {
		d := m.of(metric, seed)
		if minus != nil {
			d -= minus.of(metric, seed)
		}
		if !math.IsNaN(d) {
			all = append(all, d)
		}
	}
	return all
}
