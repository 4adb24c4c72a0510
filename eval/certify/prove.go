package certify

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"cfq/eval"
)

// Prove bounds the margins in boxes; it is an eval.Prover. What it says is held against both models at the middle of each
// box: where they are not within the bounds, which happens when the machine does not compute what the
// file says, that is an error.
func (k *Certifier) Prove(ctx context.Context, points, half []float32, n int) ([]eval.Proof, error) {
	if k.unknown != nil {
		return nil, k.unknown
	}
	dim := k.full.c.Dim()
	if len(points) != n*dim || len(half) != n*dim {
		return nil, fmt.Errorf("certificates: %d numbers and %d half widths for %d rows of %d inputs", len(points), len(half), n, dim)
	}
	for i, p := range points {
		if h := half[i]; p-p != 0 || h-h != 0 || h < 0 {
			return nil, fmt.Errorf("certificates: input %d of row %d is %v, its half width %v", i%dim, i/dim, p, h)
		}
	}
	out := make([]eval.Proof, n)
	upper := make([]float64, n)
	group, run := errgroup.WithContext(ctx)
	const many = 64
	group.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += many {
		group.Go(func() error {
			var s space
			for i := from; i < min(from+many, n); i++ {
				if err := run.Err(); err != nil {
					return err
				}
				out[i], upper[i] = k.prove(&s, points[i*dim:(i+1)*dim], half[i*dim:(i+1)*dim])
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, k.hold(ctx, points, out, upper)
}

// hold holds the proofs against the margins at the points.
func (k *Certifier) hold(ctx context.Context, points []float32, proofs []eval.Proof, upper []float64) error {
	f, err := k.full.c.Margins(ctx, points)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	g, err := k.quant.c.Margins(ctx, points)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	for i, p := range proofs {
		m, apart := float64(g[i]), math.Abs(float64(g[i])-float64(f[i]))
		if m < float64(p.Lower) || m > upper[i] || apart > float64(p.Apart) {
			return fmt.Errorf("certificates: at row %d the quantized model's margin is %v and %v from the original's, but must be between %v and %v, and within %v: "+
				"this machine does not compute what the file says (8-bit weights saturate on processors without VNNI: quantize with --reduced-range)",
				i, m, apart, p.Lower, upper[i], p.Apart)
		}
	}
	return nil
}

// prove bounds the margins in one box. upper bounds the quantized one from above.
func (k *Certifier) prove(s *space, point, half []float32) (_ eval.Proof, upper float64) {
	s.reset()
	x := s.box(point, half)
	inputs := s.symbols
	full := pass{space: s, first: true}
	f := k.full.p.run(&full, x)
	beside := pass{space: s, full: full.forms}
	g := k.quant.p.run(&beside, x)
	lower, upper := k.margin(g, nil)
	least, most := k.margin(g, f)
	apart := math.Max(math.Abs(least), math.Abs(most))
	s.symbols = inputs
	alone := pass{space: s}
	l, u := k.margin(k.quant.p.run(&alone, x), nil)
	unknown := overflows(full.forms) || overflows(beside.forms) && overflows(alone.forms)
	lower, upper = math.Max(lower, l), math.Min(upper, u)
	if unknown || math.IsNaN(lower) || math.IsNaN(upper) || math.IsNaN(apart) { // float32 overflows somewhere in the box
		return eval.Proof{Lower: eval.Float(math.Inf(-1)), Apart: eval.Float(math.Inf(1))}, math.Inf(1)
	}
	return eval.Proof{Lower: eval.Float(lower), Apart: eval.Float(apart)}, upper
}

// overflows says that a number, or one of those that were added up to it, may be too large for float32.
func overflows(forms []*form) bool {
	for _, f := range forms {
		if f == nil {
			continue
		}
		for i := range f.c {
			if !(f.mag[i] < math.MaxFloat32 && f.reach(i) < math.MaxFloat32) {
				return true
			}
		}
	}
	return false
}

// margin bounds the margin of the logits g, or how much larger it is than that of f.
func (k *Certifier) margin(g, f *form) (least, most float64) {
	if len(g.c) == 1 {
		sign := 1.0
		if k.target == 0 {
			sign = -1
		}
		return difference(g, f, 0, -1, sign)
	}
	least, most = math.Inf(1), math.Inf(-1)
	if f == nil {
		most = math.Inf(1)
	}
	for j := range g.c {
		if j == k.target {
			continue
		}
		lo, hi := difference(g, f, k.target, j, 1)
		least = math.Min(least, lo)
		if f == nil {
			most = math.Min(most, hi)
		} else { // two minima differ by no more than some pair of what they are taken of
			most = math.Max(most, hi)
		}
	}
	return least, most
}

// difference bounds sign times number t less number j (none if negative) of g, less the same of f (none if nil).
func difference(g, f *form, t, j int, sign float64) (from, to float64) {
	k := g.k
	if f != nil {
		k = max(k, f.k)
	}
	a := make([]float64, k)
	c, r := 0.0, 0.0
	add := func(x *form, i int, w float64) {
		axpy(w, x.row(i), a)
		c += w * x.c[i]
		r += x.own[i] + 8*unit*math.Max(x.mag[i], x.reach(i))
	}
	add(g, t, sign)
	if j >= 0 {
		add(g, j, -sign)
	}
	if f != nil {
		add(f, t, -sign)
		if j >= 0 {
			add(f, j, sign)
		}
	}
	for _, v := range a {
		r += math.Abs(v)
	}
	r += wider*(math.Abs(c)+r) + least
	return c - r, c + r
}
