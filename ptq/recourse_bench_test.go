package ptq

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// BenchmarkSolve measures evaluation recourse, default settings at margin 0.1, for all of Adult's
// test rows (or the loans).
func BenchmarkSolve(b *testing.B) {
	e := orttest.Need(b)
	name, m, t, people := adult(b)
	if dir, err := realdata.Find(); err == nil {
		if people, err = task.Read(context.Background(), filepath.Join(dir, "data", "adult", "adult.test.gz"), t,
			task.ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run(name, func(b *testing.B) { benchSolve(b, cfqModel(b, m, t, e), t, people.X) })
}

// BenchmarkSolveGrowth shows how the time grows: each size doubles one thing of a base case of 1000
// people, 8 numbers, 2 groups of 4 values and 2 hidden layers of 32.
func BenchmarkSolveGrowth(b *testing.B) {
	e := orttest.Need(b)
	for _, s := range []growth{
		{1000, 8, 2, 2}, {2000, 8, 2, 2}, {4000, 8, 2, 2}, {1000, 16, 2, 2}, {1000, 32, 2, 2}, {1000, 8, 4, 2}, {
			1000, 8,
			8, 2,
		}, {1000, 8, 2, 4}, {1000, 8, 2, 8},
	} {
		b.Run(fmt.Sprintf("rows=%d,numbers=%d,groups=%d,depth=%d", s.rows, s.numbers, s.groups, s.depth), func(b *testing.B) {
			t := growthTask(s)
			x := s.people(rand.New(rand.NewPCG(1, 2)))
			// The logit is shifted so that seven people of ten are refused, whatever the random network makes of them.
			margins := must.Get(cfqModel(b, growthModel(t.Dim(), s.depth, 0), t, e).Margins(context.Background(), x))(b)
			slices.Sort(margins)
			benchSolve(b, cfqModel(b, growthModel(t.Dim(), s.depth, -margins[len(margins)*7/10]), t, e), t, x)
		})
	}
}

func benchSolve(b *testing.B, m recourse.Model, t *task.Task, x []float32) {
	set := must.Get(constraint.Compile(t))(b)
	n := len(x) / t.Dim()
	refused, found := 0, 0
	for b.Loop() {
		actions := must.Get(recourse.Solve(context.Background(), m, set, x, recourse.SolveOptions{Margin: 0.1}))(b)
		refused, found = 0, 0
		for _, a := range actions {
			if a.Status != recourse.AlreadyFavourable {
				refused++
			}
			if a.Status == recourse.Found {
				found++
			}
		}
	}
	perOp := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(n)/perOp, "rows/s")
	b.ReportMetric(float64(found)/perOp, "points/s")
	b.ReportMetric(float64(found)/float64(max(refused, 1)), "found/refused")
}

func cfqModel(b *testing.B, m *graph.Model, t *task.Task, e ort.Options) recourse.Model {
	c := must.Get(OpenFor(loaded(b, m), t, runtime.GOMAXPROCS(0)))(b)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

type growth struct{ rows, numbers, groups, depth int }

func (s growth) people(rng *rand.Rand) []float32 {
	var x []float32
	for range s.rows {
		for range s.numbers {
			x = append(x, float32(rng.NormFloat64()))
		}
		for range s.groups {
			g := make([]float32, 4)
			g[rng.IntN(4)] = 1
			x = append(x, g...)
		}
	}
	return x
}

func growthModel(dim, depth int, bias float32) *graph.Model {
	rng := rand.New(rand.NewPCG(5, 6))
	batch := graph.Dim{Size: -1, Param: "n"}
	g := &graph.Graph{
		Name:   "growth",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{batch, {Size: int64(dim)}}}},
	}
	nb := graph.NewBuilder(g, "")
	x, in := "x", dim
	for l := range depth + 1 {
		out, shift := 32, float32(0)
		if l == depth {
			out, shift = 1, bias
		}
		w, b := make([]float32, in*out), make([]float32, out)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(in)))
		}
		for i := range b {
			b[i] = shift
		}
		x = nb.Op("Gemm", []string{
			x, nb.Const(graph.FromFloats("w", w, int64(in), int64(out))),
			nb.Const(graph.FromFloats("b", b, int64(out))),
		})
		if l < depth {
			x = nb.Op("Relu", []string{x})
		}
		in = out
	}
	g.Outputs = []graph.Value{{Name: x, DType: graph.Float, Shape: graph.Shape{batch, {Size: 1}}}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
}

func growthTask(s growth) *task.Task {
	var y strings.Builder
	y.WriteString("version: 1\nencoded: true\nfeatures:\n")
	for i := range s.numbers {
		fmt.Fprintf(&y, "  - {name: n%d, kind: numeric, bounds: [-3, 3]}\n", i)
	}
	for i := range s.groups {
		fmt.Fprintf(&y, "  - {name: g%d, kind: onehot, values: [a, b, c, d]}\n", i)
	}
	y.WriteString("sparsity: {max_features: 5}\n")
	t, err := task.Parse("growth.yaml", []byte(y.String()))
	if err != nil {
		panic(err)
	}
	return t
}
