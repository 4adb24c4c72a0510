package ptq

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/calib"
	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/task"
)

func set(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, own ...task.Override) *calib.Set {
	t.Helper()
	r := mustRecipe("cf-ptq-calib", "allocate.rule=uniform")
	return calibrated(t, m, tk, people, r, Run{Overrides: own}).fitSet
}

func point(s *calib.Set, i int) []float32 {
	at := slices.Index(s.Source, i)
	if at < 0 {
		return nil
	}
	return s.Points()[at*s.Dim : (at+1)*s.Dim]
}

// Teacher points keep to what each person can change, whatever order the people are in; those of others stay as
// they were.
func TestTeacherKeepsToOverrides(t *testing.T) {
	t.Parallel()
	m, tk, all := loans(t, "train.csv")
	var rows []int
	for row := 199; row >= 0; row-- {
		rows = append(rows, row)
	}
	people := all.Subset(rows)
	income := slices.IndexFunc(tk.Features, func(f task.Feature) bool { return f.Name == "income" })
	f := &tk.Features[income]
	before := set(t, m, tk, people)
	raise := func(s *calib.Set, i int) float64 {
		p := point(s, i)
		if p == nil {
			return 0
		}
		return float64(p[f.Offset]-people.X[i*people.Dim+f.Offset]) * f.Number().Std
	}
	var raised []int // positions of people that the teacher gives a raise of 1000 and more
	for i := range people.N {
		if raise(before, i) >= 999 {
			raised = append(raised, i)
		}
	}
	if len(raised) < 3 {
		t.Fatalf("%d people with a raise", len(raised))
	}
	none, some := *f, *f
	none.Actionable = false
	some.MaxIncrease = 500
	own := []task.Override{
		{Row: people.Rows[raised[0]], Feature: income, With: none.Action},
		{Row: people.Rows[raised[1]], Feature: income, With: some.Action},
		{Row: 1_000_000, Feature: income, With: none.Action},
	}
	after := set(t, m, tk, people, own...)
	must.Same(t, 0, raise(after, raised[0]))
	if r := raise(after, raised[1]); r < 0 || r > 500.01 {
		t.Errorf("a raise of %v, 500 is the most", r)
	}
	for i := range people.N {
		if i != raised[0] && i != raised[1] && !slices.Equal(point(before, i), point(after, i)) {
			t.Errorf("person %d has another point", i)
		}
	}
	people.Rows = people.Rows[1:]
	_, err := Quantize(t.Context(), loaded(t, m), tk, people, mustRecipe("cf-ptq-calib"), Run{Overrides: own})
	must.Fail(t, err, "overrides are by rows")
}

func TestWhyNoRecourse(t *testing.T) {
	t.Parallel()
	m, tk, all := loans(t, "test.csv")
	people := all.Subset([]int{0, 2}) // both approved
	var unchanged []recourse.Action
	for i := range people.N {
		x := people.X[i*people.Dim : (i+1)*people.Dim]
		unchanged = append(unchanged, recourse.Action{Status: recourse.Found, Point: x, Delta: make([]float32, people.Dim)})
	}
	for want, promises := range map[string][]recourse.Action{
		"no row is refused and has recourse: ":         nil,
		"no row has a promise that changes anything: ": unchanged,
	} {
		q := calibrated(t, m, tk, people, mustRecipe(CFPTQ, "allocate.rule=uniform"), Run{Promises: promises})
		if !slices.ContainsFunc(q.warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("warnings %q, want %q", q.warnings, want)
		}
	}
}

func wide(t *testing.T) (*graph.Model, *sparse) {
	t.Helper()
	s := newSparse(1)
	g := s.model()
	s.far, s.rare = 90, 4
	change := func(name string, by func(v []float32)) {
		k := slices.IndexFunc(g.Graph.Inits, func(w *graph.Tensor) bool { return w.Name == name })
		v := must.Get(g.Graph.Inits[k].Floats())(t)
		by(v)
		g.Graph.Inits[k] = graph.FromFloats(name, v, g.Graph.Inits[k].Dims...)
	}
	first, last := g.Graph.Nodes[0], g.Graph.Nodes[len(g.Graph.Nodes)-1]
	change(first.Input(1), func(v []float32) {
		for i := range s.rare * len(v) / sparseInputs {
			v[i] /= 30 // so that they move margins as others do
		}
	})
	m := marginsOf(t, g, sparseTask(t), s.people(500).X)
	slices.Sort(m)
	change(last.Input(2), func(v []float32) { v[0] -= m[len(m)/2] })
	for _, name := range last.Inputs[1:] {
		change(name, func(v []float32) {
			for i := range v {
				v[i] *= 2.5 // steep
			}
		})
	}
	return g, s
}

// The margin error of the written model at recourse points of people held out, and where it comes from: few bits, or
// the grid of an input that spans columns of very different widths.
func TestMarginErrorHeldOut(t *testing.T) {
	t.Parallel()
	g, s := wide(t)
	m, tk, people := loaded(t, g), sparseTask(t), s.people(1500)
	two := mustRecipe(CFPTQ, "allocate.budget=2", "write.compute=float")
	grid := mustRecipe(CFPTQ, "allocate.budget=8", "write.compute=integer", "write.input=int8")
	for _, tt := range []struct {
		name              string
		o                 Recipe
		people            int
		seen              bool
		doubtful, exceeds bool
		text              string // what is to be done
	}{
		{"two bits", two, 1500, false, true, true, "try a larger --budget"},
		{"eight bits", mustRecipe(CFPTQ, "allocate.budget=8", "write.compute=float"), 1500, false, false, false, ""},
		{"the grid of the input", grid, 1500, false, true, false, "try --set write.input=float"},
		{
			"few people", two, 550, true, true, true, "recourse points of people who were calibrated on",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Calibrate.Rows, tt.o.Refine.Rounds = 500, 0
			r := must.Get(Quantize(context.Background(), m, tk, people.Subset(task.AllRows(tt.people)), tt.o, Run{}))(t)
			h := r.HeldOut
			if h.Points < minPoints || h.Required != 0.1 || h.Seen != tt.seen {
				t.Errorf("%d points, margin %v, calibrated on: %v", h.Points, h.Required, h.Seen)
			}
			if h.Doubtful() != tt.doubtful || h.Exceeds() != tt.exceeds || (h.Cause != "") != tt.doubtful ||
				tt.doubtful && !strings.Contains(h.String(), tt.text) {
				t.Error(h)
			}
			if h.Fails() != (h.PassingBudget > 2) || h.Fails() != strings.Contains(r.Advice(), " passes: ") {
				t.Errorf("%v at %g bits, %q", h.PassingRMS, h.PassingBudget, r.Advice())
			}
			if tt.seen && h.Fails() { // what is said of the budget holds
				tt.o.Allocate.Budget = h.PassingBudget
				r := must.Get(Quantize(context.Background(), m, tk, people.Subset(task.AllRows(tt.people)), tt.o, Run{}))(t)
				if r.HeldOut.Fails() {
					t.Errorf("%v, %v", r.HeldOut, r.Advice())
				}
			}
		})
	}
}

// Channels that differ too little to be equalized always, and more than in ordinary networks, are where the margin
// error at points held out is less with it.
func TestMarginErrorEqualizes(t *testing.T) {
	t.Parallel()
	g, tk, people := loans(t, "train.csv")
	settings := []string{"allocate.budget=8", "calibrate.rows=300"}
	ordinary := quantized(t, g, tk, few(people, 600), mustRecipe("ptq", settings...))
	for name, channel := range map[string]func(i int) (c, sign int){
		"layers.0.weight": func(i int) (int, int) { return i / 20, 1 },
		"layers.0.bias":   func(i int) (int, int) { return i, 1 },
		"layers.2.weight": func(i int) (int, int) { return i % 64, -1 },
	} {
		w := g.Graph.Init(name)
		v := must.Get(w.Floats())(t)
		for i := range v {
			c, sign := channel(i)
			v[i] *= float32(math.Pow(2.5, float64(sign*(1-c%2*2))))
		}
		w.Raw = graph.FromFloats("", v).Raw
	}
	r, text := roundTrip(t, g, tk, few(people, 600), mustRecipe("ptq", settings...))
	if len(ordinary.Equalized) > 0 || len(r.Equalized) == 0 || r.HeldOut.RMS > 1.2*ordinary.HeldOut.RMS {
		t.Errorf("ordinary: %q, %v; uneven: %q, %v", ordinary.Equalized, ordinary.HeldOut.RMS, r.Equalized, r.HeldOut.RMS)
	}
	again := must.Get(FromPlan(t.Context(), loaded(t, g), readPlan(t, []byte(text)), Run{}))(t)
	must.Same(t, true, bytes.Equal(r.Model, again.Model))
}

// A file that decides alike for everybody is said to have collapsed, however its margins are at recourse points. The
// branch that reads the first layer, too, keeps its channels from being equalized.
func TestCollapsed(t *testing.T) {
	t.Parallel()
	g, tk, people := loans(t, "train.csv")
	for _, name := range []string{"layers.0.weight", "layers.0.bias", "layers.2.weight"} {
		w := g.Graph.Init(name)
		v := must.Get(w.Floats())(t)
		for i := range v {
			if name == "layers.2.weight" && i%64 == 0 {
				v[i] *= 1 << 20
			} else if name != "layers.2.weight" && i < len(v)/64 {
				v[i] /= 1 << 20
			}
		}
		w.Raw = graph.FromFloats("", v).Raw
	}
	b := graph.NewBuilder(g.Graph, "side")
	out, first := &g.Graph.Outputs[0], g.Graph.Nodes[1].Outputs[0]
	side := b.Op("Gemm", []string{first, b.Const(graph.FromFloats("w", make([]float32, 128), 64, 2))})
	tanh := b.Op("Tanh", []string{b.Op("Add", []string{out.Name, side})}) // a constant does not show what it is
	out.Name = b.Op("Mul", []string{tanh, b.Const(graph.FromFloats("three", []float32{3}))})
	r := quantized(t, g, tk, few(people, 300), mustRecipe("ptq", "write.compute=integer", "allocate.budget=4"))
	if h := r.HeldOut; !h.Collapsed() || len(r.Equalized) > 0 || h.Refused[0] < 50 || h.Approved[0] < 50 {
		t.Errorf("%+v, equalized %q", h, r.Equalized)
	}
	var far, cut []float32 // a few margins are far from the others, and cut off by a grid
	for i := range 200 {
		m := float32(i-100) / 50
		if far, cut = append(far, m), append(cut, m); i > 195 {
			far[i] = 1000
		}
	}
	ok, all := [2]int{100, 90}, [2]int{100, 100}
	for _, tt := range []struct {
		a    AsTheyAre
		want string
	}{
		{AsTheyAre{Refused: ok, Approved: all, Spread: 0.9}, ""},
		{AsTheyAre{Refused: [2]int{100, 40}, Approved: all, Spread: 0.9}, "whom the original refuses, it refuses 40"},
		{AsTheyAre{Refused: all, Approved: [2]int{20, 0}, Spread: 1}, "approves, it approves 0"},
		{AsTheyAre{Refused: all, Approved: [2]int{10, 0}, Spread: 1}, ""},
		{AsTheyAre{Refused: all, Approved: all, Spread: 0.01}, "spread 0.01 times"},
		{AsTheyAre{Refused: [2]int{3, 3}, Spread: 0.01}, ""},
		{compareMargins(cut, far), ""},
		{compareMargins(make([]float32, 200), far), "of 99 people whom the original approves, it approves 0"},
	} {
		h := &HeldOut{AsTheyAre: tt.a}
		if h.Collapsed() != (tt.want != "") || h.Collapsed() && !strings.Contains(h.String(), tt.want) {
			t.Errorf("%+v: %q", tt.a, h.collapse())
		}
	}
}
