package promise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// linear has the margin w x + b. Solve asks for no gradients of losses.
type linear struct {
	recourse.Model
	w []float32
	b float32
}

func (m linear) Dim() int { return len(m.w) }

func (m linear) Margins(_ context.Context, x []float32) ([]float32, error) {
	out := make([]float32, len(x)/len(m.w))
	for i := range out {
		out[i] = m.b
		for j, w := range m.w {
			out[i] += w * x[i*len(m.w)+j]
		}
	}
	return out, nil
}

func (m linear) MarginGrads(ctx context.Context, x []float32) (margins, g []float32, err error) {
	margins, err = m.Margins(ctx, x)
	return margins, slices.Repeat(m.w, len(margins)), err
}

const jobs = `version: 1
data: {label: status, favourable: "1", missing: "?"}
features:
  - {name: age, kind: numeric, mean: 38.58, std: 13.64, actionable: false}
  - {name: hours, column: hours-per-week, kind: numeric, mean: 40.437, std: 12.347,
     bounds: [1, 80], step: 1, max_increase: 20}
  - {name: gain, kind: numeric, mean: 1077.6, std: 7385.3, bounds: [0, 99999]}
  - {name: work, kind: onehot, values: [Private, "State, gov", self], transitions: {Private: ["State, gov"]}}
  - {name: member, kind: binary, one: "yes"}
`

func parse(t testing.TB, text string) (*task.Task, *constraint.Set) {
	t.Helper()
	tk := must.Get(task.Parse("test.yaml", []byte(text)))(t)
	set := must.Get(constraint.Compile(tk))(t)
	return tk, set
}

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "promises.csv")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func people(t testing.TB, tk *task.Task, text string) *task.People {
	t.Helper()
	return must.Get(task.ReadFrom(t.Context(), strings.NewReader(text), tk, task.ReadOptions{}))(t)
}

// written is the file that people are told lines by.
func written(tk *task.Task, lines ...Line) (string, error) {
	var b strings.Builder
	w, err := NewWriter(&b, tk)
	for _, l := range lines {
		err = errors.Join(err, w.Write(l))
	}
	err = errors.Join(err, w.Flush())
	return b.String(), err
}

// found tells the person x of a point.
func found(x, point []float32) Line {
	return Line{X: x, Action: recourse.Action{Status: recourse.Found, Point: point}}
}

const fourPeople = `age,hours-per-week,gain,work,member,status
30,40,0,Private,no,0
41,38,1000,self,yes,0
52,20,12.5,?,no,1
63,60,0,"State, gov",no,0
`

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	tk, set := parse(t, jobs)
	p := people(t, tk, fourPeople)
	point := people(t, tk, "age,hours-per-week,gain,work,member,status\n30,45,0,\"State, gov\",no,0\n").X
	d := p.Dim
	var lines []Line
	methods := []recourse.Method{recourse.Exhaustive, recourse.Search, recourse.NotNeeded, recourse.Tree}
	for i, a := range []recourse.Action{
		{Status: recourse.Found, Point: point, Cost: 1.25, Margin: 0.5},
		{Status: recourse.NoneFound},
		{Status: recourse.AlreadyFavourable},
		{Status: recourse.NoneExists},
	} {
		l := Line{
			Row: p.Rows[i], Line: p.Lines[i], Before: float64(i) - 1.5, X: p.X[i*d : (i+1)*d], Action: a,
			Method: methods[i],
		}
		if a.Status == recourse.Found {
			l.Changes = set.Changes(l.X, a.Point)
		}
		lines = append(lines, l)
	}
	text := must.Get(written(tk, lines...))(t)
	// The label of the task is called status, so the file's own column is not.
	want := `row,line,promise.status,method,cost,margin,before,action,age,hours-per-week,gain,work,member
0,2,found,exhaustive,1.25,0.5,-1.5,"hours 40 -> 45; work Private -> State, gov",30,45,0,"State, gov",not yes
1,3,none found,search,,,-0.5,,41,38,1000,self,yes
2,4,already favourable,,0,0.5,0.5,,52,20,12.5,,not yes
3,5,none exists,branch and bound,,,1.5,,63,60,0,"State, gov",not yes
`
	must.Same(t, want, text)
	f := must.Get(Read(t.Context(), file(t, text), tk, p))(t)
	if len(f.Promises) != 1 || f.Failed+f.Missing+f.Factual+len(f.Notes) > 0 ||
		!cmp.Equal(f.Unpromised, map[recourse.Status]int{
			recourse.NoneFound: 1, recourse.AlreadyFavourable: 1,
			recourse.NoneExists: 1,
		}) {
		t.Fatalf("%+v", f)
	}
	must.Same(t, Promise{Person: 0, Line: 2, Point: point, Cost: 1.25, Margin: 0.5, Before: -1.5}, f.Promises[0])
	again := people(t, tk, text) // the file is a data file, too
	if !slices.Equal(again.X[:d], point) || !slices.Equal(again.X[d:], p.X[d:]) {
		t.Errorf("as data: %v", again.X)
	}
}

func TestSolvedPromisesComeBack(t *testing.T) {
	t.Parallel()
	paths, _ := filepath.Glob(filepath.Join("..", "..", "reproduce", "testdata", "tasks", "*.yaml"))
	rich := filepath.Join(t.TempDir(), "rich.yaml")
	must.Do(t, os.WriteFile(rich, []byte(richTask), 0o600))
	paths = append(paths, filepath.Join("..", "..", "testdata", "loans", "task.yaml"), rich)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tk := must.Get(task.Load(path))(t)
			set := must.Get(constraint.Compile(tk))(t)
			p := invent(t, tk, 25)
			m := linear{w: make([]float32, p.Dim), b: -1.3}
			for j := range m.w {
				m.w[j] = float32(math.Sin(float64(3*j + 1)))
			}
			solver := Solver{Model: m, Options: recourse.SolveOptions{Margin: 0.25, Workers: 1}}
			answers := must.Get(solver.Solve(t.Context(), set, p, func(_, _ int) {}))(t)
			var lines []Line
			promised := 0
			size := 1.0 // files have margins as float32
			for _, a := range answers {
				if a.Action.Status == recourse.Found {
					promised++
				}
				size = max(size, math.Abs(a.Before))
				lines = append(lines, a.Line)
			}
			text := must.Get(written(tk, lines...))(t)
			f := must.Get(Read(t.Context(), file(t, text), tk, p))(t)
			if strings.HasPrefix(filepath.Base(path), "rich") && !strings.Contains(text, "(follows)") {
				t.Errorf("nothing follows from anything:\n%s", text)
			}
			if promised == 0 || len(f.Promises) != promised || f.Failed+f.Missing > 0 {
				t.Fatalf("%d of %d promises read: %v", len(f.Promises), promised, f.Problems)
			}
			verdicts := must.Get(Judge(t.Context(), m, set, f))(t)
			for i := range f.Promises {
				q := &f.Promises[i]
				a := answers[q.Person].Action
				must.Same(t, a.Point, q.Point)
				if v := verdicts[i]; len(v.Broken) > 0 || v.Margin != a.Margin || math.Abs(v.Cost-a.Cost) > 1e-6*a.Cost ||
					!v.Valid(0.25) {
					t.Errorf("person %d: verdict %+v of %+v: %v", q.Person, v, a, v.Broken)
				}
			}
			var sum Tally
			sum.Add(f, verdicts)
			if d := sum.Difference(); d > 1e-6*size {
				t.Errorf("claims differ by %v, of margins up to %v", d, size)
			}
		})
	}
}

// richTask has what the others do not: links, rules, thermometers, ordered values, another norm, and names that the
// file uses itself.
const richTask = `version: 1
data: {label: y, favourable: "1", missing: "-9"}
features:
  - {name: row, kind: numeric, mean: 40, std: 12.3, direction: increase}
  - {name: cost, kind: numeric, mean: 3.3, std: 1.7, actionable: false, bounds: [0, 100]}
  - {name: degree, kind: thermometer, values: [none, school, "a, b", phd], direction: increase}
  - {name: wealth, kind: thermometer, thresholds: [1000, 2000.5, 1e7]}
  - {name: grade, kind: onehot, values: [D, C, B, A], ordered: true, max_increase: 2}
  - {name: action, kind: binary, one: "yes", zero: "no"}
  - {name: years, kind: ordinal, values: [1, 2, 4, 8], mean: 3, std: 2.1, actionable: false}
links:
  - {from: row, to: cost, scale: 0.37}
  - {from: degree, to: years, map: {school: 2, "a, b": 4, phd: 8}}
constraints:
  - row <= 30 * cost
cost: {norm: l2}
`

func invent(t *testing.T, tk *task.Task, n int) *task.People {
	t.Helper()
	p := &task.People{Dim: tk.Dim(), N: n, X: make([]float32, n*tk.Dim())}
	for i := range n {
		p.Rows, p.Lines = append(p.Rows, 2*i), append(p.Lines, 2*i+2)
		for k := range tk.Features {
			f := &tk.Features[k]
			var raw string
			values, n, at := f.Values(), f.Number(), i*7+k*3
			switch {
			case len(values) > 0:
				raw = values[at%len(values)]
			case n == nil && f.Width > 1:
				raw = f.Category().Names()[1+at%f.Width]
			case n == nil:
				raw = f.Category().Names()[1-at%2]
			default:
				v := math.Round(n.Mean + n.Std*2*math.Sin(float64(at)))
				v = min(max(v, math.Ceil(f.Bounds[0])), math.Floor(f.Bounds[1]))
				raw = fmt.Sprint(v)
			}
			at = i*p.Dim + f.Offset
			must.Do(t, f.Encode(raw, p.X[at:at+f.Width]))
		}
	}
	return p
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		features string
		x, point []float32
		want     string
	}{
		{
			`features: [{name: age, kind: numeric}, {name: adult, column: age, kind: binary, one: "18"}]`,
			[]float32{18, 1},
			[]float32{19, 1},
			`row 7: column "age"`,
		},
		{
			"data: {missing: \"0\"}\nfeatures: [{name: debt, kind: numeric}]",
			[]float32{5},
			[]float32{0},
			"would be read as a missing value",
		},
	} {
		tk, _ := parse(t, "version: 1\n"+c.features)
		must.Get(written(tk, Line{X: c.x, Action: recourse.Action{Status: recourse.NoneFound}}))(t)
		l := found(c.x, c.point)
		l.Row = 7
		must.Fail(t, must.Err(written(tk, l)), c.want)
	}
}

func TestImputed(t *testing.T) {
	t.Parallel()
	tk, set := parse(t, `version: 1
features:
  - {name: income, kind: numeric, impute: 1250.5}
  - {name: home, kind: onehot, values: [own, rent], impute: rent}
`)
	p := people(t, tk, "income,home\n,\n900,own\n,own\n")
	var lines []Line
	for i := range p.N {
		l := Line{Row: i, X: row(p, i), Imputed: p.ImputedOf(i), Action: recourse.Action{Status: recourse.NoneFound}}
		if i == 0 {
			l.Action = recourse.Action{Status: recourse.Found, Point: []float32{2000, 0, 1}}
			l.Changes = set.Changes(l.X, l.Action.Point)
		}
		lines = append(lines, l)
	}
	text := must.Get(written(tk, lines...))(t)
	want := `row,line,status,method,cost,margin,before,action,imputed,income,home
0,,found,,0,0,0,income 1250.5 -> 2000,income; home,2000,rent
1,,none found,,,,0,,,900,own
2,,none found,,,,0,,income,1250.5,own
`
	must.Same(t, want, text)
	comesBack(t, tk, p, text, []float32{2000, 0, 1})
}

func TestEncodedTask(t *testing.T) {
	t.Parallel()
	tk, _ := parse(t, `version: 1
encoded: true
features:
  - {name: a, kind: numeric}
  - {name: c, kind: onehot, values: [x, y]}
`)
	p := &task.People{Dim: 3, N: 1, X: []float32{0.1, 1, 0}, Rows: []int{0}, Lines: []int{2}}
	point := []float32{1.0 / 3, 0, 1}
	comesBack(t, tk, p, must.Get(written(tk, found(p.X, point)))(t), point)
}

// comesBack holds the only promise of a file against a point.
func comesBack(t *testing.T, tk *task.Task, p *task.People, text string, point []float32) {
	t.Helper()
	f := must.Get(Read(t.Context(), file(t, text), tk, p))(t)
	if len(f.Promises) != 1 || !slices.Equal(f.Promises[0].Point, point) {
		t.Errorf("%+v of\n%s", f, text)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "recourse.md")))(t)
	words := append(ownColumns(), colRole, colID, factual, counterfactual, taken+colStatus)
	for _, m := range []recourse.Method{recourse.Tree, recourse.Exhaustive, recourse.Search} {
		words = append(words, string(m))
	}
	for _, s := range recourse.Statuses() {
		words = append(words, s.String())
	}
	for _, w := range words {
		must.Has(t, string(page), "`"+w+"`")
	}
}
