package certify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// moves compiles an operator that only moves numbers: what goes where is found by running it on the numbers 0, 1, 2...
func moves(ctx context.Context, k *compiler, n *graph.Node, moving []int) error {
	concat := n.Op == "Concat"
	if !concat {
		if err := only(moving); err != nil {
			return err
		}
	}
	node := *n
	node.Inputs, node.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
	g := &graph.Graph{Name: "moves", Nodes: []*graph.Node{&node}}
	var feed []*graph.Tensor
	var from []source // of the numbers that are fed
	for i, in := range n.Inputs {
		at, data := k.slot[in]
		switch t := k.values[in]; {
		case in == "":
		case data || concat:
			name := fmt.Sprintf("in%d", i)
			iota := make([]float32, t.Len())
			first := len(from)
			for j := range iota {
				iota[j] = float32(first + j)
				from = append(from, source{from: at, of: j})
			}
			if !data {
				v, err := numbers(t)
				if err != nil {
					return err
				}
				for j, c := range v {
					from[first+j] = source{from: -1, v: c}
				}
			}
			node.Inputs[i] = name
			g.Inputs = append(g.Inputs, graph.Value{Name: name, DType: graph.Float, Shape: graph.Fixed(t.Dims...)})
			feed = append(feed, graph.FromFloats(name, iota, t.Dims...))
		case !slices.ContainsFunc(g.Inits, func(o *graph.Tensor) bool { return o.Name == in }):
			c := *t
			c.Name = in
			g.Inits = append(g.Inits, &c)
		}
	}
	if len(from) > 1<<24 {
		return fmt.Errorf("it moves %d numbers", len(from))
	}
	for _, v := range n.Outputs {
		if v != "" {
			g.Outputs = append(g.Outputs, graph.Value{Name: v})
		}
	}
	s, err := ort.Open(&graph.Model{IRVersion: k.m.IRVersion, Opsets: k.m.Opsets, Graph: g}, k.o)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out, err := s.Run(ctx, feed)
	if err != nil {
		return err
	}
	for _, t := range out {
		v, err := t.Doubles()
		if err != nil {
			return err
		}
		d := &pick{}
		for _, x := range v {
			if x < 0 || int(x) >= len(from) || x != math.Trunc(x) {
				return fmt.Errorf("it makes %v of whole numbers", x)
			}
			d.at = append(d.at, from[int(x)])
		}
		d.out = k.name(t.Name)
		k.p.steps = append(k.p.steps, d)
	}
	return nil
}
