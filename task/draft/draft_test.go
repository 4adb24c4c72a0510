package draft

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/task"
)

func TestKinds(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,when,note,empty,same,amount,rate,price,few,two,flag,job,gap,label\n")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		row := []string{
			fmt.Sprint(i + 1000), fmt.Sprint("2024-01-01 ", i), fmt.Sprint("text", i), "", "x",
			fmt.Sprint(50 * r.IntN(100)), task.Decimal(r.Float64()), task.Decimal(float64(r.IntN(1000)) / 100),
			fmt.Sprint(r.IntN(4)), []string{"a", "b"}[r.IntN(2)], fmt.Sprint(r.IntN(2)),
			[]string{"x", "y", "z", "NA"}[r.IntN(4)], []string{"", "5", "6", "7.5"}[min(3, r.IntN(8))],
			[]string{"good", "bad"}[r.IntN(2)],
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	p := draft(t, open(t, b.String()), Options{Favourable: "good"})
	must.Same(t, []string{"id", "when", "note", "empty", "same"}, p.Task.Data.Drop)
	kinds := map[string]string{
		"amount": "numeric", "rate": "numeric", "price": "numeric", "gap": "numeric",
		"few": "ordinal", "two": "binary", "flag": "binary", "job": "onehot",
	}
	steps := map[string]float64{"amount": 50, "rate": 0, "price": 0.01, "few": 1}
	for i := range p.Task.Features {
		f := &p.Task.Features[i]
		must.Same(t, kinds[f.Name], f.Encoding.Kind())
		if want, ok := steps[f.Name]; ok && f.Step != want {
			t.Errorf("%s: step %v, want %v", f.Name, f.Step, want)
		}
		if f.Name == "job" && !slices.Equal(f.Values(), []string{"x", "y", "z"}) {
			t.Errorf("job: values %q", f.Values())
		}
	}
	if len(p.Task.Features) != len(kinds) || p.Task.Data.Label != "label" || p.Task.Data.Favourable != "good" ||
		!slices.Equal(p.Task.Data.Missing, []string{"NA"}) {
		t.Errorf("%d features, data %+v", len(p.Task.Features), p.Task.Data)
	}
}

func TestQuestions(t *testing.T) {
	const data = "age,home,sex,own_car,own_house,label\n30,rent,m,1,0,yes\n41,own,f,0,1,no\n52,flat,m,0,0,yes\n"
	questions := func(o Options) string {
		p := draft(t, open(t, data), o)
		var texts []string
		for _, q := range p.Questions {
			texts = append(texts, q.Text)
		}
		must.Same(t, len(texts), strings.Count(string(p.Text), "QUESTION: "))
		if (len(texts) > 0) != strings.Contains(string(p.Text), "cfq task check") {
			t.Errorf("the file does not say whether questions are open:\n%s", p.Text)
		}
		return strings.Join(texts, "\n")
	}
	for _, c := range []struct {
		o        Options
		ask, not []string
	}{
		{Options{}, []string{
			"which value of the outcome", "which class index", "standardised", "order of the model's inputs",
			"inputs of each category", "is the input of sex 1 for m and 0 for f?",
			"are own_car to own_house the values of one category?",
		}, []string{"is this the outcome"}},
		{Options{Favourable: "yes"}, []string{"is this the outcome?"}, []string{"which value of the outcome"}},
		{Options{Label: "label", Favourable: "yes", Features: []string{"sex", "age"}, inputs: 3}, []string{
			"the model has 3 inputs and these features make 2", "standardised",
		}, []string{"is this the outcome", "order of the model's inputs", "category"}},
		{Options{Label: "label", Favourable: "yes", Encoding: encoding(t, people)}, nil, []string{"?"}},
	} {
		got := questions(c.o)
		for _, want := range c.ask {
			must.Has(must.In(t, c.o), got, want)
		}
		for _, not := range c.not {
			if strings.Contains(got, not) {
				t.Errorf("%+v: asks %q:\n%s", c.o, not, got)
			}
		}
	}
}

func TestZeroOneIsNeverInverted(t *testing.T) {
	for _, fields := range [][]string{{"0", "1", "1", "1"}, {"1", "0", "0", "0"}, {"1.0", "0.0", "1.0", "0.0"}} {
		p := draft(t, open(t, "flag,label\n"+strings.Join(fields, ",x\n")+",y\n"), Options{Label: "label"})
		if f, ok := p.Task.Features[0].Encoding.(*task.Binary); !ok || f.One != "1" || f.Zero != "0" {
			t.Errorf("%q: %+v", fields, f)
		}
	}
}

func TestDraftsCanBeRead(t *testing.T) {
	field := rapid.OneOf(
		rapid.StringMatching(`[a-z]{0,3}[ :#,'"{}\[\]&*!|>%@\-?\\éß]{0,2}[a-zA-Z0-9. ]{0,3}`),
		rapid.SampledFrom([]string{
			"yes", "no", "null", "~", "true", "1e5", "0x1", "007", ".5", "-", "?", "NA", "=", "<<",
			"1_000", "12:30", "on", "0o7", "+1",
		}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(rt, "columns")
		table := &table{Data: task.Data{Delimiter: ','}}
		n := rapid.IntRange(8, 30).Draw(rt, "rows")
		pools := make([][]string, columns)
		for i := range pools {
			table.Names = append(table.Names, rapid.StringMatching(`[a-zA-Z_ :#é"'-]{1,6}`).Draw(rt,
				"name")+task.Decimal(float64(i)))
			pools[i] = rapid.SliceOfN(field, 1, 6).Draw(rt, "pool")
		}
		for range n {
			rec := make([]string, columns)
			for i := range rec {
				rec[i] = rapid.SampledFrom(pools[i]).Draw(rt, "field")
			}
			table.add(rec, true)
		}
		p, err := fromTable(table, Options{File: "data.csv"})
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
			for _, v := range f.Values() {
				if task.Find(c.values, v) < 0 {
					rt.Fatalf("the value %q is none of the column's: %q", v, c.values)
				}
			}
		}
	})
}

// Any bytes are read or refused, and a draft made of them is a task file.
func FuzzFromData(f *testing.F) {
	f.Add([]byte("a,b,label\n1,x,good\n2,y,bad\n3,x,good\n"))
	f.Add([]byte("# c\n\"a;\";b\n1;?\n2; z\n"))
	f.Add([]byte("|x\n 1, 2\n 3, 4\n"))
	f.Add([]byte("h_a,h_b,d\n0,1,y\n1,0,n\n1,0,y\n0,1,n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readFrom(t.Context(), bytes.NewReader(data), Source{}, nil)
		if err != nil {
			return
		}
		if _, err := fromTable(table, Options{File: "data.csv"}); err != nil && strings.Contains(err.Error(),
			"mistake of this program") {
			t.Fatal(err)
		}
	})
}
