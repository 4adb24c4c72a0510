package recourse

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestCost(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: age, kind: numeric, std: 12, mean: 0, weight: 2}
- {name: phone, kind: binary, one: "1", shares: 0.2}
- {name: job, kind: onehot, values: [a, b, c], shares: [0.5, 0.1, 0.4]}
- {name: home, kind: onehot, values: [own, rent]}
`)
	d := []float32{-1.5, 1, -1, 1, 0, 1, 0} // home was missing
	const eps = 1e-3
	inverse := func(p float64) float64 { return 1 / (math.Sqrt(p*(1-p)) + eps) }
	w := []float64{2 / (1 + eps), inverse(0.2), inverse(0.5), inverse(0.1), inverse(0.4), inverse(0.5), inverse(0.5)}
	tests := []struct {
		norm    string
		weights string
		want    float64
	}{
		{"l1", "inverse_std", 1.5*w[0] + w[1] + (w[2]+w[3])/2 + w[5]},
		{"l2", "inverse_std", math.Sqrt(2.25*w[0]*w[0] + w[1]*w[1] + (w[2]+w[3])*(w[2]+w[3])/4 + w[5]*w[5])},
		{"l1", "uniform", 4.5},
		{"l1", "given", 6},
		{"l2", "given", math.Sqrt(9 + 3)},
	}
	for _, tt := range tests {
		tk.Cost = task.Cost{Norm: tt.norm, Weights: tt.weights, Eps: eps}
		must.Near(t, tt.want, compile(t, tk).Cost(make([]float32, len(d)), d), 1e-9)
	}
}

func TestCompileNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	tk := taskOf(0, feature("age", "numeric"), oneHot("job", "a", "b"))
	tk.Features[1].Encoding.(*task.OneHot).Shares = []float64{0, 1}
	tk.Cost.Eps = 0
	must.Fail(t, must.Err(constraint.Compile(tk)), `feature "job": cost weight +Inf`)
}

func TestProjectAllocatesNothing(t *testing.T) {
	tk, a := adultTask(t)
	x, d := make([]float32, tk.Dim()), make([]float32, tk.Dim())
	n := testing.AllocsPerRun(100, func() {
		for j := range d {
			d[j] = float32(j%7) - 3
		}
		a.Project(x, d)
	})
	must.Same(t, 0, n)
}

func TestCostNorms(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: age, kind: numeric, mean: 40, std: 10, weight: 2, mad: 5, quantiles: [20, 30, 40, 40, 80]}
- {name: rank, kind: onehot, values: [low, mid, high], ordered: true, shares: [0.5, 0.3, 0.2]}
- {name: home, kind: onehot, values: [own, rent], switch_cost: 3, shares: [0.6, 0.4]}
- {name: saved, kind: thermometer, thresholds: [1, 2]}
`)
	x := []float32{0, 1, 0, 0, 1, 0, 1, 0}   // 40 years, low, own, level 1
	d := []float32{1, -1, 0, 1, -1, 1, 0, 1} // 50 years, high, rent, level 2
	tests := []struct {
		norm    string
		weights string
		want    float64
	}{
		{task.L1, "given", 2 + 2 + 3 + 1},
		{task.L2, "given", math.Sqrt(4 + 4 + 9 + 1)},
		{task.Mixed, "given", 0.25*8 + 0.75*math.Sqrt(18)},
		{task.L1, "inverse_mad", 2/0.5 + 2 + 3 + 1},
		{task.L1, "inverse_range", 2/6.0 + 2 + 3 + 1},
	}
	for _, tt := range tests {
		tk.Cost = task.Cost{Norm: tt.norm, L1Ratio: 0.25, Weights: tt.weights}
		must.Near(t, tt.want, compile(t, tk).Cost(x, d), 1e-6)
	}
	tk = parsed(`features: [{name: home, kind: onehot, values: [own, rent]}]
cost: {weights: given, switches: encoded}`)
	must.Same(t, 2, compile(t, tk).Cost([]float32{1, 0}, []float32{-1, 1}))
}

// The slope of the cost is that of central differences by numbers, under every norm; the inputs of a category share
// what it adds.
func TestSlope(t *testing.T) {
	t.Parallel()
	tk := parsed(`features:
- {name: age, kind: numeric, weight: 2}
- {name: height, kind: numeric, weight: 0.7}
- {name: job, kind: onehot, values: [a, b, c]}
- {name: still, kind: numeric}
`)
	d := []float32{-1.5, 0.8, -1, 1, 0, 0}
	x := []float32{0, 0, 1, 0, 0, 0}
	for norm, ratio := range map[string]float64{task.L1: 0, task.L2: 0, task.Mixed: 0.3} {
		tk.Cost = task.Cost{Norm: norm, Weights: "given", L1Ratio: ratio}
		a := compile(t, tk)
		g := []float32{9, 9, 9, 9, 9, 9}
		a.Slope(x, d, g)
		for j := range 2 {
			const h = 1.0 / 1024
			up, down := append([]float32{}, d...), append([]float32{}, d...)
			up[j], down[j] = d[j]+h, d[j]-h
			must.Near(must.In(t, norm, j), (a.Cost(x, up)-a.Cost(x, down))/(2*h), float64(g[j]), 1e-4)
		}
		if g[2] != -g[3] || !(g[3] > 0) || g[4] != 0 || g[5] != 0 {
			t.Errorf("%s: slope %v", norm, g)
		}
		if share := 2 * float64(g[3]); norm == task.L1 && math.Abs(share-1) > 1e-6 ||
			norm == task.L2 && math.Abs(share-2/a.Cost(x, d)/2) > 1e-6 {
			t.Errorf("%s: the inputs of the category share %v", norm, share)
		}
	}
}

// Moves of two numbers, on top of a change of another, close a gap at the cost of the best of many pairs that do.
func TestSpread(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		tk := numbers(3)
		for k := range tk.Features {
			tk.Features[k].Weight = 0.5 + rng.Float64()
		}
		ratio := []float64{0, 0.1, 0.5, 0.9}[seed%4]
		tk.Cost = task.Cost{Norm: task.Mixed, L1Ratio: ratio, Weights: "given"}
		a := compile(t, tk)
		x, d := make([]float32, 3), []float32{0, 0, float32(2 * rng.Float64())}
		var lines []constraint.Line
		for _, u := range a.Numeric()[:2] {
			lines = append(lines, constraint.Line{
				Feature: u, Slope: 0.2 + rng.Float64(), Room: 1 + 2*rng.Float64(), Weight: a.Norm().Weight(u),
			})
		}
		gap := 0.9 * rng.Float64() * (lines[0].Slope*lines[0].Room + lines[1].Slope*lines[1].Room)
		cost := func(v0, v1 float64) float64 { return a.Cost(x, []float32{float32(v0), float32(v1), d[2]}) }
		best, most := math.Inf(1), 4000
		for k := range most + 1 {
			v := lines[0].Room * float64(k) / float64(most)
			if w := max(0, (gap-lines[0].Slope*v)/lines[1].Slope); w <= lines[1].Room {
				best = min(best, cost(v, w))
			}
		}
		moves, ok := a.Spread(x, d, lines, gap)
		if !ok {
			t.Fatalf("seed %d: no room for %v", seed, gap)
		}
		got := cost(moves[0], moves[1])
		if closed := lines[0].Slope*moves[0] + lines[1].Slope*moves[1]; closed < gap*(1-1e-6) || got > best*(1+1e-4) {
			t.Errorf("seed %d: %v closes %v of %v at cost %v, the best costs %v", seed, moves, closed, gap, got, best)
		}
		if estimate := a.Fill(x, d, cost(0, 0), lines, gap); ratio < 1 && math.Abs(estimate-got) > 1e-6 {
			t.Errorf("seed %d: estimated cost %v, it is %v", seed, estimate, got)
		}
	}
}
