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
	from   map[graph.DType]bool   // those that become float32 where there are any
}

// Converted reports whether the pass has changed the model.
func (e *ElementTypes) Converted() bool { return e.dtypes != nil }

// Pass makes a model compute in float32. Numbers of 16 bits are always converted, those of 64 only in models whose
// weights are. Tensors that a Cast alone reads stay as they are.
func (e *ElementTypes) Pass() graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool {
			trial := &ElementTypes{}
			return trial.convert(m.Clone()) != nil || len(trial.found) > 0
		},
		Run:  func(r *graph.Rewriter) error { return e.convert(r.Model) },
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

func (e *ElementTypes) convert(m *graph.Model) error {
	e.dtypes, e.found = map[string]graph.DType{}, map[graph.DType]bool{}
	e.from = map[graph.DType]bool{
		graph.Float16: true, graph.BFloat16: true, graph.Double: hasDoubleWeights(m.Graph),
	}
	for _, list := range [][]graph.Value{m.Graph.Inputs, m.Graph.Outputs, m.Graph.Values} {
		for i := range list {
			if v := &list[i]; e.from[v.DType] {
				e.dtypes[v.Name], e.found[v.DType] = v.DType, true
				v.DType = graph.Float
			}
		}
	}
	read := computed(m.Graph)
	for i, t := range m.Graph.Inits {
		if read[t.Name] {
			var err error
			if m.Graph.Inits[i], err = e.tensor(t); err != nil {
				return err
			}
		}
	}
	if err := e.nodes(m.Graph.Nodes); err != nil {
		return err
	}
	for _, f := range m.Functions {
		if err := e.nodes(f.Nodes); err != nil {
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

func computed(g *graph.Graph) map[string]bool {
	read := map[string]bool{}
	for _, n := range g.Nodes {
		for _, in := range n.Inputs {
			read[in] = read[in] || !n.Is("Cast")
		}
	}
	lists.Mark(read, graph.Names(g.Outputs)...)
	return read
}

func (e *ElementTypes) tensor(t *graph.Tensor) (*graph.Tensor, error) {
	if t == nil || !e.from[t.DType] {
		return t, nil
	}
	v, err := t.Floats()
	if err != nil {
		return nil, err
	}
	e.found[t.DType] = true
	return graph.FromFloats(t.Name, v, t.Dims...), nil
}

// typeOf returns the attribute that gives what a node makes a type that becomes float32, or nil.
func (e *ElementTypes) typeOf(n *graph.Node) *graph.Attr {
	names := map[string]string{"Cast": "to", "EyeLike": "dtype", "DequantizeLinear": "output_dtype"}
	if a := n.Attr(names[n.Op]); a != nil && e.from[graph.DType(a.I)] {
		return a
	}
	return nil
}

func (e *ElementTypes) nodes(nodes []*graph.Node) error {
	for _, n := range nodes {
		if a := e.typeOf(n); a != nil {
			e.found[graph.DType(a.I)] = true
			a.I = int64(graph.Float)
		}
		for i := range n.Attrs {
			t, err := e.tensor(n.Attrs[i].T)
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
