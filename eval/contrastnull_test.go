package eval

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// calls counts, of many pairs of models that differ by chance alone, those that are told apart, by metric and margin.
func calls(t *testing.T, people, pairs int, q quality, o ContrastOptions) map[string]int {
	t.Helper()
	n := map[string]int{}
	for i := range pairs {
		o.Seed = uint64(i)
		seed := uint64(1000 + i)
		for _, r := range contest(t, o, madeUp(people, seed, 1, q), madeUp(people, seed, 2, q)).Rows {
			name := r.Metric
			if r.Margin != nil {
				name = fmt.Sprintf("%s %v", name, *r.Margin)
			}
			n[name] += count(r.Cells[1].Call != Alike)
		}
	}
	return n
}

func testNull(t *testing.T, people, pairs int, q quality, draws int) {
	t.Helper()
	got := calls(t, people, pairs, q, ContrastOptions{Draws: draws})
	chance := distuv.Binomial{N: float64(pairs), P: 0.05}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%d people, noise %v, %s: %.2f %% called", people, q.noise, name, 100*float64(got[name])/float64(pairs))
		if p := chance.Survival(float64(got[name] - 1)); p < 1e-4 {
			t.Errorf("%d people, noise %v, %s: %d of %d pairs of equally good models are told apart", people, q.noise, name, got[name], pairs)
		}
	}
}

// TestContrastNull: models that are equally good are told apart no more often than the confidence allows.
func TestContrastNull(t *testing.T) {
	testNull(t, 150, 100, quality{noise: 0.1}, 99)
}

// Measured: means, shares and rms 4 to 6 %, McNemar's test and tau01 less, signed CRG, of which absolute values are compared, below 1 %.
func TestContrastNullLong(t *testing.T) {
	long(t)
	for _, people := range []int{45, 200, 800} {
		testNull(t, people, 1000, quality{noise: 0.1}, 399)
	}
}
