package recourse

import (
	"math/rand/v2"
	"slices"
)

// Jitter returns the people x as others like them: every number that a person can change moves by size standard deviations (the feature's own, by which
// changes are weighed) times a standard normal draw. The new value is brought back into the bounds, or to a value outside of them where the person stood
// already, and onto the steps or values that the feature has. Direction and largest changes do not count, for nobody acts. What links
// drag along follows, within its bounds; all other inputs stay as they are to the bit. Rules between features are not looked at. Each person has random
// numbers of their own, by seed and row.
//
// References: equation feature_noise_shift.
func (a *ActionSet) Jitter(x []float32, size float64, seed uint64) []float32 {
	out := make([]float32, len(x))
	everyone := a.bounded()
	for i := range len(x) / a.dim {
		b := everyone
		if own := a.own[i]; own != nil {
			b = own.bounded()
		}
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		b.jitter(out[i*a.dim:(i+1)*a.dim], x[i*a.dim:(i+1)*a.dim], size, rng.NormFloat64)
	}
	return out
}

// bounded returns the set of which only the bounds and steps count, as those of where people can be.
func (a *ActionSet) bounded() *ActionSet {
	b := *a
	b.units = slices.Clone(a.units)
	for i := range b.units {
		b.units[i].up, b.units[i].down, b.units[i].scale = far, far, 1
	}
	return &b
}

func (a *ActionSet) jitter(dst, x []float32, size float64, normal func() float64) {
	d := make([]float32, a.dim)
	for _, i := range a.free {
		if u := &a.units[i]; u.feature.Kind.IsNumber() {
			d[u.first] = u.nearest(x[u.first], float32(size*sigma(u.feature, 0)*normal()))
		}
	}
	a.write(dst, x, d, func(u *unit) float32 {
		if u.form == grid {
			return u.written(x[u.first], d[u.first], 0)
		}
		return x[u.first] + d[u.first]
	})
	for i := range a.links {
		if u := &a.units[a.links[i].to]; u.form == continuous || u.form == grid {
			lo, hi := u.span(x[u.first])
			dst[u.first] = min(max(dst[u.first], x[u.first]+lo), x[u.first]+hi)
		}
	}
}
