package ptq

import (
	"context"
	"path/filepath"
	"runtime"
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
