package ptq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq/taskmodel"
	"cfq/task"
)

func loans(t testing.TB, file string) (*graph.Model, *task.Task, *task.People) {
	t.Helper()
	dir := filepath.Join("..", "testdata", "loans")
	m := must.Get(codec.ReadFile(filepath.Join(dir, "model.onnx")))(t)
	tk := must.Get(task.Load(filepath.Join(dir, "task.yaml")))(t)
	people := must.Get(task.Read(context.Background(), filepath.Join(dir, file), tk, task.ReadOptions{}))(t)
	return m, tk, people
}

// long reports whether tests may take minutes.
func long() bool { return os.Getenv("CFQ_LONG") == "1" }

// needLong skips a test that takes many seconds where tests must be fast.
func needLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("CFQ_LONG=1 runs this test")
	}
}

// few are n of the people, evenly spread: enough where the numbers do not matter.
func few(people *task.People, n int) *task.People {
	rows := make([]int, n)
	for k := range rows {
		rows[k] = k * people.N / n
	}
	return people.Subset(rows)
}

// quantized quantizes a model, whose file must run as planned.
func quantized(t *testing.T, g *graph.Model, tk *task.Task, people *task.People, o Recipe, run ...Run) *Result {
	t.Helper()
	r := must.Get(Quantize(t.Context(), loaded(t, g), tk, people, o, append(run, Run{})[0]))(t)
	must.Do(t, r.Verified.Err())
	return r
}

func wantInputError(t *testing.T, err error, want string) {
	t.Helper()
	if input := (*InputError)(nil); !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want it to say %q", err, want)
	}
}

// mustRecipe is NewRecipe of what is known to be right.
func mustRecipe(method string, settings ...string) Recipe {
	r, err := NewRecipe(method, settings...)
	if err != nil {
		panic(err)
	}
	return r
}

func calibrated(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, r Recipe, run Run) *calibration {
	t.Helper()
	c := must.Get(fit(t.Context(), loaded(t, m), tk, people, r, run))(t)
	t.Cleanup(func() { must.Do(t, c.Close()) })
	return c
}

func loaded(tb testing.TB, g *graph.Model) *onnxio.Model {
	tb.Helper()
	return must.Get(onnxio.FromGraph(tb.Context(), g, orttest.Need(tb)))(tb)
}

// marginsOf are the margins of a model that decides as a task says.
func marginsOf(t *testing.T, g *graph.Model, tk *task.Task, x []float32) []float32 {
	t.Helper()
	c := must.Get(taskmodel.Open(loaded(t, g), tk, 1))(t)
	defer c.Close()
	return must.Get(c.Margins(t.Context(), x))(t)
}

// kernelsOf counts the layers by the kernel that runs them.
func kernelsOf(r *Result) string {
	kernels := map[string]int{}
	for _, l := range r.Verified.Layers {
		kernels[l.Kernel]++
	}
	return fmt.Sprint(kernels)
}

// balance lets a model of two logits, whose biases are called b, favour half of the people.
func balance(t *testing.T, m *graph.Model, tk *task.Task, people *task.People) {
	t.Helper()
	sorted := differences(t, m, tk, people)
	slices.Sort(sorted)
	for i, w := range m.Graph.Inits {
		if w.Name == "b" {
			m.Graph.Inits[i] = graph.FromFloats("b", []float32{sorted[people.N/2], 0}, 2)
		}
	}
}

// randomNet draws weights of a model whose only input is x.
type randomNet struct {
	*graph.Builder
	rng *rand.Rand
}

func newNet(seed uint64, shape ...int64) *randomNet {
	m := &graph.Graph{Name: "random", Inputs: []graph.Value{{
		Name: "x", DType: graph.Float, Shape: append(graph.Shape{{Size: -1, Param: "N"}}, graph.Fixed(shape...)...),
	}}}
	return &randomNet{graph.NewBuilder(m, ""), rand.New(rand.NewPCG(4, seed))}
}

// draw makes a constant of normal numbers around a mean.
func (n *randomNet) draw(mean, deviation float64, dims ...int64) string {
	size := int64(1)
	for _, d := range dims {
		size *= d
	}
	v := make([]float32, size)
	for i := range v {
		v[i] = float32(mean + deviation*n.rng.NormFloat64())
	}
	return n.Const(graph.FromFloats("w", v, dims...))
}

// model ends the network at its output.
func (n *randomNet) model(y string) *graph.Model {
	n.G.Outputs = []graph.Value{{Name: y, DType: graph.Float}}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: n.G}
}
