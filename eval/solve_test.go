package eval

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
)

type counting struct {
	analytic
	rows *atomic.Int64
}

func (m counting) MarginGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	m.rows.Add(int64(len(x) / m.Dim()))
	return m.analytic.MarginGrads(ctx, x)
}

func (m counting) LossGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	m.rows.Add(int64(len(x) / m.Dim()))
	return m.analytic.LossGrads(ctx, x)
}

func TestOriginalIsSolvedOnce(t *testing.T) {
	t.Parallel()
	people := crowd(60, 21)
	shifted, turned := original, original
	shifted.b += 0.15
	turned.w = []float64{0.9, 0.6, 0.2}
	var rows atomic.Int64
	f := counting{original, &rows}
	same := cmp.Options{sameFloat, cmp.Transformer("list", func(r *Records) []Record { return all(t, r) })}
	for name, o := range map[string]Options{
		"everyone": {},
		"sample":   {Sample: 20, Seed: 3, Margins: []float64{0.25, 0.1}},
		"promises": {},
	} {
		b := &Batch{People: people, Set: threeInputs(t)}
		if name == "promises" {
			b.Promises = given(people.N, people.X, 5)
		}
		solved := must.Get(Solve(t.Context(), f, b, o))(t)
		for _, g := range []analytic{shifted, turned, original} {
			want := compareBatch(t, original, g, b, o)
			rows.Store(0)
			got := must.Get(Compare(t.Context(), f, g, solved, Options{}))(t)
			must.Same(t, want, got, same)
			if n := rows.Load(); n != 0 {
				t.Errorf("%s: the original was asked for %d gradients", name, n)
			}
		}
	}
}
