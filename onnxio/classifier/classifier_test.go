package classifier

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/ordered"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// mlp is a small classifier in -> 5 -> out with random weights, and its logits
// computed by hand in float64.
type mlp struct {
	in, hidden, out int
	w1, b1, w2, b2  []float32
}

func newMLP(in, out int, seed uint64) *mlp {
	r := rand.New(rand.NewPCG(seed, 1))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	n := &mlp{in: in, hidden: 5, out: out}
	n.w1, n.b1, n.w2, n.b2 = draw(in*5), draw(5), draw(5*out), draw(out)
	return n
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

func (n *mlp) model(batch graph.Dim, head ...*graph.Node) *graph.Model {
	gemm := func(in, w, b, out string) *graph.Node {
		return &graph.Node{
			Op: "Gemm", Name: out + "_gemm", Inputs: []string{in, w, b}, Outputs: []string{out},
			Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
		}
	}
	g := &graph.Graph{
		Name:   "mlp",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{batch, {Size: int64(n.in)}}}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w1", n.w1, 5, int64(n.in)), graph.FromFloats("b1", n.b1, 5),
			graph.FromFloats("w2", n.w2, int64(n.out), 5), graph.FromFloats("b2", n.b2, int64(n.out)),
		},
		Nodes: []*graph.Node{
			gemm("x", "w1", "b1", "h"),
			{Op: "Tanh", Name: "act", Inputs: []string{"h"}, Outputs: []string{"a"}},
			gemm("a", "w2", "b2", "z"),
		},
	}
	out := graph.Value{Name: "z", DType: graph.Float}
	for _, h := range head {
		g.Nodes = append(g.Nodes, h)
		out.Name = h.Outputs[0]
		if h.Op == "ArgMax" {
			out.DType = graph.Int64
		}
	}
	g.Outputs = []graph.Value{out}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
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
	e := orttest.Need(t)
	dynamic := graph.Dim{Size: -1, Param: "batch"}
	for _, tt := range []struct {
		name   string
		out    int
		target int
		batch  graph.Dim
		head   []*graph.Node
	}{
		{"logits", 2, 1, dynamic, nil},
		{"refusing class", 2, 0, dynamic, nil},
		{"fixed batch", 2, 1, graph.Dim{Size: 4}, nil},
		{"one row at a time", 2, 1, graph.Dim{Size: 1}, nil},
		{"softmax", 2, 1, dynamic, []*graph.Node{node("Softmax", "z", "p", graph.IntAttr("axis", 1))}},
		{"softmax and argmax", 2, 1, dynamic, []*graph.Node{
			node("Softmax", "z", "p", graph.IntAttr("axis", 1)),
			node("ArgMax", "p", "y", graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0)),
		}},
		{"three classes", 3, 2, dynamic, []*graph.Node{node("LogSoftmax", "z", "p", graph.IntAttr("axis", 1))}},
		{"one logit", 1, 1, dynamic, []*graph.Node{node("Sigmoid", "z", "p")}},
		{"one logit, refusing", 1, 0, dynamic, []*graph.Node{node("Sigmoid", "z", "p")}},
		{
			"one logit, flattened probability", 1, 1, dynamic,
			[]*graph.Node{node("Sigmoid", "z", "p"), node("Flatten", "p", "f"), node("Identity", "f", "y")},
		},
		{
			"one logit, squeezed probability", 1, 1, dynamic,
			[]*graph.Node{node("Sigmoid", "z", "p"), node("Squeeze", "p", "y")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newMLP(3, tt.out, 7)
			c := must.Get(Open(context.Background(), n.model(tt.batch, tt.head...), e,
				Options{Target: &tt.target, Batch: 4, Workers: 2}))(t)
			defer c.Close()
			const rows = 9
			r := rand.New(rand.NewPCG(3, 4))
			x := make([]float32, rows*3)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			m, mg, err := c.MarginGrads(context.Background(), x)
			must.Do(t, err)
			_, lg, err := c.LossGrads(context.Background(), x)
			must.Do(t, err)
			plain := must.Get(c.Margins(context.Background(), x))(t)
			alone, err := c.Margins(ordered.OneCore(t.Context()), x)
			if err != nil || !slices.Equal(alone, plain) {
				t.Fatalf("on one core %v, %v, on two %v", alone, err, plain)
			}
			for i := range rows {
				at := make([]float64, 3)
				for j := range at {
					at[j] = float64(x[i*3+j])
				}
				near(t, "margin", float64(m[i]), trueMargin(n.logits(at), tt.target), 1e-5)
				near(t, "plain margin", float64(plain[i]), trueMargin(n.logits(at), tt.target), 1e-5)
				for j := range at {
					diff := func(f func([]float64, int) float64) float64 {
						const h = 1e-5
						up, down := append([]float64{}, at...), append([]float64{}, at...)
						up[j] += h
						down[j] -= h
						return (f(n.logits(up), tt.target) - f(n.logits(down), tt.target)) / (2 * h)
					}
					near(t, "margin gradient", float64(mg[i*3+j]), diff(trueMargin), 1e-4)
					near(t, "loss gradient", float64(lg[i*3+j]), diff(trueLoss), 1e-4)
				}
			}
		})
	}
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func TestObserveGradients(t *testing.T) {
	e := orttest.Need(t)
	n := newMLP(3, 3, 9)
	c, err := Open(context.Background(), n.model(graph.Dim{Size: -1}), e, Options{Batch: 2})
	must.Do(t, err)
	defer c.Close()
	x := []float32{.1, -.2, .3, 1, .5, -1, -.7, .2, .9}
	classes := []int{2, 0, 1}
	seen := 0
	err = c.Observe(context.Background(), x, Probe{Values: []string{"a"}, Grads: []string{"h"}, Classes: classes},
		func(from, rows int, values, grads [][]float32) error {
			for i := range rows {
				at := []float64{float64(x[(from+i)*3]), float64(x[(from+i)*3+1]), float64(x[(from+i)*3+2])}
				for k := range 5 {
					loss := func(h float64) float64 {
						shifted := *n
						shifted.b1 = append([]float32{}, n.b1...)
						shifted.b1[k] += float32(h)
						return trueLoss(shifted.logits(at), classes[from+i])
					}
					near(t, "gradient by h", float64(grads[0][i*5+k]), (loss(1e-3)-loss(-1e-3))/2e-3, 2e-3)
				}
				seen++
			}
			if len(values[0]) != rows*5 {
				t.Errorf("%d values of a for %d rows", len(values[0]), rows)
			}
			return nil
		})
	if err != nil || seen != 3 {
		t.Fatalf("saw %d rows, %v", seen, err)
	}
}

func TestObserveMarginGradients(t *testing.T) {
	e := orttest.Need(t)
	ctx := context.Background()
	x := []float32{.1, -.2, .3, 1, .5, -1, -.7, .2, .9}
	for _, classes := range []int{1, 2, 3} {
		n := newMLP(3, classes, 11)
		open := func(n *mlp) *Model {
			c, err := Open(ctx, n.model(graph.Dim{Size: -1}, node("Sigmoid", "z", "p")), e, Options{Batch: 2})
			if classes > 1 {
				c, err = Open(ctx, n.model(graph.Dim{Size: -1}), e, Options{Batch: 2})
			}
			must.Do(t, err)
			t.Cleanup(func() { c.Close() })
			return c
		}
		moved := func(k int, by float32) []float32 {
			shifted := *n
			shifted.b1 = append([]float32{}, n.b1...)
			shifted.b1[k] += by
			return must.Get(open(&shifted).Margins(ctx, x))(t)
		}
		const step = 1.0 / 64
		var up, down [5][]float32
		for k := range up {
			up[k], down[k] = moved(k, step), moved(k, -step)
		}
		c, seen := open(n), 0
		probe := Probe{Values: []string{"h"}, Grads: []string{"h"}, Margin: true}
		// The cross-entropy's gradients of the same values come from another session.
		must.Do(t, c.Observe(ctx, x, Probe{Values: probe.Values, Grads: probe.Grads},
			func(int, int, [][]float32, [][]float32) error { return nil }))
		err := c.Observe(ctx, x, probe, func(from, rows int, _, grads [][]float32) error {
			for i := range rows {
				for k := range up {
					want := float64(up[k][from+i]-down[k][from+i]) / (2 * step)
					near(t, "gradient of the margin by h", float64(grads[0][i*5+k]), want, 2e-3)
				}
				seen++
			}
			return nil
		})
		if err != nil || seen != 3 {
			t.Fatalf("saw %d rows, %v", seen, err)
		}
	}
}

func TestErrors(t *testing.T) {
	e := orttest.Need(t)
	three := 3
	two := newMLP(3, 2, 1).model(graph.Dim{Size: -1})
	second := newMLP(3, 2, 1).model(graph.Dim{Size: -1})
	second.Graph.Nodes = append(second.Graph.Nodes, node("Neg", "h", "other")) // nothing that z is computed from
	second.Graph.Outputs = append(second.Graph.Outputs, graph.Value{Name: "other"})
	wide := newMLP(3, 2, 1).model(graph.Dim{Size: -1})
	wide.Graph.Inputs[0].Shape[1] = graph.Dim{Size: -1, Param: "features"}
	prob := newMLP(3, 1, 1).model(graph.Dim{Size: -1}, node("Neg", "z", "n"), node("Exp", "n", "e"), node("Neg", "e", "y"))
	ints := newMLP(3, 2, 1).model(graph.Dim{Size: -1})
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
		if _, err := Open(context.Background(), tt.m, e, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want it to say %q", tt.name, err, tt.want)
		}
	}
	c := must.Get(Open(context.Background(), two, e, Options{}))(t)
	if _, err := c.Margins(context.Background(), make([]float32, 4)); err == nil {
		t.Error("4 numbers were taken for rows of 3")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Margins(context.Background(), make([]float32, 3)); err == nil {
		t.Error("a closed classifier ran")
	}
}

func TestExportedModels(t *testing.T) {
	e := orttest.Need(t)
	dir := realdata.Dir(t, "models")
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no models in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			m := must.Get(codec.ReadFile(file))(t)
			c := must.Get(Open(context.Background(), m, e, Options{}))(t)
			defer c.Close()
			r := rand.New(rand.NewPCG(1, 1))
			const h = 1e-3
			x := make([]float32, c.Dim())
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			_, g, err := c.MarginGrads(context.Background(), x)
			must.Do(t, err)
			var points []float32
			for j := range x {
				for _, s := range []float32{h, -h} {
					p := append([]float32{}, x...)
					p[j] += s
					points = append(points, p...)
				}
			}
			ms := must.Get(c.Margins(context.Background(), points))(t)
			bad := 0
			for j := range x {
				if d := (ms[2*j] - ms[2*j+1]) / (2 * h); math.Abs(float64(d-g[j])) > 1e-2*(1+math.Abs(float64(d))) {
					bad++ // a Relu kink within h
				}
			}
			if bad > len(x)/10 {
				t.Errorf("%d of %d gradients differ from central differences", bad, len(x))
			}
		})
	}
}
