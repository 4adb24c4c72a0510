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
	for _, n := range g.Nodes {
		fmt.Println(n.Outputs, "=", n.Op, n.Inputs)
	}
	fmt.Println(dx[0], types[dx[0]])
	// Output:
	// [matmul] = MatMul [x w]
	// [tanh] = Tanh [matmul]
	// [d.shape] = Shape [tanh]
	// [d.constantofshape] = ConstantOfShape [d.shape]
	// [d.mul] = Mul [tanh tanh]
	// [d.sub] = Sub [d.const d.mul]
	// [d.gemm] = Gemm [d.sub w]
	// d.gemm float[N,2]
}
