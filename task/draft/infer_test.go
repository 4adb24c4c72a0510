package draft

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/task"
)

// The layouts that models may have been trained with: what Infer finds decides as well as the one that the model was made for.
func TestFindsTheModelsEncoding(t *testing.T) {
	const (
		age     = "{name: age, kind: numeric, mean: 47, std: 17}"
		income  = "{name: income, kind: numeric, mean: 50000, std: 26000}"
		sex     = "{name: sex, kind: binary, one: male, zero: female}"
		sex2    = "{name: sex, kind: onehot, values: [female, male]}"
		housing = "{name: housing, kind: onehot, values: [family, own, rent]}"
		home4   = "{name: housing, kind: onehot, values: [\"?\", family, own, rent]}"
		grade   = "{name: grade, kind: ordinal, bounds: [1, 5], step: 1, mean: 3, std: 1.41}"
		grade5  = "{name: grade, kind: onehot, values: [1, 2, 3, 4, 5]}"
		member  = "{name: member, kind: binary, one: 1, zero: 0}"
		memberN = "{name: member, kind: numeric, mean: 0.5, std: 0.5}"
	)
	raw := func(s string) string { return strings.Split(s, ", mean")[0] + "}" }
	for _, c := range []struct {
		name     string
		missing  bool
		features []string
		says     string // in a note
	}{
		{"columns in order", true, []string{age, income, sex, housing, grade, member}, "in the order of the columns"},
		{"numbers first", true, []string{age, income, grade, sex, member, housing}, "numbers first"},
		{"two inputs for two texts", true, []string{age, income, sex2, housing, grade, member}, "two inputs"},
		{"missing as a value", false, []string{age, income, sex, home4, grade, member}, "missing category has an input"},
		{"the other one of two", true, []string{age, income, strings.NewReplacer("one: male", "one: female", "zero: female", "zero: male").Replace(sex), housing, grade, member}, ""},
		{"unsorted values", true, []string{age, income, sex, "{name: housing, kind: onehot, values: [rent, family, own]}", grade, member}, ""},
		{"grades as a group", true, []string{age, income, sex, housing, grade5, member}, "an input for each number"},
		{"a flag scaled", true, []string{age, income, sex, housing, grade, memberN}, ""},
		{"a column less", true, []string{age, income, housing, grade, member}, `"sex" is no input`},
		{"from 0 to 1", true, []string{
			"{name: age, kind: numeric, mean: 18, std: 59}", "{name: income, kind: numeric, mean: 5000, std: 89900}", sex, housing,
			"{name: grade, kind: ordinal, bounds: [1, 5], step: 1, mean: 1, std: 4}", member,
		}, "from 0 for the least"},
		{"the first value left out", false, []string{
			age, income, sex, "{name: other, column: housing, kind: binary, one: other}", "{name: own, column: housing, kind: binary, one: own}",
			"{name: rent, column: housing, kind: binary, one: rent}", grade, member,
		}, "the first value of each category has no input"},
		{"raw numbers", true, []string{raw(age), raw(income), sex, housing, raw(grade), member}, "numbers as they are"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "version: 1\n"
			if c.missing {
				text += "data: {missing: \"?\"}\n"
			}
			tk := parse(t, text+"features:\n  - "+strings.Join(c.features, "\n  - ")+"\n")
			m := weights(tk)
			table := open(t, applicants(t, tk, m, 800, 7))
			p := draft(t, table, Options{Model: m})
			people, err := task.Read(t.Context(), write(t, "d.csv", applicants(t, tk, m, 1500, 8)), p.Task, task.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if people.Dim != len(m.w) {
				t.Fatalf("%d inputs, want %d", people.Dim, len(m.w))
			}
			truth := *tk
			truth.Data = p.Task.Data
			truth.Data.Missing = tk.Data.Missing
			want, err := task.Read(t.Context(), write(t, "d.csv", applicants(t, tk, m, 1500, 8)), &truth, task.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			have, most := accuracy(t, m, people), accuracy(t, m, want)
			if have < most-0.01 || p.Score == nil || p.Score.Index != 1 {
				t.Errorf("accuracy %.3f, with the true encoding %.3f; score %+v\n%s", have, most, p.Score, p.Text)
			}
			says(t, p.Notes, c.says)
		})
	}
}

// weights makes a model in which every input matters: one raw unit of a number as much as its size allows.
func weights(tk *task.Task) *linear {
	m := &linear{}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range tk.Features {
		f := &tk.Features[i]
		for j := range f.Width {
			w := 0.8 + 0.6*r.Float64()
			if (i+j)%2 == 1 {
				w = -w
			}
			switch {
			case f.Kind == task.Numeric && f.Std == 1 && f.Name == "income":
				w /= 26000
				m.b -= w * 50000
			case f.Kind == task.Numeric && f.Std == 1 && f.Name == "age":
				w /= 17
				m.b -= w * 47
			case f.Std == 1 && f.Name == "grade" && f.Kind == task.Ordinal:
				m.b -= w * 3
			case f.Kind == task.OneHot:
				w *= 2 * float64(1+j) / float64(f.Width)
			case f.Mean == 18 || f.Mean == 5000 || f.Mean == 1:
				w *= 3
				m.b -= w / 2
			}
			m.w = append(m.w, w)
		}
	}
	return m
}

func accuracy(t *testing.T, m Model, p *task.People) float64 {
	t.Helper()
	s, err := judgePeople(t.Context(), m, p.X, p)
	if err != nil {
		t.Fatal(err)
	}
	return s.Accuracy
}

func TestClassIndex(t *testing.T) {
	tk := parse(t, "version: 1\ndata: {missing: \"?\"}\nfeatures:\n  - {name: age, kind: numeric, mean: 47, std: 17}\n  - {name: income, kind: numeric, mean: 50000, std: 26000}\n"+
		"  - {name: sex, kind: binary, one: male, zero: female}\n  - {name: housing, kind: onehot, values: [family, own, rent]}\n  - {name: grade, kind: numeric, mean: 3, std: 1.41}\n  - {name: member, kind: binary, one: 1, zero: 0}\n")
	m := weights(tk)
	table := open(t, applicants(t, tk, m, 2000, 3))
	turned := &linear{w: make([]float64, len(m.w)), b: -m.b}
	for i, w := range m.w {
		turned.w[i] = -w
	}
	if p := draft(t, table, Options{Model: turned}); p.Task.Target.Index != 0 {
		t.Errorf("a model whose class 0 is favourable has the index %d: %v", p.Task.Target.Index, p.Notes)
	}
	wide := &linear{w: make([]float64, 40)}
	p := draft(t, table, Options{Model: wide})
	says(t, p.Warnings, "the model has 40 inputs, and the 6 columns that could be features make 8")
	blind := &linear{w: make([]float64, 8)}
	p = draft(t, table, Options{Model: blind})
	says(t, p.Warnings, "no encoding that was tried suits the model")
	p = draft(t, table, Options{Model: m, Features: []string{"age", "income", "sex", "housing", "grade", "member"}})
	if p.Task.Dim() != 8 || !p.Score.Fits() {
		t.Errorf("named columns: %d inputs, %+v", p.Task.Dim(), p.Score)
	}
	for _, f := range [][]string{{"age", "agee"}, {"age", "age"}, {"age", "decision"}} {
		if _, err := Infer(t.Context(), table, Options{Features: f}); err == nil {
			t.Errorf("%q are no features", f)
		}
	}
}

func TestKinds(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,when,note,empty,same,amount,rate,price,few,two,flag,job,gap,label\n")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		row := []string{
			task.Decimal(float64(i + 1000)), "2024-01-" + task.Decimal(float64(10+i%19)), "text" + task.Decimal(float64(i)), "", "x", task.Decimal(float64(50 * r.IntN(100))), task.Decimal(r.Float64()),
			task.Decimal(float64(r.IntN(1000)) / 100), task.Decimal(float64(r.IntN(4))), []string{"a", "b"}[r.IntN(2)], task.Decimal(float64(r.IntN(2))), []string{"x", "y", "z", "NA"}[r.IntN(4)],
			[]string{"", "5", "6", "7.5"}[min(3, r.IntN(8))], []string{"good", "bad"}[r.IntN(2)],
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	p := draft(t, open(t, b.String()), Options{})
	if want := []string{"id", "when", "note", "empty", "same"}; !slices.Equal(p.Task.Data.Drop, want) {
		t.Errorf("dropped %q, want %q", p.Task.Data.Drop, want)
	}
	kinds := map[string]task.Kind{
		"amount": task.Numeric, "rate": task.Numeric, "price": task.Numeric, "few": task.Ordinal, "two": task.Binary, "flag": task.Binary, "job": task.OneHot, "gap": task.Numeric,
	}
	steps := map[string]float64{"amount": 50, "rate": 0, "price": 0.01, "few": 1}
	for i := range p.Task.Features {
		f := &p.Task.Features[i]
		if f.Kind != kinds[f.Name] {
			t.Errorf("%s: kind %s, want %s", f.Name, f.Kind, kinds[f.Name])
		}
		if want, ok := steps[f.Name]; ok && f.Step != want {
			t.Errorf("%s: step %v, want %v", f.Name, f.Step, want)
		}
		if f.Name == "job" && !slices.Equal(f.Values, []string{"x", "y", "z"}) {
			t.Errorf("job: values %q", f.Values)
		}
	}
	if len(p.Task.Features) != len(kinds) || p.Task.Data.Label != "label" || p.Task.Data.Favourable != "good" || !slices.Equal(p.Task.Data.Missing, []string{"NA"}) {
		t.Errorf("%d features, data %+v", len(p.Task.Features), p.Task.Data)
	}
	says(t, p.Warnings, `column "gap"`)
}

// Columns that are one-hot already become a group when the whole file holds model inputs, and are not changed one by one otherwise.
func TestOneHotColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	file := func(scale float64) string {
		var b strings.Builder
		b.WriteString("size,housing_rent,housing_own,housing_family,label\n")
		for range 300 {
			home := make([]string, 3)
			at := r.IntN(3)
			for j := range home {
				home[j] = "0"
			}
			home[at] = "1"
			b.WriteString(task.Decimal(scale*r.NormFloat64()) + "," + strings.Join(home, ",") + "," + []string{"good", "bad"}[r.IntN(2)] + "\n")
		}
		return b.String()
	}
	text := file(1)
	rows := strings.Split(strings.TrimSpace(text), "\n")
	p := draft(t, open(t, text), Options{})
	f := p.Task.Features[len(p.Task.Features)-1]
	if scaled := p.Task.Encoded; !scaled && f.Kind == task.OneHot {
		t.Errorf("%s", p.Text)
	}
	if !p.Task.Encoded { // the draw may be a little off a standard deviation of 1
		t.Fatalf("a file of model inputs is not taken for one:\n%s", p.Text)
	}
	if f.Kind != task.OneHot || !slices.Equal(f.Values, []string{"rent", "own", "family"}) {
		t.Errorf("%+v", f)
	}
	people, err := task.Read(t.Context(), write(t, "d.csv", text), p.Task, task.ReadOptions{})
	if err != nil || people.N != len(rows)-1 || people.Failed > 0 {
		t.Fatalf("%v, %v", people, err)
	}
	p = draft(t, open(t, file(5000)), Options{})
	if p.Task.Encoded || len(p.Task.Features) != 4 || p.Task.Features[1].Kind != task.Binary || p.Task.Features[1].Actionable {
		t.Errorf("raw numbers beside groups:\n%s", p.Text)
	}
	says(t, p.Warnings, "the values of one category")
}

// Whatever fields a file has, the draft is a task file by which its rows can be read, and Check finds no problem.
func TestDraftsCanBeRead(t *testing.T) {
	field := rapid.OneOf(
		rapid.StringMatching(`[a-z]{0,3}[ :#,'"{}\[\]&*!|>%@\-?\\éß]{0,2}[a-zA-Z0-9. ]{0,3}`),
		rapid.SampledFrom([]string{"yes", "no", "null", "~", "true", "1e5", "0x1", "007", ".5", "-", "?", "NA", "=", "<<", "1_000", "12:30", "on", "0o7", "+1"}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(rt, "columns")
		table := &Table{Data: task.Data{Delimiter: ','}}
		n := rapid.IntRange(8, 30).Draw(rt, "rows")
		pools := make([][]string, columns)
		for i := range pools {
			table.Names = append(table.Names, rapid.StringMatching(`[a-zA-Z_ :#é"'-]{1,6}`).Draw(rt, "name")+task.Decimal(float64(i)))
			pools[i] = rapid.SliceOfN(field, 1, 6).Draw(rt, "pool")
		}
		for range n {
			rec := make([]string, columns)
			for i := range rec {
				rec[i] = rapid.SampledFrom(pools[i]).Draw(rt, "field")
			}
			table.add(rec)
		}
		p, err := Infer(t.Context(), table, Options{File: "data.csv"})
		if err != nil {
			if strings.Contains(err.Error(), "mistake of this program") {
				rt.Fatalf("%v\nnames %q pools %q", err, table.Names, pools)
			}
			return
		}
		for i := range p.Task.Features {
			f := &p.Task.Features[i]
			c := table.column(f.Column)
			if c == nil {
				rt.Fatalf("feature %q is no column of %q", f.Column, table.Names)
			}
			for _, v := range f.Values {
				if !slices.ContainsFunc(c.values, func(s string) bool { return s == v || sameNumber(s, v) }) {
					rt.Fatalf("the value %q is none of the column's: %q", v, c.values)
				}
			}
		}
	})
}
