package report

import (
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"cfq/eval"
	"cfq/internal/must"
)

var nan = eval.Float(math.NaN())

func rate(num, den int) eval.Rate { return eval.NewRate(num, den, 0.95) }

func about(x eval.Float, n int) eval.Estimate {
	d := eval.Float(0.1 * math.Abs(float64(x)))
	return eval.Estimate{Value: x, N: n, Lo: x - d, Hi: x + d}
}

func share(num, den int) eval.Value { return rate(num, den).AsValue() }

// loans is an evaluation of a sample, and of data of which some rows are left out.
func loans() *Document {
	s := eval.Settings{
		Margins: []float64{0, 0.1, 0.25}, Sample: 702, Seed: 7, Confidence: 0.95, Epsilon: 1e-9, SupportTau: 1e-6,
	}
	r := summarize(crowd(7, 1200, s.Margins, 0.05), s, eval.DataFile{Rows: 1210, Unreadable: 4, LeftOut: 6})
	r.Population.Refused += 198
	return &Document{
		Title: "Recourse under quantization: loan.q.onnx against loan.onnx", Run: Run{
			Tool: "cfq 0.1", Command: []string{"eval", "loan.onnx", "loan.q.onnx", "--by", "sex*race"},
			Runtime: "ONNX Runtime 1.30.0, linux/amd64", CPU: []string{"AVX2", "AVX512-VNNI"},
		},
		Full:      Model{File: File{Name: "loan.onnx", SHA256: strings.Repeat("ab12", 16), Bytes: 36131}},
		Quantized: Model{File: File{Name: "loan.q.onnx", SHA256: strings.Repeat("9f00", 16), Bytes: 9214}, StoredBits: 4},
		Inputs:    Inputs{Data: File{Name: "people.csv", Bytes: 181223}},
		Recipe:    map[string]string{"method": "cf-ptq", "budget": "4.0", "calibration": "teacher, K = 3 | 512 rows"},
		Warnings:  []string{"the task file <loan.yaml> gives no shares"},
		Result:    r,
	}
}

func empty() *Document {
	return &Document{
		Full: Model{File: File{Name: "a.onnx"}}, Quantized: Model{File: File{Name: "b.onnx"}},
		Result: &eval.Result{
			Settings:   eval.Settings{Margins: []float64{0.1}, Confidence: 0.95},
			Population: eval.Population{DataFile: eval.DataFile{Rows: 40}, Read: 40, Favoured: 40},
			Values: eval.Values{
				"favourable_full": share(40, 40), "favourable_quant": share(40, 40), "disagreement": share(0, 40),
				"lost": share(0, 40),
			},
			Margins: []eval.AtMargin{{Margin: 0.1, Values: eval.Values{}}},
			Tau01:   eval.Tau{Value: nan, From: nan}, RTau01: eval.Tau{Value: nan, From: nan},
			Warnings: []string{"the original refuses none of 40 people: there is no recourse to evaluate"},
		},
	}
}

func infeasible() *Document {
	d := empty()
	r := d.Result
	r.Population = eval.Population{
		DataFile: eval.DataFile{Rows: 40}, Read: 40, Favoured: 5, Refused: 35, Evaluated: 35,
		BothRefuse: 35,
	}
	r.Margins[0].Values["frr"], r.Margins[0].Values["rfrr"] = share(0, 35), share(0, 35)
	r.Warnings = []string{"margin 0.1: no recourse was found for any of 35 people"}
	return d
}

func given() *Document {
	d := loans()
	d.Promises = File{Name: "issued.csv", SHA256: strings.Repeat("77aa", 16), Bytes: 51234}
	d.Warnings = []string{"2 of 660 rows of issued.csv could not be read"}
	r := d.Result
	r.Settings.Issued, r.Issued = true, &eval.Issued{
		Promises: 644, Unjudgeable: eval.Tally{Value: 14. / 658, Num: 14, Den: 658},
		Invalid:    eval.Tally{Value: 4. / 644, Num: 4, Den: 644},
		Infeasible: eval.Tally{Value: 3. / 644, Num: 3, Den: 644},
	}
	a := &r.Margins[2]
	a.Values["frr"], a.Values["vd"] = share(0, 702), share(0, 0)
	return d
}

func samples() map[string]*Document {
	return map[string]*Document{
		"loans": loans(), "empty": empty(), "infeasible": infeasible(), "given": given(),
		"onesided": oneSided(), "complete": complete(),
	}
}

// shown is what a view shows.
func shown[D any](t testing.TB, views []View[D], name string, d *D) string {
	t.Helper()
	var b strings.Builder
	i := slices.IndexFunc(views, func(v View[D]) bool { return v.Name == name })
	must.Do(t, views[i].Write(&b, d))
	return b.String()
}

func archive[D any](t *testing.T, d *D, views []View[D], names ...string) *txtar.Archive {
	ar := &txtar.Archive{}
	for _, name := range names {
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(shown(t, views, name, d))})
	}
	return ar
}

// Set UPDATE=1 to write the golden files anew.
func golden(t *testing.T, name string, ar *txtar.Archive) {
	t.Helper()
	path := "testdata/" + name + ".txtar"
	if os.Getenv("UPDATE") == "1" {
		must.Do(t, os.WriteFile(path, txtar.Format(ar), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	must.Same(t, string(want), string(txtar.Format(ar)))
}

func TestGolden(t *testing.T) {
	for name, d := range samples() {
		t.Run(name, func(t *testing.T) {
			views := []string{"text", "json", "md"}
			if name == "complete" {
				views = []string{"text", "md", "junit"}
			}
			golden(t, name, archive(t, d, Views(), views...))
		})
	}
	t.Run("comparison", func(t *testing.T) {
		golden(t, "comparison", archive(t, comparison(), ComparisonViews(), "text", "md"))
	})
}

func oneSided() *Document {
	d := loans()
	records := crowd(11, 400, d.Result.Settings.Margins, 0.05)
	for i := range records {
		for k := range records[i].Steps {
			s := &records[i].Steps[k]
			s.Quant, s.DirSim, s.Overlap, s.Perturbed = nothing, nan, nan, nil
		}
	}
	d.Result.Settings.OneSided = true
	d.Result = summarize(records, d.Result.Settings, eval.DataFile{})
	return d
}

func TestTextFitsATerminal(t *testing.T) {
	texts := map[string]string{"comparison": shown(t, ComparisonViews(), "text", comparison())}
	for name, d := range samples() {
		texts[name] = shown(t, Views(), "text", d)
	}
	for name, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			if n := utf8.RuneCountInString(line); n > 100 || strings.HasSuffix(line, " ") || strings.Contains(line, "NaN") {
				t.Errorf("%s: line of %d characters: %q", name, n, line)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(0.0188, 1), "1.9 %"},
		{percent(0.0004, 1), "<0.1 %"},
		{percent(0, 1), "0.0 %"},
		{percent(0.00004, 2), "<0.01 %"},
		{percent(nan, 1), "-"},
		{signed(0.1234, 3), "+0.123"},
		{signed(-0.1234, 3), "-0.123"},
		{signed(-0.0001, 3), "0.000"},
		{signed(0.0001, 3), "0.000"},
		{signed(0, 3), "0.000"},
		{signed(12.5, 1), "+12.5"},
		{signed(nan, 3), "-"},
		{byteCount(36131), "36,131 bytes"},
		{byteCount(999), "999 bytes"},
		{byteCount(1234567), "1,234,567 bytes"},
		{symbolAt("vd", 0.1), "VD(0.1)"},
		{symbolAt("tau01", 0.1), "tau01"},
		{interval(rate(12, 640), 1), "1.1-3.2 %"},
		{interval(rate(0, 0), 1), "-"},
		{fraction(rate(0, 0)), "-"},
		{thousands(-1234567), "-1,234,567"},
		{thousands(-123), "-123"},
		{seconds(0.0142), "14.20 ms"},
		{seconds(2.5e-6), "2.5 us"},
		{seconds(3), "3.00 s"},
		{seconds(nan), "-"},
		{difference("share", -0.017), "-1.7 pp"},
		{difference("bytes", -414), "-414"},
		{difference("bytes", 414), "+414"},
		{difference("seconds", -0.001), "-1.00 ms"},
		{difference("logits", -0.00001), "0.000"},
		{difference("logits", -0.25), "-0.250"},
		{probability(0.00004), "<0.001"},
		{probability(0.0121), "0.012"},
	} {
		must.Same(t, c.want, c.got)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteErrors(t *testing.T) {
	d := complete()
	for _, v := range Views() {
		if err := v.Write(failing{}, d); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	for _, v := range ComparisonViews() {
		if err := v.Write(failing{}, comparison()); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

func TestExclusions(t *testing.T) {
	d := loans()
	d.Result.Population.Filtered, d.Result.Population.People = 2, d.Result.Population.Read-10
	d.Result.Margins[1].Values["frr"] = share(640, 702)
	d.Result.Groups = []eval.Grouping{{By: "sex", Without: 7}}
	want := []Exclusion{
		{"rows left out by the task's filter", 2, "everything"},
		{"rows left out by --rows", 4, "everything"},
		{"rows that cannot be read", 4, "everything"},
		{"further rows of people who have one: a person counts once, by the worst row", 10, "bounds"},
		{"people that the original approves: there is nothing to promise", 443, "promises"},
		{"refused people who are not in the random sample (seed 7)", 198, "promises"},
		{"refused people without a recourse at margin 0.1", 62, "promises"},
		{"people without a value of sex", 7, "groups by sex"},
	}
	must.Same(t, want, Exclusions(d.Result))
	list := Exclusions(given().Result)
	if last := list[len(list)-1]; last != (Exclusion{"issued promises that nothing can be said of", 14, "promises"}) {
		t.Errorf("%+v", list)
	}
}

func TestCommandLine(t *testing.T) {
	run := Run{Command: []string{"gate", "a.onnx", "--check", "vd[sex]<=0.05", "it's", ""}}
	must.Same(t, `cfq gate a.onnx --check 'vd[sex]<=0.05' 'it'\''s' ''`, run.CommandLine())
}

// A one-sided gate at 95 % shows intervals of 90 %.
func TestSignificant(t *testing.T) {
	d := complete()
	for p, want := range map[eval.Float]bool{0.049: true, 0.08: false} {
		d.Result.Settings.Confidence, d.Result.Groups[0].Gaps[0].P = 0.9, p
		if got := strings.Contains(shown(t, Views(), "text", d), "differs significantly"); got != want {
			t.Errorf("p = %v: significant is %v", p, got)
		}
	}
}
