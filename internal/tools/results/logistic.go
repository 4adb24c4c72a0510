package main

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/task"
)

// logistic fits a logistic regression to the labelled people: the least log loss, with a penalty
// on the squared weights that weighs as much as one person. It stands in where a data set has no exported one.
func logistic(ctx context.Context, people *task.People) (*onnxio.Model, error) {
	n := people.Dim + 1 // the last is the constant
	row := make([]float64, n)
	each := func(v []float64, f func(z, label float64)) {
		for i, label := range people.Labels {
			if label >= 0 {
				for j, x := range people.X[i*people.Dim : (i+1)*people.Dim] {
					row[j] = float64(x)
				}
				row[people.Dim] = 1
				f(floats.Dot(v, row), float64(label))
			}
		}
	}
	fit, err := optimize.Minimize(optimize.Problem{
		Func: func(v []float64) float64 {
			w := v[:people.Dim]
			loss := floats.Dot(w, w) / 2
			each(v, func(z, label float64) { loss += math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) - label*z })
			return loss
		},
		Grad: func(g, v []float64) {
			copy(g, v)
			g[people.Dim] = 0
			each(v, func(z, label float64) { floats.AddScaled(g, 1/(1+math.Exp(-z))-label, row) })
		},
	}, make([]float64, n), &optimize.Settings{GradientThreshold: 1e-3}, &optimize.BFGS{})
	if err != nil {
		return nil, err
	}
	weights := make([]float32, 2*people.Dim) // of the logits 0 and w x + b
	for j := range people.Dim {
		weights[people.Dim+j] = float32(fit.X[j])
	}
	shape := graph.Shape{{Size: -1, Param: "N"}, {Size: int64(people.Dim)}}
	g := &graph.Graph{
		Name:   "logistic",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}},
		Inits: []*graph.Tensor{
			graph.FromFloats("w", weights, 2, int64(people.Dim)),
			graph.FromFloats("b", []float32{0, float32(fit.X[people.Dim])}, 2),
		},
		Nodes: []*graph.Node{{
			Op: "Gemm", Name: "logits", Inputs: []string{"x", "w", "b"}, Outputs: []string{"z"},
			Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
		}},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float}},
	}
	return onnxio.FromGraph(ctx, &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}, ort.Options{})
}
