package cohort

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

// town is a population with the features: a number that people change, a choice of three that they change, a number
// and a choice of two that they do not.
func town(r *rand.Rand, people int) *Population {
	p := &Population{Dim: 7, Features: []int{0, 1, 4, 5}, Numbers: []int{0, 4}}
	for range people {
		x := make([]float32, p.Dim)
		x[0], x[4] = -5-float32(r.Float64()), float32(r.NormFloat64())
		x[1+r.IntN(3)], x[5+r.IntN(2)] = 1, 1
		p.X = append(p.X, x...)
	}
	return p
}

func (p *Population) row(i int) []float32 { return p.X[i*p.Dim : (i+1)*p.Dim] }

// addRay gives a person a way to recourse: ten more of the number, and the choice to.
func (p *Population) addRay(person, to int) {
	end := slices.Clone(p.row(person))
	end[0] += 10
	copy(end[1:4], make([]float32, 3))
	end[1+to] = 1
	p.Rays = append(p.Rays, Ray{Person: person, To: end})
}

// rising is a margin that rises with the number, at another slope for each choice.
func rising(_ context.Context, x []float32) ([]float32, error) {
	var out []float32
	for k := 0; k < len(x); k += 7 {
		out = append(out, x[k]*(1+x[k+1]+2*x[k+2])+0.1*x[k+4])
	}
	return out, nil
}

// Where the margin rises along every ray and reaches what is asked for, it ends there, all over the range.
func TestRaysEndAtMargins(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	p := town(r, 50)
	for i := range 20 {
		p.addRay(i, r.IntN(3))
	}
	const n, lo, hi = 1000, -0.2, 0.4
	ends := must.Get(p.drawRays(t.Context(), r, rising, n, lo, hi))(t)
	got, _ := rising(t.Context(), ends)
	const step = 10 * longest * 3. / (1 << halvings) // the last interval, at the steepest slope
	var quarters [4]int
	for _, m := range got {
		if m <= lo || m > hi+step {
			t.Errorf("a ray ends at the margin %v", m)
			continue
		}
		quarters[min(int(4*(m-lo)/(hi-lo)), 3)]++
	}
	if len(got) != n || slices.Min(quarters[:]) < n/8 {
		t.Errorf("%d rays end %v times in each quarter of the margins", len(got), quarters)
	}
}

// Every ray has one end, at the margin asked for or, where the recourse point has a smaller one, there.
func TestEndsOfRays(t *testing.T) {
	t.Parallel()
	p := town(rand.New(rand.NewPCG(1, 1)), 20)
	for i := range 20 {
		p.addRay(i, i%3)
	}
	ends, err := p.Ends(t.Context(), rising, 0.1)
	must.Do(t, err)
	got, _ := rising(t.Context(), ends)
	for k, m := range got {
		if m <= 0.1 || m > 0.1+10*3./(1<<halvings) {
			t.Errorf("ray %d ends at the margin %v", k, m)
		}
		if end, to := p.Rays[k].To, ends[k*p.Dim:(k+1)*p.Dim]; !slices.Equal(end[1:], to[1:]) || to[0] > end[0] {
			t.Errorf("ray %d to %v ends at %v", k, end, to)
		}
	}
	if ends, err = p.Ends(t.Context(), rising, 1e6); err != nil {
		t.Fatal(err)
	}
	for k := range p.Rays {
		must.Same(t, p.Rays[k].To, ends[k*p.Dim:(k+1)*p.Dim])
	}
}

// On a person's way to recourse what the action chooses is there whole, and what it leaves alone is the person's own
// or, feature by feature, that of one other person.
func TestRaysKeepFeatures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := town(r, rapid.IntRange(1, 6).Draw(t, "people"))
		person := r.IntN(len(p.X) / p.Dim)
		p.addRay(person, r.IntN(3))
		to, before := p.Rays[0].To, slices.Clone(p.X)
		ends := must.Get(p.drawRays(t.Context(), r, rising, 20, -0.5, 0.5))(t)
		for k := range 20 {
			end := ends[k*p.Dim : (k+1)*p.Dim]
			if s := (end[0] - p.row(person)[0]) / 10; s < 0 || s > longest {
				t.Fatalf("%v is %v times the action away from %v", end, s, p.row(person))
			}
			rest := []int{2, 3}
			if slices.Equal(p.row(person)[1:4], to[1:4]) {
				rest = []int{1, 2, 3} // the ray changes no choice
			} else if !slices.Equal(end[1:4], to[1:4]) {
				t.Fatalf("%v does not choose as %v", end, to)
			}
			if !p.mixed(end, person, rest) {
				t.Fatalf("%v is no mixture of %v and another person", end, p.row(person))
			}
		}
		must.Same(t, p.X, before)
	})
}

// mixed reports whether features of a row are a person's own or those of one other person.
func (p *Population) mixed(x []float32, person int, features []int) bool {
	bounds := append(slices.Clone(p.Features), p.Dim)
	for j := range len(p.X) / p.Dim {
		all := true
		for _, f := range features {
			from, end := bounds[f], bounds[f+1]
			own, other := p.row(person)[from:end], p.row(j)[from:end]
			all = all && (slices.Equal(x[from:end], own) || slices.Equal(x[from:end], other))
		}
		if all {
			return true
		}
	}
	return false
}

// People who are drawn are those that there are, or mixtures of two of them; there are many of both.
func TestDrawPeople(t *testing.T) {
	t.Parallel()
	p := town(rand.New(rand.NewPCG(3, 1)), 12)
	const n = 1000
	x := p.Draw(rand.New(rand.NewPCG(4, 1)), n)
	must.Same(t, p.Draw(rand.New(rand.NewPCG(4, 1)), n), x)
	must.Same(t, n*p.Dim, len(x))
	whole := 0
	for ; len(x) > 0; x = x[p.Dim:] {
		mixture := false
		for i := range len(p.X) / p.Dim {
			if slices.Equal(x[:p.Dim], p.row(i)) {
				whole, mixture = whole+1, true
				break
			}
			mixture = mixture || p.mixed(x[:p.Dim], i, []int{0, 1, 2, 3})
		}
		if !mixture {
			t.Fatalf("%v is nobody's", x[:p.Dim])
		}
	}
	if whole < n/4 || whole > n/2 { // a quarter are not mixed at all, and some mixtures take nothing
		t.Errorf("%d of %d people are as they were", whole, n)
	}
}
