package recourse

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
)

func someNets(rng *rand.Rand, dim, n int, spread float32) []Model {
	var out []Model
	for range n {
		base := newMLP(rand.New(rand.NewPCG(1, 1)), -0.5, dim, 8, 1)
		for _, w := range base.w {
			for i := range w {
				w[i] += spread * float32(rng.NormFloat64())
			}
		}
		out = append(out, base)
	}
	return out
}

// The margin is the least of all models', the gradients are that model's.
func TestWorstIsTheMinimum(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 3))
	tk := smallTask(rng, 0)
	x := randomPeople(rng, tk, 500)
	models := someNets(rng, tk.Dim(), 5, 0.3)
	w := Worst(models...)
	margins := must.Get(w.Margins(t.Context(), x))(t)
	used := map[int]bool{}
	for _, of := range []func(Model, context.Context, []float32) (m, g []float32, err error){
		Model.MarginGrads, Model.LossGrads,
	} {
		again, grads, err := of(w, t.Context(), x)
		must.Do(t, err)
		for i, got := range margins {
			px := row(x, i, tk.Dim())
			least, pick := math.Inf(1), -1
			for k, m := range models {
				if v := marginOf(t, m, px); v < least {
					least, pick = v, k
				}
			}
			used[pick] = true
			_, g, err := of(models[pick], t.Context(), px)
			must.Do(t, err)
			if float64(got) != least || float64(again[i]) != least || !slices.Equal(g, row(grads, i, tk.Dim())) {
				t.Fatalf("row %d: margins %v and %v or the gradient are not those of model %d, %v", i, got, again[i], pick, least)
			}
		}
	}
	must.Same(t, len(models), len(used))
}

// What the solvers find for the worst of several models, each of them accepts, and it costs at least what one alone
// asks for.
func TestWorstIsAcceptedByAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 5))
	tk := smallTask(rng, 3)
	a := compile(t, tk)
	const people, margin = 30, 0.1
	x := randomPeople(rng, tk, people)
	models := someNets(rng, tk.Dim(), 6, 0.1)
	w := Worst(models...)
	first := must.Get(FirstValid(t.Context(), w, a, x, SolveOptions{Margin: margin}))(t)
	robust, alone := solved(t, w, a, x, margin), solved(t, models[0], a, x, margin)
	for name, acts := range map[string][]Action{"first": first, "solved": robust} {
		found := 0
		for i, act := range acts {
			if act.Status != Found {
				continue
			}
			found++
			for k, m := range models {
				if v := marginOf(t, m, act.Point); v < margin {
					t.Errorf("%s: person %d: model %d has the margin %v", name, i, k, v)
				}
			}
		}
		if found < people/10 {
			t.Errorf("%s: only %d actions", name, found)
		}
	}
	more := 0.0
	for i, act := range robust {
		if act.Status == Found && alone[i].Status == Found {
			more += act.Cost - alone[i].Cost
		}
	}
	if more <= 0 {
		t.Errorf("actions for six models cost %v more than for one of them", more)
	}
	// Of two lines that cross, the cheapest action is where both are positive.
	lines := Worst(&affine{w: []float64{1, 0}, b: -1}, &affine{w: []float64{0, 2}, b: -3})
	act := solved(t, lines, compile(t, numbers(2)), []float32{0, 0}, 0)[0]
	if d := act.Delta; math.Abs(float64(d[0])-1) > 1e-3 || math.Abs(float64(d[1])-1.5) > 1e-3 {
		t.Errorf("%+v, want a change of 1 and 1.5", act)
	}
}

type faulty struct {
	Model
	err error
}

func (f *faulty) Margins(ctx context.Context, x []float32) ([]float32, error) {
	m, err := f.Model.Margins(ctx, x)
	if err == nil {
		m[0], err = float32(math.NaN()), f.err
	}
	return m, err
}

func TestWorstOfFaultyModels(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	good := &affine{w: []float64{1}, b: -1}
	for _, models := range [][]Model{{&faulty{Model: good}, good}, {good, &faulty{Model: good}}} {
		m, err := Worst(models...).Margins(ctx, []float32{5, 3})
		if err != nil || m[0] == m[0] || m[1] != 2 {
			t.Errorf("margins %v (%v), want NaN and 2", m, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := Worst(good, &faulty{good, broken}).MarginGrads(ctx, []float32{5}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	must.Same(t, Model(good), Worst(good))
	defer func() {
		if recover() == nil {
			t.Error("models of different sizes were taken")
		}
	}()
	Worst(good, &affine{w: []float64{1, 2}})
}
