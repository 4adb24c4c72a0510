package gate

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"

	"cfq/internal/must"
)

// draws is how many samples a simulation takes, and by how much an error rate of 5 % may then be above that by chance
// (four standard errors).
func draws() (n int, most float64) {
	n = 800
	if os.Getenv("CFQ_LONG") == "1" {
		n = 100000
	}
	return n, 0.05 + 4*math.Sqrt(0.05*0.95/float64(n))
}

func shares(t *testing.T, g *Gate, draw func(rng *rand.Rand) (r, previous *eval.Result)) (pass, fail float64) {
	t.Helper()
	must.Do(t, g.Check())
	n, _ := draws()
	rng := rand.New(rand.NewPCG(7, 11))
	for range n {
		r, previous := draw(rng)
		switch Judge(g, r, previous).Verdict {
		case Pass:
			pass++
		case Fail:
			fail++
		}
	}
	return pass / float64(n), fail / float64(n)
}

func binomial(rng *rand.Rand, n int, p float64) int {
	return int(distuv.Binomial{N: float64(n), P: p, Src: rng}.Rand())
}

// A model that is just at the limit gets past the gate in at most 5 % of samples, and is failed in at most 5 %: a
// share, the least of several groups, a
// gap and an increase. Each case is one in which the rule has the most trouble: where all that counts is at the limit.
func TestErrorRates(t *testing.T) {
	t.Parallel()
	_, most := draws()
	groups := func(ps []float64, n int) func(*rand.Rand) (*eval.Result, *eval.Result) {
		return func(rng *rand.Rand) (*eval.Result, *eval.Result) {
			ks, ns := make([]int, len(ps)), make([]int, len(ps))
			for i, p := range ps {
				ks[i], ns[i] = binomial(rng, n, p), n
			}
			return grouped(ks, ns), nil
		}
	}
	for _, c := range []struct {
		name  string
		check string
		draw  func(*rand.Rand) (*eval.Result, *eval.Result)
		pass  float64 // at least this often, so that the test can tell a gate that never passes; 0 for no demand
		fail  float64
	}{
		{"share", "vd<=0.02", func(rng *rand.Rand) (*eval.Result, *eval.Result) {
			return broken(binomial(rng, 1500, 0.02), 1500), nil
		}, 0.03, 0.03},
		{"one group at the limit", "vd[sex]<=0.05", groups([]float64{0.05, 0, 0, 0}, 800), 0.02, 0.005},
		{"all groups at the limit", "vd[sex]<=0.05", groups([]float64{0.05, 0.05, 0.05, 0.05, 0.05, 0.05}, 800), 0, 0.03},
		{"gap of two", "gap(vd[sex])<=0.05", groups([]float64{0.1, 0.05}, 1000), 0.002, 0},
		{"gap of two among four", "gap(vd[sex])<=0.05", groups([]float64{0.1, 0.05, 0.07, 0.08}, 1000), 0, 0},
		{"gap of six", "gap(vd[sex])<=0.05", groups([]float64{0.1, 0.1, 0.1, 0.05, 0.05, 0.05}, 1000), 0, 0},
		{"increase", "increase(vd)<=0.03", func(rng *rand.Rand) (*eval.Result, *eval.Result) {
			return broken(binomial(rng, 1000, 0.08), 1000), broken(binomial(rng, 1000, 0.05), 1000)
		}, 0.001, 0.001},
	} {
		pass, fail := shares(t, gateOf(t, c.check), c.draw)
		t.Logf("%s: PASS %.4f, FAIL %.4f", c.name, pass, fail)
		if pass > most || fail > most || pass < c.pass || fail < c.fail {
			t.Errorf("%s: PASS in %.4f of samples, FAIL in %.4f; at most %.4f, at least %v and %v", c.name, pass, fail, most,
				c.pass, c.fail)
		}
	}
}
