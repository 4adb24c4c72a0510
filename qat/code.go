package qat

import (
	"slices"

	"cfq/onnxio/graph"
)

// Code is what the objectives of autoencoders know of a network from inputs by a code to as many logits. The sigmoid
// of a logit is the input as a share of its range.
type Code struct {
	Value      string    // that holds the code
	Attributes int       // numbers of the code, for the objective Attributes
	Low, High  []float32 // the range of each input
}

// reconstructionTerm is the mean over the inputs of softplus(z) - z share, the cross-entropy of a share of the range
// with the sigmoid of the logit z.
func reconstructionTerm() lossTerm {
	return lossTerm{reduced: true, build: func(b *stepBuilder) string {
		code := &b.job.net.Code
		n := len(code.Low)
		low, scale := make([]float32, n), make([]float32, n)
		for i, v := range code.Low {
			low[i], scale[i] = v, 1/(code.High[i]-v)
		}
		op := func(name string, in ...string) string { return b.Op(name, in) }
		constant := func(v []float32) string { return b.Const(graph.FromFloats("range", v, 1, int64(n))) }
		inputs := b.reshape(b.G.Inputs[0].Name, int64(b.rows), int64(n))
		share := op("Mul", op("Sub", inputs, constant(low)), constant(scale))
		loss := op("Sub", op("Softplus", b.t.Logits), op("Mul", b.t.Logits, share))
		return op("Mul", loss, b.scalar(1/float64(n)))
	}}
}

// attributeTerm is the mean squared error of the code. What decodes reads the attributes instead of the code: encoder
// and decoder are trained apart, so that the code has no room for anything but the attributes.
func attributeTerm() lossTerm {
	const name = "qat.attributes"
	return lossTerm{
		reduced: true,
		columns: []lossColumn{{
			name: name, width: func(j *trainingJob) int { return j.net.Code.Attributes },
			fill: func(to []float32, p *Points, i int, _ *trainingJob) { copy(to, p.Attributes[i*len(to):]) },
		}},
		build: func(b *stepBuilder) string {
			code := &b.job.net.Code
			for _, n := range b.G.Nodes {
				if i := slices.Index(n.Inputs, code.Value); i >= 0 {
					n.Inputs = slices.Clone(n.Inputs)
					n.Inputs[i] = name
				}
			}
			e := b.Op("Sub", []string{code.Value, name})
			return b.Op("Mul", []string{b.Op("Mul", []string{e, e}), b.scalar(1 / float64(code.Attributes))})
		},
	}
}
