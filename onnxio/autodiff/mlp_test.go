package autodiff_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

func mlp(g *graph.Graph, dtype graph.DType, widths ...int64) string {
	rng := rand.New(rand.NewPCG(7, 7))
	draw := func(n int64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64() / 4
		}
		return v
	}
	constant := func(name string, v []float64, dims ...int64) {
		t := graph.FromNumbers(name, graph.Double, v, dims...)
		if dtype == graph.Float {
			f := make([]float32, len(v))
			for i := range v {
				f[i] = float32(v[i])
			}
			t = graph.FromFloats(name, f, dims...)
		}
		g.Inits = append(g.Inits, t)
	}
	h := "x"
	for i := range len(widths) - 1 {
		w, b, z := fmt.Sprintf("w%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("z%d", i)
		constant(w, draw(widths[i]*widths[i+1]), widths[i+1], widths[i])
		constant(b, draw(widths[i+1]), widths[i+1])
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: "gemm" + fmt.Sprint(i), Op: "Gemm", Inputs: []string{h, w, b},
			Outputs: []string{z}, Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
		})
		h = z
		if i < len(widths)-2 {
			h = fmt.Sprintf("h%d", i)
			g.Nodes = append(g.Nodes, &graph.Node{
				Name: "relu" + fmt.Sprint(i), Op: "Relu", Inputs: []string{z},
				Outputs: []string{h},
			})
		}
	}
	return h
}

func TestNetwork(t *testing.T) {
	rt := orttest.Need(t)
	for act, batch := range map[string]int64{"Relu": 3, "Tanh": 1} {
		t.Run(act, func(t *testing.T) {
			b := newBench(t, rt, graph.Double, 18, batch)
			for _, p := range []struct {
				name string
				operand
			}{
				{"x", in("N 3")},
				{"w0", in("4 3")},
				{"b0", in("4")},
				{"scale", in("4")},
				{"shift", in("4")},
				{"mean", in("4")},
				{"var", in("4").within(0.5, 2)},
				{"w1", in("4 2")},
				{"b1", in("2")},
				{"target", in("N 2").within(0, 1)},
			} {
				b.input(p.name, p.operand)
			}
			nb := graph.NewBuilder(b.g, "")
			z := nb.Op("Gemm", []string{"x", "w0", "b0"}, graph.IntAttr("transB", 1))
			z = nb.Op("BatchNormalization", []string{z, "scale", "shift", "mean", "var"})
			z = nb.Op("Add", []string{nb.Op("MatMul", []string{nb.Op(act, []string{z}), "w1"}), "b1"})
			loss := nb.Op("ReduceMean", []string{nb.Op("Mul", []string{nb.Op("LogSoftmax", []string{z}), "target"})},
				graph.IntAttr("keepdims", 0))
			must.Do(t, autodiff.Infer(b.g, b.types))
			b.like("v", loss)
			wrt := []string{"x", "w0", "b0", "scale", "shift", "mean", "var", "w1", "b1", "target"}
			b.check(loss, "v", wrt, b.grads(loss, wrt, autodiff.Options{Seed: "v"}), false)
		})
	}
}

func TestInitializers(t *testing.T) {
	b := newBench(t, orttest.Need(t), graph.Double, 18, 3)
	b.input("x", in("N 3"))
	logits := mlp(b.g, graph.Double, 3, 4, 2)
	must.Do(t, autodiff.Infer(b.g, b.types))
	names := b.grads(logits, []string{"x", "w0", "b0", "h0", "w1", "b1"}, autodiff.Options{})
	got := b.open(append(names, "h0", logits)...).run()
	// Of sum(logits): the gradient of the last bias is the number of rows, that of
	// h0 the column sums of w1, that of w1 the column sums of h0.
	near(t, "b1", got[names[5]], []float64{3, 3}, 1e-12)
	w1 := must.Get(b.g.Init("w1").Doubles())(t)
	for i := range 3 {
		for j := range 4 {
			near(t, "h0", got[names[3]][4*i+j:][:1], []float64{w1[j] + w1[4+j]}, 1e-12)
		}
	}
	for j := range 4 {
		sum := got["h0"][j] + got["h0"][4+j] + got["h0"][8+j]
		near(t, "w1", []float64{got[names[4]][j], got[names[4]][4+j]}, []float64{sum, sum}, 1e-12)
	}
}
