package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"cfq/internal/statistics"
	"cfq/recourse"
)

func TestDropCoverage(t *testing.T) {
	t.Parallel()
	logs := func(n int) float64 { l, _ := math.Lgamma(float64(n + 1)); return l }
	least := 1.0
	for _, n := range []int{5, 25} {
		for _, conf := range []float64{0.8, 0.95} {
			var all [][]Value
			for b := range n + 1 {
				all = append(all, nil)
				for c := range n - b + 1 {
					all[b] = append(all[b], dropOf(b, c, n, conf))
				}
			}
			for _, p := range [][2]float64{
				{0.01, 0.01}, {0.05, 0.001}, {0.1, 0.1}, {0.3, 0.05}, {0.4, 0.4}, {0.02, 0.9}, {0.15, 0.14},
			} {
				var covered float64
				for b := range n + 1 {
					for c := range n - b + 1 {
						chance := math.Exp(logs(n) - logs(b) - logs(c) - logs(n-b-c) + float64(b)*math.Log(p[0]) +
							float64(c)*math.Log(p[1]) + float64(n-b-c)*math.Log1p(-p[0]-p[1]))
						d := Float(p[0] - p[1])
						covered += chance * float64(count(all[b][c].Lo <= d && d <= all[b][c].Hi))
					}
				}
				least = min(least, covered-conf)
				if covered < conf {
					t.Errorf("n = %d, shares %v: the interval at %v covers %v", n, p, conf, covered)
				}
			}
		}
	}
	if least > 0.19 {
		t.Errorf("it always covers %v more than it says: it cannot fail", least)
	}
}

type distribution struct {
	name string
	draw func(*rand.Rand) float64
	mean float64
	at   func(q float64) float64 // quantile
}

func distributions() []distribution {
	erfinv := math.Erfinv
	normal := func(q float64) float64 { return math.Sqrt2 * erfinv(2*q-1) }
	return []distribution{
		{"uniform", func(r *rand.Rand) float64 { return r.Float64() }, 0.5, func(q float64) float64 { return q }},
		{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }, 0, normal},
		{
			"exponential", func(r *rand.Rand) float64 { return r.ExpFloat64() }, 1,
			func(q float64) float64 { return -math.Log1p(-q) },
		},
		// Mostly 0, as the cost gaps of a good model are.
		{
			"lattice", func(r *rand.Rand) float64 { return math.Floor(4 * math.Pow(r.Float64(), 3)) }, lattice(),
			func(q float64) float64 { return math.Floor(4 * math.Pow(q, 3)) },
		},
		{
			"heavy tail", func(r *rand.Rand) float64 { return math.Exp(2 * r.NormFloat64()) }, math.Exp(2),
			func(q float64) float64 { return math.Exp(2 * normal(q)) },
		},
	}
}

// lattice is the mean of floor(4 u^3): the chance to be at least 1, 2 and 3, each, is 1 - cbrt(k/4).
func lattice() (mean float64) {
	for k := 1.0; k < 4; k++ {
		mean += 1 - math.Cbrt(k/4)
	}
	return mean
}

func atLeast(t *testing.T, what string, covered, runs int, nominal float64) {
	t.Helper()
	got := float64(covered) / float64(runs)
	t.Logf("%s: %.2f %%", what, 100*got)
	if got < nominal-4*math.Sqrt(nominal*(1-nominal)/float64(runs)) {
		t.Errorf("%s: the interval at %v covers %v in %d runs", what, nominal, got, runs)
	}
}

func TestQuantileCoverage(t *testing.T) {
	t.Parallel()
	runs := times(250, 40000)
	for _, d := range distributions() {
		for _, q := range []float64{0.5, 0.95} {
			for _, n := range []int{10, 150} {
				rng := rand.New(rand.NewPCG(uint64(n), 2))
				low, high := 0, 0
				xs := make([]float64, n)
				for range runs {
					for i := range xs {
						xs[i] = d.draw(rng)
					}
					e, truth := quantileOf(xs, q, 0.9), Float(d.at(q))
					low += count(e.Lo <= truth)
					high += count(truth <= e.Hi)
				}
				name := fmt.Sprintf("%s, quantile %v of %d", d.name, q, n)
				atLeast(t, name+", lower end", low, runs, 0.95)
				atLeast(t, name+", upper end", high, runs, 0.95)
			}
		}
	}
}

// Student's interval at 95 % covers as much when numbers are not far from normal, or many. Of numbers with a
// heavy tail, such as the ratios of CRG when some costs are tiny (here the logarithm is normal with standard
// deviation 2), it covers 65 times of 100 when there are 30 of them and 77 times when there are 200: that is
// why CRG has a median and a ratio of sums beside its mean.
func TestStudentCoverage(t *testing.T) {
	t.Parallel()
	runs := times(500, 40000)
	for i, least := range [][2]float64{{0.95, 0.95}, {0.95, 0.95}, {0.92, 0.94}, {0.91, 0.94}, {0.64, 0.77}} {
		d := distributions()[i]
		for k, n := range []int{30, 200} {
			rng := rand.New(rand.NewPCG(uint64(n), 3))
			covered := 0
			xs := make([]float64, n)
			for range runs {
				for i := range xs {
					xs[i] = d.draw(rng)
				}
				e := meanOf(xs, 0.95)
				covered += count(float64(e.Lo) <= d.mean && d.mean <= float64(e.Hi))
			}
			atLeast(t, fmt.Sprintf("%s, mean of %d", d.name, n), covered, runs, least[k])
			if i == 4 && float64(covered) > 0.92*float64(runs) {
				t.Errorf("%s: it covers %d of %d; then its mean can be trusted, and the documentation is wrong", d.name, covered,
					runs)
			}
		}
	}
}

// The delta method: b = a*(1 + noise) with a of a distribution with a long tail.
func TestRatioCoverage(t *testing.T) {
	t.Parallel()
	runs := 1000
	rng := rand.New(rand.NewPCG(1, 4))
	covered := 0
	a, b := make([]float64, 100), make([]float64, 100)
	for range runs {
		for i := range a {
			a[i] = math.Exp(rng.NormFloat64())
			b[i] = a[i] * (0.9 + 0.4*rng.Float64())
		}
		e := ratioOf(a, b, 0.95)
		covered += count(e.Lo <= 0.1 && 0.1 <= e.Hi)
	}
	atLeast(t, "ratio of sums", covered, runs, 0.93)
}

type tauWorld struct {
	name    string
	margins []float64
	truth   float64
	draw    func(r *rand.Rand, at int) Promise
}

func tauWorlds() []tauWorld {
	margins := []float64{0, 0.1, 0.25, 0.5}
	promise := func(own, e float64) Promise {
		return Promise{Status: recourse.Found, Own: Float(own), Other: Float(own + e)}
	}
	coin := func(broken float64) func(*rand.Rand, int) Promise {
		return func(r *rand.Rand, at int) Promise {
			return promise(margins[at]+1e-6, -10*float64(count(r.Float64() < broken)))
		}
	}
	normal := func(mean, deviation float64) func(*rand.Rand, int) Promise {
		return func(r *rand.Rand, at int) Promise { return promise(margins[at], mean+deviation*r.NormFloat64()) }
	}
	const z = 2.3263478740408408 // of 1 %
	return []tauWorld{
		{"error is normal", margins, 0.06 * z, normal(0, 0.06)},
		{"error is biased", margins, 0.05 + 0.1*z, normal(-0.05, 0.1)},
		{"extrapolated", margins, 0.4 * z, normal(0, 0.4)},
		// Everywhere just 1 % break, so that every margin is good enough, and each is a chance to seem not to be.
		{"on the edge", margins, 0, coin(tauShare)},
	}
}

func TestTauCoverage(t *testing.T) {
	t.Parallel()
	runs := times(20, 5000)
	for _, w := range tauWorlds() {
		for _, n := range []int{300, 1500} {
			rng := rand.New(rand.NewPCG(uint64(n), 5))
			low, high, closed := 0, 0, 0
			for range runs {
				promises := make([][]Promise, len(w.margins))
				for at := range promises {
					for range n {
						promises[at] = append(promises[at], w.draw(rng, at))
					}
				}
				tau := tau01(w.margins, promises, 0.95)
				low += count(float64(tau.Lo) <= w.truth+1e-12)
				high += count(w.truth-1e-12 <= float64(tau.Hi))
				closed += count(tau.Hi.Defined())
				if !(tau.Lo <= tau.Value && tau.Value <= tau.Hi) {
					t.Fatalf("%s: %+v", w.name, tau)
				}
			}
			atLeast(t, fmt.Sprintf("%s, tau01 of %d, lower end", w.name, n), low, runs, 0.975)
			atLeast(t, fmt.Sprintf("%s, tau01 of %d, upper end", w.name, n), high, runs, 0.975)
			if (n > 1000) != (closed == runs) && w.name != "on the edge" {
				t.Errorf("%s: %d promises gave an upper end in %d of %d runs", w.name, n, closed, runs)
			}
		}
	}
}

// Promises with margins evenly spread over 0 to 1, of which a fifth breaks below 0.3 and 0.5 % above: VD(t) =
// (0.2 (0.3-t) + 0.005*0.7)/(1-t) is 1 % at t = 0.0535/0.19.
func TestGivenTauCoverage(t *testing.T) {
	t.Parallel()
	runs := times(100, 4000)
	truth := Float(0.0535 / 0.19)
	for _, n := range []int{300, 3000} {
		rng := rand.New(rand.NewPCG(uint64(n), 6))
		low, high, closed, known := 0, 0, 0, 0
		for range runs {
			promises := make([]Promise, n)
			for i := range promises {
				p := &promises[i]
				p.Status, p.Own, p.Other = recourse.Found, Float(rng.Float64()), 1
				if chance := 0.005 + 0.195*float64(count(p.Own < 0.3)); rng.Float64() < chance {
					p.Other = -1
				}
			}
			tau := issuedTau(0, promises, 0.95)
			if !tau.Value.Defined() {
				continue
			}
			known++
			low += count(tau.Lo <= truth)
			high += count(truth <= tau.Hi)
			closed += count(tau.Hi.Defined())
			if !(tau.Lo <= tau.Value && tau.Value <= tau.Hi) {
				t.Fatalf("%+v", tau)
			}
		}
		atLeast(t, fmt.Sprintf("%d given promises, lower end", n), low, known, 0.975)
		atLeast(t, fmt.Sprintf("%d given promises, upper end", n), high, known, 0.975)
		if n < 367 && closed > 0 || n == 3000 && 5*closed < known { // 0.99^366 is above 2.5 %
			t.Errorf("%d promises gave an upper end in %d of %d runs", n, closed, known)
		}
	}
}

func TestTolerances(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 50, 100, 366, 367, 368, 1000, 5000} {
		for _, conf := range []float64{0.8, 0.95} {
			side := (1 + conf) / 2
			sure, maybe := most(upperWithin(conf), n), most(lowerWithin(conf), n)
			if got := onePercentOf(n); most(onePercent, n) != got || sure > got || maybe < got {
				t.Errorf("of %d: %d, %d and %d, want %d", n, sure, most(onePercent, n), maybe, got)
			}
			if sure >= 0 && statistics.ClopperPearsonUpper(sure, n, side) > tauShare ||
				statistics.ClopperPearsonUpper(sure+1, n, side) <= tauShare {
				t.Errorf("%d of %d upperWithin", sure, n)
			}
			if statistics.ClopperPearsonLower(maybe, n, side) > tauShare || maybe < n &&
				statistics.ClopperPearsonLower(maybe+1, n, side) <= tauShare {
				t.Errorf("%d of %d lowerWithin", maybe, n)
			}
		}
	}
	if most(upperWithin(0.95), 367) >= 0 || most(upperWithin(0.95), 368) != 0 {
		t.Error("nothing of 367 may break, of 368 none, for 1 % to be excluded at 97.5 %")
	}
}

func most(ok allowed, n int) int {
	return sort.Search(n+1, func(k int) bool { return !ok(k, n) }) - 1
}

func onePercentOf(n int) int { return n / 100 }
