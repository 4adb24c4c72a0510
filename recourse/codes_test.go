package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/task"
)

// bounded is a network whose margin is at most what is left of a budget: the l1 norm of a linear map of the way from
// where all people are.
type bounded struct {
	*mlp
	rows   [][]float64
	budget float64
}

func (f *bounded) Limits(_ context.Context, x []float32) (left []float32, err error) {
	dim := f.Dim()
	for i := range len(x) / dim {
		left = append(left, float32(100*(1-f.used(x[i*dim:(i+1)*dim])/f.budget)))
	}
	return left, nil
}

func (f *bounded) used(z []float32) (sum float64) {
	for _, r := range f.rows {
		sum += math.Abs(dot(r, z))
	}
	return sum
}

func dot(w []float64, z []float32) (sum float64) {
	for j, v := range w {
		sum += v * float64(z[j])
	}
	return sum
}

func (f *bounded) Margins(ctx context.Context, x []float32) ([]float32, error) {
	m, _, err := f.MarginGrads(ctx, x)
	return m, err
}

func (f *bounded) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	if m, g, err = f.mlp.MarginGrads(ctx, x); err != nil {
		return nil, nil, err
	}
	left, err := f.Limits(ctx, x)
	dim := f.Dim()
	for i := range m {
		if left[i] >= m[i] {
			continue
		}
		m[i] = left[i]
		clear(g[i*dim : (i+1)*dim])
		for _, r := range f.rows {
			sign := math.Copysign(100/f.budget, -dot(r, x[i*dim:(i+1)*dim]))
			for j, v := range r {
				g[i*dim+j] += float32(sign * v)
			}
		}
	}
	return m, g, err
}

// What random codes within the limits reach, a search with limits reaches, too.
func TestCodesWithinLimits(t *testing.T) {
	t.Parallel()
	const dim, tries = 4, 4000
	for _, ball := range []bool{false, true} {
		possible, found := 0, 0
		for seed := range uint64(60) {
			rng := rand.New(rand.NewPCG(seed, 1))
			f := &bounded{mlp: newMLP(rng, -1, dim, 12, 1), budget: 2 + 4*rng.Float64()}
			for range 6 {
				r := make([]float64, dim)
				for j := range r {
					r[j] = rng.NormFloat64()
				}
				f.rows = append(f.rows, r)
			}
			var features []task.Feature
			for j := range dim {
				features = append(features, feature(string(rune('a'+j)), task.Numeric))
				features[j].Bounds = [2]float64{-4, 4}
			}
			tk := taskOf(0, features...)
			tk.Cost.Norm, tk.Latent = task.L2, &task.Latent{Pixels: f.budget}
			if ball {
				tk.Latent.Radius = 0.3 + rng.Float64()
			}
			a, x := compile(t, tk), make([]float32, dim)
			least := math.Inf(1)
			for range tries {
				z := make([]float32, dim)
				for j := range z {
					z[j] = float32(rng.NormFloat64())
				}
				a.Project(x, z)
				if m, _ := f.Margins(t.Context(), z); m[0] > 0.1 && a.Check(x, z) == nil {
					least = min(least, a.Cost(x, z))
				}
			}
			actions, err := Solve(t.Context(), f, a, x, SolveOptions{Margin: 0.1, Seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if got := &actions[0]; got.Status == Found {
				if err := a.Check(x, got.Delta); err != nil || f.used(got.Point) > f.budget {
					t.Errorf("seed %d: %v; %v of %v used", seed, err, f.used(got.Point), f.budget)
				}
			}
			if m, _ := f.Margins(t.Context(), x); m[0] > 0.1 || math.IsInf(least, 1) {
				continue
			}
			possible++
			if actions[0].Status == Found && actions[0].Cost <= 1.2*least {
				found++
			} else {
				t.Logf("ball %v, seed %d: %v at %v, a random point at %v", ball, seed, actions[0].Status, actions[0].Cost, least)
			}
		}
		t.Logf("ball %v: %d of %d", ball, found, possible)
		if possible < 10 || 20*found < 19*possible {
			t.Errorf("ball %v: found %d of %d", ball, found, possible)
		}
	}
}
