package draft

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

// twenty people: income 1000 to 20000, debt a tenth of it, home rent or own, grade 1 to 4, score with decimals.
func twenty() string {
	var b strings.Builder
	b.WriteString("income,debt,home,grade,score,same,label\n")
	for i := range 20 {
		fmt.Fprintf(&b, "%d,%d,%s,%d,%d.%02d,5,%s\n", 1000*(i+1), 100*(i+1), []string{"rent", "own", "?", "rent"}[i%4], 1+i%4,
			i, (i*37)%100, []string{"bad", "good"}[i/10])
	}
	return b.String()
}

const head = "version: 1\ndata: {label: label, favourable: good, missing: \"?\"}\n"

func check(t *testing.T, text, data string, margins []float32) *Report {
	t.Helper()
	tk := parse(t, text)
	p := must.Get(task.Read(t.Context(), write(t, "data.csv", data), tk, task.ReadOptions{}))(t)
	set := must.Get(constraint.Compile(tk))(t)
	return must.Get(Check(tk, Questions([]byte(text)), p, set.Factual(p.X), margins, Evidence{}))(t)
}

// findings compares what a report found with the beginnings of "level: about: text".
func findings(t *testing.T, r *Report, want []string) {
	t.Helper()
	var have []string
	for _, f := range r.Findings {
		have = append(have, fmt.Sprintf("%s: %s: %s", f.Level, f.About, f.Text))
	}
	if !slices.EqualFunc(have, want, strings.HasPrefix) {
		t.Errorf("findings:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheckFinds(t *testing.T) {
	const (
		income = "  - {name: income, kind: numeric, mean: 10500, std: 5766.28, bounds: [1000, 20000], step: 100}\n"
		debt   = "  - {name: debt, kind: numeric, mean: 1050, std: 576.63, bounds: [100, 2000], step: 10}\n"
		home   = "  - {name: home, kind: onehot, values: [rent, own], shares: [0.5, 0.25]}\n"
	)
	for _, c := range []struct {
		name, features, rest string
		want                 []string // "level: about: part of the text"
	}{
		{"nothing", income + debt + home, "", nil},
		{
			"mean and std are of what the model sees", // clipped: 5000 four times, 6000 to 14000, 15000 six times
			"  - {name: income, kind: numeric, clip: [5000, 15000], mean: 10250, std: 3780, bounds: [1000, 20000],\n" +
				"     step: 100}\n" +
				"  - {name: debt, kind: numeric, log: 0, spread: 576.63, mean: 6.72, std: 0.75, bounds: [100, 2000], step: 10}\n",
			"", nil,
		},
		{
			"mean and std of a logarithm",
			"  - {name: debt, kind: numeric, log: 0, spread: 90, mean: 1050, std: 576.63, bounds: [100, 2000], step: 10}\n",
			"",
			[]string{"warning: debt: spread is 90", "warning: debt: mean and std of the logarithm are 1050 and 576.63"},
		},
		{
			"neither spread nor bounds", "  - {name: income, kind: numeric}\n", "",
			[]string{"warning: income: an action may go down without limit", "warning: income: neither std nor bounds say"},
		},
		{"bounds without spread", "  - {name: income, kind: numeric, bounds: [0, 21000]}\n", "", nil},
		{"a constraint that holds", income + debt, "constraints: [debt <= 0.5 * income]\n", nil},
		{
			"a constraint that nobody fulfils", income + debt, "constraints: [income <= debt]\n",
			[]string{"problem: constraint \"income <= debt\": no row"},
		},
		{
			"a constraint that many break", income + debt, "constraints: [income <= 15000]\n",
			[]string{"warning: constraint \"income <= 15000\": 25.0 % of the rows"},
		},
		{
			"a condition that never holds", income + debt + home, "constraints: [{if: income > 90000, then: home = own}]\n",
			[]string{"warning: constraint \"if income > 90000 then home = own\": its condition holds for no row"},
		},
		{"a rule for some", income + debt + home, "constraints: [{if: home = own, then: income >= 2000}]\n", nil},
		{
			"a rule that those break", income + debt + home, "constraints: [{if: home = own, then: income < 2000}]\n",
			[]string{"problem: constraint \"if home = own then income < 2000\": no row"},
		},
		{
			"bounds in other units", "  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [0, 20]}\n", "",
			[]string{"problem: income: no row lies within the bounds [0, 20]"},
		},
		{
			"narrow bounds", "  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [3000, 19000]}\n", "",
			[]string{"warning: income: 15.0 % of the rows lie outside of the bounds [3000, 19000]: 2 below, 1 above"},
		},
		{
			"a mean of other data", "  - {name: income, kind: numeric, mean: 20500, std: 5766, bounds: [1000, 20000]}\n", "",
			[]string{"warning: income: mean is 20500 in the task and 10500 in the data, 1.7 of its standard deviations apart"},
		},
		{
			"a std of other data", "  - {name: income, kind: numeric, mean: 10500, std: 57, bounds: [1000, 20000]}\n", "",
			[]string{"warning: income: std is 57 in the task and 5766.28 in the data"},
		},
		{
			"nothing to do", strings.ReplaceAll(income, "}", ", actionable: false}"), "",
			[]string{"problem: features: no feature is actionable"},
		},
		{
			"rows that cannot be read", income + "  - {name: home, kind: binary, one: own, zero: rent, shares: 0.25}\n", "",
			[]string{"warning: column home: 5 rows cannot be read, at line 4: the value is missing"},
		},
		{
			"rows that mostly cannot", income + "  - {name: grade, kind: ordinal, values: [1], mean: 1, std: 1.1}\n", "",
			[]string{"problem: column grade: 15 rows cannot be read"},
		},
		{
			"a value that nobody has", "  - {name: home, kind: onehot, values: [rent, own, castle]}\n", "",
			[]string{"warning: home: no row has the value castle"},
		},
		{
			"values that nobody has", "  - {name: home, kind: onehot, values: [house, castle]}\n", "",
			[]string{"problem: column home: 15 rows cannot be read", "problem: home: no row has any of the values"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, head+"features:\n"+c.features+c.rest, twenty(), nil)
			findings(t, r, c.want)
			problems := 0
			for _, w := range c.want {
				if strings.HasPrefix(w, "problem") {
					problems++
				}
			}
			must.Same(t, problems, r.Problems())
		})
	}
}

func TestCheckCounts(t *testing.T) {
	r := check(t, head+"features:\n"+
		"  - {name: income, kind: numeric, mean: 10500, std: 5766, bounds: [3000, 19000], step: 2000}\n"+
		"  - {name: home, kind: onehot, values: [rent, own]}\n"+
		"constraints: [income <= 15000, {if: home = own, then: income > 10000}]\n", twenty(), nil)
	a, b := r.Features[0], r.Features[1]
	if a.Below != 2 || a.Above != 1 || *a.Mean != 10500 || *a.Std != 5766.2813 {
		t.Errorf("%+v", a)
	}
	if b.Missing != 5 || !slices.Equal(b.Shares, []float64{0.5, 0.25}) {
		t.Errorf("%+v", b)
	}
	// Own are 2000, 6000, 10000, 14000 and 18000.
	want := []task.RuleCount{
		{Text: "income <= 15000", Applies: 20, Broken: 5},
		{Text: "if home = own then income > 10000", Applies: 5, Broken: 3},
	}
	if !slices.Equal(r.Rules, want) || r.Rows != 20 || r.Read != 20 {
		t.Errorf("%+v", r)
	}
}

// A value that means "not known" may be what a missing one is taken for.
func TestCheckCountsMissingOnce(t *testing.T) {
	data := "years,home,label\n3,rent,bad\n-9,?,good\n,,good\n5,own,bad\n"
	for _, x := range []struct{ years, home, marker string }{
		{"missing: [-9], impute: -9", `missing: ["?"], impute: "?"`, "?"},
		{"missing: [-9], impute: 4", `impute: "?"`, "?"},
		{"missing: [-9], impute: -9", `missing: ["?"], impute: "?"`, "absent"},
		{"missing: [-9], impute: 4", `missing: ["?"], impute: own`, "absent"},
	} {
		marked := strings.NewReplacer("?", x.marker).Replace
		r := check(t, marked("version: 1\ndata: {label: label, favourable: good}\nfeatures:\n"+
			"  - {name: years, kind: numeric, "+x.years+", actionable: false}\n"+
			"  - {name: home, kind: onehot, values: [\"?\", rent, own], "+x.home+", actionable: false}\n"), marked(data), nil)
		must.Same(t, []int{r.Features[0].Missing, r.Features[1].Missing}, []int{2, 2})
	}
}

func TestCheckJudgesTheModel(t *testing.T) {
	const text = head + "features: [{name: income, kind: numeric, mean: 10500, std: 5766}]\n"
	margins := func(bad, good float32) []float32 { // of the ten who are bad and the ten who are good
		return append(slices.Repeat([]float32{bad}, 10), slices.Repeat([]float32{good}, 10)...)
	}
	for _, c := range []struct {
		name, text string
		margins    []float32
		want       string // "" for no problem
	}{
		{"right", text, margins(-1, 1), ""},
		{
			"wrong class", text, margins(1, -1), "model: it decides 0.0 % of 20 rows as labelled, and always naming the more " +
				"frequent outcome would decide 50.0 %: target.index or data.favourable is probably wrong, for the opposite",
		},
		{"no better than the majority", text, margins(1, 1), ""},
		{"an open question", text + "# QUESTION: why?\n", margins(-1, 1), "question on line 4: why?"},
	} {
		r := check(t, c.text, twenty(), c.margins)
		switch {
		case r.Encoding != "unverified":
			t.Errorf("%s: encoding %q", c.name, r.Encoding)
		case c.want == "" && (r.Problems() > 0 || r.Score.Accuracy < 0.5 || r.Score.Majority != 0.5):
			t.Errorf("%s: %+v, %+v", c.name, r.Findings, r.Score)
		case c.want != "" && (r.Problems() != 1 || !strings.HasPrefix(r.Findings[0].About+": "+r.Findings[0].Text, c.want)):
			t.Errorf("%s: %+v, want %q", c.name, r.Findings, c.want)
		}
	}
	if r := check(t, text, twenty(), margins(-1, -1)); r.Problems() > 0 || len(r.Findings) != 2 ||
		!strings.Contains(r.Findings[1].Text, "all 20 rows alike") {
		t.Errorf("one decision for everybody: %+v", r.Findings)
	}
	// Of 20 people 3 are good. A model that finds 2 of them and takes 3 others for good is wrong of 4.
	rare := strings.Replace(twenty(), ",good\n", ",bad\n", 7)
	scores := slices.Repeat([]float32{-1}, 20)
	for _, i := range []int{0, 1, 2, 18, 19} {
		scores[i] = 1
	}
	if r := check(t, text, rare, scores); r.Problems() > 0 || r.Score.Accuracy != 0.8 || r.Score.Majority != 0.85 {
		t.Errorf("a rare outcome: %+v, %+v", r.Findings, r.Score)
	}
	scores[18], scores[19] = -1, -1
	must.Same(t, 1, check(t, text, rare, scores).Problems())
	// Without outcomes a model cannot be judged, and Check says that.
	r := check(t, strings.Replace(text, "label: label", "label: lable", 1), twenty(), margins(1, -1))
	if at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.About == "model" }); at < 0 ||
		r.Findings[at].Level != Warning || r.Score != nil {
		t.Errorf("%+v", r)
	}
	if r := check(t, text, twenty(), nil); r.Score != nil || r.Encoding != "" {
		t.Errorf("a score without a model: %+v", r)
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func open(t testing.TB, text string, names ...string) *table {
	t.Helper()
	return must.Get(readTable(context.Background(), Source{write(t, "data.csv", text), names, task.ReadOptions{}}))(t)
}

func draft(t testing.TB, table *table, o Options) *Draft {
	t.Helper()
	o.File = "data.csv"
	return must.Get(fromTable(table, o))(t)
}

func parse(t testing.TB, text string) *task.Task {
	t.Helper()
	return must.Get(task.Parse("task.yaml", []byte(text)))(t)
}

// ramp is 300 people of whom those with an income above 150 are good, and how far a model decides each so, which is
// wrong of some.
func ramp(wrong int) (data string, margins []float32) {
	data = "income,label\n"
	for i := range 300 {
		label, margin := "bad", float32(-1)
		if i > 150 {
			label, margin = "good", 1
		}
		if wrong > 0 && i%(300/wrong) == 0 {
			margin = -margin
		}
		data += fmt.Sprintf("%d,%s\n", i, label)
		margins = append(margins, margin)
	}
	return data, margins
}

func TestAccuracyVerifies(t *testing.T) {
	t.Parallel()
	const text = head + "features: [{name: income, kind: numeric, bounds: [0, 299], step: 1}]\ntarget: {accuracy: %s}\n"
	for _, c := range []struct {
		stated         string
		rows, wrong    int
		encoding, find string
	}{
		{"0.9", 300, 30, "verified", ""},
		{"0.87", 300, 30, "verified", ""},
		{"0.80", 300, 30, "contradicted", "problem: target.accuracy: it is not the model's on these 300 rows"},
		{"0.98", 300, 30, "contradicted", "problem: target.accuracy: it is not the model's"},
		{"0.9", 180, 30, "unverified", "warning: target.accuracy: 180 rows with known outcome verify no encoding"},
		{"0.5", 300, 150, "unverified", "warning: target.accuracy: 300 rows with known outcome verify no encoding"},
	} {
		data, margins := ramp(c.wrong)
		data = strings.Join(strings.SplitAfter(data, "\n")[:c.rows+1], "")
		r := check(t, fmt.Sprintf(text, c.stated), data, margins[:c.rows])
		must.Same(must.In(t, c.stated), c.encoding, r.Encoding)
		must.Same(t, c.encoding == "verified", r.Verification != nil && r.Verification.Verified())
		at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.About == "target.accuracy" })
		if (at >= 0) != (c.find != "") {
			t.Errorf("%s: %+v", c.stated, r.Findings)
		} else if at >= 0 {
			r.Findings = r.Findings[at : at+1]
			findings(t, r, []string{c.find})
			must.Same(t, false, strings.Contains(r.Findings[0].Text, "0.9"))
		}
	}
}

func TestCompareScalings(t *testing.T) {
	t.Parallel()
	const text = head + "features: [{name: income, kind: numeric, mean: %v, std: %v, bounds: [0, 299], step: 1}]\n"
	data, margins := ramp(0)
	for _, c := range []struct {
		mean, std, limit float64 // of the task; above limit the model approves
		want             string
	}{
		{149.5, 86.6, 0.01, ""},
		{149.5, 86.6, 0.504, "with numbers between 0 and 1"},
		{149.5, 86.6, 150.5, "with numbers as they are"},
		{0, 1, 0.01, "with numbers standardised by these data"},
		{0, 299, 0.504, ""},
	} {
		text := fmt.Sprintf(text, c.mean, c.std)
		tk := parse(t, text)
		people := must.Get(task.Read(t.Context(), write(t, "data.csv", data), tk, task.ReadOptions{}))(t)
		r := check(t, text, data, margins)
		r.Findings = nil
		must.Do(t, r.CompareScalings(tk, people, func(x []float32) ([]float32, error) {
			out := slices.Clone(x)
			for i := range out {
				out[i] -= float32(c.limit)
			}
			return out, nil
		}))
		if (len(r.Findings) > 0) != (c.want != "") || c.want != "" && !strings.Contains(r.Findings[0].Text, c.want) {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}
