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

func TestWorstIsTheMinimum(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(2, 3))
	tk := smallTask(rng, 0)
	const people = 500
	x := randomPeople(rng, tk, people)
	models := someNets(rng, tk.Dim(), 5, 0.3)
	w := Worst(models...)
	margins := must.Get(w.Margins(ctx, x))(t)
	gm, grads, err := w.MarginGrads(ctx, x)
	must.Do(t, err)
	lm, loss, err := w.LossGrads(ctx, x)
	must.Do(t, err)
	used := map[int]bool{}
	for i := range people {
		px := row(x, i, tk.Dim())
		least, pick := float32(math.Inf(1)), -1
		for k, m := range models {
			v := must.Get(m.Margins(ctx, px))(t)
			if v[0] < least {
				least, pick = v[0], k
			}
		}
		used[pick] = true
		_, g, err := models[pick].MarginGrads(ctx, px)
		must.Do(t, err)
		_, l, err := models[pick].LossGrads(ctx, px)
		must.Do(t, err)
		if margins[i] != least || gm[i] != least || lm[i] != least {
			t.Fatalf("row %d: margins %v, %v, %v, the least is %v", i, margins[i], gm[i], lm[i], least)
		}
		if !slices.Equal(g, row(grads, i, tk.Dim())) || !slices.Equal(l, row(loss, i, tk.Dim())) {
			t.Fatalf("row %d: the gradients are not those of model %d", i, pick)
		}
	}
	if len(used) != len(models) {
		t.Errorf("only models %v are ever the least", used)
	}
}

func TestWorstIsAcceptedByAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(4, 5))
	tk := smallTask(rng, 3)
	a := compile(t, tk)
	const people, margin = 100, 0.1
	x := randomPeople(rng, tk, people)
	models := someNets(rng, tk.Dim(), 6, 0.1)
	w := Worst(models...)
	first := must.Get(FirstValid(ctx, w, a, x, FirstValidOptions{Margin: margin}))(t)
	solved := must.Get(Solve(ctx, w, a, x, SolveOptions{Margin: margin}))(t)
	for name, acts := range map[string][]Action{"first": first, "solved": solved} {
		checkActions(t, w, a, x, acts, margin)
		found := 0
		for i, act := range acts {
			if act.Status != Found {
				continue
			}
			found++
			for k, m := range models {
				if v, err := m.Margins(ctx, act.Point); err != nil || v[0] < margin {
					t.Errorf("%s: person %d: model %d has the margin %v (%v)", name, i, k, v, err)
				}
			}
		}
		if found < people/10 {
			t.Errorf("%s: only %d actions", name, found)
		}
	}
	alone := must.Get(Solve(ctx, models[0], a, x, SolveOptions{Margin: margin}))(t)
	var robust, nominal float64
	for i, act := range solved {
		if act.Status == Found && alone[i].Status == Found {
			robust, nominal = robust+act.Cost, nominal+alone[i].Cost
		}
	}
	if robust <= nominal {
		t.Errorf("actions for six models cost %v, for one of them %v", robust, nominal)
	}
}

func TestWorstOfTwoLines(t *testing.T) {
	t.Parallel()
	a := compile(t, taskOf(0, feature("a", "numeric"), feature("b", "numeric")))
	m := Worst(&affine{w: []float64{1, 0}, b: -1}, &affine{w: []float64{0, 2}, b: -3})
	acts := must.Get(Solve(context.Background(), m, a, []float32{0, 0}, SolveOptions{}))(t)
	if d := acts[0].Delta; acts[0].Status != Found || math.Abs(float64(d[0])-1) > 1e-3 ||
		math.Abs(float64(d[1])-1.5) > 1e-3 {
		t.Errorf("%+v, want a change of 1 and 1.5", acts[0])
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
	ctx := context.Background()
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
	if Worst(good) != Model(good) {
		t.Error("the worst of one model is another")
	}
	defer func() {
		if recover() == nil {
			t.Error("models of different sizes were taken")
		}
	}()
	Worst(good, &affine{w: []float64{1, 2}})
}
