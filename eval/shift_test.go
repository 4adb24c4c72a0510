package eval

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// binned puts n people into bins with these probabilities.
func binned(rng *rand.Rand, n int, p ...float64) []int {
	counts := make([]int, len(p))
	for range n {
		u, at := rng.Float64(), 0
		for at < len(p)-1 && u >= p[at] {
			u -= p[at]
			at++
		}
		counts[at]++
	}
	return counts
}

func even(bins int) []float64 {
	p := make([]float64, bins)
	for i := range p {
		p[i] = 1 / float64(bins)
	}
	return p
}

// People who do not differ get a warning, for any of 20 features, in less than 1 % of samples, however few they are;
// and the mean of PSI is what is expected.
func TestPeopleWhoDoNotDiffer(t *testing.T) {
	t.Parallel()
	const trials, features, bins = 300, 20, 10
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{20, 50, 100, 1000} {
		warned, mean, expected := 0, 0.0, 0.0
		for range trials {
			all := make([]Binned, features)
			for i := range all {
				all[i] = Binned{"f", binned(rng, 500, even(bins)...), binned(rng, n, even(bins)...)}
			}
			s := NewShift(all)
			if s.Warning() != "" {
				warned++
			}
			f := &s.Features[0]
			mean, expected = mean+float64(f.PSI)/trials, float64(f.Expected)
		}
		if warned > trials/100 {
			t.Errorf("%d people: %d of %d samples are warned of", n, warned, trials)
		}
		if n >= 50 && math.Abs(mean/expected-1) > 0.15 {
			t.Errorf("%d people: mean PSI %.3f, expected %.3f", n, mean, expected)
		}
	}
}

// People who differ are warned of by the feature's name, and a limit says by which features.
func TestPeopleWhoDiffer(t *testing.T) {
	s := NewShift([]Binned{
		{"age", []int{250, 250, 250, 250}, []int{24, 26, 25, 25}},
		{"income", []int{250, 250, 250, 250}, []int{70, 20, 5, 5}},
		{"rooms", []int{5, 5}, []int{1, 0}},
		{Feature: "region"},
	})
	want := "the people differ from the calibration data, with a PSI above 0.25: income (1.12). The model was " +
		"quantized for other people"
	if s.Warning() != want {
		t.Errorf("%q, want %q", s.Warning(), want)
	}
	var sizes []string
	for i := range s.Features {
		sizes = append(sizes, s.Features[i].Size())
	}
	if got := strings.Join(sizes, "|"); got != "small|large|may be chance|" {
		t.Errorf("sizes %s", got)
	}
	for _, c := range []struct {
		limit   float64
		names   string
		certain bool
	}{{0.2, "income (PSI 1.12), rooms (PSI 0.35)", true}, {5, "", false}} {
		names, certain := s.Above(c.limit)
		if strings.Join(names, ", ") != c.names || certain != c.certain {
			t.Errorf("above %v: %v, %v", c.limit, names, certain)
		}
	}
}
