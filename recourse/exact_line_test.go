package recourse

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

type ruled struct {
	rows   [][]float64
	bounds []float64
}

// simplex returns the least l1 cost by gonum's LP: moves up and down of every feature within its room, the gap closed.
func simplex(t testing.TB, cost, slope, down, up []float64, gap float64, rules ...ruled) float64 {
	t.Helper()
	n, k := len(cost), 0
	for _, r := range rules {
		k += len(r.rows)
	}
	c, b := make([]float64, 4*n+1+k), make([]float64, 2*n+1+k)
	a := mat.NewDense(2*n+1+k, 4*n+1+k, nil)
	for j := range n {
		for k, room := range []float64{up[j], down[j]} {
			at := 2*j + k
			c[at] = cost[j]
			a.Set(at, at, 1) // move + slack = room
			a.Set(at, 2*n+at, 1)
			b[at] = room
			a.Set(2*n, at, slope[j]*[]float64{1, -1}[k])
		}
	}
	a.Set(2*n, 4*n, -1)
	b[2*n] = gap
	for _, r := range rules {
		for i, coefs := range r.rows {
			for j, v := range coefs {
				a.Set(2*n+1+i, 2*j, v)
				a.Set(2*n+1+i, 2*j+1, -v)
			}
			a.Set(2*n+1+i, 4*n+1+i, 1)
			b[2*n+1+i] = r.bounds[i]
		}
	}
	v, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	if errors.Is(err, lp.ErrInfeasible) {
		return math.Inf(1)
	}
	must.Do(t, err)
	return v
}

func drawLine(t *rapid.T, rng *rand.Rand, most int) (tk *task.Task, x []float32, cost, down, up []float64) {
	var fs []task.Feature
	for i := range rapid.IntRange(1, most).Draw(t, "features") {
		f := feature(string(rune('a'+i)), "numeric")
		f.Weight = 0.2 + rng.Float64()
		f.MaxIncrease, f.MaxDecrease = rng.Float64()*2, rng.Float64()*2
		if rng.IntN(3) == 0 {
			f.Direction, f.MaxDecrease = "increase", 0
		}
		fs = append(fs, f)
		x = append(x, float32(rng.NormFloat64()))
		cost = append(cost, f.Weight/1.001)
		down, up = append(down, f.MaxDecrease), append(up, f.MaxIncrease)
	}
	return taskOf(0, fs...), x, cost, down, up
}

// refusing draws a model that refuses x by at most so much, and returns what is missing.
func refusing(t rapid.TB, rng *rand.Rand, x []float32, most float64) (m *affine, gap float64) {
	t.Helper()
	m = drawAffine(rng, len(x), 0)
	m.b -= marginOf(t, m, x) + most*rng.Float64()
	return m, 1e-5 - marginOf(t, m, x)
}

func TestExactAgainstSimplex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		tk, x, cost, down, up := drawLine(rt, rng, 7)
		m, gap := refusing(rt, rng, x, 2)
		holdOptimum(rt, m, compile(t, tk), x, simplex(t, cost, m.w, down, up, gap), 2e-6)
	})
}

// Lines, steps and switches together under a limit: for every choice of steps, switches and features that may move,
// the rest is a linear program.
func TestExactMixedAgainstSimplex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		tk, x, cost, down, up := drawLine(rt, rng, 4)
		lines := len(x)
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")
		stepped := feature("steps", "numeric")
		stepped.Step, stepped.MaxChange = 0.3, 1
		fs := append(slices.Clone(tk.Features), stepped, oneHot("job", "p", "q", "r"))
		tk = taskOf(limit, fs...)
		x = append(x, 0.25, 0, 1, 0)
		a := compile(t, tk)
		m, gap := refusing(rt, rng, x, 3)
		best := math.Inf(1)
		d := make([]float32, a.Dim())
		for tick := -3; tick <= 3; tick++ {
			for job := range 3 {
				clear(d)
				d[lines] = float32(float64(tick) * 0.3)
				d[lines+2]--
				d[lines+1+job]++
				fixed, changed := a.Cost(x, d), min(1, tick*tick)
				if job != 1 {
					changed++
				}
				gap := gap - gainOf(m.w, d)
				for set := range 1 << lines {
					u, v, moved := slices.Clone(up), slices.Clone(down), changed
					for j := range lines {
						if set>>j&1 == 0 {
							u[j], v[j] = 0, 0
						} else {
							moved++
						}
					}
					switch {
					case moved > limit || fixed >= best:
					case gap <= 0:
						best = fixed
					case moved < limit && set != 1<<lines-1: // another set has these and more
					default:
						best = min(best, fixed+simplex(t, cost, m.w[:lines], v, u, gap))
					}
				}
			}
		}
		holdOptimum(rt, m, a, x, best, 2e-6)
	})
}

// The l2 optimum over lines is d_j = min(price slope_j/cost_j^2, room) for the least price that closes the gap.
func TestExactL2(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		tk, x, cost, down, up := drawLine(rt, rng, 7)
		tk.Cost.Norm = task.L2
		m, gap := refusing(rt, rng, x, 2)
		at := func(price float64) (gain, square float64) {
			for j, s := range m.w {
				room := up[j]
				if s < 0 {
					room = down[j]
				}
				d := min(price*math.Abs(s)/(cost[j]*cost[j]), room)
				gain += math.Abs(s) * d
				square += cost[j] * cost[j] * d * d
			}
			return gain, square
		}
		low, high := 0.0, 1e9
		for range 200 {
			if g, _ := at((low + high) / 2); g < gap {
				low = (low + high) / 2
			} else {
				high = (low + high) / 2
			}
		}
		most, square := at(high)
		if want := math.Sqrt(square); most >= gap {
			holdOptimum(rt, m, compile(t, tk), x, want, 2e-6)
		} else {
			holdOptimum(rt, m, compile(t, tk), x, math.Inf(1), 2e-6)
		}
	})
}

func TestExactRuleAgainstSimplex(t *testing.T) {
	t.Parallel()
	drawn, open := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		tk, x, cost, down, up := drawLine(rt, rng, 7)
		m, gap := refusing(rt, rng, x, 1)
		var rows [][]float64
		var bounds []float64
		for range 1 {
			q, coefs, at := task.Inequality{}, []float64(nil), 0.0
			for j, v := range x {
				c := rng.NormFloat64()
				q.Terms = append(q.Terms, task.Term{Feature: tk.Features[j].Name, Coef: c})
				coefs, at = append(coefs, c), at+c*float64(v)
			}
			room := 0.3 * rng.Float64() // 0 for who stands beyond the bound as they are
			q.Bound = at + room
			if rng.IntN(4) == 0 {
				q.Bound, room = at-1, 0
			}
			tk.Rules = append(tk.Rules, task.Rule{Text: "rule", Then: []task.Inequality{q}})
			rows, bounds = append(rows, coefs), append(bounds, room)
		}
		a := compile(t, tk)
		for _, u := range a.Free() {
			u.Quantum = 1e-9 // a rule keeps a distance for the rounding of raw values
		}
		drawn++
		if !holdOptimum(rt, m, a, x, simplex(t, cost, m.w, down, up, gap, ruled{rows, bounds}), closeAbout) {
			open++
		}
	})
	if open > 1+drawn/20 {
		t.Errorf("%d of %d without proof", open, drawn)
	}
}

// holdOptimum holds an answer against the least cost, and says whether it is proved: without rules it has to be, unless
// it costs next to nothing.
func holdOptimum(t *rapid.T, m *affine, a *constraint.Set, x []float32, want, tol float64) (proved bool) {
	t.Helper()
	var start []Action // the search's, where rules tie numbers
	if a.HasRules() {
		start = must.Get(Solve(context.Background(), m, a, x, SolveOptions{}))(t)
	}
	acts, proofs, err := Exact(context.Background(), m, a, x, start, ExactOptions{Nodes: 2000})
	must.Do(t, err)
	if proved = proofs[0].Method == Tree; a.HasRules() && !proved {
		return false
	}
	if math.IsInf(want, 1) {
		if acts[0].Status != NoneExists || proofs[0].Method != Tree {
			t.Errorf("%v at %g by %q", acts[0].Status, acts[0].Cost, proofs[0].Method)
		}
		return proved
	}
	rounding := (1e-3 + tol) * (want + tol)
	for _, u := range a.Free() {
		if u.Quantum > 0 && u.Changed(acts[0].Delta) {
			rounding += 1.1 * a.Norm().Weight(u) * u.Quantum / a.Task().Features[u.Index].Number().Std
		}
	}
	if act := acts[0]; act.Status != Found || want > 0.1 && !proved || act.Cost < want-(tol+1e-4)*(1+want) ||
		act.Cost > want+rounding {
		t.Errorf("%v by %q at %.9g, want %.9g", act.Status, proofs[0].Method, act.Cost, want)
	}
	if err := a.Check(x, acts[0].Delta); err != nil {
		t.Error(err)
	}
	return proved
}

// Grids of very different steps, the finest with 15000 of them, against the enumeration of all but the longest feature.
func TestExactMixedGrids(t *testing.T) {
	t.Parallel()
	for seed := range repetitions(4, 8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tk := gridTask(rng, 1+int(seed%4))
		a := compile(t, tk)
		m := drawLinear(rng, tk.Dim(), 1, -1.5)
		x := randomPeople(rng, tk, 12)
		acts, methods := proved(t, m, a, x, ExactOptions{})
		for i, act := range acts {
			if act.Status == AlreadyFavourable {
				continue
			}
			person := row(x, i, a.Dim())
			best := linearOptimum(tk, a, m, person, 1e-5-marginOf(t, m, person))
			if methods[i] != Tree || math.IsInf(best, 1) != (act.Status == NoneExists) || act.Status == Found &&
				math.Abs(act.Cost-best) > 2e-6*best {
				t.Errorf("seed %d, person %d: %v at %.9g, want %.9g", seed, i, act.Status, act.Cost, best)
			}
		}
	}
}

type choice struct{ cost, gain float64 }

func frontier(f *task.Feature, a *constraint.Set, m *affine, x []float32) []choice {
	changes, _, _ := feasibleChanges(f, x[f.Offset:f.Offset+f.Width])
	var all []choice
	for _, c := range changes[1:] {
		delta := make([]float32, a.Dim())
		for j, v := range c {
			delta[f.Offset+j] = float32(v)
		}
		all = append(all, choice{a.Cost(x, delta), gainOf(m.w, delta)})
	}
	slices.SortFunc(all, func(p, q choice) int { return cmp.Or(cmp.Compare(p.cost, q.cost), cmp.Compare(q.gain, p.gain)) })
	var out []choice
	top := 0.0
	for _, o := range all {
		if o.gain > top {
			out, top = append(out, o), o.gain
		}
	}
	return out
}

// linearOptimum returns the least l1 cost of an action that gains gap under a linear model, by enumeration: all
// combinations of all features but the one with the most changes, whose cheapest sufficient change is looked up.
func linearOptimum(tk *task.Task, a *constraint.Set, m *affine, x []float32, gap float64) float64 {
	var lists [][]choice
	for i := range tk.Features {
		if l := frontier(&tk.Features[i], a, m, x); len(l) > 0 {
			lists = append(lists, l)
		}
	}
	slices.SortFunc(lists, func(p, q []choice) int { return cmp.Compare(len(p), len(q)) })
	best := math.Inf(1)
	var walk func(i, changed int, cost, gap float64)
	walk = func(i, changed int, cost, gap float64) {
		if gap <= 0 {
			best = min(best, cost)
			return
		}
		if i == len(lists) || changed == a.Limit() {
			return
		}
		if i == len(lists)-1 {
			l := lists[i]
			k, _ := slices.BinarySearchFunc(l, gap, func(o choice, gap float64) int { return cmp.Compare(o.gain, gap) })
			if k < len(l) {
				best = min(best, cost+l[k].cost)
			}
			return
		}
		walk(i+1, changed, cost, gap)
		for _, o := range lists[i] {
			if cost+o.cost >= best {
				break
			}
			walk(i+1, changed+1, cost+o.cost, gap-o.gain)
		}
	}
	walk(0, 0, 0, gap)
	return best
}
