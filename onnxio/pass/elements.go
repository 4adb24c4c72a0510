package pass

import (
	"fmt"
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// ElementTypes remembers the element types of a model that computes in others than float32, in which gradients lose
// small numbers, and weights of few bits take the same bytes. So gradients are those of a copy in float32, and what is
// written computes in float32 between Casts that give it the inputs and outputs of the file. Margins are the file's
// own. The zero value remembers nothing.
type ElementTypes struct {
	dtypes map[string]graph.DType // of inputs and outputs that are float32 now
	found  map[graph.DType]bool   // all that have become float32
}

// Converted reports whether the pass has changed the model.
func (e *ElementTypes) Converted() bool { return e.dtypes != nil }

// Pass makes a model compute in float32. Numbers of 16 bits are always converted, those of 64 only in models whose
// weights are. Tensors that a Cast alone reads stay as they are.
func (e *ElementTypes) Pass() graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool {
			c := conversionOf(m.Clone())
			return c.run(&ElementTypes{}) != nil || len(c.found) > 0
		},
		Run:  func(r *graph.Rewriter) error { return conversionOf(r.Model).run(e) },
		Undo: e.undo,
	}
}

// Types names the types that are float32 now.
func (e *ElementTypes) Types() []string {
	return lists.Map(slices.Sorted(maps.Keys(e.found)), graph.DType.String)
}

// Coarse is how many times further than of float32 results of the file may lie from the model's, which computes in
// float32 where the file has floats of 16 bits.
func (e *ElementTypes) Coarse() float64 {
	coarse := 1.0
	for t := range e.found {
		switch t {
		case graph.Float16:
			coarse = max(coarse, 50)
		case graph.BFloat16:
			coarse = max(coarse, 400)
		}
	}
	return coarse
}

type conversion struct {
	m    *graph.Model
	from map[graph.DType]bool // types that become float32

	found map[graph.DType]bool // those of them that there are
}

func conversionOf(m *graph.Model) *conversion {
	return &conversion{m: m, from: map[graph.DType]bool{
		graph.Float16: true, graph.BFloat16: true, graph.Double: hasDoubleWeights(m.Graph),
	}}
}

func (c *conversion) run(e *ElementTypes) error {
	e.dtypes, c.found = map[string]graph.DType{}, map[graph.DType]bool{}
	e.found = c.found
	for _, list := range [][]graph.Value{c.m.Graph.Inputs, c.m.Graph.Outputs, c.m.Graph.Values} {
		for i := range list {
			if v := &list[i]; c.from[v.DType] {
				e.dtypes[v.Name], c.found[v.DType] = v.DType, true
				v.DType = graph.Float
			}
		}
	}
	read := c.computed()
	for i, t := range c.m.Graph.Inits {
		if read[t.Name] {
			var err error
			if c.m.Graph.Inits[i], err = c.tensor(t); err != nil {
				return err
			}
		}
	}
	if err := c.nodes(c.m.Graph.Nodes); err != nil {
		return err
	}
	for _, f := range c.m.Functions {
		if err := c.nodes(f.Nodes); err != nil {
			return fmt.Errorf("function %q: %w", f.Name, err)
		}
	}
	return nil
}

func hasDoubleWeights(g *graph.Graph) bool {
	stored := g.Stored()
	cast := func(value string) bool {
		for n := range g.Needed(value) {
			if n.Is("Cast") {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return slices.Contains([]string{"MatMul", "Gemm", "Conv"}, n.Op) &&
			slices.ContainsFunc(n.Inputs, func(in string) bool {
				t := stored[in]
				return t != nil && t.DType == graph.Double && len(t.Dims) > 1 && !cast(in)
			})
	})
}

func (c *conversion) computed() map[string]bool {
	read := map[string]bool{}
	for _, n := range c.m.Graph.Nodes {
		for _, in := range n.Inputs {
			read[in] = read[in] || !n.Is("Cast")
		}
	}
	lists.Mark(read, graph.Names(c.m.Graph.Outputs)...)
	return read
}

func (c *conversion) tensor(t *graph.Tensor) (*graph.Tensor, error) {
	if t == nil || !c.from[t.DType] {
		return t, nil
	}
	if len(t.Extra) > 0 {
		return nil, fmt.Errorf("tensor %q holds %s in a way that is not known", t.Name, t.DType)
	}
	v, err := t.Floats()
	if err != nil {
		return nil, err
	}
	c.found[t.DType] = true
	return graph.FromFloats(t.Name, v, t.Dims...), nil
}

// typeOf returns the attribute that gives what a node makes a type that becomes float32, or nil.
func (c *conversion) typeOf(n *graph.Node) *graph.Attr {
	names := map[string]string{"Cast": "to", "EyeLike": "dtype", "DequantizeLinear": "output_dtype"}
	if a := n.Attr(names[n.Op]); a != nil && c.from[graph.DType(a.I)] {
		return a
	}
	return nil
}

func (c *conversion) nodes(nodes []*graph.Node) error {
	for _, n := range nodes {
		if a := c.typeOf(n); a != nil {
			c.found[graph.DType(a.I)] = true
			a.I = int64(graph.Float)
		}
		for i := range n.Attrs {
			t, err := c.tensor(n.Attrs[i].T)
			if err != nil {
				return fmt.Errorf("%s: %w", n.Label(), err)
			}
			n.Attrs[i].T = t
		}
	}
	return nil
}

func (e *ElementTypes) undo(r *graph.Rewriter) {
	// border gives the values at one side of the file their types, and casts between them and those of the graph.
	border := func(list []graph.Value, cast func(v *graph.Value, wide string) *graph.Node) (casts []*graph.Node) {
		for i := range list {
			v := &list[i]
			if to, ok := e.dtypes[v.Name]; ok {
				v.DType = to
				wide := r.Name(v.Name + "_float")
				r.G.Rename(v.Name, wide)
				casts = append(casts, cast(v, wide))
			}
		}
		return casts
	}
	front := border(r.G.Inputs, func(v *graph.Value, wide string) *graph.Node { return castTo(v.Name, wide, graph.Float) })
	behind := border(r.G.Outputs, func(v *graph.Value, wide string) *graph.Node { return castTo(wide, v.Name, v.DType) })
	r.G.Values = slices.DeleteFunc(r.G.Values, func(v graph.Value) bool { return e.dtypes[v.Name] != 0 })
	r.G.Nodes = slices.Concat(front, r.G.Nodes, behind)
}

func castTo(from, to string, dtype graph.DType) *graph.Node {
	return &graph.Node{
		Op: "Cast", Inputs: []string{from}, Outputs: []string{to}, Attrs: []graph.Attr{graph.IntAttr("to", int64(dtype))},
	}
}

// Feed returns an input of the model in float32 as one of the file.
func (e *ElementTypes) Feed(t *graph.Tensor) (*graph.Tensor, error) {
	to, ok := e.dtypes[t.Name]
	if !ok {
		return t, nil
	}
	v, err := t.Doubles()
	if err != nil {
		return nil, err
	}
	return graph.FromNumbers(t.Name, to, v, t.Dims...), nil
}
