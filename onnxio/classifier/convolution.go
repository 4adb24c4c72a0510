package classifier

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// foldTransposed makes a convolution of each ConvTranspose without strides whose weights are stored, as the gradient of
// a convolution is one: ONNX Runtime takes several times as long for the former. The weights are turned round once.
func foldTransposed(g *graph.Graph) error {
	for i, n := range g.Nodes {
		if n.Op != "ConvTranspose" || n.Input(2) != "" {
			continue
		}
		w := g.Init(n.Inputs[1])
		if w == nil || w.DType != graph.Float || len(w.Dims) != 4 || n.Attr("auto_pad") != nil {
			continue
		}
		pads, plain := turnedPads(n, w.Dims[2:])
		if !plain {
			continue
		}
		group := n.Int("group", 1)
		turned, err := turn(w, group)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Label(), err)
		}
		turned.Name = n.Outputs[0] + ".turned"
		g.Inits = append(g.Inits, turned)
		g.Nodes[i] = &graph.Node{
			Op: "Conv", Name: n.Name, Inputs: []string{n.Inputs[0], turned.Name}, Outputs: n.Outputs,
			Attrs: []graph.Attr{
				graph.IntsAttr("kernel_shape", w.Dims[2], w.Dims[3]), graph.IntsAttr("pads", pads...),
				graph.IntAttr("group", group),
			},
		}
	}
	return nil
}

func turnedPads(n *graph.Node, kernel []int64) (pads []int64, plain bool) {
	steps := slices.Concat(n.Ints("strides"), n.Ints("dilations"))
	if n.Attr("output_shape") != nil || slices.ContainsFunc(steps, func(v int64) bool { return v != 1 }) ||
		slices.ContainsFunc(n.Ints("output_padding"), func(v int64) bool { return v != 0 }) {
		return nil, false
	}
	given := n.Ints("pads")
	if given == nil {
		given = make([]int64, 4)
	}
	for k, p := range given {
		pads = append(pads, kernel[k%2]-1-p)
		if pads[k] < 0 {
			return nil, false
		}
	}
	return pads, true
}

// turn returns the weights, in x (out/group) x rows x columns, as those of a convolution, out x (in/group) x rows x
// columns, each kernel turned by half.
func turn(w *graph.Tensor, group int64) (*graph.Tensor, error) {
	from, err := w.Floats()
	if err != nil {
		return nil, err
	}
	in, out, size := int(w.Dims[0]/group), int(w.Dims[1]), int(w.Dims[2]*w.Dims[3])
	to := make([]float32, len(from))
	for g := range int(group) {
		for c := range in {
			for m := range out {
				for k := range size {
					to[((g*out+m)*in+c)*size+size-1-k] = from[((g*in+c)*out+m)*size+k]
				}
			}
		}
	}
	return graph.FromFloats("", to, w.Dims[1]*group, w.Dims[0]/group, w.Dims[2], w.Dims[3]), nil
}
