package autodiff_test

import (
	"fmt"
	"testing"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestRules(t *testing.T) {
	rt := orttest.Need(t)
	for _, s := range samples() {
		t.Run(s.name(), func(t *testing.T) {
			if s.op == "Add" || s.op == "MatMul" { // a batch of one row must not be taken for an axis that broadcasts
				checkSample(t, rt, s, 1)
			}
			checkSample(t, rt, s, 3)
		})
	}
}

// precision is the step of central differences and the error that they may have. In double, rounding gives 1e-16/h =
// 1e-11 and the third derivative h² = 1e-10. In float the two are 6e-8/h and h²/6: 2e-5 each at h = 1e-2 for a function
// and derivatives of size one, of which the samples have up to about 50. On a grid sums and products are exact, in
// float too, and so are the differences of what is linear in each number; only the averages of samples that say so
// round.
func (b *bench) precision() (h, tol float64) {
	switch {
	case b.grid > 0 && b.rounds:
		return b.grid, 5e-6
	case b.grid > 0:
		return b.grid, 1e-12
	case b.dtype == graph.Float:
		return 1e-2, 1e-3
	}
	return 1e-5, 1e-7
}

func checkSample(t tb, rt ort.Options, s sample, batch int64) {
	t.Helper()
	dtype := graph.Double
	if s.single {
		dtype = graph.Float
	}
	b := newBench(t, rt, dtype, s.opset, batch)
	b.grid, b.rounds = s.grid, s.rounds
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
	got := b.open(exposed...).run()
	h, tol := b.precision()
	// The function, and <first[i], u_i>: all that is differentiated.
	r := b.open(append([]string{y}, first...)...)
	values := func() []float64 {
		out := r.run()
		v := []float64{dot(out[y], b.in[seed])}
		for i, g := range first {
			if !linear {
				v = append(v, dot(out[g], b.in[fmt.Sprintf("u%d", i)]))
			}
		}
		return v
	}
	for j, x := range wrt {
		want := b.differences(x, h, values)
		if len(want) == 0 {
			b.t.Fatalf("%s has no elements", x)
		}
		if j > 0 {
			near(b.t, fmt.Sprintf("batch %d: d y / d %s", b.batch, x), got[first[j-1]], want[0], tol)
		}
		for i := range want[1:] {
			near(b.t, fmt.Sprintf("batch %d: d/d %s of d y / d %s", b.batch, x, vars[i]), got[second[i][j]], want[1+i], tol)
		}
	}
	if b.t.Failed() {
		b.t.Logf("graph:\n%s", dump(b.g))
	}
}

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
