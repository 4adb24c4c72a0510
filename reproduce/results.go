package reproduce

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
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
				text = strings.TrimSuffix(fmt.Sprintf("%.6g", *x), "NaN")
			}
			record = append(record, text)
		}
		records = append(records, record)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// ReadResults reads what WriteResults writes.
func ReadResults(r io.Reader) ([]Result, error) {
	in := csv.NewReader(r)
	names, _ := new(Result).fields()
	in.FieldsPerRecord = len(names)
	records, err := in.ReadAll()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	for k, name := range records[0] {
		if name != names[k] {
			return nil, fmt.Errorf("column %d is called %q, want %q", k+1, name, names[k])
		}
	}
	results := make([]Result, len(records)-1)
	for i, record := range records[1:] {
		_, values := results[i].fields()
		for k, text := range record {
			if into, ok := values[k].(*string); ok {
				*into = text
			} else if _, err := fmt.Sscan(cmp.Or(text, "NaN"), values[k]); err != nil {
				return nil, fmt.Errorf("row %d: %s: %w", i+1, names[k], err)
			}
		}
	}
	return results, nil
}

func merge(old, measured []Result, tables []Table) []Result {
	in := func(tables []Table, r Result) int {
		return slices.IndexFunc(tables, func(t Table) bool { return t.Name == r.Table })
	}
	kept := slices.DeleteFunc(slices.Clone(old), func(r Result) bool { return in(tables, r) >= 0 })
	all, order := slices.Concat(kept, measured), Tables()
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Compare(in(order, a), in(order, b)) })
	return all
}

// results are those of a table that was measured: of its rows, then of its claims. What no network has a value of is
// left out.
func (l *Lab) results(t *Table, rows []measuredRow) []Result {
	var all []Result
	add := func(m, minus *measuredRow, metric string, paper Number) {
		values := differences(m, minus, metric)
		if len(values) == 0 {
			return
		}
		mean, sd := stat.MeanStdDev(values, nil)
		r := Result{
			Key: Key{
				Table: t.Name, Data: m.Data, Part: m.Part, Model: flagValue(m.Train, "--arch"),
				Method: m.Name, Bits: flagValue(m.Quantize, "--budget"), Metric: metric,
			},
			Sample: l.most(&m.Variant), Seeds: len(m.steps), Networks: len(values), Mean: eval.Float(mean),
			SD: eval.Float(sd), Paper: paper.Mean, PaperSD: paper.SD, Version: l.Version,
		}
		if minus != nil {
			r.Against = minus.Name
		}
		all = append(all, r)
	}
	for i := range rows {
		m := &rows[i]
		paper := t.paper(&m.Row)
		for k, c := range t.columns {
			add(m, nil, c.Metric, paper[k])
		}
	}
	for _, c := range t.Claims {
		for i := range rows {
			m := &rows[i]
			k := slices.IndexFunc(rows, func(r measuredRow) bool {
				return r.Name == c.Upper && r.Data == m.Data && r.Part == m.Part
			})
			if m.Name == c.Lower && k >= 0 {
				add(m, &rows[k], c.Metric, number(""))
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

// of is the value of a metric on the network of a seed; NaN where it is not known.
func (m *measuredRow) of(metric string, seed int) float64 {
	switch s := m.steps[seed]; {
	case s.outcome == nil || s.err != nil:
		return math.NaN()
	case metric == Seconds:
		return cmp.Or(s.timed, s).seconds
	default:
		return s.outcome(metric, cmp.Or(m.Solver, m.Part))
	}
}

// differences are a metric's values, or their differences from another row's, of the networks that have them.
func differences(m, minus *measuredRow, metric string) (values []float64) {
	for seed := range m.steps {
		d := m.of(metric, seed)
		if minus != nil {
			d -= minus.of(metric, seed)
		}
		if !math.IsNaN(d) {
			values = append(values, d)
		}
	}
	return values
}
