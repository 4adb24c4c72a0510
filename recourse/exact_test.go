package recourse

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/task"
)

// Network makes the test's logistic regression known as one.
func (f *affine) Network(context.Context) (rows [][]float64, bias []float64, units int, why string, err error) {
	var w []float64
	for _, v := range f.w {
		w = append(w, float64(float32(v)))
	}
	return [][]float64{w}, []float64{f.b}, 0, "", nil
}

type plain struct{ Model }

// drawAffine keeps slopes away from 0, where float32 weights make a difference in cost.
func drawAffine(rng *rand.Rand, dim int, b float64) *affine {
	f := &affine{b: b}
	for range dim {
		v := rng.NormFloat64()
		f.w = append(f.w, v+math.Copysign(0.2, v))
	}
	return f
}

func TestExactAgainstEnumeration(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		norm := rapid.SampledFrom([]task.Norm{task.L1, task.L2}).Draw(rt, "norm")
		seed := rapid.Uint64Range(0, 1<<40).Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 7))
		tk := smallTask(rng, rapid.IntRange(0, 4).Draw(rt, "limit"))
		tk.Cost.Norm = norm
		a := compile(t, tk)
		x := randomPeople(rng, tk, 2)
		margin := rapid.SampledFrom([]float64{0, 0.1, 2}).Draw(rt, "margin")
		line := drawAffine(rng, tk.Dim(), -1.5)
		var least [2]float64
		for k, c := range []struct {
			m      Model
			method Method
		}{{line, Affine}, {plain{line}, Exhaustive}, {newMLP(rng, -1.5, tk.Dim(), 16, 8, 1), Exhaustive}} {
			acts, methods, err := Exact(ctx, c.m, a, x, ExactOptions{Margin: margin})
			must.Do(rt, err)
			checkActions(t, c.m, a, x, acts, margin)
			for i, act := range acts {
				if act.Status == AlreadyFavourable {
					if methods[i] != NotNeeded {
						rt.Errorf("method %q for nothing", methods[i])
					}
					continue
				}
				best := least[i] // of the same model as before
				if k != 1 {
					best = exact(t, c.m, tk, a, row(x, i, a.Dim()), float32(margin+1e-5*(1+margin)))
					least[i] = best
				}
				want := Found
				if math.IsInf(best, 1) {
					want, best = NoneExists, 0
				}
				if methods[i] != c.method || act.Status != want || math.Abs(act.Cost-best) > 1e-6*best {
					rt.Errorf("%s, person %d: %v at %.9g by %q, want %v at %.9g by %q", norm, i, act.Status, act.Cost, methods[i],
						want, best, c.method)
				}
			}
		}
	})
}

func TestExactJoint(t *testing.T) {
	t.Parallel()
	for _, norm := range []task.Norm{task.L1, task.L2, task.Mixed} {
		t.Run(string(norm), func(t *testing.T) {
			found, none := 0, 0
			for seed := range uint64(8) {
				rng := rand.New(rand.NewPCG(seed, 9))
				tk := jointTask(rng, norm, 1+int(seed%4))
				a := compile(t, tk)
				x := jointPeople(rng, tk, 6)
				line, linear := drawAffine(rng, tk.Dim(), -1.2), Affine
				if norm == task.Mixed {
					linear = Exhaustive // its terms do not add up
				}
				var least [6]float64
				for k, c := range []struct {
					m      Model
					method Method
				}{{line, linear}, {plain{line}, Exhaustive}, {newMLP(rng, -0.8, tk.Dim(), 12, 1), Exhaustive}} {
					acts, methods, err := Exact(context.Background(), c.m, a, x, ExactOptions{Margin: 0.1})
					must.Do(t, err)
					checkActions(t, c.m, a, x, acts, 0.1)
					for i, act := range acts {
						if act.Status == AlreadyFavourable {
							continue
						}
						best := least[i] // of the same model as before
						if k != 1 {
							best, _ = cheapestOf(t, c.m, a, row(x, i, a.Dim()), 0.1+1.1e-5)
							least[i] = best
						}
						want := Found
						if math.IsInf(best, 1) {
							want, best = NoneExists, 0
							none++
						} else {
							found++
						}
						if methods[i] != c.method || act.Status != want || math.Abs(act.Cost-best) > 2e-6*best {
							t.Errorf("seed %d, person %d: %v at %.9g by %q, want %v at %.9g by %q", seed, i, act.Status, act.Cost,
								methods[i], want, best, c.method)
						}
					}
				}
			}
			if found < 25 || none < 5 {
				t.Errorf("%d found, %d without", found, none)
			}
		})
	}
}

func TestExactIsDeterministic(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(5, 6))
	tk := smallTask(rng, 3)
	a := compile(t, tk)
	x := randomPeople(rng, tk, 60)
	for _, m := range []Model{newMLP(rng, -2, tk.Dim(), 16, 8, 1), drawAffine(rng, tk.Dim(), -2)} {
		want, _, err := Exact(ctx, m, a, x, ExactOptions{Margin: 0.1, Workers: 1})
		must.Do(t, err)
		last := 0
		got, _, err := Exact(ctx, m, a, x, ExactOptions{
			Margin: 0.1, Workers: 2,
			Progress: func(done, total int) { last = done },
		})
		if err != nil || last != 60 {
			t.Fatalf("%v after %d", err, last)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("result depends on workers:\n%s", d)
		}
		for i := range 20 {
			alone, _, err := Exact(ctx, m, a, row(x, i, a.Dim()), ExactOptions{Margin: 0.1})
			must.Do(t, err)
			if d := cmp.Diff(want[i], alone[0]); d != "" {
				t.Errorf("result depends on company:\n%s", d)
			}
		}
	}
}

func TestExactSaysWhyNot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tk := taskOf(0, feature("income", "numeric"), feature("debt", "numeric"), oneHot("job", "p", "q"))
	a := compile(t, tk)
	m := drawAffine(rand.New(rand.NewPCG(1, 1)), 4, -1)
	_, _, err := Exact(ctx, plain{m}, a, make([]float32, 4), ExactOptions{})
	if !errors.Is(err, ErrNotExact) || !strings.Contains(err.Error(), `"income", "debt"`) ||
		strings.Contains(err.Error(), "job") {
		t.Errorf("error %v", err)
	}
	tk.Cost.Norm, tk.Cost.L1Ratio = task.Mixed, 0.5
	_, _, err = Exact(ctx, m, compile(t, tk), make([]float32, 4), ExactOptions{}) // an affine model
	if !errors.Is(err, ErrNotExact) || !strings.Contains(err.Error(), "mixed cost") {
		t.Errorf("mixed: error %v", err)
	}
	tk.Cost.Switches = task.Encoded
	if _, _, err = Exact(ctx, m, compile(t, tk), make([]float32, 4), ExactOptions{}); !errors.Is(err, ErrNotExact) {
		t.Errorf("mixed, encoded: error %v", err)
	}
	if _, _, err := Exact(ctx, m, a, make([]float32, 4), ExactOptions{Margin: math.NaN()}); err == nil {
		t.Error("NaN margin accepted")
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Exact(ctx, m, a, make([]float32, 4), ExactOptions{}); err == nil {
		t.Error("cancelled search returned no error")
	}
}
