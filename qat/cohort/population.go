package cohort

import (
	"context"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
)

// Population is what the points of objectives that need no labels are drawn from: people and their ways to recourse.
// The full-precision model tells the margin of any point, so that a round can have other points than the one before,
// and people who are mixed from two others. A network that is trained on the same few thousand points over and over
// learns these, not the margin between them.
type Population struct {
	X    []float32 // people x Dim
	Dim  int
	Rays []Ray
	// Features is where each feature begins among the inputs: people exchange whole features.
	Features []int
	// Numbers are the inputs that stand for numbers which actions may change.
	Numbers []int
}

// Ray is a person's way to recourse.
type Ray struct {
	Person int       // position among the people
	To     []float32 // the recourse point, Dim numbers
}

// Margins tells the margin of each row of x.
type Margins func(ctx context.Context, x []float32) ([]float32, error)

const (
	mixedShare = 0.75 // of the people who are drawn get features of another one,
	swapShare  = 0.5  // each feature with this probability
	longest    = 3    // a ray ends at this many times its action, at most
	halvings   = 10   // of the interval in which a ray ends
)

// Draw returns n people.
func (p *Population) Draw(rng *rand.Rand, n int) (x []float32) {
	for range n {
		x = p.person(rng, x, rng.IntN(len(p.X)/p.Dim), nil)
	}
	return x
}

// person appends a person to x, perhaps with some features of another one, other than those that the way to a recourse
// point changes.
func (p *Population) person(rng *rand.Rand, x []float32, i int, to []float32) []float32 {
	own := p.X[i*p.Dim : (i+1)*p.Dim]
	x = append(x, own...)
	if rng.Float64() >= mixedShare {
		return x
	}
	j, mixed := rng.IntN(len(p.X)/p.Dim), x[len(x)-p.Dim:]
	for f, from := range p.Features {
		end := p.Dim
		if f+1 < len(p.Features) {
			end = p.Features[f+1]
		}
		if rng.Float64() < swapShare && (to == nil || slices.Equal(own[from:end], to[from:end])) {
			copy(mixed[from:end], p.X[j*p.Dim+from:])
		}
	}
	return x
}

// DrawTeacher returns n points on the ways to recourse, around where a model begins to favour people.
func (p *Population) DrawTeacher(ctx context.Context, rng *rand.Rand, margins Margins, n int) ([]float32, error) {
	return p.drawRays(ctx, rng, margins, n, teacherLo, teacherHi)
}

// drawRays returns the ends of n rays that people are on, in numbers as far as a model's margin there needs to be about
// one between lo and hi that is drawn, too.
func (p *Population) drawRays(ctx context.Context, rng *rand.Rand, margins Margins, n int, lo, hi float64) ([]float32,
	error,
) {
	rays, aim := make([]Ray, n), make([]float32, n)
	var ends []float32
	for k := range n {
		rays[k] = p.Rays[rng.IntN(len(p.Rays))]
		ends = p.person(rng, ends, rays[k].Person, rays[k].To)
		aim[k] = float32(lo + (hi-lo)*rng.Float64())
	}
	return p.follow(ctx, margins, rays, ends, aim, longest)
}

// Ends returns the end of each ray, in numbers as far as the margin there needs to be about the one given, but no
// farther than the recourse point.
func (p *Population) Ends(ctx context.Context, margins Margins, margin float32) ([]float32, error) {
	ends := lists.RowsAt(p.X, p.Dim, lists.Map(p.Rays, func(r Ray) int { return r.Person }))
	return p.follow(ctx, margins, p.Rays, ends, slices.Repeat([]float32{margin}, len(p.Rays)), 1)
}

// follow moves people along rays as far as the margin needs to be what is aimed at, most times the action at most.
func (p *Population) follow(ctx context.Context, margins Margins, rays []Ray, ends, aim []float32, most float32) (
	[]float32, error,
) {
	n := len(rays)
	steps := make([]float32, n*len(p.Numbers))
	for k, r := range rays {
		from, end := p.X[r.Person*p.Dim:(r.Person+1)*p.Dim], ends[k*p.Dim:]
		for j, to := range r.To {
			if i, number := slices.BinarySearch(p.Numbers, j); number {
				steps[k*len(p.Numbers)+i] = to - from[j]
			} else if to != from[j] {
				end[j] = to
			}
		}
	}
	// Each ray is halved where it reaches its margin, which rises along nearly all of them.
	short, long := make([]float32, n), slices.Repeat([]float32{most}, n)
	x := make([]float32, len(ends))
	at := func(where func(k int) float32) []float32 {
		copy(x, ends)
		for k := range n {
			s := where(k)
			for i, j := range p.Numbers {
				x[k*p.Dim+j] += s * steps[k*len(p.Numbers)+i]
			}
		}
		return x
	}
	for range halvings {
		got, err := margins(ctx, at(func(k int) float32 { return (short[k] + long[k]) / 2 }))
		if err != nil {
			return nil, err
		}
		for k, m := range got {
			if m > aim[k] {
				long[k] = (short[k] + long[k]) / 2
			} else {
				short[k] = (short[k] + long[k]) / 2
			}
		}
	}
	return at(func(k int) float32 { return long[k] }), nil
}
