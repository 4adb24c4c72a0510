package draft

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

const applicants = `Age,income,housing,job,label
20,1000,own,clerk,bad
30,2000,rent,cook,good
41,3500,own,nurse,good
52,1500,rent,cook,bad
`

func TestOfModel(t *testing.T) {
	t.Parallel()
	number := func(name string) ModelColumn { return ModelColumn{Name: name} }
	codes := func(name string, n int) ModelColumn {
		c := ModelColumn{Name: name}
		for i := range n {
			c.Values = append(c.Values, fmt.Sprint(i))
		}
		return c
	}
	texts := func(name string, values ...string) ModelColumn {
		return ModelColumn{Name: name, Values: values, Text: true}
	}
	for _, c := range []struct {
		columns   []ModelColumn
		features  []string
		want      string
		questions []string // columns that are asked about
	}{
		{ // names, of which exporters have changed one
			[]ModelColumn{texts("housing", "own", "rent"), number("age")}, nil, "housing [own rent], Age", nil,
		},
		{ // the order of the table, by kind
			[]ModelColumn{codes("cat[0]", 2), codes("cat[1]", 4), number("num[0]"), number("num[1]")},
			nil,
			"housing [own rent], job [clerk cook nurse code 3], Age, income",
			[]string{"housing", "job"},
		},
		{ // an order that is given, in which codes stand for numbers
			[]ModelColumn{codes("x[0]", 60), number("x[1]")},
			[]string{"Age", "income"},
			"Age " + fmt.Sprint(codes("", 60).Values) + ", income", nil,
		},
		{
			[]ModelColumn{number("num[0]"), codes("cat", 2)},
			nil, `error which column is which of the model's inputs is not ` +
				`known: it reads num, cat, 1 of them categories, and the data have ` +
				`Age, income, housing, job; say it in the model's order, 2 columns of these: --features 'Age,income,housing,job'`,
			nil,
		},
		{[]ModelColumn{number("x[0]"), number("x[1]")}, nil, "Age, income", nil}, // a model of numbers alone
		{
			[]ModelColumn{number("x")},
			nil, `error which column is which of the model's inputs is not known: it reads x, 0 ` +
				`of them categories, and the data have Age, income, housing, job; say it in the model's order, 1 column of ` +
				`these: --features 'Age,income'`,
			nil,
		},
		{
			[]ModelColumn{number("age"), number("savings")},
			nil,
			`error the data have no column for the model's inputs savings`, nil,
		},
		{
			[]ModelColumn{number("x[0]")},
			[]string{"job"},
			`error the model's input "x[0]" is a number, but column "job" has texts`, nil,
		},
		{[]ModelColumn{number("x[0]")}, []string{"jbo"}, `error there is no column "jbo"`, nil},
		{
			[]ModelColumn{number("x[0]")},
			[]string{"job", "Age"},
			`error --features lists 2 columns, and the model reads 1: x`, nil,
		},
		{[]ModelColumn{codes("x", 2)}, []string{"job"}, `error column "job" has 3 values, and the model codes for 2`, nil},
	} {
		e, err := encodingOf(open(t, applicants), c.columns, c.features, "label")
		if err != nil {
			if !strings.HasPrefix("error "+err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			continue
		}
		var have []string
		for i := range e.inputs {
			values := strings.TrimSuffix(fmt.Sprint(e.inputs[i].Values()), "[]")
			have = append(have, strings.TrimSpace(e.inputs[i].Column+" "+values))
		}
		must.Same(t, c.want, strings.Join(have, ", "))
		for _, name := range []string{"Age", "income", "housing", "job"} {
			if (e.asked[name] != "") != slices.Contains(c.questions, name) {
				t.Errorf("%s: question about %s: %q", c.want, name, e.asked[name])
			}
		}
	}
}

func encodingOf(t *table, columns []ModelColumn, features []string, label string) (*Encoding, error) {
	return (&Model{Columns: columns, Scales: true}).encoding(t, Options{Features: features, Label: label})
}

// TestCodesOfNotKnown: a model with a code for each text and one more was trained with what looks like "not known" as a
// text among others; one with fewer codes was not.
func TestCodesOfNotKnown(t *testing.T) {
	t.Parallel()
	data := strings.Replace(applicants, "rent,cook,bad", "rent,?,bad", 1)
	for n, want := range map[string]string{"0 1 2": "[clerk cook nurse]", "0 1 2 3": "[? clerk cook nurse]"} {
		c := ModelColumn{Name: "job", Values: strings.Fields(n)}
		e, err := encodingOf(open(t, data), []ModelColumn{c}, nil, "label")
		must.Do(t, err)
		must.Same(must.In(t, n), want, fmt.Sprint(e.inputs[0].Values()))
	}
}

// TestNan: an empty field is the category that the model calls as data frames call such fields.
func TestNan(t *testing.T) {
	t.Parallel()
	c := ModelColumn{Name: "job", Values: []string{"clerk", "cook", "nan", "nurse"}, Text: true}
	for data, want := range map[string]string{applicants: "", strings.Replace(applicants, "nurse", "", 1): "nan"} {
		e, err := encodingOf(open(t, data), []ModelColumn{c}, nil, "label")
		must.Do(t, err)
		must.Same(t, want, e.inputs[0].Impute)
	}
	c.Values[2] = "?" // which no encoder takes an empty field for by itself
	for blank, data := range map[string]string{"": applicants, "?": strings.Replace(applicants, "nurse", "", 1)} {
		c.Impute = blank
		e, err := encodingOf(open(t, data), []ModelColumn{c}, nil, "label")
		must.Do(t, err)
		must.Same(t, blank, e.inputs[0].Impute)
	}
}

// TestBlanks: blanks around fields are the model's where its values have them.
func TestBlanks(t *testing.T) {
	t.Parallel()
	path := write(t, "data.csv", strings.ReplaceAll(strings.Replace(applicants, "clerk", "?", 1), ",", ", "))
	for _, c := range []struct {
		housing, job []string
		trim         bool
	}{
		{[]string{"own", "rent"}, []string{"?", "cook", "nurse"}, true},
		{[]string{" own", " rent"}, []string{" ?", " cook", " nurse"}, false},
		{[]string{"own", "rent", " other"}, []string{"?", "cook", "nurse"}, true},
	} {
		number := func(context.Context) ([]float64, error) { return nil, nil }
		d := must.Get(New(t.Context(), Source{Path: path}, Options{Label: "label", Favourable: "good"}, &Model{
			Imputed: number, Scales: true,
			Columns: []ModelColumn{
				{Name: "age"},
				{Name: "income"},
				{Name: "housing", Values: c.housing, Text: true},
				{Name: "job", Values: c.job, Text: true},
			},
		}))(t)
		must.Same(t, c.trim, d.Task.Data.Trim)
		must.Same(t, c.housing, d.Task.Features[2].Values())
		p := must.Get(task.Read(t.Context(), path, d.Task, task.ReadOptions{}))(t)
		must.Same(t, 4, p.N)
		must.Same(t, []int8{0, 1, 1, 0}, p.Labels)
	}
}

// TestNumbersAlone: where as many columns have numbers as the model has inputs, it takes these; else the question names
// the flag and its columns.
func TestNumbersAlone(t *testing.T) {
	t.Parallel()
	for inputs, want := range map[int]string{2: "Age income", 3: "--features 'Age,income,housing,job'"} {
		d := must.Get(fromTable(open(t, applicants), Options{Label: "label", Favourable: "good", inputs: inputs}))(t)
		var have []string
		for _, f := range d.Task.Features {
			have = append(have, f.Name)
		}
		text := strings.Join(have, " ")
		for _, q := range d.Questions {
			text += "\n" + q.Text
		}
		if !strings.Contains(text, want) || inputs == 2 && len(have) != 2 {
			t.Errorf("%d inputs: %s", inputs, text)
		}
	}
}

func TestDecimalCommas(t *testing.T) {
	t.Parallel()
	data := open(t, "Age;y\n"+strings.Repeat("1,5;a\n33,87;b\n-2,25;a\n", 10))
	_, err := encodingOf(data, []ModelColumn{{Name: "x"}}, []string{"Age"}, "y")
	must.Fail(t, err, `column "Age" has decimal commas: "1,5", "33,87", "-2,25"; write`)
}
