package recourse

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/lists"
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

// lossFromMargin turns margin gradients into those of log(1+exp(-margin)).
func lossFromMargin(m, g []float32) {
	for i, v := range m {
		s := float32(-1 / (1 + math.Exp(float64(v))))
		dim := len(g) / len(m)
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
		MaxFeatures: limit,
	}
	at := 0
	for _, f := range fs {
		f.Offset = at
		at += f.Width
		t.Features = append(t.Features, f)
	}
	return t
}

func compile(t rapid.TB, tk *task.Task) *constraint.Set {
	t.Helper()
	return must.Get(constraint.Compile(tk))(t)
}

// parsed is the task of a text, which has no fault.
func parsed(text string) *task.Task {
	tk, err := task.Parse("test.yaml", []byte("version: 1\n"+text))
	if err != nil {
		panic(err)
	}
	return tk
}

// shuffled is the task with its features in a random order, of which an action may change so many.
func shuffled(rng *rand.Rand, limit int, tk *task.Task) *task.Task {
	fs := tk.Features
	rng.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
	out := taskOf(limit, fs...)
	out.Links, out.Rules = tk.Links, tk.Rules
	return out
}

// inputs are the raw values of a task of numbers as model inputs.
func inputs(tk *task.Task, raw ...float64) (x []float32) {
	for i, v := range raw {
		x = append(x, tk.Features[i].ToInput(v))
	}
	return x
}

func normals(rng *rand.Rand, n int, size float64) []float32 {
	v := make([]float32, n)
	for j := range v {
		v[j] = float32(size * rng.NormFloat64())
	}
	return v
}

// drawLinear has normal slopes.
func drawLinear(rng *rand.Rand, dim int, size, b float64) *affine {
	f := &affine{b: b}
	for range dim {
		f.w = append(f.w, size*rng.NormFloat64())
	}
	return f
}

// solved finds and checks actions.
func solved(t testing.TB, m Model, a *constraint.Set, x []float32, margin float64) []Action {
	t.Helper()
	acts := must.Get(Solve(t.Context(), m, a, x, SolveOptions{Margin: margin}))(t)
	checkActions(t, m, a, x, acts, margin)
	return acts
}

// proved finds and checks the cheapest actions.
func proved(t testing.TB, m Model, a *constraint.Set, x []float32, o ExactOptions) ([]Action, []Method) {
	t.Helper()
	acts, proofs, err := Exact(t.Context(), m, a, x, nil, o)
	must.Do(t, err)
	checkActions(t, m, a, x, acts, o.Margin)
	return acts, lists.Map(proofs, func(p Proof) Method { return p.Method })
}

// marginOf is the margin of one person.
func marginOf(t rapid.TB, m Model, x []float32) float64 {
	t.Helper()
	return float64(must.Get(m.Margins(context.Background(), x))(t)[0])
}

// numbers is a task of n numbers that change freely.
func numbers(n int) *task.Task {
	var fs []task.Feature
	for i := range n {
		f := feature(string(rune('a'+i)), "numeric")
		f.Bounds = [2]float64{-2, 2}
		fs = append(fs, f)
	}
	return taskOf(0, fs...)
}

func gainOf(w []float64, d []float32) float64 {
	sum := 0.0
	for j, v := range d {
		sum += w[j] * float64(v)
	}
	return sum
}
