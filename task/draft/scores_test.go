package draft

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

func scored(first string, n int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString(first)
	for i := range n {
		b.WriteString(row(i) + "\n")
	}
	return b.String()
}

func TestReadScores(t *testing.T) {
	t.Parallel()
	probability := func(i int) string { return fmt.Sprintf("%.3f", float64(i)/40) }
	both := func(i int) string { return fmt.Sprintf("%v,%v", 1-float64(i)/40, float64(i)/40) }
	indexed := func(i int) string { return fmt.Sprintf("%d,%s", 3*i, both(i)) }
	numbered := func(i int) string { return fmt.Sprintf("%s;%d", probability(i), i+7) }
	logits := func(i int) string { return fmt.Sprintf("%d,%d", i, -i) }
	for name, c := range map[string]struct {
		text          string
		columns       int
		probabilities bool
		row1          int // number of the second row
		numbered      bool
	}{
		"one column":              {scored("", 25, probability), 1, true, 1, false},
		"with a header":           {scored("p\n", 25, probability), 1, true, 1, false},
		"two classes":             {scored("", 25, both), 2, true, 1, false},
		"numbered classes":        {scored("0,1\n", 25, both), 2, true, 1, false},
		"a data frame's index":    {scored(",0,1\n", 25, indexed), 2, true, 3, true},
		"a column of row numbers": {scored("p;row\n", 25, numbered), 1, true, 8, true},
		"logits":                  {scored("", 25, logits), 2, false, 1, false},
		"one logit":               {scored("z\n", 25, func(i int) string { return fmt.Sprint(i - 3) }), 1, false, 1, false},
	} {
		s, err := ReadScores(t.Context(), write(t, "scores.csv", c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(s.Rows) != 25 || s.Columns != c.columns || s.Probabilities != c.probabilities || s.Rows[1] != c.row1 ||
			s.Numbered != c.numbered || len(s.Values) != 25*c.columns {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for want, text := range map[string]string{
		"want 20 or more":       scored("", 19, probability),
		"is not a number":       scored("", 25, probability) + "x\n",
		"row 3 has two scores":  scored("row,p\n", 25, func(i int) string { return fmt.Sprintf("%d,0.5", max(3, i)) }),
		"is not the number of":  scored("row,p\n", 25, func(i int) string { return fmt.Sprintf("%v,0.5", float64(i)/2) }),
		"0 scores, want 1":      scored("row\n", 25, func(i int) string { return fmt.Sprint(i) }),
		"1 score, want 2 in ea": scored("", 25, both) + "0.5\n",
	} {
		_, err := ReadScores(t.Context(), write(t, "scores.csv", text))
		must.Fail(t, err, want)
	}
}

func TestSelectScores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    task.ReadOptions
		want []int
	}{
		"all":        {task.ReadOptions{}, []int{0, 1, 2}},
		"these rows": {task.ReadOptions{Only: []int{9, 4, 6, 11}}, []int{4, 6, 9}},
		"all others": {task.ReadOptions{Except: []int{0, 2, 3}}, []int{1, 4, 5}},
	} {
		s := &Scores{Rows: []int{0, 1, 2}}
		if err := s.Select(c.o); err != nil || !slices.Equal(s.Rows, c.want) {
			t.Errorf("%s: %v, %v", name, s.Rows, err)
		}
	}
	must.Fail(t, (&Scores{Rows: []int{0, 1, 2}}).Select(task.ReadOptions{Only: []int{5, 6}}), "")
}

func TestVerify(t *testing.T) {
	t.Parallel()
	tk := must.Get(task.Parse("t", []byte("version: 1\nfeatures:\n"+
		"  - {name: a, kind: numeric}\n  - {name: b, kind: onehot, values: [x, y, z]}\n")))(t)
	people := &task.People{Dim: 4}
	var logits []float32
	var forms [5][]float64 // two logits, their difference, two probabilities, the second, logarithms of both
	for i := range 30 {
		z := float32(i)/20 - 0.7
		people.X = append(people.X, z, float32(i%2), float32(1-i%2), 0)
		people.N, people.Rows = people.N+1, append(people.Rows, i+100)
		logits = append(logits, z, -2*z)
		p := 1 / (1 + math.Exp(float64(3*z)))
		forms[0] = append(forms[0], float64(z), float64(-2*z))
		forms[1] = append(forms[1], float64(-3*z))
		forms[2] = append(forms[2], 1-p, p)
		forms[3] = append(forms[3], p)
		forms[4] = append(forms[4], math.Log(1-p), math.Log(p))
	}
	for i, values := range forms {
		s := &Scores{Columns: len(values) / 30, Values: slices.Clone(values), Probabilities: i == 2 || i == 3}
		for k := range 30 {
			s.Rows = append(s.Rows, k+100)
		}
		v, err := Verify(s, tk, people, logits, 2)
		if err != nil || !v.Verified() || v.Rows != 30 || v.Largest > 1e-6 || !slices.Equal(v.Unseen, []string{"b=z"}) {
			t.Errorf("form %d: %+v, %v", i, v, err)
		}
		s.Values[5*s.Columns] += 3e-4 * max(1, math.Abs(s.Values[5*s.Columns]))
		if v, err = Verify(s, tk, people, logits, 2); err != nil || v.Verified() || v.Differ != 1 || v.Row != 105 {
			t.Errorf("form %d, one off: %+v, %v", i, v, err)
		}
		s.Rows[7] = 999
		if v, err = Verify(s, tk, people, logits, 2); err != nil || v.Rows != 29 || v.Unread != 1 {
			t.Errorf("form %d, a row that was not read: %+v, %v", i, v, err)
		}
	}
	same := &task.People{Dim: 4, N: 30, Rows: people.Rows}
	far := &Scores{Columns: 1, Rows: people.Rows, Probabilities: true}
	for range 30 {
		same.X = append(same.X, people.X[:4]...)
		far.Values = append(far.Values, 0.9999)
	}
	copies := &Scores{Columns: 1, Rows: people.Rows, Values: slices.Repeat(forms[3][:1], 30), Probabilities: true}
	if v, err := Verify(copies, tk, same, slices.Repeat(logits[:2], 30), 2); err != nil || v.Differ > 0 || v.Verified() {
		t.Errorf("30 copies of one row: %+v, %v", v, err)
	}
	p := float32(math.Log(0.9999 / 0.0001))
	v, err := Verify(far, tk, people, slices.Repeat([]float32{0, p}, 30), 2)
	if err != nil || v.Differ > 0 || v.Verified() {
		t.Errorf("probabilities next to 1: %+v, %v", v, err)
	}
	three := &Scores{Columns: 3, Rows: []int{0}, Values: []float64{1, 2, 3}}
	must.Fail(t, must.Err(Verify(three, tk, people, logits, 2)), "")
	of := func(encoding, model string, rows int) Record {
		return Record{Encoding: encoding, Model: model, Verification: Verification{Rows: rows}}
	}
	stated := func(accuracy float64) Record {
		return Record{Encoding: "new", Model: "a", Verification: Verification{Accuracy: accuracy}}
	}
	r := &Records{}
	for _, add := range []Record{
		of("old", "a", 1), of("new", "a", 2), of("new", "b", 3), of("new", "a", 4), stated(0.8), stated(0.9),
	} {
		r.Add(add)
	}
	path := filepath.Join(t.TempDir(), "task.yaml.verified")
	must.Do(t, os.WriteFile(path, r.Encode(), 0o600))
	back, err := ReadRecords(path)
	want := []Record{of("new", "b", 3), stated(0.9)}
	must.Do(t, err)
	must.Same(t, want, back.List)
	must.Do(t, os.WriteFile(path, []byte(`{"schema": "other/1"}`), 0o600))
	must.Fail(t, must.Err(ReadRecords(path)), "other/1")
}

func TestEncodingHash(t *testing.T) {
	t.Parallel()
	const text = "version: 1\nfeatures:\n" +
		"  - {name: a, kind: numeric, mean: 2, std: 3}\n  - {name: b, kind: onehot, values: [x, y]}\n"
	hash := func(text string) string {
		tk := must.Get(task.Parse("t", []byte(text)))(t)
		return tk.EncodingHash()
	}
	for _, same := range []string{"std: 3, bounds: [0, 9]", "std: 3, weight: 2", "std: 3, actionable: false"} {
		must.Same(t, hash(text), hash(strings.Replace(text, "std: 3", same, 1)))
	}
	for from, to := range map[string]string{
		"version: 1": "version: 1\ndata: {columns: [b, a]}",
		"std: 3":     "std: 4", "mean: 2": "mean: 1", "[x, y]": "[y, x]",
		"name: b,":      "name: b, column: c,",
		"version: 1\nf": "version: 1\ndata: {missing: u}\nf",
	} {
		if hash(strings.Replace(text, from, to, 1)) == hash(text) {
			t.Errorf("%s instead of %s does not change the encoding", to, from)
		}
	}
}

func FuzzReadScores(f *testing.F) {
	f.Add("p\n0.5\n0.25\n")
	f.Add(",0,1\n0,0.5,0.5\n")
	f.Add("row;z\n3;-2\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readScores(t.Context(), strings.NewReader(text))
		if err == nil && (len(s.Rows) < MinScores || len(s.Values) != len(s.Rows)*s.Columns) {
			t.Errorf("%+v", s)
		}
	})
}
