package eval

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

// 100 people passed as 2000 when their rows were copied 20 times: bounds count IDs, and distinct rows where nobody has
// one. A person with several rows counts by the worst of them.
func TestCopiesAreNoPeople(t *testing.T) {
	t.Parallel()
	people := crowd(100, 1)
	g := original
	g.b -= 0.06
	o := Options{Margins: []float64{0.1}, Solver: recourse.SolveOptions{Workers: 1}, Seed: 2}
	once := compare(t, original, g, people, o)
	rows := make([]int, 0, 5*people.N)
	for range 5 {
		rows = append(rows, task.AllRows(people.N)...)
	}
	copied := people.Subset(rows)
	for _, i := range rows {
		copied.Content = append(copied.Content, uint64(i)+1)
	}
	copied.Others = make([][]uint64, copied.N)
	many := compare(t, original, g, copied, o)
	must.Same(t, 5*once.Margins[0].Rate("vd").Den, many.Margins[0].Rate("vd").Den)
	others := alternatives(t, many)
	if len(others) != 1 || others[0].Result.Margins[0].Rate("vd").Den != once.Margins[0].Rate("vd").Den ||
		others[0].Result.Margins[0].Estimate("crg.median").N != once.Margins[0].Estimate("crg.median").N ||
		others[0].Result.Tau01.N != once.Tau01.N || others[0].Result.Population.People != 100 {
		t.Errorf("%+v", others)
	}
	rerun := listed(t, many)
	rerun[0].Calibrated = true
	known := summarize(t, rerun, many.Settings, DataFile{})
	if both := alternatives(t, known); len(both) != 3 || both[1].Result.Population.Read != 499 ||
		both[2].Result.Population.People != 100 {
		t.Errorf("%d alternatives", len(both))
	}
	if few := alternatives(t, once); few != nil {
		t.Errorf("alternatives of distinct rows: %v", few)
	}

	// Nobody has an ID; rows that stand there again, for other promises, say nothing of their copies.
	for i := range copied.N {
		copied.IDs = append(copied.IDs, RowID+strconv.Itoa(i))
	}
	repeated := compare(t, original, g, copied, o)
	if others := alternatives(t, repeated); len(others) != 1 || others[0].Result.Population.People != 100 {
		t.Errorf("with rows that are repeated: %+v", others)
	}
	// Scores, and the balanced accuracy, count people too.
	same := others[0].Result
	if a, b := same.Estimate("balanced_accuracy"), once.Estimate("balanced_accuracy"); a != b {
		t.Errorf("balanced accuracy: %+v, want %+v", a, b)
	}
	if a, b := same.Estimate("auc_full"), once.Estimate("auc_full"); a.N != b.N {
		t.Errorf("AUC of %d people, want %d", a.N, b.N)
	}

	// With IDs there is no doubt: ten rows of ten people, of whom one has one broken promise, are ten people.
	records := make([]Record, 100)
	for i := range records {
		p := Promise{Status: recourse.Found, Own: 1, Other: 1, Cost: 1}
		if i == 37 {
			p.Other = -1
		}
		records[i] = Record{
			ID: strconv.Itoa(i / 10), Label: 1, Full: -1, Quant: -1, Evaluated: true,
			Steps: []Step{{Full: p, Quant: none(recourse.NoneFound), DirSim: undefined(), Overlap: undefined()}},
			First: none(recourse.NoneFound), RowData: RowData{Hash: 1},
		}
	}
	r := summarize(t, records, Settings{Margins: []float64{0.1}, Confidence: 0.95, OneSided: true}, DataFile{})
	if vd := r.Margins[0].Rate("vd"); vd.Den != 10 || vd.Num != 1 ||
		r.Margins[0].Estimate("margin_error.max").Value != 2 || alternatives(t, r) != nil || r.Tau01.N > 10 {
		t.Errorf("%+v, %+v", r.Margins[0].Rate("vd"), r.Tau01)
	}
}

// Of several promises to a person the one with the least margin counts, the first of equals, wherever it stands.
func TestWorstPromise(t *testing.T) {
	t.Parallel()
	records := []*Record{{Evaluated: true}} // without steps
	for i, other := range []Float{3, 1, 2, 1} {
		p := Promise{Status: recourse.Found, Cost: Float(i), Other: other}
		records = append(records, &Record{Evaluated: true, Steps: []Step{{}, {Full: p, Quant: p}}})
	}
	if p := worstPromise(records, 1, &Settings{}, false); p == nil || p.Cost != 1 {
		t.Errorf("the worst promise is %+v", p)
	}
	if p := worstPromise(records, 2, &Settings{}, false); p != nil {
		t.Errorf("there is no step, but the promise %+v", p)
	}
}

func alternatives(t testing.TB, r *Result) []Scenario {
	t.Helper()
	return must.Get(r.Alternatives(nil))(t)
}

func TestSeveralPointsOfAPerson(t *testing.T) {
	t.Parallel()
	step := func(other Float, eps Float) Step {
		p := Promise{Status: recourse.Found, Own: 1, Other: other, Cost: 1}
		return Step{Full: p, Quant: Promise{Status: recourse.AlreadyFavourable}, Perturbed: []Float{eps, eps, eps}}
	}
	var records []Record
	for i := range 80 { // 40 people: the smaller margin under g is not where the models differ most
		r := Record{Person: i, Row: i, ID: strconv.Itoa(i / 2), Label: -1, Full: -1, Quant: 1, Evaluated: true}
		r.Steps = []Step{step(0.5, 0.1)}
		if i%2 == 1 {
			r.Steps = []Step{step(0.9, 3)}
		}
		records = append(records, r)
	}
	r := summarize(t, records, Settings{Margins: []float64{0.1}, Confidence: 0.95}, DataFile{})
	a := r.Margins[0]
	if p95 := a.Estimate("perturbation.point.p95"); p95.N != 40 || p95.Value != 3 ||
		a.Rate("perturbation.point.safe").Num != 0 {
		t.Errorf("%+v", a.Values)
	}
	said := strings.Join(r.Warnings, "\n")
	if a.Of("crg.free").N != 40 || !strings.Contains(said, "40 of the 40 evaluated people") {
		t.Errorf("%d, %q", a.Of("crg.free").N, said)
	}
}

func TestSeveralSamples(t *testing.T) {
	s := Settings{Margins: []float64{0}, Confidence: 0.95, Sample: 1, Seed: 3}
	x := [][]float32{{1}, {2}}
	slices.SortFunc(x, func(a, b []float32) int { return cmp.Compare(priority(s.Seed, a), priority(s.Seed, b)) })
	for chosen, want := range []error{nil, ErrSamples} {
		r := NewRecords(s.Margins, nil)
		for i := range x {
			one := Layout{Margins: []float64{0}}.Blank()
			one.X, one.Full, one.Quant, one.Evaluated = x[i], -1, -1, i == chosen
			one.Settle()
			must.Do(t, r.Add(&one))
		}
		_, err := Summarize(r, s, DataFile{}, nil)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func TestRowsOfOnePerson(t *testing.T) {
	s := Settings{Margins: []float64{0}, Confidence: 0.95, Issued: true}
	for _, issued := range []bool{false, true} {
		r := NewRecords(s.Margins, nil)
		for range 2 {
			one := Layout{Margins: []float64{0}}.Blank()
			one.ID, one.Hash, one.X, one.Full, one.Quant, one.Label = "a", 7, []float32{1}, -1, -1, 1
			if issued {
				one.Issued = &Promise{Status: recourse.Found, Own: 1, Other: 1, Point: []float32{2}}
			}
			one.Settle()
			must.Do(t, r.Add(&one))
		}
		got := must.Get(Summarize(r, s, DataFile{}, nil))(t)
		if n, want := got.Population.UnlabelledRows.Den, 2-count(issued); n != want {
			t.Errorf("%d rows, want %d (promises: %v)", n, want, issued)
		}
	}
}

func TestDrawCopies(t *testing.T) {
	r := NewRecords([]float64{0}, nil)
	for i := range 1000 {
		one := Layout{Margins: []float64{0}}.Blank()
		one.X, one.Full, one.Quant = []float32{float32(i % 2)}, -1, Float(i)
		must.Do(t, r.Add(&one))
	}
	drawn := must.Get(r.Draw(30, 1, func(*Record) bool { return true }))(t)
	must.Same(t, 30, len(drawn))
}
