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

func (c *counted) report(b *testing.B, people int) {
	n := float64(b.N * people)
	b.ReportMetric(float64(c.margins.Load())/n, "margins/person")
	b.ReportMetric(float64(c.grads.Load())/n, "grads/person")
	b.ReportMetric(float64(c.busy.Load())/1e3/n, "model-µs/person")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/n, "µs/person")
}

func adultModel(dim int) *counted {
	return &counted{Model: newMLP(rand.New(rand.NewPCG(3, 4)), -0.5, dim, 16, 8, 1)}
}

func benchAdult(b *testing.B, people int, solve func(m Model, a *constraint.Set, x []float32) error) {
	tk, a := adultTask(b)
	x := randomPeople(rand.New(rand.NewPCG(1, 2)), tk, people)
	m := adultModel(a.Dim())
	b.ResetTimer()
	for range b.N {
		must.Do(b, solve(m, a, x))
	}
	m.report(b, people)
}

func BenchmarkTeacherAdult(b *testing.B) {
	benchAdult(b, 32561, func(m Model, a *constraint.Set, x []float32) error {
		_, err := Teacher(context.Background(), m, a, x, TeacherOptions{})
		return err
	})
}

func BenchmarkFirstValidAdult(b *testing.B) {
	benchAdult(b, 1000, func(m Model, a *constraint.Set, x []float32) error {
		_, err := FirstValid(context.Background(), m, a, x, FirstValidOptions{})
		return err
	})
}

func BenchmarkSolveAdult(b *testing.B) {
	benchAdult(b, 1000, func(m Model, a *constraint.Set, x []float32) error {
		_, err := Solve(context.Background(), m, a, x, SolveOptions{Margin: 0.1})
		return err
	})
}

func BenchmarkProjectAdult(b *testing.B) {
	tk, a := adultTask(b)
	rng := rand.New(rand.NewPCG(1, 2))
	x := randomPeople(rng, tk, 1)
	from, d := make([]float32, a.Dim()), make([]float32, a.Dim())
	for j := range from {
		from[j] = float32(rng.NormFloat64())
	}
	b.ReportAllocs()
	for range b.N {
		copy(d, from)
		a.Project(x, d)
	}
}
