package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

// bounded is a network whose margin is at most what is left of a budget: the l1 norm of a linear map of the way from
// where all people are.
type bounded struct {
	*mlp
	rows   [][]float64
	budget float64
}

func (f *bounded) Limit() string {
	if math.IsInf(f.budget, 1) {
		return ""
	}
	return "budget"
}

func (f *bounded) Limits(ctx context.Context, x []float32) (m, left []float32, err error) {
	m, err = f.mlp.Margins(ctx, x)
	dim := f.Dim()
	for i := range len(x) / dim {
		left = append(left, float32(100*(1-f.used(x[i*dim:(i+1)*dim])/f.budget)))
	}
	return m, left, err
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

func (f *bounded) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	if m, g, err = f.mlp.MarginGrads(ctx, x); err != nil {
		return nil, nil, err
	}
	_, left, err := f.Limits(ctx, x)
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

func TestCodesWithinLimits(t *testing.T) {
	t.Parallel()
	const dim, tries = 4, 1200
	for _, limited := range []string{"", "ball", "two codes"} {
		possible, found := 0, 0
		for seed := range repetitions(20, 60) {
			rng := rand.New(rand.NewPCG(seed, 1))
			f := &bounded{mlp: newMLP(rng, -1, dim, 12, 1), budget: 2 + 4*rng.Float64()}
			for range 6 {
				r := make([]float64, dim)
				for j := range r {
					r[j] = rng.NormFloat64()
				}
				f.rows = append(f.rows, r)
			}
			tk := numbers(dim)
			for j := range tk.Features {
				tk.Features[j].Bounds = [2]float64{-4, 4}
			}
			tk.Cost.Norm, tk.Latent = task.L2, &task.Latent{Pixels: f.budget}
			switch limited {
			case "ball":
				tk.Latent.Radius = 0.3 + rng.Float64()
			case "two codes":
				tk.MaxFeatures, tk.Latent.Pixels, f.budget = 2, 0, math.Inf(1)
			}
			a, x := compile(t, tk), make([]float32, dim)
			least := math.Inf(1)
			for range tries {
				z := normals(rng, dim, 1)
				a.Project(x, z)
				if marginOf(t, f, z) > 0.1 && f.used(z) <= f.budget && a.Check(x, z) == nil {
					least = min(least, a.Cost(x, z))
				}
			}
			actions := must.Get(Solve(t.Context(), f, a, x, SolveOptions{Margin: 0.1, Seed: seed}))(t)
			if got := &actions[0]; got.Status == Found {
				if err := a.Check(x, got.Delta); err != nil || f.used(got.Point) > f.budget {
					t.Errorf("seed %d: %v; %v of %v used", seed, err, f.used(got.Point), f.budget)
				}
			}
			if marginOf(t, f, x) > 0.1 || math.IsInf(least, 1) {
				continue
			}
			possible++
			if actions[0].Status == Found && actions[0].Cost <= 1.2*least {
				found++
			} else {
				t.Logf("%s, seed %d: %v at %v, a random point at %v", limited, seed, actions[0].Status, actions[0].Cost, least)
			}
		}
		t.Logf("%s: %d of %d", limited, found, possible)
		if possible < 5 || 20*(found+1) < 19*possible {
			t.Errorf("%s: found %d of %d", limited, found, possible)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	const dim, tries, tol = 4, 3000, 1e-4
	bent := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		draw := func() []float32 { return normals(rng, dim, 1) }
		tk := numbers(dim)
		for j := range tk.Features {
			tk.Features[j].Weight = 0.5 + rng.Float64()
		}
		tk.Cost.Norm = task.L2
		a := compile(t, tk)
		c := &candidate{applicant: &applicant{set: a, x: make([]float32, dim)}, d: draw()}
		l := &nearPlanes{margin: linearization{draw(), float32(rng.NormFloat64()), draw()}}
		l.limit = &linearization{draw(), -float32(rng.Float64()), draw()}
		const target = 0.5
		at := func(p *linearization, z []float64) float64 {
			sum := float64(p.value)
			for j, v := range z {
				sum += float64(p.g[j]) * (v - float64(p.d[j]))
			}
			return sum
		}
		from := seed%2 == 0
		size := func(z []float64) (sum float64) {
			for j, v := range z {
				if from {
					v -= float64(c.d[j])
				}
				v *= a.Norm().Weight(a.Numeric()[j])
				sum += v * v
			}
			return math.Sqrt(sum)
		}
		to, _ := c.nearest(l, target, from)
		if m, room := at(&l.margin, to)-target, at(l.limit, to); math.Abs(m) > tol || room < -tol {
			t.Errorf("seed %d: the margin is %v off, the limit exceeded by %v", seed, m, -room)
		}
		alone, _ := c.nearest(&nearPlanes{margin: l.margin}, target, from)
		if at(l.limit, alone) < -tol {
			bent++
		}
		for range tries { // random points on the linearization of the margin, about where the answer is
			z, square := make([]float64, dim), 0.0
			for j := range z {
				z[j] = to[j] + 0.3*rng.NormFloat64()
				square += float64(l.margin.g[j]) * float64(l.margin.g[j])
			}
			off := (at(&l.margin, z) - target) / square
			for j := range z {
				z[j] -= off * float64(l.margin.g[j])
			}
			if at(l.limit, z) >= 0 && size(z) < size(to)-tol {
				t.Fatalf("seed %d: %v is nearer than %v, by %v and %v", seed, z, to, size(z), size(to))
			}
		}
	}
	if bent < 50 {
		t.Errorf("the limit decides in %d cases only", bent)
	}
}

// Actions on steps are counted up to what one may cost, and no further.
func TestExhaustiveWithinRadius(t *testing.T) {
	t.Parallel()
	f := plain{newMLP(rand.New(rand.NewPCG(3, 1)), -30, 3, 12, 1)}
	tk := numbers(3)
	for j := range tk.Features {
		tk.Features[j].Step = 0.01
	}
	tk.Cost.Norm, tk.Latent = task.L2, &task.Latent{Radius: 0.05}
	actions, methods := proved(t, f, compile(t, tk), make([]float32, 3), ExactOptions{MaxPoints: 2000})
	if actions[0].Status != NoneExists || methods[0] != Exhaustive {
		t.Errorf("%v by %v", actions[0].Status, methods[0])
	}
}
