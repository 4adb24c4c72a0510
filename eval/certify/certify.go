// Package certify proves that a promise survives quantization.
//
// In: the full-precision and the quantized model, recourse points, boxes around them. Out: for each box, sound
// bounds on the quantized margin and on the difference of the two margins anywhere in the box. The invariant:
// a bound is never wrong. It holds for the networks as ONNX Runtime runs them, rounding included.
//
// # Method
//
// Both networks are propagated as zonotopes, as in DeepZ (Singh et al., NeurIPS 2018): a number is a centre, a linear
// combination of noise symbols in [-1, 1], and an independent error. The inputs that have a width are the first
// symbols. Where an activation is not linear in the box, and where a quantizer rounds, a symbol or an error is added.
// Both models share the symbols. Where both have the same activation, the quantized one is relaxed jointly with the
// full one: its output is the other's output plus a bounded slope times the difference of their inputs, so that what
// they share cancels. That is the idea of ReluDiff (Paulsen et al., ICSE 2020), on zonotopes. The quantized margin by
// itself is also bounded by backward substitution (CROWN, DeepPoly) with the bounds of all numbers from the zonotopes.
//
// A box that these bounds do not certify is divided (branch and bound; Bunel et al., JMLR 2020). If the first operators
// of the quantized model round its inputs to codes, the model depends on the codes only: a part of a box with few codes
// is certified by running all of them in ONNX Runtime. A refused input ends the work.
//
// # Rounding
//
// The bounds allow for more than real arithmetic:
//   - sums of n products in float32: (n+8) 2^-24 times the sum of their magnitudes, in any order, fused or not;
//   - integer kernels (QGemm, QLinearMatMul, MatMulIntegerToFloat), where ONNX Runtime runs one: exact sums, scaled
//     in float32 with an error of 8 2^-24, and codes that round a quotient known to 2^-22. Where that
//     quotient may lie on either side of the middle between two codes, both codes are allowed for;
//   - other operators: 8 2^-24 of what they add up; smooth functions, which ONNX Runtime approximates: 2^-18, and
//     2^-18 of their argument where they are not bounded;
//   - the bounds' own double arithmetic: 2^-38 of the magnitudes.
//
// Weights are those that ONNX Runtime itself computes from the file, and its kernels are looked up in its optimized
// graph. Where that graph rounds what the file does not round, or merges two quantizers, nothing is proved; the
// rounding of a bias is allowed for. Every proof is compared with a run of both models at the middle of its box.
//
// References: section "Theory" (proposition prop:margin_robust), "Bounding logit perturbation from
// quantization error".
package certify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Certifier bounds how a quantized model differs from the full-precision one. It is safe for concurrent use.
type Certifier struct {
	full, quant side
	target      int
	unsupported error  // why nothing can be proved
	front       *front // in front of both models; nil without one
	grid        *grid  // of the quantized model; nil without one
}

// side is one of the two models.
type side struct {
	c     *classifier.Model
	plain *classifier.Model // without a step in front of it: what is bounded
	p     *program          // nil where the graph has an operator that certificates do not support
}

// Open prepares certificates for the class target of the two models, as ONNX Runtime runs them with the models'
// options. An operator that certificates do not support is not an error here: see [Certifier.Check].
func Open(ctx context.Context, full, quantized *onnxio.Model, target int) (*Certifier, error) {
	k := &Certifier{target: target}
	var unsupported []error
	for _, of := range []struct {
		name string
		m    *onnxio.Model
		s    *side
	}{{"the original", full, &k.full}, {"the quantized model", quantized, &k.quant}} {
		if err := of.s.open(of.m, target); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", of.name, err), k.Close())
		}
		var err error
		if of.s.p, err = compile(ctx, of.s.plain); err != nil {
			unsupported = append(unsupported, fmt.Errorf("%s: %w", of.name, err))
		}
	}
	if _, step := full.WithoutInputTransform(); step != nil {
		if _, ok := step.(*onnxio.Front); !ok {
			unsupported = append(unsupported, errors.New("recourse is in a latent space: there are no bounds on what a decoder "+
				"makes of a neighbourhood"))
		}
	}
	if a, b := k.full.c, k.quant.c; a.Dim() != b.Dim() || a.Classes() != b.Classes() {
		err := fmt.Errorf("the original has %d inputs and %d classes, the quantized model %d and %d",
			a.Dim(), a.Classes(), b.Dim(), b.Classes())
		return nil, errors.Join(err, k.Close())
	}
	if k.unsupported = errors.Join(unsupported...); k.unsupported == nil {
		for name, d := range k.quant.p.activations {
			if twin := k.full.p.activations[name]; twin != nil && slices.Equal(twin.of, d.of) {
				d.twin = twin
			}
		}
		var err error
		if k.front, err = newFront(full); err == nil {
			k.grid, err = newGrid(k.quant.plain)
		}
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
	}
	return k, nil
}

// open opens a model, with and without the step in front of it.
func (s *side) open(m *onnxio.Model, target int) (err error) {
	o := classifier.Options{Target: &target, Through: quant.StraightThrough}
	if s.c, err = classifier.New(m, o); err != nil {
		return err
	}
	s.plain = s.c
	if plain, step := m.WithoutInputTransform(); step != nil {
		s.plain, err = classifier.New(plain, o)
	}
	return err
}

// Check returns why [Certifier.Prove] cannot prove anything, with the names of the nodes; nil when it can.
func (k *Certifier) Check() error { return k.unsupported }

// Close frees the models.
func (k *Certifier) Close() error {
	var errs []error
	if k.grid != nil {
		errs = append(errs, k.grid.s.Close())
	}
	if k.front != nil {
		errs = append(errs, k.front.s.Close())
	}
	for _, s := range []*side{&k.full, &k.quant} {
		if s.c != nil {
			errs = append(errs, s.c.Close())
		}
		if s.plain != nil && s.plain != s.c {
			errs = append(errs, s.plain.Close())
		}
	}
	return errors.Join(errs...)
}

// Prove bounds the margins in n boxes, as an [eval.Prover]: points are the middles, half the half widths, each
// n rows of model inputs. It runs both models at the middle of each box. A margin outside of the bounds is an
// error: the machine does not compute what the file says.
func (k *Certifier) Prove(ctx context.Context, points, half []float32, n int) ([]eval.Proof, error) {
	if k.unsupported != nil {
		return nil, k.unsupported
	}
	dim := k.full.c.Dim()
	if len(points) != n*dim || len(half) != n*dim {
		return nil, fmt.Errorf("certificates: %d numbers and %d half widths for %d rows of %d inputs",
			len(points), len(half), n, dim)
	}
	for i, p := range points {
		if h := half[i]; p-p != 0 || h-h != 0 || h < 0 {
			return nil, fmt.Errorf("certificates: input %d of row %d is %v, its half width %v", i%dim, i/dim, p, h)
		}
	}
	middles, halves, err := k.front.boxes(ctx, points, half)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	inputs := k.full.plain.Dim()
	out := make([]eval.Proof, n)
	upper := make([]float64, n)
	group, run := errgroup.WithContext(ctx)
	const chunk = 8
	group.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < n; from += chunk {
		group.Go(func() error {
			var s noiseSymbols
			for i := from; i < min(from+chunk, n); i++ {
				if err := run.Err(); err != nil {
					return err
				}
				point, half := middles[i*inputs:(i+1)*inputs], halves[i*inputs:(i+1)*inputs]
				out[i], upper[i] = k.prove(&s, point, half)
				if out[i].Certified() || slices.Max(half) == 0 {
					continue
				}
				lower, err := k.divide(run, &s, point, half)
				if err != nil {
					return fmt.Errorf("certificates: %w", err)
				}
				out[i].Lower = max(out[i].Lower, lower)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, k.checkPoints(ctx, points, out, upper)
}

// checkPoints compares the proofs with the margins at the points.
func (k *Certifier) checkPoints(ctx context.Context, points []float32, proofs []eval.Proof, upper []float64) error {
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
			return fmt.Errorf("certificates: at row %d the quantized model's margin is %v and %v from the original's, "+
				"but must be between %v and %v, and within %v: this machine does not compute what the file says "+
				"(8-bit weights beyond 64 saturate on processors without VNNI: quantize without --full-range)",
				i, m, apart, p.Lower, upper[i], p.Apart)
		}
	}
	return nil
}

// prove bounds the margins in one box. upper bounds the quantized one from above.
func (k *Certifier) prove(s *noiseSymbols, point, half []float32) (_ eval.Proof, upper float64) {
	s.reset()
	x := s.box(point, half)
	inputs := s.symbols
	full := pass{noiseSymbols: s, first: true}
	f := k.full.p.run(&full, x)
	joint := pass{noiseSymbols: s, full: full.values}
	g := k.quant.p.run(&joint, x)
	lower, upper := k.margin(g, nil)
	lo, hi := k.margin(g, f)
	apart := math.Max(math.Abs(lo), math.Abs(hi))
	// The joint relaxation is tight for the difference. The quantized model by itself may have tighter margins.
	s.symbols = inputs
	single := pass{noiseSymbols: s}
	lo, hi = k.margin(k.quant.p.run(&single, x), nil)
	lower, upper = max(lower, lo, k.substituted(&single)), math.Min(upper, hi)
	overflow := overflows(full.values) || overflows(joint.values) && overflows(single.values)
	if overflow || math.IsNaN(lower) || math.IsNaN(upper) || math.IsNaN(apart) {
		return eval.Proof{Lower: eval.Float(math.Inf(-1)), Apart: eval.Float(math.Inf(1))}, math.Inf(1)
	}
	return eval.Proof{Lower: eval.Float(lower), Apart: eval.Float(apart)}, upper
}

// overflows reports whether a number, or a term of its sum, may be too large for float32.
func overflows(values []*zonotope) bool {
	for _, z := range values {
		if z == nil {
			continue
		}
		for i := range z.c {
			if !(z.mag[i] < math.MaxFloat32 && z.reach(i) < math.MaxFloat32) {
				return true
			}
		}
	}
	return false
}

// margin bounds the margin of the logits g, or, with f, that margin less the margin of f.
func (k *Certifier) margin(g, f *zonotope) (lower, upper float64) {
	if len(g.c) == 1 {
		sign := 1.0
		if k.target == 0 {
			sign = -1
		}
		return difference(g, f, 0, -1, sign)
	}
	lower, upper = math.Inf(1), math.Inf(-1)
	if f == nil {
		upper = math.Inf(1)
	}
	for j := range g.c {
		if j == k.target {
			continue
		}
		lo, hi := difference(g, f, k.target, j, 1)
		lower = math.Min(lower, lo)
		if f == nil {
			upper = math.Min(upper, hi)
		} else { // two minima differ by at most the largest difference of a pair that they are taken of
			upper = math.Max(upper, hi)
		}
	}
	return lower, upper
}

// difference bounds sign times (number t less number j) of g, less the same of f. A negative j stands for 0,
// and so does a nil f.
func difference(g, f *zonotope, t, j int, sign float64) (lower, upper float64) {
	k := g.k
	if f != nil {
		k = max(k, f.k)
	}
	a := make([]float64, k)
	c, r := 0.0, 0.0
	add := func(x *zonotope, i int, w float64) {
		if x == nil || i < 0 {
			return
		}
		axpy(w, x.row(i), a)
		c += w * x.c[i]
		r += x.own[i] + 8*roundoff*math.Max(x.mag[i], x.reach(i))
	}
	add(g, t, sign)
	add(g, j, -sign)
	add(f, t, -sign)
	add(f, j, sign)
	for _, v := range a {
		r += math.Abs(v)
	}
	r += doubleError*(math.Abs(c)+r) + underflow
	return c - r, c + r
}
