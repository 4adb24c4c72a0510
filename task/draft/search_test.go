package draft

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/task"
)

// town are people of all kinds of columns, as text; the outcome stands last.
func town(rows int) (string, [][]string) {
	r := rand.New(rand.NewPCG(7, 7))
	var all [][]string
	text := "age,sex,income,home,grade,job,savings,known,outcome\n"
	for range rows {
		rec := []string{
			fmt.Sprint(18 + r.IntN(60)),
			[]string{"M", "F"}[min(1, r.IntN(3))],
			fmt.Sprint(math.Round(math.Exp(9+r.NormFloat64())*100) / 100),
			[]string{"rent", "own", "family", "other"}[min(r.IntN(4), r.IntN(4))],
			fmt.Sprint(1 + r.IntN(5)),
			[]string{"clerk", "driver", "nurse", "cook", "?"}[min(4, r.IntN(7))],
			fmt.Sprint(math.Round(1000 * r.NormFloat64())),
			fmt.Sprint(r.IntN(2)),
			[]string{"yes", "no"}[r.IntN(2)],
		}
		all = append(all, rec)
		text += strings.Join(rec, ",") + "\n"
	}
	return text, all
}

// net is a network with random weights that hears every input: inputs-16-classes.
func net(seed uint64, inputs, classes int) Model {
	r := rand.New(rand.NewPCG(seed, 9))
	w1, w2 := make([]float64, 16*inputs), make([]float64, classes*16)
	for i := range w1 {
		w1[i] = r.NormFloat64() / math.Sqrt(float64(inputs))
	}
	for i := range w2 {
		w2[i] = r.NormFloat64()
	}
	return func(_ context.Context, x []float32) (out []float32, _ int, err error) {
		for row := range slices.Chunk(x, inputs) {
			var h [16]float64
			for k := range h {
				for j, v := range row {
					h[k] += w1[k*inputs+j] * float64(v)
				}
				h[k] = math.Tanh(h[k])
			}
			for c := range classes {
				z := 0.0
				for k := range h {
					z += w2[c*16+k] * h[k]
				}
				out = append(out, float32(z))
			}
		}
		return out, classes, nil
	}
}

// made is how the owner made an input.
type made struct {
	column string
	of     func(field string) []float32
}

func hot(column string, values ...string) made {
	return made{column, func(s string) []float32 {
		x := make([]float32, len(values))
		if i := slices.Index(values, s); i >= 0 {
			x[i] = 1
		}
		return x
	}}
}

func num(column string, of func(float64) float64) made {
	return made{column, func(s string) []float32 {
		v, _ := task.Number(s)
		return []float32{float32(of(v))}
	}}
}

// clipped is a number between its 1st and 99th percentile, standardised then.
func clipped(p *profile) func(float64) float64 {
	low, high := p.percentile(0.01), p.percentile(0.99)
	within := func(v float64) float64 { return min(max(v, low), high) }
	sum, squares, n := 0.0, 0.0, 0.0
	for i, v := range p.points {
		v = within(v)
		sum, squares, n = sum+v*p.weights[i], squares+v*v*p.weights[i], n+p.weights[i]
	}
	mean := sum / n
	std := math.Sqrt(squares/n - mean*mean)
	return func(v float64) float64 { return (within(v) - mean) / std }
}

// bin is a one-hot of so many bins, by their upper edges.
func bin(column string, percentile func(float64) float64, n int) made {
	return made{column, func(s string) []float32 {
		v, _ := task.Number(s)
		x, at := make([]float32, n), 0
		for at < n-1 && v >= percentile(float64(at+1)/float64(n)) {
			at++
		}
		x[at] = 1
		return x
	}}
}

// modelInputs are what a task says that the model gets of people.
func modelInputs(tk *task.Task, x []float32) (out []float32) {
	for row := range slices.Chunk(x, tk.Dim()) {
		for i := range tk.Features {
			f := &tk.Features[i]
			x := row[f.Offset : f.Offset+f.Width]
			ones := 0
			for _, v := range x {
				ones += int(v)
			}
			v := f.FromInput(x[0])
			if f.Clip != nil {
				v = min(max(v, f.Clip[0]), f.Clip[1])
			}
			switch {
			case f.Inputs != nil && f.Kind == task.OneHot && ones == 0:
				out = append(out, make([]float32, f.ModelInputs())...)
			case f.Inputs != nil && f.Kind == task.OneHot:
				for _, v := range f.Inputs[slices.Index(x, 1)] {
					out = append(out, float32(v))
				}
			case f.Inputs != nil:
				for _, v := range f.Inputs[ones] {
					out = append(out, float32(v))
				}
			case f.Log != nil:
				out = append(out, float32((math.Log(v+f.Log.Add)-f.Log.Mean)/f.Log.Std))
			case f.Clip != nil:
				out = append(out, float32((v-f.Mean)/f.Std))
			default:
				out = append(out, x...)
			}
		}
	}
	return out
}

// Encodings of one data set, by their scores alone: a draft encodes as the owner did, or says what is open.
func TestSearch(t *testing.T) {
	t.Parallel()
	text, rows := town(400)
	table := open(t, text)
	column := func(name string) *profile { return look(table.column(name)) }
	std := func(name string, n float64) made {
		mean, dev := column(name).moments()
		dev *= math.Sqrt(400 / (400 - n))
		return num(name, func(v float64) float64 { return (v - mean) / dev })
	}
	raw := func(name string) made { return num(name, func(v float64) float64 { return v }) }
	scale := func(name string, by float64) made { return num(name, func(v float64) float64 { return v / by }) }
	span := func(name string) made {
		p := column(name).points
		return num(name, func(v float64) float64 { return (v - p[0]) / (p[len(p)-1] - p[0]) })
	}
	home := []string{"family", "other", "own", "rent"}
	job := []string{"clerk", "cook", "driver", "nurse"}
	for name, c := range map[string]struct {
		made []made
		open string // what the draft has to say is open; "" for nothing
	}{
		"standardised, numbers first": {[]made{
			std("age", 0), std("income", 0), std("grade", 0), std("savings", 0), std("known", 0),
			hot("sex", "F", "M"), hot("home", home...), hot("job", job...),
		}, ""},
		"in the file's order": {[]made{
			std("age", 0), hot("sex", "F", "M"), std("income", 0), hot("home", home...), std("grade", 0), hot("job", job...),
			std("savings", 0), raw("known"),
		}, ""},
		"sample deviations, binary the other way": {[]made{
			std("age", 1), hot("sex", "M"), std("income", 1), hot("home", home...), std("grade", 1), hot("job", job...),
			std("savings", 1), raw("known"),
		}, ""},
		"between 0 and 1": {[]made{
			span("age"), span("income"), span("grade"), span("savings"), span("known"), hot("sex", "F", "M"),
			hot("home", home...), hot("job", job...),
		}, ""},
		"grades as categories": {[]made{
			std("age", 0), std("income", 0), std("savings", 0), raw("known"), hot("sex", "M"),
			hot("home", home...), hot("grade", "1", "2", "3", "4", "5"), hot("job", job...),
		}, ""},
		"unknown is a category": {[]made{
			std("age", 0), std("income", 0), std("grade", 0), std("savings", 0), raw("known"), hot("sex", "M"),
			hot("home", home...), hot("job", "?", "clerk", "cook", "driver", "nurse"),
		}, ""},
		"other means": {[]made{
			num("age", func(v float64) float64 { return (v - 43.75) / 15.5 }), std("income", 0),
			num("grade", func(v float64) float64 { return (v - 3.1) / 1.25 }), std("savings", 0), raw("known"),
			hot("sex", "M"), hot("home", home...), hot("job", job...),
		}, ""},
		"logarithms": {[]made{
			std("age", 0), num("income", math.Log1p), std("grade", 0), std("savings", 0), raw("known"), hot("sex", "F", "M"),
			hot("home", home...), hot("job", job...),
		}, ""},
		"clipped": {[]made{
			std("age", 0), num("income", clipped(column("income"))), std("grade", 0), std("savings", 0), raw("known"),
			hot("sex", "F", "M"), hot("home", home...), hot("job", job...),
		}, ""},
		"five bins of equal size": {[]made{
			std("age", 0), bin("income", column("income").percentile, 5), std("grade", 0), std("savings", 0), raw("known"),
			hot("sex", "F", "M"), hot("home", home...), hot("job", job...),
		}, ""},
		"the first value has no input": {[]made{
			std("age", 0), std("income", 0), std("grade", 0), std("savings", 0), raw("known"), hot("sex", "M"),
			hot("home", home[1:]...), hot("job", job...),
		}, ""},
		"the place of a value": {[]made{
			std("age", 0), std("income", 0), std("grade", 0), std("savings", 0), raw("known"), hot("sex", "M"),
			num("home", nil), hot("job", job...),
		}, ""},
		"not to be found": {[]made{
			scale("age", 7), num("income", math.Cbrt), std("grade", 0), num("savings", math.Sin), raw("known"), hot("sex", "M"),
			hot("home", "own", "rent", "other", "family"), hot("job", job...),
		}, "no layout"},
	} {
		for i := range c.made {
			if m := &c.made[i]; name == "the place of a value" && m.column == "home" {
				m.of = func(s string) []float32 { return []float32{float32(slices.Index(home, s))} }
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkSearch(t, table, text, rows, c.made, c.open)
		})
	}
}

func checkSearch(t *testing.T, table *Table, text string, rows [][]string, by []made, open string) {
	t.Helper()
	var x []float32
	inputs := 0
	for _, rec := range rows {
		before := len(x)
		for _, m := range by {
			x = append(x, m.of(rec[slices.Index(table.Names, m.column)])...)
		}
		inputs = len(x) - before
	}
	model := net(3, inputs, 2)
	logits, classes, _ := model(t.Context(), x)
	s := &Scores{Columns: 1, Probabilities: true}
	got, err := s.predicted(logits, classes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		s.Rows, s.Values = append(s.Rows, i), append(s.Values, math.Round(got[i]*1e7)/1e7)
	}
	o := Options{Label: "outcome", Favourable: "yes", Inputs: inputs}
	if o.Found, err = Search(t.Context(), table, o, rows[:100], s, inputs, model); err != nil {
		t.Fatal(err)
	}
	p := draft(t, table, o)
	if open != "" {
		if !slices.ContainsFunc(p.Questions, func(q Question) bool { return strings.Contains(q.Text, open) }) {
			t.Fatalf("%q is no question: %+v\n%+v", open, p.Questions, o.Found)
		}
		return
	}
	if len(p.Questions) != 1 { // the class index
		t.Fatalf("%+v\n%+v", p.Questions, o.Found)
	}
	people, err := task.Read(t.Context(), write(t, "data.csv", text), p.Task, task.ReadOptions{})
	if err != nil || people.Failed > 0 {
		t.Fatalf("%v, %+v", err, people)
	}
	for i, v := range modelInputs(p.Task, people.X) {
		if d := math.Abs(float64(v - x[i])); d > 2e-4*max(1, math.Abs(float64(v))) {
			t.Fatalf("row %d: input %d is %v, want %v\n%v", i/inputs, i%inputs, v, x[i], o.Found.Layout)
		}
	}
	if logits, classes, err = model(t.Context(), modelInputs(p.Task, people.X)); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(s, p.Task, people, logits, classes)
	if err != nil || !v.Verified() || v.Rows != 100 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A column that the model does not see is found out; a search with a model that fails, or that no layout fits, says so.
func TestSearchWithout(t *testing.T) {
	t.Parallel()
	text, rows := town(200)
	table := open(t, text)
	find := func(o Options, inputs int, model Model, scores []float64) (*Found, error) {
		s := &Scores{Columns: 1, Probabilities: true, Values: scores}
		for i := range scores {
			s.Rows = append(s.Rows, i)
		}
		return Search(t.Context(), table, o, rows[:len(scores)], s, inputs, model)
	}
	o := Options{Label: "outcome"}
	raw := func(_ context.Context, x []float32) (out []float32, _ int, err error) { // sees age, known and savings
		for row := range slices.Chunk(x, 3) {
			out = append(out, row[0]/40-row[1]*2+row[2]/900)
		}
		return out, 1, nil
	}
	var scores []float64
	for _, rec := range rows[:60] {
		age, _ := task.Number(rec[0])
		savings, _ := task.Number(rec[6])
		known, _ := task.Number(rec[7])
		scores = append(scores, 1/(1+math.Exp(-(age/40-known*2+savings/900))))
	}
	o.Features = []string{"age", "savings", "known"}
	f, err := find(o, 3, raw, scores)
	if err != nil || f.Encoding == nil || f.Encoding.Inputs[0].Column != "age" || f.Encoding.Inputs[1].Column != "known" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err = find(o, 200, raw, scores); err == nil || !strings.Contains(err.Error(), "makes 200 inputs") {
		t.Errorf("200 inputs: %v", err)
	}
	if _, err = find(o, 3, raw, scores[:10]); err == nil || !strings.Contains(err.Error(), "want 20 or more") {
		t.Errorf("ten scores: %v", err)
	}
	o.Features = []string{"age", "savings", "age"}
	if _, err = find(o, 3, raw, scores); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("a column named twice: %v", err)
	}
	o.Features = nil
	failing := func(context.Context, []float32) ([]float32, int, error) { return nil, 0, fmt.Errorf("no such row") }
	if f, err = find(o, 3, failing, scores); err != nil || f.Encoding != nil || f.Differ != 60 {
		t.Errorf("a model that fails: %+v, %v", f, err)
	}
}
