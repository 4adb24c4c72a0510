package reproduce

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/eval/report"
	"cfq/internal/message"
	"cfq/internal/must"
	"cfq/ptq"
	"cfq/task"
)

func TestTables(t *testing.T) {
	seen := map[string]bool{}
	once := func(key string) {
		if seen[key] {
			t.Errorf("two times %s", key)
		}
		seen[key] = true
	}
	sets := DataSets()
	for _, table := range Tables() {
		once(table.Name)
		for _, c := range table.columns {
			_, known := metrics.By(strings.TrimPrefix(strings.TrimPrefix(c.Metric, Worst), Spread))
			_, ofActions := actionPaths()[c.Metric]
			if !known && !ofActions && c.Metric != Seconds {
				t.Errorf("%s: unknown metric %q", table.Name, c.Metric)
			}
		}
		named := map[string]bool{}
		for _, r := range table.Rows {
			named[r.Name] = true
			once(strings.Join([]string{table.Name, r.Data, r.Part, r.Name}, " "))
			numbers := strings.Fields(r.Paper)
			if n := len(numbers); n != 0 && n != len(table.Paper) {
				t.Errorf("%s, %s: %d of the paper's numbers for %d columns", table.Name, r.Name, n, len(table.Paper))
			}
			for _, text := range numbers {
				n := number(text)
				if !n.Mean.Defined() || strings.Contains(text, "±") && !n.SD.Defined() {
					t.Errorf("%s, %s: %q is not a number", table.Name, r.Name, text)
				}
			}
			if !slices.ContainsFunc(sets, func(d DataSet) bool { return d.Name == r.Data }) {
				t.Errorf("%s: no data set %s", table.Name, r.Data)
			}
			method := flagValue(r.Quantize+" "+r.Recourse, "--method")
			if !slices.Contains(ptq.MethodNames(), method) && (r.Recourse == "" || method != "") {
				t.Errorf("%s: method %q", table.Name, method)
			}
		}
		for _, c := range table.Claims {
			if !named[c.Lower] || !named[c.Upper] {
				t.Errorf("%s: no rows for the claim %q", table.Name, c.Says)
			}
		}
		for _, head := range table.Paper {
			if !slices.Contains(table.Columns, head) {
				t.Errorf("%s: no column %s", table.Name, head)
			}
		}
	}
}

func tableOf(t *testing.T, name string) Table {
	t.Helper()
	tables := Tables()
	at := slices.Index(Names(tables), name)
	if at < 0 {
		t.Fatalf("no table %s", name)
	}
	return tables[at]
}

func resultOf(vd float64, part string) *eval.Result {
	r := &eval.Result{Settings: eval.Settings{Margins: []float64{Margin}, Confidence: 0.95}}
	values := eval.Values{}
	for _, m := range metrics.All() { // all others are 0
		values[m.ID] = eval.Value{Kind: m.Kind}
	}
	values["vd"] = eval.Rate{Value: eval.Float(vd)}.AsValue()
	r.Values, r.Margins = values, []eval.AtMargin{{Margin: Margin, Values: values}}
	if part == "" {
		return r
	}
	whole := *r
	whole.Scenarios = []eval.Scenario{{Name: part, Result: r}}
	return &whole
}

func measured(rows []Row, f func(row, seed int) float64) []measuredRow {
	var all []measuredRow
	for i, r := range rows {
		m := measuredRow{Row: r}
		for seed := range 2 {
			s := &labStep{outcome: (*evaluated)(resultOf(f(i, seed), r.Part)).of}
			m.steps = append(m.steps, s)
		}
		all = append(all, m)
	}
	return all
}

// The t quantile of one degree of freedom at 95 % is 6.314: differences of .10 and .12 have a mean of .11 and reach
// 6.314 x .01 = .063, those of .01 and .05 a mean of .03 and reach .126.
func TestClaim(t *testing.T) {
	rows := []Row{{Name: "a", Variant: Variant{Data: "adult"}}, {Name: "b", Variant: Variant{Data: "adult"}}}
	table := Table{Name: "t", Claims: []Claim{{Says: "a is lower", Metric: "vd", Lower: "a", Upper: "b"}}}
	verdict := func(rows []measuredRow) string {
		return strings.Join(table.verdicts((&Lab{}).results(&table, rows)), "")
	}
	for _, c := range []struct {
		a, b [2]float64
		want string
	}{
		{[2]float64{.1, .1}, [2]float64{.20, .22}, holds},
		{[2]float64{.20, .22}, [2]float64{.1, .1}, reversed},
		{[2]float64{.1, .1}, [2]float64{.11, .15}, unclear},
		{[2]float64{.1, .1}, [2]float64{.1, .1}, unclear},
		{[2]float64{.1, math.NaN()}, [2]float64{.3, .3}, unclear},
	} {
		got := verdict(measured(rows, func(row, seed int) float64 { return [][2]float64{c.a, c.b}[row][seed] }))
		if !strings.HasPrefix(got, "a is lower: "+c.want+" on Adult (") {
			t.Errorf("%v against %v: %s, want %q", c.a, c.b, got, c.want)
		}
	}
	must.Same(t, "", verdict(measured(rows, func(int, int) float64 { return math.NaN() })))
	failed := measured(rows, func(row, seed int) float64 { return float64(row) + float64(row*seed)/100 })
	failed[0].steps = append(failed[0].steps, failed[0].steps[0])
	failed[1].steps = append(failed[1].steps, &labStep{})
	must.Has(t, verdict(failed), "holds on Adult (-1.005 ± 0.007 (2 of 3))")
}

func TestOrderOfClaims(t *testing.T) {
	r := func(lower string, mean float64) Result {
		return Result{Key: Key{Method: lower, Against: "c", Metric: "vd"}, Networks: 2, Seeds: 2, Mean: eval.Float(mean)}
	}
	table := Table{Claims: []Claim{{"a", "vd", "a", "c"}, {"b", "vd", "b", "c"}}}
	got := table.verdicts([]Result{r("a", -1), r("b", -1), r("b", 1)})
	if len(got) != 2 || !strings.HasPrefix(got[0], "b: reversed on ") || !strings.HasPrefix(got[1], "a: holds on ") {
		t.Errorf("%q", got)
	}
}

func TestResults(t *testing.T) {
	table := tableOf(t, "components")
	rows := measured(table.Rows, func(row, seed int) float64 { return float64(row) + float64(seed)/100 })
	rows[3].steps[1].outcome = nil
	l := &Lab{Seeds: 2, Sample: 7, Version: "v1"}
	old := []Result{{Key: Key{Table: "steps", Data: "adult", Method: "+ GPTQ rounding"}}, {Key: Key{Table: table.Name}}}
	want := merge(old, l.results(&table, rows), []Table{table})
	if len(want) < 5 || want[0].Table != table.Name || want[len(want)-1].Table != "steps" {
		t.Fatalf("%+v", want)
	}
	var b strings.Builder
	must.Do(t, WriteResults(&b, want))
	const line = "components,adult,,\"mlp:64,32\",\"on recourse points, factual scores\",,4," +
		"vd,7,2,2,1.005,0.00707107,,,v1\n"
	must.Has(t, b.String(), line)
	got := must.Get(ReadResults(strings.NewReader(b.String())))(t)
	must.Same(t, len(want), len(got))
	markdown := Markdown(got)
	for _, text := range []string{
		"\n## Training-free: calibration set and allocation, 2 x 2\n\n- calibration on recourse points (by factual scores) " +
			"breaks fewer promises: reversed on Adult (+1.000 ± 0.000).\n",
		"not shown on Adult (+1.000 (1 of 2))",
		"| 1.005 ± 0.007 |", "| 0.089 ± 0.010 |", "| 3.000 (1 of 2) |",
		"Mean ± standard deviation of 2 networks, at most 7 refused people of each. The paper's numbers: table " +
			"cfptq_ablation. Measured by cfq v1.",
		"\n## What cf-ptq is made of\n",
	} {
		must.Has(t, markdown, text)
	}
	var page strings.Builder
	if err := HTML(&page, got); err != nil || !strings.Contains(page.String(), "<td>1.005 ± 0.007</td>") ||
		!strings.Contains(page.String(), "<li>calibration on recourse points (by factual scores)") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

func TestUnreadableResults(t *testing.T) {
	var b strings.Builder
	must.Do(t, WriteResults(&b, []Result{{Key: Key{Table: "steps"}}}))
	good := b.String()
	for text, want := range map[string]string{
		strings.Replace(good, "table", "page", 1): `column 1 is called "page", want "table"`,
		strings.Replace(good, ",0,", ",x,", 1):    "row 1: sample: ",
		"table,data\n":                            "wrong number of fields",
	} {
		_, err := ReadResults(strings.NewReader(text))
		must.Fail(t, err, want)
	}
}

type lab struct {
	Lab
	mu   sync.Mutex
	runs []string // what was run
	fail string   // what fails: a part of a command line
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{Lab: Lab{Seeds: 2, Sample: 10, Workers: 3, Version: "v1"}}
	l.Data, l.Out = filepath.Join(dir, "data"), filepath.Join(dir, "out")
	person := "30, Private, 1, HS-grad, 9, Divorced, Sales, Husband, White, Male, 0, 0, 40, Cuba, <=50K\n"
	for _, name := range []string{"adult/adult.data", "adult.test"} {
		must.Do(t, put(filepath.Join(l.Data, name), []byte(person)))
	}
	l.Run = func(_ context.Context, args []string, stdout io.Writer) (float64, error) {
		line := strings.Join(args, " ")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs = append(l.runs, args[0])
		if l.fail != "" && strings.Contains(line, l.fail) {
			return 0, errors.New("failed: " + l.fail)
		}
		switch file := args[len(args)-2]; {
		case args[0] == "recourse":
			_, err := io.WriteString(stdout, `{"success": {"value": 0.5, "den": 4}, "cost": {"mean": null}, "proved": 3,
				"gap": {"mean": 0.25, "largest": 0.5, "missed": 1}, "robustness": {"rows": [
				{"solver": "quantized", "quantized": 1, "held_out": 0.75, "cost_ratio": 1.5, "seconds": 4}]}}`)
			return 1, err
		case args[0] == "eval":
			return 1, report.JSON(stdout, &report.Document{Result: resultOf(0.25, "")})
		case strings.HasSuffix(file, coderFile):
			dir := filepath.Dir(file)
			return 3, errors.Join(put(filepath.Join(dir, encoderFile), []byte(line)),
				put(filepath.Join(dir, decoderFile), []byte(line)))
		default:
			return 3, os.WriteFile(file, []byte(strings.ReplaceAll(line, l.Out, "")), 0o600)
		}
	}
	return l
}

func (l *lab) command(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.Out, pattern+provenanceSuffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	var p provenance
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(files[0]))(t), &p))
	return p.Command
}

func (l *lab) expect(t *testing.T, what string, tables []Table, train, quantize, evaluate int) [][]measuredRow {
	t.Helper()
	l.runs = nil
	rows, err := l.rows(t.Context(), tables)
	if (err != nil) != (l.fail != "") {
		t.Fatalf("%s: %v", what, err)
	}
	var got [3]int
	for _, r := range l.runs {
		if k := slices.Index([]string{"train", "quantize", "eval"}, r); k >= 0 {
			got[k]++
		}
	}
	must.Same(must.In(t, what), [3]int{train, quantize, evaluate}, got)
	return rows
}

func values(m *measuredRow, metric string) []float64 {
	return differences(m, nil, metric)
}

func TestLab(t *testing.T) {
	l := newLab(t)
	a, b := tableOf(t, "components"), tableOf(t, "ablations")
	rows := l.expect(t, "first", []Table{a, b}, 2, 16, 16)
	must.Same(t, []float64{.25, .25}, values(&rows[0][0], "vd"))
	must.Same(t, []float64{3, 3}, values(&rows[0][0], Seconds))
	const mixed = "adult/arch-mlp-64,32/seed-1/method-mixed-ptq-budget-4-set-write.compute=integer/"
	for file, want := range map[string]string{
		"adult/arch-mlp-64,32/seed-1/model.onnx": "cfq train -d adult/adult.data -t adult/task.yaml --arch mlp:64,32 ",
		mixed + "quantized.onnx": "cfq quantize adult/arch-mlp-64,32/seed-1/model.onnx -d adult/adult.data " +
			"-t adult/task.yaml --method mixed-ptq",
		mixed + "10/eval.json": "cfq eval adult/arch-mlp-64,32/seed-1/model.onnx adult/arch-mlp-64,32/seed-1/",
	} {
		if got := l.command(t, file); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
	l.expect(t, "nothing has changed", []Table{a, b}, 0, 0, 0)
	moved := l.Out + "-moved"
	must.Do(t, os.Rename(l.Out, moved))
	l.Out = moved
	l.expect(t, "results that were moved", []Table{a, b}, 0, 0, 0)
	l.Sample = 20
	l.expect(t, "another sample", []Table{a}, 0, 0, 8)
	l.Seeds = 3
	l.expect(t, "one more seed", []Table{a}, 1, 4, 4)
	broken := filepath.Join(l.Out, "adult/arch-mlp-64,32/seed-1/model.onnx")
	must.Do(t, os.WriteFile(broken, []byte("half"), 0o600))
	l.expect(t, "a damaged network, which comes out as it was", []Table{a}, 1, 0, 0)
	must.Do(t, os.WriteFile(filepath.Join(l.Data, "adult.test"), []byte("others"), 0o600))
	l.expect(t, "other test rows", []Table{a}, 0, 0, 12)
	l.Version = "v2"
	l.expect(t, "another version", []Table{a}, 3, 12, 12)
	l.Seeds, l.fail, l.Version = 1, "cf-ptq-calib", "v3"
	rows = l.expect(t, "one fails", []Table{a}, 1, 4, 3)
	if rows[0][1].steps[0].outcome != nil || rows[0][2].steps[0].outcome == nil {
		t.Error("what failed has a result, or what did not has none")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Measure(ctx, []Table{a}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestWorstGroup(t *testing.T) {
	group := func(name string, vd float64, small bool) eval.Group {
		return eval.Group{Name: name, Small: small, Result: resultOf(vd, "")}
	}
	e := evaluated{Added: eval.Added{Groups: []eval.Grouping{
		{By: "age", Groups: []eval.Group{group("young", .9, false)}},
		{By: "sex", Groups: []eval.Group{group("a", .1, false), group("b", .4, false), group("c", .8, true)}},
	}}}
	for metric, want := range map[string]float64{Worst + "vd": .4, Spread + "vd": .3} {
		if got := e.of(metric, "sex"); math.Abs(got-want) > 1e-9 || !math.IsNaN(e.of(metric, "height")) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
}

// A group of a quarter of the people, weighted to a quarter, is what it was; to all, alone counts; to half, three times
// as much against the others. Groups of few promises count as all do.
func TestWeightedGroup(t *testing.T) {
	group := func(name string, people, promises, broken int, small bool) eval.Group {
		return eval.Group{Name: name, Small: small, Result: &eval.Result{
			Settings: eval.Settings{Margins: []float64{Margin}}, Population: eval.Population{Read: people},
			Margins: []eval.AtMargin{{Values: eval.Values{"vd": eval.NewRate(broken, promises, .95).AsValue()}}},
		}}
	}
	e := evaluated{Population: eval.Population{Read: 400}, Added: eval.Added{Groups: []eval.Grouping{
		{By: "age", Groups: []eval.Group{group("young", 400, 100, 90, false)}},
		{By: "sex", Groups: []eval.Group{
			group("a", 100, 40, 10, false), group("b", 200, 50, 5, false), group("c", 100, 30, 3, true),
		}},
	}}}
	for share, want := range map[string]float64{
		"0.25": 18. / 120, "1": 10. / 40, "0": 8. / 80, "0.5": (2*10 + 2./3*8) / (2*40 + 2./3*80),
	} {
		must.Near(t, want, e.of("vd", "sex a"+Weighted+share), 1e-12)
	}
	if got := e.of("vd", "sex x"+Weighted+"0.5"); !math.IsNaN(got) {
		t.Errorf("no group: %v", got)
	}
}

func TestCoder(t *testing.T) {
	l := newLab(t)
	for _, d := range DataSets() {
		for _, name := range append([]string{d.Train, d.Test}, d.Beside...) {
			if d.Coder != "" {
				must.Do(t, put(filepath.Join(l.Data, d.Name, name), []byte(d.Name)))
			}
		}
	}
	a := tableOf(t, "images")
	l.expect(t, "first", []Table{a}, 2*2*2+2, 32, 32)
	want := " -d mnist/train-images-idx3-ubyte -t mnist/task-latent.yaml --method ptq --budget 8"
	got := l.command(t, "mnist/arch-mlp-*/seed-1/latent-method-ptq-budget-8-*/quantized.onnx")
	must.Has(t, got, want)
	l.expect(t, "nothing has changed", []Table{a}, 0, 0, 0)
	decoder := filepath.Join(l.Out, "mnist", decoderFile)
	must.Do(t, put(decoder, []byte("another")))
	l.expect(t, "another decoder, which is made again", []Table{a}, 1, 0, 0)
	must.Do(t, os.Remove(decoder))
	l.expect(t, "no decoder", []Table{a}, 1, 0, 0)
	must.Do(t, put(filepath.Join(l.Data, "mnist", "t10k-labels-idx1-ubyte"), []byte("others")))
	l.expect(t, "other labels", []Table{a}, 5, 16, 16)
}

func TestActions(t *testing.T) {
	l := newLab(t)
	a := tableOf(t, "robust")
	l.expect(t, "first", []Table{a}, 2, 0, 0)
	rows := l.expect(t, "nothing has changed", []Table{a}, 0, 0, 0)
	if len(l.runs) > 0 {
		t.Errorf("%q were run", l.runs)
	}
	for metric, want := range map[string]float64{
		"robust.here": 1, "robust.away": .75, "robust.cost": 1.5, "robust.time": 4, "success": .5, "people": 4,
		"proved": .75, "gap.mean": .25, "gap.largest": .5, "gap.missed": 1,
	} {
		must.Same(t, []float64{want, want}, values(&rows[0][0], metric))
		ofSolver := strings.HasPrefix(metric, "robust.")
		if got := values(&rows[0][1], metric); ofSolver == (len(got) == 2) {
			t.Errorf("%s of a solver that is not there: %v", metric, got)
		}
	}
	got := l.command(t, "adult/arch-mlp-64,32/seed-1/*-10/recourse.json")
	if !strings.HasPrefix(got, "cfq recourse adult/arch-mlp-64,32/seed-1/model.onnx ") ||
		!strings.Contains(got, " --rows adult/test-rows-10.json ") {
		t.Error(got)
	}
	if got := values(&rows[0][0], "cost"); len(got) > 0 {
		t.Errorf("an undefined cost is %v", got)
	}
	a.Rows[0].Variant.Rows = 5 // of this row alone
	l.expect(t, "fewer people", []Table{a}, 0, 0, 0)
	got = l.command(t, "adult/arch-mlp-64,32/seed-1/*-5/recourse.json")
	if len(l.runs) != l.Seeds || !strings.Contains(got, " --rows adult/test-rows-5.json ") {
		t.Errorf("%q, of which one is %s", l.runs, got)
	}
}

func TestMissingData(t *testing.T) {
	l := newLab(t)
	_, err := l.rows(t.Context(), []Table{tableOf(t, "main")})
	must.Fail(t, err, "missing data")
	if text := err.Error(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "german.data, from https://") ||
		len(l.runs) > 0 {
		t.Errorf("%v after %s", err, message.Count(len(l.runs), "command"))
	}
}

func TestTaskOf(t *testing.T) {
	for _, d := range DataSets()[:5] {
		text, err := taskOf(d.Name, "l2")
		if err != nil || !strings.Contains(string(text), "cost: {norm: l2, weights: inverse_std, eps: 1.0e-3}") {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

func TestTaskInCodes(t *testing.T) {
	for _, d := range DataSets() {
		if d.Coder == "" {
			continue
		}
		text := must.Get(taskOf(d.Name, inCodes))(t)
		k := must.Get(task.Parse(d.Name, text))(t)
		if l := k.Latent; l == nil || l.Encoder != encoderFile || l.Decoder != decoderFile {
			t.Errorf("%s: %+v", d.Name, l)
		}
	}
}

// Files are called as in their folder, wherever that is and whatever its name is part of.
func TestShort(t *testing.T) {
	for _, c := range [][4]string{
		{"data", "a", "data/adult/adult.data", "adult/adult.data"},
		{"data", "a", "a/adult/task.yaml", "adult/task.yaml"},
		{"data", "a", "!a/german/test-rows.json", "!german/test-rows.json"},
		{"data", "data/out", "data/out/adult/task.yaml", "adult/task.yaml"},
		{"out/data/", "out", "out/data/adult.data", "adult.data"},
		{".", "out", "adult/adult.data", "adult/adult.data"},
		{"/a b", "/o", "/a b/adult.data", "adult.data"},
		{"data", "a", "mlp:64,32", "mlp:64,32"},
	} {
		must.Same(t, c[3], (&Lab{Data: c[0], Out: c[1]}).short(c[2]))
	}
}
