package recourse

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/recourse/constraint"
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

// readable is a network that says so.
type readable struct{ *mlp }

func (f readable) Network(context.Context) (rows [][]float64, bias []float64, units int, why string, err error) {
	for _, n := range f.sizes[1 : len(f.sizes)-1] {
		units += n
	}
	first := 0 // column of the layer's inputs
	for l, w := range f.w {
		in := f.sizes[l]
		for i := range f.sizes[l+1] {
			row := make([]float64, f.sizes[0]+units)
			for j := range in {
				row[first+j] = float64(w[i*in+j])
			}
			rows, bias = append(rows, row), append(bias, float64(f.b[l][i]))
		}
		first += in
	}
	return rows, bias, units, "", nil
}

type unreadable struct{ Model }

func (unreadable) Network(context.Context) (rows [][]float64, bias []float64, units int, why string, err error) {
	return nil, nil, 0, "it has none", nil
}

// drawAffine keeps slopes away from 0, where float32 weights make a difference in cost.
func drawAffine(rng *rand.Rand, dim int, b float64) *affine {
	f := &affine{b: b}
	for range dim {
		v := rng.NormFloat64()
		f.w = append(f.w, v+math.Copysign(0.2, v))
	}
	return f
}

// holdOptima holds the exact answers for people, under an affine model by the given method and by exhaustive search,
// and under a network, against the least costs; +Inf means that there is no action.
func holdOptima(t *testing.T, rng *rand.Rand, a *constraint.Set, x []float32, margin float64,
	least func(m Model, x []float32) float64,
) (statuses map[Status]int) {
	t.Helper()
	statuses = map[Status]int{}
	line, net := drawAffine(rng, a.Dim(), -1.4), newMLP(rng, -1, a.Dim(), 16, 8, 1)
	optima := make([]float64, len(x)/a.Dim())
	for k, c := range []struct {
		m      Model
		method Method
	}{{line, Tree}, {plain{line}, Exhaustive}, {net, Exhaustive}, {readable{net}, Tree}} {
		acts, methods := proved(t, c.m, a, x, ExactOptions{Margin: margin})
		for i, act := range acts {
			if statuses[act.Status]++; act.Status == AlreadyFavourable {
				if methods[i] != NotNeeded {
					t.Errorf("method %q for nothing", methods[i])
				}
				continue
			}
			if k%2 == 0 { // else the same model as before
				optima[i] = least(c.m, row(x, i, a.Dim()))
			}
			want, best := Found, optima[i]
			if math.IsInf(best, 1) {
				want, best = NoneExists, 0
			}
			if methods[i] != c.method || act.Status != want || math.Abs(act.Cost-best) > 2e-6*best {
				t.Errorf("person %d: %v at %.9g by %q, want %v at %.9g by %q", i, act.Status, act.Cost, methods[i], want, best,
					c.method)
			}
		}
	}
	return statuses
}

// Both methods against the enumeration of all actions by the task's own words: cost, status, and proof that none
// exists.
func TestExactAgainstEnumeration(t *testing.T) {
	t.Parallel()
	for seed := range repetitions(30, 400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		tk := smallTask(rng, int(seed%5))
		tk.Cost.Norm = []string{task.L1, task.L2}[seed%2]
		a := compile(t, tk)
		margin := []float64{0, 0.1, 2}[seed%3]
		holdOptima(t, rng, a, randomPeople(rng, tk, 2), margin, func(m Model, x []float32) float64 {
			return exact(t, m, tk, a, x, float32(margin+1e-5*(1+margin)))
		})
	}
}

// The same under links, rules, subsets, orders and every norm.
func TestExactJoint(t *testing.T) {
	t.Parallel()
	for _, norm := range []string{task.L1, task.L2, task.Mixed} {
		t.Run(norm, func(t *testing.T) {
			found, none := 0, 0
			for seed := range repetitions(3, 8) {
				rng := rand.New(rand.NewPCG(seed, 9))
				tk := jointTask(rng, norm, 1+int(seed%4))
				a := compile(t, tk)
				statuses := holdOptima(t, rng, a, jointPeople(rng, tk, 6), 0.1, func(m Model, x []float32) float64 {
					best, _ := cheapestOf(t, m, a, x, 0.1+1.1e-5)
					return best
				})
				found, none = found+statuses[Found], none+statuses[NoneExists]
			}
			if found < 10 || none < 2 {
				t.Errorf("%d found, %d without", found, none)
			}
		})
	}
}

// What is not looked at is not proved: numbers without bounds need more than 1e4 standard deviations here.
func TestTooWide(t *testing.T) {
	t.Parallel()
	tk := numbers(2)
	tk.Features[0].Bounds = [2]float64{math.Inf(-1), math.Inf(1)}
	m := &affine{w: []float64{1e-5, 1e-3}, b: -1}
	acts, methods := proved(t, m, compile(t, tk), []float32{0, 0}, ExactOptions{Margin: 0.1})
	if acts[0].Status != NoneFound || methods[0] != TooWide {
		t.Errorf("%v, %v", acts[0].Status, methods)
	}
}

func TestExactIsDeterministic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	tk := smallTask(rng, 3)
	a := compile(t, tk)
	x := randomPeople(rng, tk, 60)
	for _, m := range []Model{newMLP(rng, -2, tk.Dim(), 16, 8, 1), drawAffine(rng, tk.Dim(), -2)} {
		want, _ := proved(t, m, a, x, ExactOptions{Margin: 0.1, Workers: 1})
		last := 0
		got, _ := proved(t, m, a, x, ExactOptions{
			Margin: 0.1, Workers: 2, Progress: func(done, total int) { last = done },
		})
		for i := range 20 {
			alone, _ := proved(t, m, a, row(x, i, a.Dim()), ExactOptions{Margin: 0.1})
			got[i] = alone[0]
		}
		if d := cmp.Diff(want, got); d != "" || last != 60 {
			t.Errorf("the result depends on workers or company, progress ended at %d:\n%s", last, d)
		}
	}
}

func TestExactSaysWhyNot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tk := taskOf(0, feature("income", "numeric"), feature("debt", "numeric"), oneHot("job", "p", "q"))
	a := compile(t, tk)
	m := drawAffine(rand.New(rand.NewPCG(1, 1)), 4, -1)
	for why, m := range map[string]Model{
		"not a single network": plain{m}, "not a network of Relu units: it has none": unreadable{m},
	} {
		_, _, err := Exact(ctx, m, a, make([]float32, 4), nil, ExactOptions{})
		if must.Fail(t, err, why); !errors.Is(err, ErrNotExact) || !strings.Contains(err.Error(), `"income", "debt"`) ||
			strings.Contains(err.Error(), "job") {
			t.Errorf("error %v", err)
		}
	}
	tk.Cost = task.Cost{Norm: task.Mixed, L1Ratio: 0.5, Switches: "encoded"}
	_, _, err := Exact(ctx, plain{m}, compile(t, tk), make([]float32, 4), nil, ExactOptions{})
	if !errors.Is(err, ErrNotExact) || !strings.Contains(err.Error(), "mixed cost") {
		t.Errorf("mixed, encoded: error %v", err)
	}
	if _, _, err := Exact(ctx, m, a, make([]float32, 4), nil, ExactOptions{Margin: math.NaN()}); err == nil {
		t.Error("NaN margin accepted")
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Exact(ctx, m, a, make([]float32, 4), nil, ExactOptions{}); err == nil {
		t.Error("cancelled search returned no error")
	}
}
