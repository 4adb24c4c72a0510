package records

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/eval"
	"cfq/internal/extsort"
	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
	"cfq/task/rowio"
)

const people = `
version: 1
data: {label: y, favourable: "1"}
features:
  - {name: a, kind: numeric}
  - {name: sex, kind: binary, one: f, zero: m, subgroup: true}
  - {name: "region, part", kind: onehot, values: [n, s], subgroup: true}
`

func parse(t testing.TB) *task.Task {
	t.Helper()
	return must.Get(task.Parse("task.yaml", []byte(people)))(t)
}

func runOf(margins ...float64) Run {
	return Run{
		Tool: "cfq 1", Full: "aaaa", Quantized: "bbbb", Task: "cccc", Attributes: []string{"sex", "region, part"},
		Columns: []string{"note", "day"}, Settings: eval.Settings{Margins: margins, Confidence: 0.95, Seed: 1},
	}
}

type drawn struct{ *rapid.T }

func (d drawn) flag() bool { return rapid.Bool().Draw(d.T, "flag") }

// finite are numbers without -0, which tables write as 0.
func (d drawn) finite() eval.Float {
	return eval.Float(rapid.OneOf(rapid.SampledFrom([]float64{0, 1e-300, -5e-324, math.MaxFloat64, 0.1, 1 << 24, 1e15}),
		rapid.Float64()).Draw(d.T, "number")) + 0
}

func (d drawn) number() eval.Float {
	if d.flag() {
		return d.finite()
	}
	return eval.Float(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(d.T, "odd number"))
}

func (d drawn) inputs() []float32 {
	const dim = 4
	odd := rapid.SampledFrom([]float32{0, float32(math.Copysign(0, -1)), math.MaxFloat32, math.SmallestNonzeroFloat32})
	return rapid.SliceOfN(rapid.OneOf(odd, rapid.Float32()), dim, dim).Draw(d.T, "inputs")
}

func (d drawn) text() string {
	odd := []string{
		"", "a", "b,c", `say "so"`, `"a"`, `"`, `\N`, `"\\N"`, "two\tfields", `"two\tfields"`, "two\nlines", "two\r\nlines",
		"\r", " blank ", "ä", "\xff", "\x00", "\ufeffx", "NA", "null", "NaN", "#row:3", "1e5", "\u2028",
	}
	return rapid.OneOf(rapid.SampledFrom(odd), rapid.String()).Draw(d.T, "text")
}

func (d drawn) promise(points bool) eval.Promise {
	p := eval.Promise{
		Status: rapid.SampledFrom(recourse.Statuses()).Draw(d.T, "status"), Cost: d.number(), Own: d.number(),
		Other: d.number(),
	}
	if p.Exists() {
		p.Cost, p.Own, p.Other, p.Violation = d.finite(), d.finite(), d.finite(), d.text()
		if points {
			p.Point = d.inputs()
		}
	}
	return p
}

func (d drawn) step() eval.Step {
	s := eval.Step{Full: d.promise(true), Quant: d.promise(true), DirSim: d.number(), Overlap: d.number()}
	if d.flag() {
		for range eval.Perturbations() {
			s.Perturbed = append(s.Perturbed, d.number())
		}
	}
	if d.flag() {
		s.Transfer, s.Back = &eval.Transfer{Upper: eval.Float(math.Inf(1))}, &eval.Transfer{Upper: 1, Refuted: d.inputs()}
	}
	return s
}

func (d drawn) record(margins int) eval.Record {
	r := eval.Record{
		Row: rapid.IntRange(0, math.MaxInt).Draw(d.T, "row"), Line: rapid.IntRange(0, math.MaxInt).Draw(d.T, "line"),
		ID: d.text(), Label: rapid.Int8Range(-1, 1).Draw(d.T, "label"), Full: d.finite(), Quant: d.finite(),
		Evaluated: d.flag(),
		RowData: eval.RowData{
			Hash: rapid.Uint64().Draw(d.T, "hash"), X: d.inputs(), Groups: []string{d.text(), d.text()},
		},
	}
	if d.flag() {
		r.Others = []uint64{0, rapid.Uint64().Draw(d.T, "other")}
	}
	if r.Evaluated {
		r.First = d.promise(false)
		for range margins {
			r.Steps = append(r.Steps, d.step())
		}
	}
	if d.flag() {
		p := d.promise(true)
		p.Status, p.Point = recourse.Found, d.inputs()
		if p.Cost, p.Own, p.Other = d.finite(), d.finite(), d.finite(); !r.Evaluated {
			p = eval.Promise{Status: recourse.Found, Cost: p.Cost, Own: eval.Float(math.NaN()), Other: eval.Float(math.NaN())}
		}
		r.Issued = &p
	}
	return r
}

func formats() []rowio.Format { return []rowio.Format{parquetFormat, "csv", "tsv"} }

func write(t testing.TB, dir string, n int, f rowio.Format, run Run, list []eval.Record, file eval.DataFile) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%d.%s", n, f))
	var b bytes.Buffer
	w := must.Get(NewWriter(&b, f, run))(t)
	for i := range list {
		must.Do(t, w.Write(&list[i]))
	}
	must.Do(t, w.Counts(file))
	must.Do(t, w.Close())
	must.Do(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

func put1(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func sameBits() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b eval.Float) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	tk, dir := parse(t), t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn{rt}
		margins := []float64{0, 0.1, 0.25}[:rapid.IntRange(1, 3).Draw(rt, "margins")]
		run := runOf(margins...)
		var paths []string
		var want []eval.Record
		var counts eval.DataFile
		for i := range rapid.IntRange(1, 3).Draw(rt, "tables") {
			var list []eval.Record
			for range rapid.IntRange(0, 4).Draw(rt, "records") {
				r := d.record(len(margins))
				r.Hash = r.Hash&^3 | uint64(i)                        // no row is in two tables
				for range rapid.IntRange(1, 2).Draw(rt, "promises") { // of one person's row
					if list = append(list, r); r.Issued == nil {
						break
					}
				}
			}
			few := func() int { return rapid.IntRange(0, 2).Draw(rt, "rows") }
			file := eval.DataFile{Unreadable: few(), Filtered: few(), Unmatched: few()}
			file.LeftOut = file.Filtered + few()
			counts.Unreadable += file.Unreadable
			counts.Filtered += file.Filtered
			counts.LeftOut += file.LeftOut
			counts.Unmatched += file.Unmatched
			counts.Rows += file.Unreadable + file.LeftOut
			for k := range list {
				if k == 0 || list[k].Issued == nil || list[k].Row != list[k-1].Row || list[k].Hash != list[k-1].Hash {
					counts.Rows++
				}
			}
			paths = append(paths, write(t, dir, i, rapid.SampledFrom(formats()).Draw(rt, "format"), run, list, file))
			want = append(want, list...)
		}
		var list []eval.Record
		got, made, file, err := Read(t.Context(), paths, tk, func(r *eval.Record) { list = append(list, *r) })
		if len(want) == 0 && counts.Rows+counts.Unmatched == 0 {
			must.Fail(rt, err, "there are no rows")
			return
		}
		must.Do(rt, err)
		must.Same(rt, want, list, sameBits())
		if d := made.Differs(&run); d != "" || file != counts {
			rt.Errorf("%s; counts %+v, want %+v", d, file, counts)
		}
		must.Do(rt, got.Close())
	})
}

// Tables with the same row of the data are refused, whatever they know of its line and its promises; rows of other
// files and those of streams are not.
func TestOverlap(t *testing.T) {
	t.Parallel()
	tk, run := parse(t), runOf(0.1)
	person := func(row, line int, hash uint64, day uint64) eval.Record {
		r := eval.Record{Row: row, Line: line, Label: 1, RowData: eval.RowData{
			Hash: hash, Others: []uint64{7, day}, X: make([]float32, 4), Groups: []string{"", ""},
		}}
		return r
	}
	promised := func(r eval.Record, to float32) eval.Record {
		r.Issued = &eval.Promise{Status: recourse.Found, Point: []float32{to, 0, 0, 0}}
		return r
	}
	several := func(r eval.Record) eval.Record {
		r.ID = eval.RowID + "1"
		return r
	}
	a, b, c, first := person(0, 2, 10, 0), person(1, 3, 11, 1), person(2, 4, 12, 2), person(0, 0, 10, 0)
	for name, x := range map[string]struct {
		tables   [][]eval.Record
		overlaps bool
	}{
		"apart":                   {[][]eval.Record{{a, b}, {c}}, false},
		"two share a row":         {[][]eval.Record{{a, b}, {b, c}}, true},
		"one row":                 {[][]eval.Record{{a}, {a}}, true},
		"another file":            {[][]eval.Record{{a, b}, {person(0, 2, 20, 0), person(1, 3, 21, 1)}}, false},
		"another column":          {[][]eval.Record{{a, b}, {person(1, 3, 11, 9)}}, false},
		"another line":            {[][]eval.Record{{a, b}, {person(1, 9, 11, 1)}}, false},
		"no lines in one":         {[][]eval.Record{{a, b}, {person(1, 0, 11, 1)}}, true},
		"no lines":                {[][]eval.Record{{first, person(1, 0, 11, 1)}, {first, person(1, 0, 11, 1)}}, true},
		"streams":                 {[][]eval.Record{{first, person(0, 0, 11, 1)}, {first}}, false},
		"a stream and files":      {[][]eval.Record{{first, first, first, first}, {a, b}, {b, c}}, true},
		"several promises":        {[][]eval.Record{{a, several(promised(b, 1)), several(promised(b, 2))}, {c}}, false},
		"other promises":          {[][]eval.Record{{promised(a, 1), b}, {promised(a, 2), c}}, true},
		"with a promise and none": {[][]eval.Record{{promised(a, 1), b}, {a, c}}, true},
	} {
		for k, f := range formats() {
			if (len(name)+k)%2 > 0 {
				continue
			}
			var paths []string
			for i, list := range x.tables {
				paths = append(paths, write(t, t.TempDir(), i, f, run, list, eval.DataFile{}))
			}
			got, _, file, err := Read(t.Context(), paths, tk, nil)
			switch {
			case x.overlaps:
				must.Fail(t, err, "would count twice")
			case err != nil || file.Rows == 0:
				t.Errorf("%s, %s: %d rows, %v", name, f, file.Rows, err)
			default:
				must.Do(t, got.Close())
			}
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`"`, `"a"`, `"a`, `a"`, `\n`, `""`, `"\N"`, "'a'", "`a`", "ä", `"ä"`} {
		must.Same(t, raw, plain(raw))
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawn{rt}.text()
		for range 3 { // and what looks as if it had been written already
			in := text(s)
			if s == "" {
				return
			}
			if got := plain(in.(string)); got != s || strings.ContainsAny(in.(string), "\t\r\n\x00") || in == `\N` {
				rt.Fatalf("%q was written as %q and read as %q", s, in, got)
			}
			s = in.(string)
		}
	})
}

func table(t testing.TB, change func(*Run)) string {
	t.Helper()
	run := runOf(0)
	if change != nil {
		change(&run)
	}
	p := eval.Promise{Status: recourse.Found, Cost: 1, Own: 0.5, Other: -0.5, Point: []float32{1, 0, 1, 0}}
	r := eval.Record{
		ID: "a", Row: 3, Line: 4, Full: -1, Quant: -2, Evaluated: true, First: p, Label: 1,
		Steps:   []eval.Step{{Full: p, Quant: p, DirSim: 1, Overlap: 1, Perturbed: []eval.Float{1, 2, 3}}},
		RowData: eval.RowData{Groups: []string{"f", "n"}, Hash: 5, X: []float32{0, 0, 1, 0}},
	}
	text, err := os.ReadFile(write(t, t.TempDir(), 1, "csv", run, []eval.Record{r}, eval.DataFile{Rows: 2, Unreadable: 1}))
	must.Do(t, err)
	return string(text)
}

func TestOtherRuns(t *testing.T) {
	t.Parallel()
	first := put1(t, "first.csv", table(t, nil))
	for want, change := range map[string]func(*Run){
		"version of cfq: cfq 1 and cfq 2":                           func(r *Run) { r.Tool = "cfq 2" },
		"original: aaaa and other":                                  func(r *Run) { r.Full = "other" },
		"quantized model: bbbb and other":                           func(r *Run) { r.Quantized = "other" },
		"task file: cccc and other":                                 func(r *Run) { r.Task = "other" },
		"overrides file: none and other":                            func(r *Run) { r.Overrides = "other" },
		`columns of the data: ["note" "day"] and ["note"]`:          func(r *Run) { r.Columns = []string{"note"} },
		`columns of the data: ["note" "day"] and ["note,day"]`:      func(r *Run) { r.Columns = []string{"note,day"} },
		"settings: margins: [0] and [0.5]":                          func(r *Run) { r.Settings.Margins = []float64{0.5} },
		"settings: sample: 0 and 7":                                 func(r *Run) { r.Settings.Sample = 7 },
		"settings: seed: 1 and 2":                                   func(r *Run) { r.Settings.Seed = 2 },
		"settings: issued_promises: none and true":                  func(r *Run) { r.Settings.Issued = true },
		"settings: one_sided: none and true":                        func(r *Run) { r.Settings.OneSided = true },
		"settings: radius: none and 0.5":                            func(r *Run) { r.Settings.Radius = 0.5 },
		`settings: solver: {"restarts":0,"rounds":0`:                func(r *Run) { r.Settings.Solver.Restarts = 3 },
		`groups: ["sex" "region, part"] and ["region, part" "sex"]`: func(r *Run) { slices.Reverse(r.Attributes) },
	} {
		paths := []string{first, put1(t, "second.csv", table(t, change))}
		for range 2 {
			_, _, _, err := Read(t.Context(), paths, parse(t), nil)
			if err == nil || !strings.Contains(err.Error(), "row 1, column \"run\"") {
				t.Errorf("want %s: %v", want, err)
			} else if paths[0] == first && !strings.Contains(err.Error(), first+" cannot be put together: "+want) {
				t.Errorf("%v, want %s", err, want)
			}
			slices.Reverse(paths)
		}
	}
	// Whoever sums up decides on the confidence alone; all of the settings are looked at.
	a, b := runOf(0), runOf(0)
	if b.Settings.Confidence = 0.9; a.Differs(&b) != "settings: confidence: 0.95 and 0.9" {
		t.Error(a.Differs(&b))
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	whole := table(t, nil)
	lines := strings.Split(whole, "\n")
	read := func(name, text string) (*eval.Records, error) {
		r, _, _, err := Read(t.Context(), []string{put1(t, name, text)}, parse(t), nil)
		return r, err
	}
	must.Same(t, 1, must.Get(read("a.csv", whole))(t).Len())
	more := strings.Join([]string{"more," + lines[0], "1," + lines[1], "2," + lines[2], ""}, "\n")
	must.Same(t, 1, must.Get(read("a.csv", more))(t).Len())
	for _, c := range []struct{ old, new, want string }{
		{"margin_quant", "margin", `there is no column "margin_quant"`},
		{"outcome", "status", `this is not a table of records: there is no column "outcome"`},
		{"cfq.records/1", "cfq.records/9", `row 1, column "run": unsupported schema "cfq.records/9": want "cfq.records/1"`},
		{`""schema""`, `schema`, `row 1, column "run": it does not say what the record was made of: `},
		{`[""sex""`, `[""age""`, `row 1, column "run": the records tell people apart by "age", and the task does not`},
		{",unreadable,", ",broken,", `row 2, column "outcome": unknown outcome "broken"`},
		{",1,a,", ",-1,a,", `row 1, column "count": "-1" is not a number of rows`},
		{",a,3,", ",a,x,", `row 1, column "row": `},
		{",a,3,", ",a,-3,", `row 1, columns "row" and "line": a number is less than 0`},
		{"4 2:1", "16777216 2:1", `row 1, column "inputs": "16777216" is not the number of inputs: the task has 4`},
		{"4 2:1", "3 2:1", `row 1, column "inputs": "3" is not the number of inputs`},
		{"4 2:1", "4 4:1", `row 1, column "inputs": "4:1" is not input:number of 4 inputs`},
		{"4 2:1", "", `row 1, column "inputs": the inputs are missing`},
		{",-1,-2,", ",,-2,", `row 1, columns "margin_full" and "margin_quant": a number is missing`},
		{"found", "lost", `unknown status "lost"; there are`},
		{",4 0:1,", ",,", `row 1, columns of promises: one was found whose cost, margin or point is missing`},
		{",f,n,", ",f,", "fields where"},
		{",1 2 3,", ",1 2,", "record of row 3: 2 perturbations, want 3"},
	} {
		must.Has(t, whole, c.old)
		_, err := read("damaged.csv", strings.Replace(whole, c.old, c.new, 1))
		must.Fail(t, err, "damaged.csv: ")
		must.Fail(t, err, c.want)
	}
}

func TestEmptyTables(t *testing.T) {
	t.Parallel()
	whole := table(t, nil)
	head := strings.SplitAfter(whole, "\n")[0]
	var paths []string
	for i, text := range []string{"", head, whole} {
		paths = append(paths, put1(t, fmt.Sprint(i, ".csv"), text))
	}
	paths = append(paths, put1(t, "empty.tsv", ""))
	dir := t.TempDir()
	for i, f := range formats() {
		paths = append(paths, write(t, dir, i, f, runOf(0), nil, eval.DataFile{}))
	}
	r, _, file, err := Read(t.Context(), paths, parse(t), nil)
	if err != nil || r.Len() != 1 || file.Rows != 2 || file.Unreadable != 1 {
		t.Errorf("%v, %+v", err, file)
	}
	if _, _, _, err := Read(t.Context(), paths[:2], parse(t), nil); err == nil ||
		!strings.Contains(err.Error(), "there are no rows in ") {
		t.Error(err)
	}
}

func TestSameBytes(t *testing.T) {
	t.Parallel()
	file := eval.DataFile{Unreadable: 1, Filtered: 2, LeftOut: 5, Unmatched: 4}
	for _, f := range formats() {
		var first []byte
		for range 10 {
			data := must.Get(os.ReadFile(write(t, t.TempDir(), 1, f, runOf(0), nil, file)))(t)
			if first == nil {
				first = data
			} else if !bytes.Equal(first, data) {
				t.Fatalf("%s: other bytes", f)
			}
		}
	}
}

// FuzzRead: no bytes make a reader fail otherwise than by an error, and what it reads can be summed up.
func FuzzRead(f *testing.F) {
	whole := table(f, nil)
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, "4 2:1", "16777216", 1)))
	f.Add([]byte(strings.Replace(whole, ",1 2 3\n", ",1 2\n", 1)))
	f.Add([]byte(strings.Replace(whole, ",a,3,", `,"""\t""",3,`, 1)))
	f.Add([]byte(strings.Replace(whole, ",1,a,", ",9223372036854775807,a,", 1)))
	tk := parse(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		in := &reader{
			ctx: t.Context(), attributes: tk.Attributes(), inputs: tk.Dim(), path: "a.csv",
			overlap: rowOverlap{rows: extsort.NewRows(1, 4, extsort.Limit)},
		}
		if err := in.table(io.Reader(bytes.NewReader(b))); err != nil || in.records == nil {
			return
		}
		if _, err := eval.Summarize(in.records, in.run.Settings, in.file, &eval.GroupBy{}); err != nil {
			t.Log(err)
		}
	})
}
