package autodiff

import (
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// query is a node whose output types are asked for.
type query struct {
	node *graph.Node
	in   []Type // by input; zero where absent
	b    *builder
}

// errVariable marks what inference cannot know of a sound node: it depends on
// values that are known only when the model runs.
var errVariable = errors.New("not constant")

// inference returns the types of a node's outputs.
type inference func(q *query) ([]Type, error)

// Infer fills types with the types of all values of g that follow, by the table's
// inference, from the types given and from those that g declares for inputs and
// initializers. Entries that are there already are kept. The error names every
// node whose output types could not be found.
func Infer(g *graph.Graph, types Types) error {
	b := newBuilder(g, types, "")
	var errs []error
	for _, n := range g.Nodes {
		if err := b.complete(n); err != nil {
			errs = append(errs, err)
		}
	}
	for name, t := range b.types {
		types[name] = t
	}
	return errors.Join(errs...)
}

// complete infers the output types of n unless all are known.
func (b *builder) complete(n *graph.Node) error {
	for _, o := range n.Outputs {
		if _, ok := b.types[o]; o != "" && !ok {
			return b.infer(n)
		}
	}
	return nil
}

func (b *builder) query(n *graph.Node) *query {
	q := &query{node: n, in: make([]Type, len(n.Inputs)), b: b}
	for i, name := range n.Inputs {
		q.in[i] = b.types[name]
	}
	return q
}

// infer records the types of n's outputs, keeping those that are known.
func (b *builder) infer(n *graph.Node) error {
	op := b.table[key(n)]
	if op == nil {
		return fmt.Errorf("%s: the type of its output is not known", n.Label())
	}
	for _, name := range n.Inputs {
		if _, ok := b.types[name]; name != "" && !ok {
			return fmt.Errorf("%s: the type of its input %q is not known", n.Label(), name)
		}
	}
	out, err := op.infer(b.query(n))
	if err != nil {
		return fmt.Errorf("%s: %w", n.Label(), err)
	}
	for i, o := range n.Outputs {
		if _, known := b.types[o]; o != "" && !known && i < len(out) {
			b.types[o] = out[i]
		}
	}
	return nil
}

// need reports whether input i is there.
func (q *query) need(n int) error {
	for i := range n {
		if q.node.Input(i) == "" {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	return nil
}

// like is the inference of operators whose output is of the type of input 0.
func like(q *query) ([]Type, error) {
	if err := q.need(1); err != nil {
		return nil, err
	}
	return []Type{q.in[0]}, nil
}

// elementwise broadcasts all inputs.
func elementwise(q *query) ([]Type, error) {
	if err := q.need(1); err != nil {
		return nil, err
	}
	t := q.in[0]
	for i, u := range q.in[1:] {
		if q.node.Input(i+1) == "" {
			continue
		}
		s, err := broadcast(t.Shape, u.Shape)
		if err != nil {
			return nil, err
		}
		t.Shape = s
	}
	return []Type{t}, nil
}

// predicate is elementwise with boolean output.
func predicate(q *query) ([]Type, error) {
	out, err := elementwise(q)
	if err != nil {
		return nil, err
	}
	return []Type{{graph.Bool, out[0].Shape}}, nil
}

// elements is what is known about an integer value: a Shape node's output has
// symbolic elements, and is then not constant. A constant may hold -1 as a number.
type elements struct {
	dims     graph.Shape
	constant bool
}

// ints returns what is known about the elements of the integer input i.
func (q *query) ints(i int) (elements, bool) { return q.b.ints(q.node.Input(i), 32) }

// ints looks for the elements of a value of rank 0 or 1 through the nodes that
// shape computations are made of, at most depth of them.
func (b *builder) ints(name string, depth int) (elements, bool) {
	if t := b.inits[name]; t != nil {
		return tensorInts(t)
	}
	n := b.made[name]
	if n == nil || depth == 0 {
		return elements{}, false
	}
	get := func(i int) (elements, bool) { return b.ints(n.Input(i), depth-1) }
	switch key(n) {
	case "Constant":
		if t := n.Constant(); t != nil {
			return tensorInts(t)
		}
	case "Shape":
		if t, ok := b.types[n.Input(0)]; ok {
			from, to := shapeRange(n, len(t.Shape))
			return elements{t.Shape[from:to], fixed(t.Shape[from:to])}, true
		}
	case "Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape":
		return get(0)
	case "Concat":
		all := elements{constant: true}
		for i := range n.Inputs {
			e, ok := get(i)
			if !ok {
				return elements{}, false
			}
			all = elements{append(all.dims, e.dims...), all.constant && e.constant}
		}
		return all, true
	case "Gather":
		from, ok := get(0)
		at, known := get(1)
		if !ok || !known || !at.constant {
			return elements{}, false
		}
		out := elements{constant: from.constant}
		for _, d := range at.dims {
			i, err := normal(d.Size, len(from.dims))
			if err != nil {
				return elements{}, false
			}
			out.dims = append(out.dims, from.dims[i])
		}
		return out, true
	}
	return elements{}, false
}

func tensorInts(t *graph.Tensor) (elements, bool) {
	if t.DType.IsFloat() || len(t.Dims) > 1 {
		return elements{}, false
	}
	v, err := t.Ints()
	if err != nil {
		return elements{}, false
	}
	return elements{graph.Fixed(v...), true}, true
}

// constInts returns the constant integers that input i or, in older operator
// sets, the attribute holds; ok is false when both are absent, and an error says
// that the input is not constant.
func (q *query) constInts(i int, attr string) (v []int64, ok bool, err error) {
	if a := q.node.Attr(attr); a != nil {
		return a.Ints, true, nil
	}
	if q.node.Input(i) == "" {
		return nil, false, nil
	}
	e, known := q.ints(i)
	if !known || !e.constant {
		return nil, false, fmt.Errorf("%s (input %q) is %w", attr, q.node.Input(i), errVariable)
	}
	return sizes(e.dims), true, nil
}

// shapeRange returns the axes from..to that a Shape node reports.
func shapeRange(n *graph.Node, rank int) (from, to int) {
	clamp := func(v int64) int {
		if v < 0 {
			v += int64(rank)
		}
		return int(min(max(v, 0), int64(rank)))
	}
	from, to = clamp(n.Int("start", 0)), clamp(n.Int("end", int64(rank)))
	return from, max(from, to)
}

// replaced returns s with axis set to d.
func replaced(s graph.Shape, axis int, d graph.Dim) graph.Shape {
	out := slices.Clone(s)
	out[axis] = d
	return out
}
