package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

func repetitions(few, many uint64) uint64 {
	if os.Getenv("CFQ_LONG") == "1" {
		return many
	}
	return few
}

type affine struct {
	w []float64
	b float64
}

func (f *affine) Dim() int { return len(f.w) }

func (f *affine) Margins(_ context.Context, x []float32) ([]float32, error) {
	m := make([]float32, len(x)/len(f.w))
	for i := range m {
		sum := f.b
		for j, w := range f.w {
			sum += w * float64(x[i*len(f.w)+j])
		}
		m[i] = float32(sum)
	}
	return m, nil
}

func (f *affine) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, _ = f.Margins(ctx, x)
	for range m {
		for _, w := range f.w {
			g = append(g, float32(w))
		}
	}
	return m, g, nil
}

func (f *affine) LossGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, g, err = f.MarginGrads(ctx, x)
	lossFromMargin(m, g)
	return m, g, err
}

func lossFromMargin(m, g []float32) {
	dim := 0
	if len(m) > 0 {
		dim = len(g) / len(m)
	}
	for i, v := range m {
		s := float32(-1 / (1 + math.Exp(float64(v))))
		for j := range dim {
			g[i*dim+j] *= s
		}
	}
}

type mlp struct {
	sizes []int
	w     [][]float32 // layer l: sizes[l+1] x sizes[l]
	b     [][]float32
}

func newMLP(rng *rand.Rand, bias float32, sizes ...int) *mlp {
	f := &mlp{sizes: sizes}
	for l := 1; l < len(sizes); l++ {
		w, b := make([]float32, sizes[l]*sizes[l-1]), make([]float32, sizes[l])
		scale := math.Sqrt(2 / float64(sizes[l-1]))
		for i := range w {
			w[i] = float32(rng.NormFloat64() * scale)
		}
		for i := range b {
			b[i] = float32(rng.NormFloat64() * 0.3)
		}
		f.w, f.b = append(f.w, w), append(f.b, b)
	}
	f.b[len(f.b)-1][0] = bias
	return f
}

func (f *mlp) Dim() int { return f.sizes[0] }

func (f *mlp) forward(x []float32, acts [][]float32) float32 {
	in := x
	for l := range f.w {
		out := acts[l]
		for i := range out {
			sum := f.b[l][i]
			w := f.w[l][i*len(in) : (i+1)*len(in)]
			for j, v := range in {
				if v != 0 {
					sum += w[j] * v
				}
			}
			if l < len(f.w)-1 && sum < 0 {
				sum = 0
			}
			out[i] = sum
		}
		in = out
	}
	return in[0]
}

func (f *mlp) acts() [][]float32 {
	var acts [][]float32
	for _, n := range f.sizes[1:] {
		acts = append(acts, make([]float32, n))
	}
	return acts
}

func (f *mlp) Margins(_ context.Context, x []float32) ([]float32, error) {
	m := make([]float32, len(x)/f.Dim())
	acts := f.acts()
	for i := range m {
		m[i] = f.forward(row(x, i, f.Dim()), acts)
	}
	return m, nil
}

func (f *mlp) MarginGrads(_ context.Context, x []float32) (m, g []float32, err error) {
	m, g = make([]float32, len(x)/f.Dim()), make([]float32, len(x))
	acts, back := f.acts(), f.acts()
	for i := range m {
		m[i] = f.forward(row(x, i, f.Dim()), acts)
		back[len(back)-1][0] = 1
		for l := len(f.w) - 1; l >= 0; l-- {
			below := row(g, i, f.Dim())
			if l > 0 {
				below = back[l-1]
				clear(below)
			}
			for o, v := range back[l] {
				if v == 0 || l < len(f.w)-1 && acts[l][o] == 0 {
					continue
				}
				w := f.w[l][o*len(below) : (o+1)*len(below)]
				for j := range below {
					below[j] += v * w[j]
				}
			}
		}
	}
	return m, g, nil
}

func (f *mlp) LossGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	m, g, err = f.MarginGrads(ctx, x)
	lossFromMargin(m, g)
	return m, g, err
}

func feature(name string, kind string) task.Feature {
	f := task.Feature{Name: name, Column: name, Action: task.Free(), Width: 1}
	switch kind {
	case "binary":
		f.Encoding = &task.Binary{}
	case "onehot":
		f.Encoding = &task.OneHot{}
	case "thermometer":
		f.Encoding = &task.Thermometer{}
	default:
		f.Encoding = &task.Standardized{Std: 1, Ordinal: kind == "ordinal"}
	}
	return f
}

func hot(f *task.Feature) *task.OneHot {
	e, _ := f.Encoding.(*task.OneHot)
	return e
}

func bit(f *task.Feature) *task.Binary {
	e, _ := f.Encoding.(*task.Binary)
	return e
}

func oneHot(name string, values ...string) task.Feature {
	f := feature(name, "onehot")
	hot(&f).Values, f.Width = values, len(values)
	return f
}

func taskOf(limit int, fs ...task.Feature) *task.Task {
	t := &task.Task{
		Version: 1, Cost: task.Cost{Norm: "l1", Weights: "inverse_std", Eps: 1e-3},
		Sparsity: task.Sparsity{MaxFeatures: limit},
	}
	at := 0
	for _, f := range fs {
		f.Offset = at
		at += f.Width
		t.Features = append(t.Features, f)
	}
	return t
}

func compile(t testing.TB, tk *task.Task) *constraint.Set {
	t.Helper()
	return must.Get(constraint.Compile(tk))(t)
}
