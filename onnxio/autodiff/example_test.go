package autodiff_test

import (
	"fmt"
	"log"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// The backward pass of y = tanh(x·w) is appended to the graph: its result is the gradient of the sum of y
// by x, for any number of rows.
func ExampleGradients() {
	rows := graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}
	g := &graph.Graph{
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: rows}},
		Inits:  []*graph.Tensor{graph.FromFloats("w", []float32{3, 4}, 2, 1)},
	}
	b := graph.NewBuilder(g, "")
	y := b.Op("Tanh", []string{b.Op("MatMul", []string{"x", "w"})})

	types := graph.Types{} // those of inputs and initializers are in the graph
	dx, err := autodiff.Gradients(g, types, y, []string{"x"}, autodiff.Options{Prefix: "d."})
	if err != nil {
		log.Fatal(err)
	}
	g.Outputs = []graph.Value{{Name: dx[0], DType: types[dx[0]].DType, Shape: types[dx[0]].Shape}}
	fmt.Print(g.Text())
	// Output:
	// input x float[N,2]
	// init w float[2,1] = [3,4]
	// init d.const float[] = [1]
	// node matmul = MatMul(x, w) "n_MatMul"
	// node tanh = Tanh(matmul) "n_Tanh"
	// node d.shape = Shape(tanh) "d.n_Shape"
	// node d.constantofshape = ConstantOfShape(d.shape) {value=float[1] = [1]} "d.n_ConstantOfShape"
	// node d.mul = Mul(tanh, tanh) "d.n_Mul"
	// node d.sub = Sub(d.const, d.mul) "d.n_Sub"
	// node d.gemm = Gemm(d.sub, w) {alpha=1, transA=0, transB=1} "d.n_Gemm"
	// output d.gemm float[N,2]
}
