package certify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// movers are the operators that only move numbers.
func movers() []string {
	return []string{
		"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze",
		"Gather", "Slice", "Transpose", "Split", "Expand", "Tile",
	}
}

// pick moves numbers: number i is number at[i].of of slot at[i].from, or a constant where from is -1.
type pick struct {
	out int
	at  []source
}

type source struct {
	from, of int
	v        float64
}

func (d *pick) run(p *pass) {
	k := 0
	for _, s := range d.at {
		if s.from >= 0 {
			k = max(k, p.values[s.from].k)
		}
	}
	y := p.newZonotope(len(d.at), k)
	for i, s := range d.at {
		if s.from < 0 {
			y.set(i, s.v)
			continue
		}
		x := p.values[s.from]
		copy(y.row(i), x.row(s.of))
		y.c[i], y.own[i], y.lo[i], y.hi[i], y.mag[i] = x.c[s.of], x.own[s.of], x.lo[s.of], x.hi[s.of], x.mag[s.of]
	}
	p.values[d.out] = y
}

// compileMove compiles an operator that only moves numbers. ONNX Runtime runs it on the numbers 0, 1, 2 and so
// on, which shows where each of them goes.
func compileMove(ctx context.Context, k *compiler, n *graph.Node, _ []int) error {
	if n.Op == "Dropout" && n.Input(2) != "" {
		if v, _, err := k.constant(n.Input(2)); err != nil || len(v) != 1 || v[0] != 0 {
			return errors.New("it is in training mode")
		}
	}
	concat := n.Op == "Concat"
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
		return fmt.Errorf("it moves %d numbers: float32 counts to %d only", len(from), 1<<24)
	}
	for i, v := range n.Outputs {
		if v != "" && (i == 0 || n.Op != "Dropout") { // its mask is not of numbers
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
				return fmt.Errorf("it computes %v, but is to move numbers only", x)
			}
			d.at = append(d.at, from[int(x)])
		}
		d.out = k.name(t.Name)
		k.p.steps = append(k.p.steps, d)
	}
	return nil
}

// spread returns the slot of a value broadcast to dims.
func (k *compiler) spread(value string, dims []int64) int {
	from := k.slot[value]
	at := broadcast(k.values[value].Dims, dims)
	if k.values[value].Len() == len(at) {
		return from
	}
	d := &pick{out: k.p.slots}
	k.p.slots++
	for _, i := range at {
		d.at = append(d.at, source{from: from, of: i})
	}
	k.p.steps = append(k.p.steps, d)
	return d.out
}

// broadcast returns, for each element of a tensor of the dimensions to, the element of one of dims that it meets.
func broadcast(dims, to []int64) []int {
	size := 1
	for _, d := range to {
		size *= int(d)
	}
	at := make([]int, size)
	for i := range at {
		rest, step := i, 1
		for axis := len(to) - 1; axis >= 0; axis-- {
			own := axis - (len(to) - len(dims))
			at1 := rest % int(to[axis])
			rest /= int(to[axis])
			if own < 0 {
				continue
			}
			if dims[own] != 1 {
				at[i] += at1 * step
			}
			step *= int(dims[own])
		}
	}
	return at
}
