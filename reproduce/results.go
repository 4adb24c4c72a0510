package reproduce

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
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

// fields are the columns of results.csv, with pointers to a string, an int or an eval.Float.
func (r *Result) fields() (names []string, values []any) {
	v := reflect.ValueOf(r).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.Anonymous {
			names, values = append(names, f.Tag.Get("json")), append(values, v.FieldByIndex(f.Index).Addr().Interface())
		}
	}
	return names, values
}

// WriteResults writes results.csv.
func WriteResults(w io.Writer, results []Result) error {
	names, _ := new(Result).fields()
	records := [][]string{names}
	for i := range results {
		var record []string
		_, values := results[i].fields()
		for _, value := range values {
			text := fmt.Sprint(reflect.ValueOf(value).Elem())
			if x, ok := value.(*eval.Float); ok {
				text = strings.TrimSuffix(strconv.FormatFloat(float64(*x), 'g', 6, 64), "NaN")
			}
			record = append(record, text)
		}
		records = append(records, record)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// ReadResults reads what WriteResults writes.
func ReadResults(r io.Reader) (results []Result, err error) {
	in := csv.NewReader(r)
	names, _ := new(Result).fields()
	in.FieldsPerRecord = len(names)
	records, err := in.ReadAll()
	if err != nil {
		return nil, err
	}
	for i, record := range records {
		var row Result
		_, values := row.fields()
		for k, text := range record {
			if i == 0 {
				if text != names[k] {
					return nil, fmt.Errorf("column %d is called %q, want %q", k+1, text, names[k])
				}
				continue
			}
			switch v := values[k].(type) {
			case *string:
				*v = text
			case *int:
				*v, err = strconv.Atoi(text)
			case *eval.Float:
				var x float64
				x, err = strconv.ParseFloat(cmp.Or(text, "NaN"), 64)
				*v = eval.Float(x)
			}
			if err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", i, names[k], err)
			}
		}
		if i > 0 {
			results = append(results, row)
		}
	}
	return results, nil
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
				add(&rows[i], &rows[k], c.Metric, number(""))
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
