package pass

import (
	"fmt"
	"maps"
	"slices"

	"cfq/onnxio/graph"
)

// microsoft is the domain of operators that only ONNX Runtime has. Its optimizer writes them into the files that it
// saves, each in place of several standard ones.
const microsoft = "com.microsoft"

// Unfusing puts standard operators instead of those that ONNX Runtime's optimizers fuse. Others of ONNX Runtime's
// operators stay: where gradients need them, they are refused.
func Unfusing() graph.Pass {
	rules := fusions()
	rule := func(n *graph.Node) fusion {
		switch {
		case n.Domain == microsoft && (n.Op == "QuantizeLinear" || n.Op == "DequantizeLinear"): // of 4 or 16 bits
			return func(u unfuser, n *graph.Node) (string, error) { return u.Op(n.Op, n.Inputs, n.Attrs...), nil }
		case n.Domain == microsoft || n.Standard() && n.Op == "SimplifiedLayerNormalization": // no standard operator, though
			return rules[n.Op]
		}
		return nil
	}
	fused := func(n *graph.Node) bool { return rule(n) != nil }
	return graph.Pass{
		Needed: func(m *graph.Model) bool { return slices.ContainsFunc(m.Graph.Nodes, fused) },
		Run: func(r *graph.Rewriter) error {
			for _, n := range r.G.Nodes {
				if fused(n) {
					n.Domain = microsoft // unknown to upgrades
				}
			}
			if err := Upgrade(r.Model, nil); err != nil {
				return err
			}
			u := unfuser{graph.NewBuilder(r.G, "")}
			var err error
			r.Rebuild(func(n *graph.Node) {
				if f := rule(n); f == nil {
					r.G.Nodes = append(r.G.Nodes, n)
				} else if err == nil {
					err = u.write(n, f)
				}
			})
			if err != nil {
				return err
			}
			return r.G.Check()
		},
	}
}

func (u unfuser) write(n *graph.Node, f fusion) error {
	first := len(u.G.Nodes)
	y, err := f(u, n)
	if err != nil {
		return fmt.Errorf("%s: %w: save the model without fused operators (graph_optimization_level ORT_ENABLE_BASIC)",
			n.Label(), err)
	}
	last := u.G.Nodes[len(u.G.Nodes)-1]
	last.Outputs[slices.Index(last.Outputs, y)] = n.Outputs[0]
	if n.Name != "" {
		u.G.Nodes[first].Name = n.Name // that of a layer is known to plans
	}
	return nil
}

type fusion func(u unfuser, n *graph.Node) (string, error)

type unfuser struct{ *graph.Builder }

// Fused are ONNX Runtime's own operators that have standard ones in their place.
func Fused() []string { return slices.Sorted(maps.Keys(fusions())) }

func fusions() map[string]fusion {
	return map[string]fusion{
		"Gelu": func(u unfuser, n *graph.Node) (string, error) { return u.Op("Gelu", n.Inputs), nil },
		"BiasGelu": func(u unfuser, n *graph.Node) (string, error) {
			return u.Op("Gelu", []string{u.Op("Add", n.Inputs)}), nil
		},
		"FastGelu": func(u unfuser, n *graph.Node) (string, error) {
			return u.Op("Gelu", []string{u.plus(n.Input(0), n.Input(1))}, graph.StringAttr("approximate", "tanh")), nil
		},
		"QuickGelu": func(u unfuser, n *graph.Node) (string, error) {
			x := n.Input(0)
			return u.Op("Mul", []string{x, u.Op("Sigmoid", []string{u.times(x, n.Float("alpha", 1.702))})}), nil
		},
		"FusedMatMul": func(u unfuser, n *graph.Node) (string, error) {
			if n.Int("transBatchA", 0) != 0 || n.Int("transBatchB", 0) != 0 {
				return "", fmt.Errorf("its attributes transBatchA and transBatchB are not supported")
			}
			a, b := "...ij", "...jk"
			if n.Int("transA", 0) != 0 {
				a = "...ji"
			}
			if n.Int("transB", 0) != 0 {
				b = "...kj"
			}
			alpha := n.Float("alpha", 1)
			if a == "...ij" && b == "...jk" {
				return u.times(u.Op("MatMul", n.Inputs), alpha), nil
			}
			// The number of axes is not known yet.
			return u.times(u.Op("Einsum", n.Inputs, graph.StringAttr("equation", a+","+b+"->...ik")), alpha), nil
		},
		"FusedGemm": func(u unfuser, n *graph.Node) (string, error) {
			names := []string{"activation_alpha", "activation_beta", "activation_gamma"}
			y := u.Op("Gemm", n.Inputs, without(n.Attrs, append(names, "activation")...)...)
			var p []float32
			for _, name := range names {
				if a := n.Attr(name); a != nil {
					p = append(p, a.F)
				}
			}
			return u.activation(y, n, p)
		},
		"FusedConv": func(u unfuser, n *graph.Node) (string, error) {
			y := u.Op("Conv", n.Inputs[:min(len(n.Inputs), 3)], without(n.Attrs, "activation", "activation_params")...)
			return u.activation(u.plus(y, n.Input(3)), n, n.Floats("activation_params"))
		},
		"SkipLayerNormalization":           unfuser.skip,
		"SkipSimplifiedLayerNormalization": unfuser.skip,
		"SimplifiedLayerNormalization": func(u unfuser, n *graph.Node) (string, error) {
			return u.rms(n.Input(0), n.Input(1), n)
		},
	}
}

func (u unfuser) plus(x, b string) string {
	if b == "" {
		return x
	}
	return u.Op("Add", []string{x, b})
}

func (u unfuser) times(x string, by float32) string {
	if by == 1 {
		return x
	}
	return u.Op("Mul", []string{x, u.number(by)})
}

func (u unfuser) number(v float32) string { return u.Const(graph.FromFloats("c", []float32{v})) }

func without(attrs []graph.Attr, names ...string) []graph.Attr {
	return slices.DeleteFunc(slices.Clone(attrs), func(a graph.Attr) bool { return slices.Contains(names, a.Name) })
}

func (u unfuser) activation(y string, n *graph.Node, p []float32) (string, error) {
	op := n.Text("activation", "")
	if op == "" {
		return y, nil
	}
	names, known := map[string][]string{
		"Relu": nil, "Sigmoid": nil, "Tanh": nil, "Softplus": nil, "Softsign": nil, "HardSwish": nil,
		"LeakyRelu": {"alpha"}, "Elu": {"alpha"}, "ThresholdedRelu": {"alpha"},
		"HardSigmoid": {"alpha", "beta"}, "Selu": {"alpha", "gamma"}, "Clip": {"min", "max"},
	}[op]
	if !known || len(p) > len(names) {
		return "", fmt.Errorf("its activation %q with %d parameters is not known", op, len(p))
	}
	inputs, attrs := []string{y}, []graph.Attr(nil)
	for i, v := range p {
		if op == "Clip" {
			inputs = append(inputs, u.number(v))
		} else {
			attrs = append(attrs, graph.Attr{Name: names[i], Kind: graph.AttrFloat, F: v})
		}
	}
	return u.Op(op, inputs, attrs...), nil
}

func (u unfuser) skip(n *graph.Node) (string, error) {
	simple, bias := n.Op == "SkipSimplifiedLayerNormalization", 4
	if simple {
		bias = 3
	}
	for i := 1; i < len(n.Outputs) && i < 3; i++ {
		if n.Outputs[i] != "" {
			return "", fmt.Errorf("its output %q, for training, is not supported", n.Outputs[i])
		}
	}
	sum := u.plus(u.Op("Add", n.Inputs[:2]), n.Input(bias))
	if len(n.Outputs) > 3 && n.Outputs[3] != "" {
		u.Append(&graph.Node{Op: "Identity", Inputs: []string{sum}, Outputs: []string{n.Outputs[3]}})
	}
	if simple {
		return u.rms(sum, n.Input(2), n)
	}
	inputs := []string{sum, n.Input(2)}
	if b := n.Input(3); b != "" {
		inputs = append(inputs, b)
	}
	return u.Op("LayerNormalization", inputs, graph.IntAttr("axis", -1), epsilon(n)), nil
}

func epsilon(n *graph.Node) graph.Attr {
	usual := float32(1e-12)
	if n.Op == "SimplifiedLayerNormalization" {
		usual = 1e-5
	}
	return graph.Attr{Name: "epsilon", Kind: graph.AttrFloat, F: n.Float("epsilon", usual)}
}

func (u unfuser) rms(x, scale string, n *graph.Node) (string, error) {
	if axis := n.Int("axis", -1); axis != -1 {
		return "", fmt.Errorf("its axis %d is not supported", axis)
	}
	mean := u.Op("ReduceMean", []string{u.Op("Mul", []string{x, x}), u.Const(graph.FromInts("axes", []int64{-1}, 1))})
	root := u.Op("Sqrt", []string{u.Op("Add", []string{mean, u.number(epsilon(n).F)})})
	return u.Op("Mul", []string{u.Op("Div", []string{x, root}), scale}), nil
}
