package classifier

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/internal/ordered"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// mlp is a small classifier in -> 5 -> out with random weights, and its logits computed by hand in float64.
type mlp struct {
	in, hidden, out int
	w1, b1, w2, b2  []float32
}

func newMLP(in, out int, seed uint64) *mlp {
	v := normals(seed, in*5+5+5*out+out)
	return &mlp{
		in: in, hidden: 5, out: out,
		w1: v[:in*5], b1: v[in*5 : in*5+5], w2: v[in*5+5 : in*5+5+5*out], b2: v[in*5+5+5*out:],
	}
}

// normals draws n numbers.
func normals(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func open(t *testing.T, m *graph.Model, o Options) *Model {
	t.Helper()
	c := must.Get(fromGraph(t.Context(), m, orttest.Need(t), o))(t)
	t.Cleanup(func() { must.Do(t, c.Close()) })
	return c
}

// rows is the batch axis of any number of rows.
func rows() graph.Dim { return graph.Dim{Size: -1, Param: "N"} }

// build makes a model of the input x whose output body makes.
func build(shape graph.Shape, opset int64, body func(b *graph.Builder) string) *graph.Model {
	g := &graph.Graph{Name: "g", Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}}
	g.Outputs = []graph.Value{{Name: body(graph.NewBuilder(g, "")), DType: graph.Float}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: opset}}, Graph: g}
}

func floats32(b *graph.Builder, name string, v []float32, dims ...int64) string {
	return b.Const(graph.FromFloats(name, v, dims...))
}

func int64s(b *graph.Builder, v ...int64) string {
	return b.Const(graph.FromInts("n", v, int64(len(v))))
}

func (n *mlp) logits(x []float64) []float64 {
	h := make([]float64, n.hidden)
	for o := range h {
		h[o] = float64(n.b1[o])
		for j := range x {
			h[o] += float64(n.w1[o*n.in+j]) * x[j]
		}
		h[o] = math.Tanh(h[o])
	}
	z := make([]float64, n.out)
	for o := range z {
		z[o] = float64(n.b2[o])
		for j := range h {
			z[o] += float64(n.w2[o*n.hidden+j]) * h[j]
		}
	}
	return z
}

// model has the head's operators behind the logits.
func (n *mlp) model(batch graph.Dim, head ...*graph.Node) *graph.Model {
	in, out := int64(n.in), int64(n.out)
	m := build(graph.Shape{batch, {Size: in}}, 17, func(b *graph.Builder) string {
		gemm := func(in, w, bias, out string) {
			b.Append(&graph.Node{
				Op: "Gemm", Inputs: []string{in, w, bias}, Outputs: []string{out},
				Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
			})
		}
		gemm("x", floats32(b, "w1", n.w1, 5, in), floats32(b, "b1", n.b1, 5), "h")
		b.Append(node("Tanh", "h", "a"))
		gemm("a", floats32(b, "w2", n.w2, out, 5), floats32(b, "b2", n.b2, out), "z")
		last := "z"
		for _, h := range head {
			b.Append(h)
			last = h.Outputs[0]
		}
		return last
	})
	if len(head) > 0 && head[len(head)-1].Op == "ArgMax" {
		m.Graph.Outputs[0].DType = graph.Int64
	}
	return m
}

func node(op, in, out string, attrs ...graph.Attr) *graph.Node {
	return &graph.Node{Op: op, Name: "head_" + out, Inputs: []string{in}, Outputs: []string{out}, Attrs: attrs}
}

func trueMargin(z []float64, target int) float64 {
	if len(z) == 1 {
		z = []float64{0, z[0]}
	}
	other := math.Inf(-1)
	for j, v := range z {
		if j != target {
			other = max(other, v)
		}
	}
	return z[target] - other
}

func trueLoss(z []float64, target int) float64 {
	if len(z) == 1 {
		z = []float64{0, z[0]}
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(v - z[target])
	}
	return math.Log(sum)
}

func TestMarginAndGradients(t *testing.T) {
	softmax := node("Softmax", "z", "p", graph.IntAttr("axis", 1))
	sigmoid := node("Sigmoid", "z", "p")
	for _, tt := range []struct {
		name        string
		out, target int
		batch       graph.Dim
		head        []*graph.Node
	}{
		{"logits", 2, 1, rows(), nil},
		{"refusing class", 2, 0, rows(), nil},
		{"fixed batch", 2, 1, graph.Dim{Size: 4}, nil},
		{"one row at a time", 2, 1, graph.Dim{Size: 1}, nil},
		{"softmax and argmax", 2, 1, rows(), []*graph.Node{
			softmax, node("ArgMax", "p", "y", graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)),
		}},
		{"three classes", 3, 2, rows(), []*graph.Node{node("LogSoftmax", "z", "p", graph.IntAttr("axis", 1))}},
		{"one logit", 1, 1, rows(), []*graph.Node{sigmoid}},
		{"one logit, refusing", 1, 0, rows(), []*graph.Node{sigmoid}},
		{
			"one logit, flattened probability", 1, 1, rows(),
			[]*graph.Node{sigmoid, node("Flatten", "p", "f"), node("Identity", "f", "y")},
		},
		{"one logit, squeezed probability", 1, 1, rows(), []*graph.Node{sigmoid, node("Squeeze", "p", "y")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newMLP(3, tt.out, 7)
			c := open(t, n.model(tt.batch, tt.head...), Options{Target: &tt.target, Batch: 4, Workers: 2})
			check(t, c, 1e-5, func(x []float64) float64 { return trueMargin(n.logits(x), tt.target) },
				func(x []float64) float64 { return trueLoss(n.logits(x), tt.target) })
			x := normals(3, 9*3)
			two := must.Get(c.Margins(t.Context(), x))(t)
			must.Same(t, two, must.Get(c.Margins(ordered.OneCore(t.Context()), x))(t))
		})
	}
}

// check compares margins and gradients with functions of three inputs and their central differences; loss may be nil.
func check(t *testing.T, c *Model, tol float64, margin, loss func(x []float64) float64) {
	t.Helper()
	x := normals(3, 25*3)
	m, grads, err := c.MarginGrads(t.Context(), x)
	must.Do(t, err)
	_, losses, err := c.LossGrads(t.Context(), x)
	must.Do(t, err)
	plain := must.Get(c.Margins(t.Context(), x))(t)
	for i := range m {
		at := []float64{float64(x[i*3]), float64(x[i*3+1]), float64(x[i*3+2])}
		near(t, "margin", float64(m[i]), margin(at), tol)
		near(t, "plain margin", float64(plain[i]), margin(at), tol)
		for j := range at {
			slope := func(f func([]float64) float64) float64 {
				const step = 1e-5
				up, down := slices.Clone(at), slices.Clone(at)
				up[j] += step
				down[j] -= step
				return (f(up) - f(down)) / (2 * step)
			}
			near(t, "margin gradient", float64(grads[i*3+j]), slope(margin), 20*tol)
			if loss != nil {
				near(t, "loss gradient", float64(losses[i*3+j]), slope(loss), 20*tol)
			}
		}
	}
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// Gradients by inner values, against central differences by the hidden layer's bias, which shifts that value alone.
func TestObserveGradients(t *testing.T) {
	x, classes := normals(4, 9), []int{1, 0, 1}
	for out := 1; out <= 3; out++ {
		n := newMLP(3, out, 9)
		var head []*graph.Node
		if out == 1 {
			head = append(head, node("Sigmoid", "z", "p"))
		}
		c := open(t, n.model(rows(), head...), Options{Batch: 2})
		for _, margin := range []bool{false, true} {
			p, seen := Probe{Values: []string{"a"}, Grads: []string{"h"}, Classes: classes, Margin: margin}, 0
			must.Do(t, c.Observe(t.Context(), x, p, func(from, rows int, values, grads [][]float32) error {
				for i := from; i < from+rows; i++ {
					for k := range 5 {
						at := func(h float32) float64 {
							shifted := *n
							shifted.b1 = slices.Clone(n.b1)
							shifted.b1[k] += h
							z := shifted.logits([]float64{float64(x[i*3]), float64(x[i*3+1]), float64(x[i*3+2])})
							if margin {
								return trueMargin(z, 1)
							}
							return trueLoss(z, classes[i])
						}
						near(t, "gradient by h", float64(grads[0][(i-from)*5+k]), (at(1./1024)-at(-1./1024))*512, 2e-3)
					}
					seen++
				}
				if len(values[0]) != rows*5 {
					t.Errorf("%d values of a for %d rows", len(values[0]), rows)
				}
				return nil
			}))
			must.Same(t, 3, seen)
		}
	}
}

func TestErrors(t *testing.T) {
	e := orttest.Need(t)
	three := 3
	model := func(out int, head ...*graph.Node) *graph.Model { return newMLP(3, out, 1).model(rows(), head...) }
	two, second, wide, ints := model(2), model(2), model(2), model(2)
	second.Graph.Nodes = append(second.Graph.Nodes, node("Neg", "h", "other")) // nothing that z is computed from
	second.Graph.Outputs = append(second.Graph.Outputs, graph.Value{Name: "other"})
	wide.Graph.Inputs[0].Shape[1] = graph.Dim{Size: -1, Param: "features"}
	prob := model(1, node("Neg", "z", "n"), node("Exp", "n", "e"), node("Neg", "e", "y"))
	ints.Graph.Inputs[0].DType = graph.Int64
	for _, tt := range []struct {
		name string
		m    *graph.Model
		o    Options
		want string
	}{
		{"target", two, Options{Target: &three}, "target class 3 does not exist"},
		{"outputs", second, Options{}, `outputs "z" and "other" come from different values`},
		{"features", wide, Options{}, `dimension 1 of input "x" is "features"`},
		{"probability", prob, Options{}, "declare it in the task file"},
		{"type", ints, Options{}, "bound to different types"},
	} {
		must.Fail(t, must.Err(fromGraph(t.Context(), tt.m, e, tt.o)), tt.want)
	}
	c := must.Get(fromGraph(t.Context(), two, e, Options{}))(t)
	must.Fail(t, must.Err(c.Margins(t.Context(), make([]float32, 4))), "")
	must.Do(t, c.Close())
	must.Fail(t, must.Err(c.Margins(t.Context(), make([]float32, 3))), "")
}

func TestExportedModels(t *testing.T) {
	dir := realdata.Dir(t, "models")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			c := open(t, must.Get(codec.ReadFile(file))(t), Options{})
			gradientsNear(t, c, normals(1, c.Dim()), 1e-2)
		})
	}
}

func fromGraph(ctx context.Context, g *graph.Model, e ort.Options, o Options) (*Model, error) {
	m, err := onnxio.FromGraph(ctx, g, e)
	if err != nil {
		return nil, err
	}
	return New(m, o)
}
