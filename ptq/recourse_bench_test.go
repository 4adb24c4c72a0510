package ptq

import (
	"runtime"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// BenchmarkSolve measures evaluation recourse, default settings at margin 0.1, for all of Adult's
// test rows (or the loans).
func BenchmarkSolve(b *testing.B) {
	name, m, t, people := adult(b, "adult.test.gz")
	c := must.Get(OpenFor(loaded(b, m), t, runtime.GOMAXPROCS(0)))(b)
	defer c.Close()
	set := must.Get(constraint.Compile(t))(b)
	b.Run(name, func(b *testing.B) {
		refused, found := 0, 0
		for b.Loop() {
			refused, found = 0, 0
			for _, a := range must.Get(recourse.Solve(b.Context(), c, set, people.X, recourse.SolveOptions{Margin: 0.1}))(b) {
				if a.Status != recourse.AlreadyFavourable {
					refused++
				}
				if a.Status == recourse.Found {
					found++
				}
			}
		}
		perOp := b.Elapsed().Seconds() / float64(b.N)
		b.ReportMetric(float64(people.N)/perOp, "rows/s")
		b.ReportMetric(float64(found)/perOp, "points/s")
		b.ReportMetric(float64(found)/float64(max(refused, 1)), "found/refused")
	})
}
