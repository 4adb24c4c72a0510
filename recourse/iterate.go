package recourse

import (
	"context"
	"math"
)

// pgd is projected gradient descent for one piece of people.
type pgd struct {
	m      Model
	a      *ActionSet // of everybody
	first  int        // row of the piece's first person among them
	x      []float32
	delta  []float32 // the actions: always feasible
	inner  []float32 // the relaxed iterates
	active []int     // people not yet left alone
	points []float32
	try    []float32 // one row of scratch
}

// newPGD starts at the factual points x, those of the people from row first on.
func newPGD(m Model, a *ActionSet, first int, x, delta []float32) *pgd {
	p := &pgd{m: m, a: a, first: first, x: x, delta: delta, inner: make([]float32, len(x)), points: make([]float32, len(x)), try: make([]float32, a.dim)}
	for i := range len(x) / a.dim {
		p.active = append(p.active, i)
	}
	return p
}

// step evaluates the loss gradient at everybody's action and lets move change it; a person for whom it returns false is left alone from then on.
func (p *pgd) step(ctx context.Context, move func(i int, margin float32, g []float32) bool) error {
	if len(p.active) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dim := p.a.dim
	points := p.points[:len(p.active)*dim]
	for k, i := range p.active {
		Point(points[k*dim:(k+1)*dim], row(p.x, i, dim), row(p.delta, i, dim))
	}
	margins, g, err := p.m.LossGrads(ctx, points)
	if err := call(dim, len(p.active), margins, g, err); err != nil {
		return err
	}
	keep := p.active[:0]
	for k, i := range p.active {
		p.set(i).pull(g[k*dim : (k+1)*dim])
		if move(i, margins[k], g[k*dim:(k+1)*dim]) {
			keep = append(keep, i)
		}
	}
	p.active = keep
	return nil
}

// set returns the action set of the piece's i-th person.
func (p *pgd) set(i int) *ActionSet { return p.a.Person(p.first + i) }

// plain is delta <- Pi(delta - alpha g), as the paper writes it.
func (p *pgd) plain(i int, g []float32, alpha float64) {
	d := row(p.delta, i, p.a.dim)
	for j := range d {
		d[j] -= float32(alpha) * g[j]
	}
	p.set(i).Project(row(p.x, i, p.a.dim), d)
}

// relaxed moves the inner iterate, which stays in the box but off the grid, the vertices and the sparsity
// limit, and makes its projection the action.
func (p *pgd) relaxed(i int, g []float32, alpha float64) {
	x, u, d := row(p.x, i, p.a.dim), row(p.inner, i, p.a.dim), row(p.delta, i, p.a.dim)
	a := p.set(i)
	a.relax(x, u, u, g, alpha)
	copy(d, u)
	a.project(x, d, false)
}

// reach chooses alpha by the margin's linearisation at the action: doubled from the unprojected Newton step until the projected
// action gains enough, as far as the constraints let it.
//
// The cross-entropy's gradient is -(1-p) times the margin's, p the target's probability, and 1-p is the
// sigmoid of minus the margin.
func (p *pgd) reach(i int, g []float32, margin, required float64) {
	x, u, d := row(p.x, i, p.a.dim), row(p.inner, i, p.a.dim), row(p.delta, i, p.a.dim)
	a := p.set(i)
	slope := -(1 + math.Exp(margin)) // margin gradient = slope * g
	square := 0.0
	for _, f := range a.free {
		for j := a.units[f].first; j < a.units[f].first+a.units[f].width; j++ {
			square += float64(g[j]) * float64(g[j])
		}
	}
	if !(square > 0) || math.IsInf(square, 0) {
		return
	}
	need := max((required-margin)*1.1, 1e-3) // a little beyond, for curvature
	gain := func(alpha float64) float64 {
		a.relax(x, p.try, u, g, alpha)
		a.project(x, p.try, false)
		sum := 0.0
		for j, v := range p.try {
			if v != d[j] {
				sum += slope * float64(g[j]) * float64(v-d[j])
			}
		}
		return sum
	}
	short, alpha := 0.0, need/(-slope*square)
	for range 8 {
		if gain(alpha) >= need {
			for range 3 {
				if mid := (short + alpha) / 2; gain(mid) >= need {
					alpha = mid
				} else {
					short = mid
				}
			}
			break
		}
		short, alpha = alpha, 2*alpha
	}
	a.relax(x, u, u, g, alpha)
	copy(d, u)
	a.project(x, d, false)
}

// relax sets dst to u - alpha g with the box and immutability kept: numeric features in their span, groups free.
func (a *ActionSet) relax(x, dst, u, g []float32, alpha float64) {
	for i := range a.units {
		f := &a.units[i]
		switch f.kind {
		case fixed, linked: // what is linked follows the projection
			clear(dst[f.first : f.first+f.width])
		case group, ladder:
			for j := f.first; j < f.first+f.width; j++ {
				dst[j] = u[j] - float32(alpha)*g[j]
			}
		default:
			lo, hi := f.span(x[f.first])
			dst[f.first] = min(max(u[f.first]-float32(alpha)*g[f.first], lo), hi)
		}
	}
}

func row(x []float32, i, dim int) []float32 { return x[i*dim : (i+1)*dim : (i+1)*dim] }
