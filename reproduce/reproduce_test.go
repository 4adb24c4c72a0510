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
	"cfq/eval/report"
	"cfq/internal/message"
	"cfq/ptq"
	"cfq/task"
)

// Every row has as many of the paper's numbers as the table has columns for them, or none; every metric, data set,
// method and claim is one that there is.
func TestTables(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range Tables() {
		if seen[table.Name] {
			t.Errorf("two tables %q", table.Name)
		}
		seen[table.Name] = true
		paper := 0
		for _, c := range table.Columns {
			_, known := eval.MetricBy(strings.TrimPrefix(strings.TrimPrefix(c.Metric, Worst), Spread))
			ofActions := []string{
				Seconds, Success, Cost, People, Proved, GapMean, GapLargest, GapMissed, SuccessHere, SuccessAway, CostRatio, Time,
			}
			if !known && !slices.Contains(ofActions, c.Metric) {
				t.Errorf("%s: unknown metric %q", table.Name, c.Metric)
			}
			if c.Paper {
				paper++
			}
		}
		rows := map[string]bool{}
		for _, r := range table.Rows {
			if n := len(r.Paper); n != 0 && n != paper {
				t.Errorf("%s, %s: %d of the paper's numbers for %d columns", table.Name, r.Name, n, paper)
			}
			key := r.Where() + " " + r.Name
			if rows[key] {
				t.Errorf("%s: two rows %q", table.Name, key)
			}
			rows[key] = true
			flags := slices.Concat(r.Variant.Quantize, r.Variant.Recourse)
			if at := slices.Index(flags, "--method"); at >= 0 {
				if _, err := ptq.FindMethod(ptq.MethodName(flags[at+1])); err != nil {
					t.Errorf("%s: %v", table.Name, err)
				}
			} else if r.Variant.Recourse == nil {
				t.Errorf("%s, %s: no method", table.Name, r.Name)
			}
		}
		for _, c := range table.Claims {
			known := func(name string) bool {
				return slices.ContainsFunc(table.Rows, func(r Row) bool { return r.Name == name })
			}
			if !known(c.Lower) || !known(c.Upper) {
				t.Errorf("%s: no rows for the claim %q", table.Name, c.Says)
			}
		}
	}
	if _, ok := Find("main"); !ok || len(seen) != len(Names()) {
		t.Error("names of tables do not find them")
	}
}

// measured are rows of two seeds on which VD is what f says of row and seed.
func measured(rows []Row, f func(row, seed int) float64) []Measured {
	var all []Measured
	for i, r := range rows {
		m := Measured{Row: r, Seconds: []float64{1, 2}}
		for seed := range 2 {
			result := &eval.Result{Settings: eval.Settings{Margins: []float64{Margin}, Confidence: 0.95}}
			result.Margins = []eval.AtMargin{{Margin: Margin}}
			result.Margins[0].VD.Value = eval.Float(f(i, seed))
			whole := *result
			for _, name := range []string{r.Part} {
				whole.Scenarios = []eval.Scenario{{Name: name, Result: result}}
			}
			m.Outcomes = append(m.Outcomes, (*evaluated)(&whole))
		}
		all = append(all, m)
	}
	return all
}

// The t quantile of one degree of freedom at 95 % is 6.314: differences of .10 and .12 have a mean of .11 and reach
// 6.314 x .01 = .063, those of .01 and .05 a mean of .03 and reach .126.
func TestClaim(t *testing.T) {
	c := fewer("a", "b")
	rows := []Row{{Name: "a", Variant: Variant{Data: "adult"}}, {Name: "b", Variant: Variant{Data: "adult"}}}
	table := Table{Name: "t", Claims: []Claim{c}}
	judged := func(rows []Measured) (string, bool) { return c.text((&Lab{}).Results(&table, rows)) }
	for _, of := range []struct {
		a, b [2]float64
		want string
	}{
		{[2]float64{.1, .1}, [2]float64{.20, .22}, holds},
		{[2]float64{.20, .22}, [2]float64{.1, .1}, reversed},
		{[2]float64{.1, .1}, [2]float64{.11, .15}, unclear},
		{[2]float64{.1, .1}, [2]float64{.1, .1}, unclear},
		{[2]float64{.1, math.NaN()}, [2]float64{.3, .3}, unclear},
	} {
		got, all := judged(measured(rows, func(row, seed int) float64 { return [][2]float64{of.a, of.b}[row][seed] }))
		if !strings.HasPrefix(got, c.Says+": "+of.want+" on Adult (") || all != (of.want == holds) {
			t.Errorf("%v against %v: %s, want %q", of.a, of.b, got, of.want)
		}
	}
	if got, all := judged(measured(rows, func(int, int) float64 { return math.NaN() })); got != "" || all {
		t.Errorf("unknown values: %q", got)
	}
	failed := measured(rows, func(row, seed int) float64 { return float64(row) + float64(row*seed)/100 })
	failed[0].Outcomes = append(failed[0].Outcomes, failed[0].Outcomes[0])
	failed[1].Outcomes = append(failed[1].Outcomes, nil)
	if got, _ := judged(failed); !strings.Contains(got, "holds on Adult (-1.005 ± 0.007 (2 of 3))") {
		t.Error(got)
	}
}

// What is measured is written, read again and shown: numbers, the paper's, claims and how many networks have a value.
func TestResults(t *testing.T) {
	table := components()
	rows := measured(table.Rows, func(row, seed int) float64 { return float64(row) + float64(seed)/100 })
	rows[3].Outcomes[1] = nil
	l := &Lab{Seeds: 2, Sample: 7, Version: "v1"}
	old := []Result{{Table: "steps", Data: "adult", Method: "AdaRound"}, {Table: table.Name, Method: "old"}}
	want := Merge(old, l.Results(&table, rows), []Table{table})
	if len(want) < 5 || want[0].Table != table.Name || want[len(want)-1].Table != "steps" {
		t.Fatalf("%+v", want)
	}
	var b strings.Builder
	if err := WriteResults(&b, want); err != nil {
		t.Fatal(err)
	}
	const line = "components,adult,,\"mlp:64,32\",\"on recourse points, factual scores\",,4," +
		"vd,7,2,2,1.005,0.00707107,,,v1\n"
	if !strings.Contains(b.String(), line) {
		t.Errorf("no %q in\n%s", line, b.String())
	}
	got, err := ReadResults(strings.NewReader(b.String()))
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d results of %d, %v", len(got), len(want), err)
	}
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
		if !strings.Contains(markdown, text) {
			t.Errorf("no %q in\n%s", text, markdown)
		}
	}
	var page strings.Builder
	if err := HTML(&page, got); err != nil || !strings.Contains(page.String(), "<td>1.005 ± 0.007</td>") ||
		!strings.Contains(page.String(), "<li>calibration on recourse points (by factual scores)") {
		t.Errorf("%v\n%s", err, page.String())
	}
}

func TestUnreadableResults(t *testing.T) {
	var b strings.Builder
	if err := WriteResults(&b, []Result{{Table: "steps"}}); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for text, want := range map[string]string{
		strings.Replace(good, "table", "page", 1): `column 1 is called "page", want "table"`,
		strings.Replace(good, ",0,", ",x,", 1):    "row 1: sample: ",
		"table,data\n":                            "wrong number of fields",
	} {
		if _, err := ReadResults(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s, of\n%s", err, want, text)
		}
	}
}

// lab is a Lab whose commands write files that say how they were made.
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
		if err := put(filepath.Join(l.Data, name), []byte(person)); err != nil {
			t.Fatal(err)
		}
	}
	l.Run = func(_ context.Context, args []string, stdout io.Writer) (float64, error) {
		line := strings.Join(args, " ")
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs = append(l.runs, args[0])
		if l.fail != "" && strings.Contains(line, l.fail) {
			return 0, errors.New("failed: " + l.fail)
		}
		if args[0] == "recourse" {
			_, err := io.WriteString(stdout, `{"success": {"value": 0.5, "den": 4}, "cost": {"mean": null}, "proved": 3,
				"gap": {"mean": 0.25, "largest": 0.5, "missed": 1}, "robustness": {"rows": [
				{"solver": "quantized", "quantized": 1, "held_out": 0.75, "cost_ratio": 1.5, "seconds": 4}]}}`)
			return 1, err
		}
		file := strings.TrimPrefix(args[len(args)-2], "json:")
		if name, ok := strings.CutSuffix(file, "coder.onnx"); ok {
			for _, half := range []string{"encoder", "decoder"} {
				if err := put(name+"coder."+half+".onnx", []byte(line)); err != nil {
					return 0, err
				}
			}
			return 3, nil
		}
		if args[0] != "eval" {
			return 3, os.WriteFile(file, []byte(strings.ReplaceAll(line, l.Out, "")), 0o600)
		}
		r := (*eval.Result)(measured([]Row{{}}, func(int, int) float64 { return 0.25 })[0].Outcomes[0].(*evaluated))
		r.Scenarios = nil
		var text strings.Builder
		if err := report.JSON(&text, &report.Document{Result: r}); err != nil {
			return 0, err
		}
		return 1, os.WriteFile(file, []byte(text.String()), 0o600)
	}
	return l
}

func (l *lab) count(name string) (n int) {
	for _, r := range l.runs {
		if r == name {
			n++
		}
	}
	return n
}

// command is the recorded command line of the file that matches a pattern in the folder of results.
func (l *lab) command(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.Out, pattern+madeSuffix))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	text, err := os.ReadFile(files[0])
	var m made
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Command
}

// expect runs tables and says how many commands of each kind are wanted.
func (l *lab) expect(t *testing.T, what string, tables []Table, train, quantize, evaluate int) [][]Measured {
	t.Helper()
	l.runs = nil
	rows, err := l.Measure(t.Context(), tables)
	if (err != nil) != (l.fail != "") {
		t.Fatalf("%s: %v", what, err)
	}
	if got := [3]int{l.count("train"), l.count("quantize"), l.count("eval")}; got != [3]int{train, quantize, evaluate} {
		t.Errorf("%s: %v commands of train, quantize and eval, want %v", what, got, [3]int{train, quantize, evaluate})
	}
	return rows
}

func TestLab(t *testing.T) {
	l := newLab(t)
	a, b := components(), ablations()
	rows := l.expect(t, "first", []Table{a, b}, 2, 16, 16)
	if got := rows[0][0].values("vd"); !slices.Equal(got, []float64{.25, .25}) {
		t.Errorf("VD %v", got)
	}
	if got := rows[0][0].values(Seconds); !slices.Equal(got, []float64{3, 3}) {
		t.Errorf("seconds %v", got)
	}
	const mixed = "adult/arch-mlp-64,32/seed-1/method-mixed-ptq-budget-4-compute-integer/"
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
	if err := os.Rename(l.Out, moved); err != nil {
		t.Fatal(err)
	}
	l.Out = moved
	l.expect(t, "results that were moved", []Table{a, b}, 0, 0, 0)
	l.Sample = 20
	l.expect(t, "another sample", []Table{a}, 0, 0, 8)
	l.Seeds = 3
	l.expect(t, "one more seed", []Table{a}, 1, 4, 4)
	broken := filepath.Join(l.Out, "adult/arch-mlp-64,32/seed-1/model.onnx")
	if err := os.WriteFile(broken, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "a damaged network, which comes out as it was", []Table{a}, 1, 0, 0)
	if err := os.WriteFile(filepath.Join(l.Data, "adult.test"), []byte("others"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "other test rows", []Table{a}, 0, 0, 12)
	l.Version = "v2"
	l.expect(t, "another version", []Table{a}, 3, 12, 12)
	l.Seeds, l.fail, l.Version = 1, "cf-ptq-calib", "v3"
	rows = l.expect(t, "one fails", []Table{a}, 1, 4, 3)
	if rows[0][1].Outcomes[0] != nil || rows[0][2].Outcomes[0] == nil {
		t.Error("what failed has a result, or what did not has none")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Measure(ctx, []Table{a}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Of groups with few promises nothing is said.
func TestWorstGroup(t *testing.T) {
	group := func(name string, vd float64, small bool) eval.Group {
		r := (*eval.Result)(measured([]Row{{}}, func(int, int) float64 { return vd })[0].Outcomes[0].(*evaluated))
		return eval.Group{Name: name, Small: small, Result: r}
	}
	e := evaluated{Groups: []eval.Grouping{
		{By: "age", Groups: []eval.Group{group("young", .9, false)}},
		{By: "sex", Groups: []eval.Group{group("a", .1, false), group("b", .4, false), group("c", .8, true)}},
	}}
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
			Margins: []eval.AtMargin{{VD: eval.NewRate(broken, promises, .95)}},
		}}
	}
	e := evaluated{Population: eval.Population{Read: 400}, Groups: []eval.Grouping{
		{By: "age", Groups: []eval.Group{group("young", 400, 100, 90, false)}},
		{By: "sex", Groups: []eval.Group{
			group("a", 100, 40, 10, false), group("b", 200, 50, 5, false), group("c", 100, 30, 3, true),
		}},
	}}
	for share, want := range map[string]float64{
		"0.25": 18. / 120, "1": 10. / 40, "0": 8. / 80, "0.5": (2*10 + 2./3*8) / (2*40 + 2./3*80),
	} {
		if got := e.of("vd", "sex a"+Weighted+share); math.Abs(got-want) > 1e-12 {
			t.Errorf("weighted to %s: %v, want %v", share, got, want)
		}
	}
	if got := e.of("vd", "sex x"+Weighted+"0.5"); !math.IsNaN(got) {
		t.Errorf("no group: %v", got)
	}
}

// Networks of images share an encoder and a decoder; both are made again where one of them is gone or another one.
func TestCoder(t *testing.T) {
	l := newLab(t)
	for _, d := range DataSets() {
		for _, name := range append([]string{d.Train, d.Test}, d.Beside...) {
			if d.Coder != nil {
				if err := put(filepath.Join(l.Data, d.Name, name), []byte(d.Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	a := pictures()
	l.expect(t, "first", []Table{a}, 2*2*2+2, 32, 32)
	want := " -d mnist/train-images-idx3-ubyte -t mnist/task-latent.yaml --method ptq --budget 8"
	got := l.command(t, "mnist/arch-mlp-*/seed-1/latent-method-ptq-budget-8-*/quantized.onnx")
	if !strings.Contains(got, want) {
		t.Errorf("%q", got)
	}
	l.expect(t, "nothing has changed", []Table{a}, 0, 0, 0)
	decoder := filepath.Join(l.Out, "mnist", decoderFile)
	if err := put(decoder, []byte("another")); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "another decoder, which is made again", []Table{a}, 1, 0, 0)
	if err := os.Remove(decoder); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "no decoder", []Table{a}, 1, 0, 0)
	if err := put(filepath.Join(l.Data, "mnist", "t10k-labels-idx1-ubyte"), []byte("others")); err != nil {
		t.Fatal(err)
	}
	l.expect(t, "other labels", []Table{a}, 5, 16, 16)
}

// Actions are read from what the command writes, in the part of a solver.
func TestActions(t *testing.T) {
	l := newLab(t)
	a := robust()
	l.expect(t, "first", []Table{a}, 2, 0, 0)
	rows := l.expect(t, "nothing has changed", []Table{a}, 0, 0, 0)
	if len(l.runs) > 0 {
		t.Errorf("%q were run", l.runs)
	}
	for metric, want := range map[string]float64{
		SuccessHere: 1, SuccessAway: .75, CostRatio: 1.5, Time: 4, Success: .5, People: 4, Proved: .75, GapMean: .25,
		GapLargest: .5, GapMissed: 1,
	} {
		if got := rows[0][0].values(metric); !slices.Equal(got, []float64{want, want}) {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
		ofSolver := slices.Contains([]string{SuccessHere, SuccessAway, CostRatio, Time}, metric)
		if got := rows[0][1].values(metric); ofSolver == (len(got) == 2) {
			t.Errorf("%s of a solver that is not there: %v", metric, got)
		}
	}
	got := l.command(t, "adult/arch-mlp-64,32/seed-1/*-10/recourse.json")
	if !strings.HasPrefix(got, "cfq recourse adult/arch-mlp-64,32/seed-1/model.onnx ") ||
		!strings.Contains(got, " --rows adult/test-rows-10.json ") {
		t.Error(got)
	}
	if got := rows[0][0].values(Cost); len(got) > 0 {
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
	var missing *MissingError
	if _, err := l.Measure(t.Context(), []Table{mainResults()}); !errors.As(err, &missing) || len(missing.Files) != 4 ||
		!strings.Contains(err.Error(), "german.data, from https://") || len(l.runs) > 0 {
		t.Errorf("%v after %s", err, message.Count(len(l.runs), "command"))
	}
}

func TestTaskOf(t *testing.T) {
	for _, d := range ofTables() {
		text, err := taskOf(d.Name, "l2")
		if err != nil || !strings.Contains(string(text), "cost: {norm: l2, weights: inverse_std, eps: 1.0e-3}") {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

// The task of images in codes is one that can be read, at the encoder and decoder that the step makes.
func TestTaskInCodes(t *testing.T) {
	for _, d := range DataSets() {
		if d.Coder == nil {
			continue
		}
		text, err := taskOf(d.Name, inCodes)
		if err != nil {
			t.Fatal(err)
		}
		k, err := task.Parse(d.Name, text)
		if err != nil {
			t.Fatal(err)
		}
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
		{"data", "a", "json:a/adult/eval.json", "json:adult/eval.json"},
		{"data", "data/out", "data/out/adult/task.yaml", "adult/task.yaml"},
		{"out/data/", "out", "out/data/adult.data", "adult.data"},
		{".", "out", "adult/adult.data", "adult/adult.data"},
		{"/a b", "/o", "/a b/adult.data", "adult.data"},
		{"data", "a", "mlp:64,32", "mlp:64,32"},
	} {
		if got := (&Lab{Data: c[0], Out: c[1]}).short(c[2]); got != c[3] {
			t.Errorf("data %s, out %s: %s is %s, want %s", c[0], c[1], c[2], got, c[3])
		}
	}
}
