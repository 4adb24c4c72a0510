package recourse

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/recourse/constraint"
)

type counted struct {
	Model
	margins, grads atomic.Int64
	busy           atomic.Int64
}

func (c *counted) Margins(ctx context.Context, x []float32) ([]float32, error) {
	defer c.time(&c.margins, len(x))()
	return c.Model.Margins(ctx, x)
}

func (c *counted) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	defer c.time(&c.grads, len(x))()
	return c.Model.MarginGrads(ctx, x)
}

func (c *counted) LossGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	defer c.time(&c.grads, len(x))()
	return c.Model.LossGrads(ctx, x)
}

func (c *counted) time(n *atomic.Int64, size int) func() {
	n.Add(int64(size / c.Dim()))
	start := time.Now()
	return func() { c.busy.Add(int64(time.Since(start))) }
}

// benchAdult measures solve on Adult-shaped people, with a model that is slow, which model-µs says.
func benchAdult(b *testing.B, people int, solve func(m Model, a *constraint.Set, x []float32) error) {
	tk, a := adultTask(b)
	x := randomPeople(rand.New(rand.NewPCG(1, 2)), tk, people)
	m := &counted{Model: newMLP(rand.New(rand.NewPCG(3, 4)), -0.5, a.Dim(), 16, 8, 1)}
	for b.Loop() {
		must.Do(b, solve(m, a, x))
	}
	n := float64(b.N * people)
	b.ReportMetric(float64(m.margins.Load())/n, "margins/person")
	b.ReportMetric(float64(m.grads.Load())/n, "grads/person")
	b.ReportMetric(float64(m.busy.Load())/1e3/n, "model-µs/person")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/n, "µs/person")
}

func BenchmarkTeacherAdult(b *testing.B) {
	benchAdult(b, 32561, func(m Model, a *constraint.Set, x []float32) error {
		_, err := Teacher(b.Context(), m, a, x, TeacherOptions{})
		return err
	})
}

func BenchmarkSolveAdult(b *testing.B) {
	benchAdult(b, 1000, func(m Model, a *constraint.Set, x []float32) error {
		_, err := Solve(b.Context(), m, a, x, SolveOptions{Margin: 0.1})
		return err
	})
}

func BenchmarkExactAdult(b *testing.B) {
	tk, a := adultTask(b)
	x := randomPeople(rand.New(rand.NewPCG(1, 2)), tk, 100)
	m := readable{newMLP(rand.New(rand.NewPCG(3, 4)), -0.5, a.Dim(), 64, 32, 1)}
	start := must.Get(Solve(b.Context(), m, a, x, SolveOptions{Margin: 0.1}))(b)
	for b.Loop() {
		_, _, err := Exact(b.Context(), m, a, x, start, ExactOptions{Margin: 0.1, Nodes: 2000, Workers: 1})
		must.Do(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(100*b.N), "µs/person")
}

func BenchmarkProjectAdult(b *testing.B) {
	tk, a := adultTask(b)
	rng := rand.New(rand.NewPCG(1, 2))
	x := randomPeople(rng, tk, 1)
	from, d := normals(rng, a.Dim(), 1), make([]float32, a.Dim())
	b.ReportAllocs()
	for b.Loop() {
		copy(d, from)
		a.Project(x, d)
	}
}
