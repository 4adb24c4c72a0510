package recourse

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
)

func TestTeacherFeasible(t *testing.T) {
	t.Parallel()
	tk, a := adultTask(t)
	rng := rand.New(rand.NewPCG(8, 9))
	x := randomPeople(rng, tk, 400)
	m := newMLP(rng, -0.5, tk.Dim(), 8, 1)
	before := must.Get(m.Margins(t.Context(), x))(t)
	valids := map[string]int{}
	for name, o := range map[string]TeacherOptions{
		"reach":   {},
		"margin":  {Margin: 0.5, Steps: 5},
		"relaxed": {StepSize: 0.5},
		"plain":   {Plain: true},
	} {
		d := must.Get(Teacher(t.Context(), m, a, x, o))(t)
		points := make([]float32, len(x))
		Point(points, x, d)
		after := must.Get(m.Margins(t.Context(), points))(t)
		for i := range after {
			r := row(d, i, a.Dim())
			must.Do(must.In(t, name), a.Check(row(x, i, a.Dim()), r))
			if !o.Plain && valid(before[i], float32(o.Margin)) && a.Changed(r) > 0 {
				t.Errorf("%s: person %d reaches the margin already but is moved", name, i)
			}
			if before[i] <= 0 && after[i] > 0 {
				valids[name]++
			}
		}
	}
	if valids["reach"] < valids["relaxed"] || valids["reach"] < valids["plain"] || valids["reach"] == 0 {
		t.Errorf("valid actions %v: the default is not the best", valids)
	}
}

// Only a switch of the group helps. Plain projected gradient descent with short steps never makes it; a relaxed
// iterate does.
func TestRelaxedIterateSwitches(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := compile(t, taskOf(0, oneHot("job", "a", "b", "c")))
	m := &affine{w: []float64{-1, 1.5, 0.5}, b: -0.5}
	x := []float32{1, 0, 0}
	want := []float32{-1, 1, 0}
	d := must.Get(Teacher(ctx, m, a, x, TeacherOptions{Plain: true, StepSize: 0.25, Steps: 100}))(t)
	if a.Changed(d) > 0 {
		t.Errorf("plain teacher switched: %v", d)
	}
	for name, o := range map[string]TeacherOptions{"reach": {}, "relaxed": {StepSize: 0.25, Steps: 10}} {
		d = must.Get(Teacher(ctx, m, a, x, o))(t)
		must.Same(must.In(t, name), want, d)
	}
	acts := must.Get(FirstValid(ctx, m, a, x, SolveOptions{}))(t)
	if act := acts[0]; act.Status != Found || !slices.Equal(act.Delta, want) || act.Margin != 1 {
		t.Errorf("first valid: %+v, want the switch to b", act)
	}
}

func TestFirstValidIsGradientDescent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := compile(t, taskOf(0, feature("a", "numeric"), feature("b", "numeric")))
	m := &affine{w: []float64{1, -0.5}, b: -2}
	const margin = 0.3
	x := []float32{0.5, 0.25, 9, 0}
	acts := must.Get(FirstValid(ctx, m, a, x, SolveOptions{Margin: margin}))(t)
	checkActions(t, m, a, x, acts, margin)
	must.Same(t, AlreadyFavourable, acts[1].Status)
	d := [2]float64{}
	value := func() float64 { return 0.5 + d[0] - 0.5*(0.25+d[1]) - 2 }
	for value() < margin {
		s := 0.2 / (1 + math.Exp(value())) // minus the loss gradient is sigmoid(-margin) w
		d[0] += s
		d[1] -= 0.5 * s
	}
	for j, want := range d {
		must.Near(must.In(t, j), want, float64(acts[0].Delta[j]), 1e-5)
	}
	// Too far for the steps, no action.
	acts = must.Get(FirstValid(ctx, m, a, x, SolveOptions{Margin: 100}))(t)
	if acts[0].Status != NoneFound || acts[0].Cost != 0 {
		t.Errorf("after all steps: %+v", acts[0])
	}
}
