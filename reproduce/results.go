package reproduce

import (
	"cmp"
	"embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/eval/report"
	"cfq/internal/config"
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

// Seconds stands for a metric: of the processor, that quantizing took, or looking for actions.
const Seconds = "seconds"

// Before a metric: the largest value of the groups of people that Row.Part tells apart, and that less the smallest.
// Groups of few promises do not count.
const (
	Worst  = "worst "
	Spread = "spread "
)

// Weighted stands in a part between a group and the share of all people that it counts as.
const Weighted = " weighted to "

// outcome is what a command measured: the value of a metric in a part, NaN when it is not known.
type outcome func(metric, part string) float64

func readOutcome(command, path string) (outcome, error) {
	if command == "recourse" {
		a, err := config.Parsed("actions", path, func(text []byte) (a actions, err error) {
			err = json.Unmarshal(text, &a)
			return a, err
		})
		return a.of, err
	}
	d, err := config.Parsed("report", path, report.ReadJSON)
	if err != nil {
		return nil, err
	}
	return (*evaluated)(d.Result).of, nil
}

type evaluated eval.Result

func (e *evaluated) of(metric, name string) float64 {
	if worst, ok := strings.CutPrefix(metric, Worst); ok {
		return slices.Max(e.groups(worst, name))
	}
	if spread, ok := strings.CutPrefix(metric, Spread); ok {
		all := e.groups(spread, name)
		return slices.Max(all) - slices.Min(all)
	}
	if group, share, ok := strings.Cut(name, Weighted); ok {
		return e.weighted(metric, group, share)
	}
	if r := e.part(name); r != nil {
		return float64(valueOf(metric, r).Value)
	}
	return math.NaN()
}

func valueOf(metric string, r *eval.Result) eval.Value {
	m, _ := metrics.By(metric)
	at := 0
	if m.PerMargin() {
		at = slices.Index(r.Settings.Margins, Margin)
	}
	return r.Metric(&m, at)
}

// weighted is the mean over people that a metric is, if a group, "sex Female", were another share of all people: each
// counts with the weight w_g of eq. group_reweight_shift. NaN without such a group.
func (e *evaluated) weighted(metric, group, share string) float64 {
	shifted, err := strconv.ParseFloat(share, 64)
	in := e.part(group)
	if err != nil || in == nil {
		return math.NaN()
	}
	original := float64(in.Population.Read) / float64(e.Population.Read)
	var sum, weights float64
	for _, by := range e.Groups {
		for _, g := range by.Groups {
			if !strings.HasPrefix(group, by.By+" ") {
				continue
			}
			w := (1 - shifted) / (1 - original)
			if by.By+" "+g.Name == group {
				w = shifted / original
			}
			if v := valueOf(metric, g.Result); v.N > 0 {
				sum, weights = sum+w*float64(v.N)*float64(v.Value), weights+w*float64(v.N)
			}
		}
	}
	return sum / weights
}

func (e *evaluated) groups(metric, by string) []float64 {
	var all []float64
	for _, grouping := range e.Groups {
		for _, g := range grouping.Groups {
			if grouping.By == by && !g.Small {
				all = append(all, float64(valueOf(metric, g.Result).Value))
			}
		}
	}
	if all == nil {
		return []float64{math.NaN()}
	}
	return all
}

func (e *evaluated) part(name string) *eval.Result {
	if name == "" {
		return (*eval.Result)(e)
	}
	for _, by := range e.Groups {
		for _, g := range by.Groups {
			if by.By+" "+g.Name == name {
				return g.Result
			}
		}
	}
	for _, s := range e.Scenarios {
		if s.Name == name {
			return s.Result
		}
	}
	return nil
}

// actions are what cfq recourse prints.
type actions map[string]any

//go:embed testdata/actions.json
var actionsJSON []byte

// actionPaths are where the metrics of actions stand in that; those of robust actions, in the row of a solver.
func actionPaths() (all map[string]struct{ Path, About string }) {
	embedded(actionsJSON, &all)
	return all
}

func (a actions) of(metric, solver string) float64 {
	in := map[string]any(a)
	if strings.HasPrefix(metric, "robust.") {
		in = a.robust(solver)
	}
	path := strings.Split(actionPaths()[metric].Path, ".")
	for _, name := range path[:len(path)-1] {
		in, _ = in[name].(map[string]any)
	}
	x, ok := in[path[len(path)-1]].(float64)
	switch {
	case !ok:
		return math.NaN()
	case metric == "proved":
		return x / a.of("people", solver)
	}
	return x
}

func (a actions) robust(solver string) map[string]any {
	all, _ := a["robustness"].(map[string]any)
	rows, _ := all["rows"].([]any)
	for _, row := range rows {
		if r, ok := row.(map[string]any); ok && r["solver"] == solver {
			return r
		}
	}
	return nil
}

const confidence = 0.95

// What became of a claim in one place.
const (
	holds    = "holds"
	reversed = "reversed"
	unclear  = "not shown"
)

// judge tests the differences of a claim: a one-sided t test in both directions.
func (r *Result) judge() string {
	if r.Networks < 2 {
		return unclear
	}
	n, mean := float64(r.Networks), float64(r.Mean)
	reach := float64(r.SD) / math.Sqrt(n) * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(confidence)
	switch {
	case mean < -reach:
		return holds
	case mean > reach:
		return reversed
	}
	return unclear
}

func (t *Table) verdicts(results []Result) []string {
	var bad, good []string
	for _, c := range t.Claims {
		places := map[string][]string{}
		for i := range results {
			if r := &results[i]; r.Method == c.Lower && r.Against == c.Upper && r.Metric == c.Metric {
				verdict := r.judge()
				places[verdict] = append(places[verdict], fmt.Sprintf("%s (%s)", place(r.Data, r.Part), r.cell("%+.3f")))
			}
		}
		var parts []string
		for _, verdict := range []string{reversed, unclear, holds} {
			if p := places[verdict]; p != nil {
				parts = append(parts, verdict+" on "+strings.Join(p, ", "))
			}
		}
		text := fmt.Sprintf("%s: %s.", c.Says, strings.Join(parts, "; "))
		switch {
		case len(parts) == 1 && places[holds] != nil:
			good = append(good, text)
		case len(parts) > 0:
			bad = append(bad, text)
		}
	}
	return append(bad, good...)
}
