package certify_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/eval/certify"
	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/ptq"
	"cfq/task"
)

// What the package has for an evaluation is what an evaluation asks for.
var _ = func(k *certify.Certifier) eval.Options {
	return eval.Options{Neighbourhood: eval.Neighbourhood{Prove: k.Prove}}
}

// An operator that certificates do not know is named, with its node, and is no obstacle to the rest.
func TestUnknown(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f := net(rng, shape{widths: []int{3, 4, 2}, act: "Softsign"})
	p := opened(t, f, f, 1)
	_, err := p.k.Prove(t.Context(), make([]float32, 3), make([]float32, 3), 1)
	if err == nil || !strings.Contains(err.Error(), `certificates do not support Softsign node "node a1"`) ||
		p.k.Check() == nil {
		t.Errorf("got %v", err)
	}
	// Weights alone dequantized in front of a MatMul: ONNX Runtime rounds what the layer reads, row by row.
	rows := func(n int64) graph.Shape { return graph.Shape{{Size: -1, Param: "N"}, {Size: n}} }
	g := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name:    "blocks",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: rows(32)}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: rows(16)}},
		Inits: []*graph.Tensor{
			{Name: "codes", DType: graph.Int4, Dims: []int64{32, 16}, Raw: make([]byte, 32*16/2)},
			graph.FromFloats("scale", normal(rng, 16, 0.1), 1, 16),
		},
		Nodes: []*graph.Node{
			{
				Name: "dq", Op: "DequantizeLinear", Inputs: []string{"codes", "scale"}, Outputs: []string{"w"},
				Attrs: []graph.Attr{graph.IntAttr("axis", 0), graph.IntAttr("block_size", 32)},
			},
			{Name: "product", Op: "MatMul", Inputs: []string{"x", "w"}, Outputs: []string{"y"}},
		},
	}}
	if err := opened(t, g, g, 1).k.Check(); err == nil || !strings.Contains(err.Error(), "MatMulNBits") {
		t.Errorf("got %v", err)
	}
}

// Points that are no numbers, and boxes of no size, are errors.
func TestProveRefuses(t *testing.T) {
	f := net(rand.New(rand.NewPCG(1, 1)), shape{widths: []int{2, 3, 2}, act: "Relu"})
	p := opened(t, f, f, 1)
	nan := float32(0)
	nan /= nan
	for _, c := range []struct{ points, half []float32 }{
		{[]float32{1}, []float32{1}},
		{[]float32{1, nan}, []float32{0, 0}},
		{[]float32{1, 2}, []float32{0, -1}},
		{[]float32{1, 2}, []float32{nan, 0}},
	} {
		if got, err := p.k.Prove(t.Context(), c.points, c.half, 1); err == nil {
			t.Errorf("%v: %v", c, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.k.Prove(ctx, []float32{1, 2}, []float32{0, 0}, 1); err == nil {
		t.Error("a cancelled proof succeeds")
	}
	if got, err := p.k.Prove(t.Context(), nil, nil, 0); err != nil || len(got) != 0 {
		t.Errorf("nobody: %v, %v", got, err)
	}
}

// inFourBits quantizes a model without what takes long.
func inFourBits(t testing.TB, f *graph.Model, tk *task.Task, people *task.People) *graph.Model {
	t.Helper()
	recipe := must.Get(ptq.NewRecipe(ptq.CFPTQ, "calibrate.rows=300", "refine.rounds=0"))(t)
	r := must.Get(ptq.Quantize(t.Context(), loaded(t, f), tk, people, recipe, ptq.Run{}))(t)
	path := filepath.Join(t.TempDir(), "q.onnx")
	write(t, path, r.Model)
	return read(t, path)
}

// Proofs of real recourse stand up to attack, and do not depend on the workers or on the company.
func TestRecourse(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(testing.TB, float64) (*graph.Model, *graph.Model, *promised)
		least float64 // share that is certified within 0.01 for margin 0.25, or the proofs are of no use
	}{{"loans", loanPair, 0.9}, {"adult", adultPair, 0.9}} {
		t.Run(c.name, func(t *testing.T) {
			f, g, p := c.make(t, 0.25)
			k := opened(t, f, g, 1)
			for _, radius := range []float32{0, 0.01, 0.03, 0.1} {
				half := p.boxes(radius)
				proofs := must.Get(k.k.Prove(t.Context(), p.points, half, p.n))(t)
				attacked := k.attack(t, p.points, half, p.n, 10, rand.New(rand.NewPCG(1, 1)))
				certified, loose, apart := holds(t, c.name, proofs, attacked)
				refused := 0
				for _, a := range attacked {
					if a.lower <= 0 {
						refused++
					}
				}
				t.Logf("radius %v: %d of %d certified, %d refused; the least margin found is %.4f above the bound, "+
					"the largest distance %.4f below it", radius, certified, p.n, refused, loose, apart)
				switch {
				case radius == 0 && loose > 1e-3, radius == 0.01 && float64(certified) < c.least*float64(p.n),
					radius < 0.1 && float64(certified+refused) < 0.95*float64(p.n):
					t.Errorf("radius %v: proofs are of no use", radius)
				}
				was := runtime.GOMAXPROCS(1)
				from := p.n / 2
				alone, err := k.k.Prove(t.Context(), p.points[from*p.dim:], half[from*p.dim:], p.n-from)
				runtime.GOMAXPROCS(was)
				must.Do(t, err)
				for i, a := range alone {
					if a != proofs[from+i] {
						t.Fatalf("row %d: alone %+v, in company %+v", from+i, a, proofs[from+i])
					}
				}
			}
		})
	}
}
