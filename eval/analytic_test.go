package eval

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// analytic is a model whose margin is a formula: gain*(w.x + b) + bend(x).
type analytic struct {
	w    []float64
	b    float64
	gain float64
	bend func(x []float32) float64 // must not depend on inputs that can change, unless the gradient may ignore it
	fail error
}

func (m analytic) Dim() int { return len(m.w) }

func (m analytic) Margins(_ context.Context, x []float32) ([]float32, error) {
	d := len(m.w)
	out := make([]float32, len(x)/d)
	for i := range out {
		s := m.b
		for j, w := range m.w {
			s += w * float64(x[i*d+j])
		}
		s *= m.gain
		if m.bend != nil {
			s += m.bend(x[i*d : (i+1)*d])
		}
		out[i] = float32(s)
	}
	return out, m.fail
}

func (m analytic) MarginGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	out, err := m.Margins(ctx, x)
	g := make([]float32, len(x))
	for k := range g {
		g[k] = float32(m.gain * m.w[k%len(m.w)])
	}
	return out, g, err
}

// Network is that of the formula, which is affine without a bend.
func (m analytic) Network(context.Context) ([][]float64, []float64, int, string, error) {
	if m.bend != nil {
		return nil, nil, 0, "node bend is neither affine nor Relu", nil
	}
	row := make([]float64, len(m.w))
	for j, w := range m.w {
		row[j] = m.gain * w
	}
	return [][]float64{row}, []float64{m.gain * m.b}, 0, "", m.fail
}

// The gradient of log(1+exp(-m)).
func (m analytic) LossGrads(ctx context.Context, x []float32) ([]float32, []float32, error) {
	out, g, err := m.MarginGrads(ctx, x)
	for k := range g {
		g[k] *= float32(-1 / (1 + math.Exp(float64(out[k/len(m.w)]))))
	}
	return out, g, err
}

// Three inputs a, b, c; a and b can change at will at cost 1 per unit, c cannot.
// f weighs a by 1 and b by 1/2, so that its cheapest recourse is t - m(x) units of a.
var original = analytic{w: []float64{1, 0.5, 0.25}, b: -0.7, gain: 1}

func threeInputs(t testing.TB) *constraint.Set { return within(t, math.Inf(1)) }

func within(t testing.TB, most float64) *constraint.Set {
	t.Helper()
	tk := &task.Task{
		Version: 1, Target: task.Target{Class: "favourable", Index: 1},
		Cost: task.Cost{Norm: "l1", Weights: "uniform"},
	}
	for i, name := range []string{"a", "b", "c"} {
		f := task.Feature{
			Name: name, Column: name, Encoding: &task.Standardized{Std: 1}, Action: task.Free(), Offset: i, Width: 1,
		}
		f.Actionable, f.MaxChange = name != "c", most
		tk.Features = append(tk.Features, f)
	}
	return must.Get(constraint.Compile(tk))(t)
}

func crowd(n int, seed uint64) *task.People {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := &task.People{Dim: 3, N: n, Reading: task.Reading{Total: n}}
	for i := range n {
		for range 3 {
			p.X = append(p.X, float32(rng.NormFloat64()))
		}
		p.Labels = append(p.Labels, int8(rng.IntN(3))-1)
		p.Lines = append(p.Lines, i+2)
		p.Rows = append(p.Rows, i)
	}
	return p
}

func compare(t testing.TB, f, g recourse.Model, people *task.People, o Options) *Result {
	t.Helper()
	o.Solver.Restarts = -1 // of three inputs the discrete choices alone find the cheapest change
	return compareBatch(t, f, g, &Batch{People: people, Set: threeInputs(t)}, o)
}

func compareBatch(t testing.TB, f, g recourse.Model, b *Batch, o Options) *Result {
	t.Helper()
	return must.Get(Compare(t.Context(), f, g, b, o))(t)
}
