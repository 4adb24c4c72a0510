package autodiff_test

import (
	"fmt"
	"testing"

	"cfq/autodiff"
	"cfq/engine"
	"cfq/engine/enginetest"
	"cfq/graph"
)

// TestRules holds the rule of every operator against central differences of
// what ONNX Runtime computes, and the rules of the rules against central
// differences of the gradients.
func TestRules(t *testing.T) {
	ort := enginetest.Need(t)
	for _, s := range samples() {
		t.Run(s.name(), func(t *testing.T) {
			batches := []int64{2}
			if s.dynamic() {
				batches = []int64{1, 3}
			}
			for _, n := range batches {
				checkSample(t, ort, s, n)
			}
		})
	}
}

// precision is the step of central differences and the error that they may
// have. In double, rounding gives 1e-16/h = 1e-11 and the third derivative
// h² = 1e-10. In float the two are 6e-8/h and h²/6: 2e-5 each at h = 1e-2 for a
// function and derivatives of size one, of which the samples have up to about 50.
func precision(dtype graph.DType) (h, tol float64) {
	if dtype == graph.Float {
		return 1e-2, 1e-3
	}
	return 1e-5, 1e-7
}

func checkSample(t tb, ort engine.Options, s sample, batch int64) {
	t.Helper()
	dtype := graph.Double
	if s.single {
		dtype = graph.Float
	}
	b := newBench(t, ort, dtype, s.opset, batch)
	vars, outs := b.add(s)
	y, seed := outs[0], "v"
	if len(outs) > 1 {
		y = b.join(outs)
	}
	b.like(seed, y)
	first := b.grads(y, vars, autodiff.Options{Seed: seed})

	b.check(y, seed, vars, first, s.linear)
}

// check holds first, the gradients of y by vars with the given seed, against
// central differences, and their own gradients unless linear.
func (b *bench) check(y, seed string, vars, first []string, linear bool) {
	b.t.Helper()
	// Second order: the gradient of <first[i], u_i> by all variables and by the seed.
	wrt := append([]string{seed}, vars...)
	second := make([][]string, len(first))
	exposed := append([]string{y}, first...)
	for i, g := range first {
		if linear {
			break
		}
		u := fmt.Sprintf("u%d", i)
		b.like(u, g)
		second[i] = b.grads(g, wrt, autodiff.Options{Seed: u})
		exposed = append(exposed, second[i]...)
	}
	r := b.open(exposed...)
	got := r.run()
	h, tol := precision(b.dtype)
	for i, x := range vars {
		want := b.difference(x, h, func() float64 { return dot(r.run()[y], b.in[seed]) })
		near(b.t, fmt.Sprintf("batch %d: d y / d %s", b.batch, x), got[first[i]], want, tol)
	}
	for i := range first {
		for j, g := range second[i] {
			u := fmt.Sprintf("u%d", i)
			want := b.difference(wrt[j], h, func() float64 { return dot(r.run()[first[i]], b.in[u]) })
			near(b.t, fmt.Sprintf("batch %d: d/d %s of d y / d %s", b.batch, wrt[j], vars[i]), got[g], want, tol)
		}
	}
	if b.t.Failed() {
		b.t.Logf("graph:\n%s", dump(b.g))
	}
}

// join makes one number of several outputs: the sum of their squares.
func (b *bench) join(outs []string) string {
	b.t.Helper()
	nb := graph.NewBuilder(b.g, "join_")
	var sums []string
	for _, o := range outs {
		sums = append(sums, nb.Op("ReduceSumSquare", []string{o}, graph.IntAttr("keepdims", 0)))
	}
	y := nb.Op("Sum", sums)
	if err := autodiff.Infer(b.g, b.types); err != nil {
		b.t.Fatal(err)
	}
	return y
}
