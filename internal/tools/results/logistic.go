package main

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"cfq/onnxio/graph"
	"cfq/task"
)

// fitLogistic fits a logistic regression to labelled people by Newton's method, with a ridge of one person's weight on every slope.
func fitLogistic(p *task.People) (w []float64, b float64, err error) {
	n := p.Dim + 1 // the last is the constant
	v := mat.NewVecDense(n, nil)
	in := make([]float64, n)
	in[p.Dim] = 1
	for range 50 {
		h, g := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for j := range p.Dim {
			h.SetSym(j, j, 1)
			g.SetVec(j, v.AtVec(j))
		}
		h.SetSym(p.Dim, p.Dim, 1e-9)
		for i, label := range p.Labels {
			if label < 0 {
				continue
			}
			z := v.AtVec(p.Dim)
			for j := range p.Dim {
				in[j] = float64(p.X[i*p.Dim+j])
				z += v.AtVec(j) * in[j]
			}
			q := 1 / (1 + math.Exp(-z))
			h.SymRankOne(h, q*(1-q), mat.NewVecDense(n, in))
			g.AddScaledVec(g, q-float64(label), mat.NewVecDense(n, in))
		}
		var chol mat.Cholesky
		if !chol.Factorize(h) {
			return nil, 0, errors.New("logistic regression: the data do not determine it")
		}
		var step mat.VecDense
		if err := chol.SolveVecTo(&step, g); err != nil {
			return nil, 0, err
		}
		v.SubVec(v, &step)
		if mat.Norm(&step, 2) < 1e-10 {
			break
		}
	}
	return v.RawVector().Data[:p.Dim], v.AtVec(p.Dim), nil
}

// logistic is the model with the logits 0 and w x + b.
func logistic(w []float64, b float64) *graph.Model {
	weights := make([]float32, 2*len(w))
	for j, v := range w {
		weights[len(w)+j] = float32(v)
	}
	in := graph.Shape{{Size: -1, Param: "N"}, {Size: int64(len(w))}}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: &graph.Graph{
		Name:   "logistic",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: in}},
		Inits:  []*graph.Tensor{graph.FromFloats("w", weights, 2, int64(len(w))), graph.FromFloats("b", []float32{0, float32(b)}, 2)},
		Nodes: []*graph.Node{
			{Op: "Gemm", Name: "logits", Inputs: []string{"x", "w", "b"}, Outputs: []string{"z"}, Attrs: []graph.Attr{graph.IntAttr("transB", 1)}},
		},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float}},
	}}
}
