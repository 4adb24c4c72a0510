package calib

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// product multiplies matrices of any size in ONNX Runtime, in single precision.
type product struct{ session *ort.Session }

// newProduct opens the product of two matrices or, transposed, of the transpose of the first and the second.
func newProduct(e ort.Options, transposed bool) (*product, error) {
	of := func(name string) graph.Value {
		return graph.Value{Name: name, DType: graph.Float, Shape: graph.Shape{{Size: -1}, {Size: -1}}}
	}
	n := &graph.Node{Op: "Gemm", Inputs: []string{"a", "b"}, Outputs: []string{"c"}}
	if transposed {
		n.Attrs = []graph.Attr{graph.IntAttr("transA", 1)}
	}
	s, err := ort.Open(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: &graph.Graph{
		Name: "product", Inputs: []graph.Value{of("a"), of("b")}, Outputs: []graph.Value{of("c")}, Nodes: []*graph.Node{n},
	}}, e)
	if err != nil {
		return nil, err
	}
	return &product{s}, nil
}

func (p *product) of(ctx context.Context, a []float32, aRow int, b []float32, bRow int) ([]float32, error) {
	out, err := p.session.Run(ctx, []*graph.Tensor{
		ort.ViewFloats("a", a, int64(len(a)/aRow), int64(aRow)), ort.ViewFloats("b", b, int64(len(b)/bRow), int64(bRow)),
	})
	if err != nil {
		return nil, err
	}
	return ort.FloatsOf(out[0])
}

// addGram adds the products of the rows h, of width k, with themselves to gram; p is transposed. Of columns far from 0
// it makes those of what they differ by from their mean: in single precision nothing would be left of their variance.
func (p *product) addGram(ctx context.Context, gram, h []float64, k int) error {
	far := farMeans(h, k)
	if far != nil {
		for row := range slices.Chunk(h, k) {
			floats.Sub(row, far)
		}
	}
	v := singles(h)
	sums, err := p.of(ctx, v, k, v, k)
	if err != nil {
		return err
	}
	for i, x := range sums {
		gram[i] += float64(x)
	}
	if far == nil {
		return nil
	}
	left := make([]float64, k)
	for row := range slices.Chunk(h, k) {
		floats.Add(left, row)
	}
	n := float64(len(h) / k)
	for i, a := range far {
		for j, b := range far {
			if a != 0 || b != 0 {
				gram[i*k+j] += a*left[j] + left[i]*b + n*a*b
			}
		}
	}
	return nil
}

// farMeans are the means of columns that are many standard deviations from 0, and 0 for the others; nil where there is
// no such column.
func farMeans(h []float64, k int) []float64 {
	const many = 8
	means, squares := make([]float64, k), make([]float64, k)
	n := float64(len(h) / k)
	for row := range slices.Chunk(h, k) {
		floats.AddScaled(means, 1/n, row)
	}
	for row := range slices.Chunk(h, k) {
		for j, x := range row {
			d := x - means[j]
			squares[j] += d * d / n
		}
	}
	far := false
	for j, m := range means {
		if m*m <= many*many*squares[j] {
			means[j] = 0
		} else {
			far = true
		}
	}
	if !far {
		return nil
	}
	return means
}

func singles(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}
