package classifier

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"cfq/onnxio/graph"
)

// Affine returns the weights (Dim numbers) and the constant of a model whose
// margin is w x + b, as that of a logistic regression is; ok is false when the
// graph between the input and the logits holds an operator that is not known to be
// affine, or three classes or more, of which the margin takes a maximum. What the
// graph promises is held against the margin at random points.
//
// The weights are the margin's gradient at 0, so they are exact to float32. So is b
// to the size of the terms that cancel in it: use the margin at a point nearby
// where it matters.
func (c *Model) Affine(ctx context.Context) (w []float32, b float64, ok bool, err error) {
	if c.classes > 2 || !affineGraph(c.Graph().Graph, c.Input().Name, c.logits) {
		return nil, 0, false, nil
	}
	m, w, err := c.MarginGrads(ctx, make([]float32, c.Dim()))
	if err != nil {
		return nil, 0, false, fmt.Errorf("weights of an affine model: %w", err)
	}
	b = float64(m[0])
	const probes = 16
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, probes*c.Dim())
	for i := range x {
		x[i] = float32(rng.NormFloat64() * float64(1+i/c.Dim()))
	}
	got, err := c.Margins(ctx, x)
	if err != nil {
		return nil, 0, false, fmt.Errorf("probes of an affine model: %w", err)
	}
	for i, v := range got {
		want, size := b, 1+math.Abs(b)
		for j, k := range w {
			term := float64(k) * float64(x[i*c.Dim()+j])
			want += term
			size += math.Abs(term)
		}
		// A NaN is a disagreement, too.
		if !(math.Abs(float64(v)-want) <= 1e-4*size) {
			return nil, 0, false, nil
		}
	}
	return w, b, true, nil
}

// affineGraph reports whether every operator between the input and the value is affine in what depends on the input.
func affineGraph(g *graph.Graph, input, value string) bool {
	depends := map[string]bool{input: true}
	needed := g.Needed(value)
	for _, n := range g.Nodes {
		var moving []int // the node's inputs that depend on the model's
		for i, in := range n.Inputs {
			if depends[in] {
				moving = append(moving, i)
			}
		}
		if len(moving) == 0 && !n.HasGraphs() {
			continue
		}
		for _, out := range n.Outputs {
			if out != "" {
				depends[out] = true
			}
		}
		if needed[n] && (n.HasGraphs() || !n.Standard() || !affineNode(n, moving)) {
			return false
		}
	}
	return depends[value]
}

// affineNode reports whether the node is affine in those of its inputs that move.
func affineNode(n *graph.Node, moving []int) bool {
	only := func(i int) bool { return len(moving) == 1 && moving[0] == i }
	switch n.Op {
	case "Add", "Sub", "Sum", "Mean", "Concat":
		return true
	case "Identity", "Neg":
		return true
	case "Mul", "MatMul":
		return len(moving) == 1
	case "Gemm", "Conv", "ConvTranspose":
		// The product may have one factor that moves; the addend may move as well.
		factors := 0
		for _, i := range moving {
			if i < 2 {
				factors++
			}
		}
		return factors < 2
	case "Div", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "Slice", "Split",
		"Expand", "ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "Pad":
		return only(0)
	case "Cast":
		to := graph.DType(n.Int("to", 0))
		return only(0) && (to == graph.Float || to == graph.Double)
	case "Dropout":
		return only(0) && n.Input(2) == "" // no training mode
	case "BatchNormalization":
		return only(0) && n.Int("training_mode", 0) == 0
	}
	return false
}
