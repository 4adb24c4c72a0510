package lower

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

func (f *Signature) restore(r *graph.Rewriter) {
	c := r.Model
	for _, o := range f.file.Opsets {
		if c.Opset(o.Domain) == 0 {
			c.SetOpset(o.Domain, o.Version)
		}
	}
	if f.lowered {
		c.Graph.Outputs = slices.Concat(c.Graph.Outputs, f.file.Graph.Outputs) // constants among them stay
		f.front(c.Graph)
		version := int64(1)
		if slices.ContainsFunc(c.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "LabelEncoder" }) {
			version = 2 // one of texts to numbers
		}
		c.SetOpset(learning, max(c.Opset(learning), version))
	}
	c.Graph.Outputs = slices.Clone(f.file.Graph.Outputs)
	c.Graph.Nodes = append(c.Graph.Nodes, cloned(f.back)...)
	made := c.Graph.Producers()
	var constants []*graph.Tensor
	for _, v := range c.Graph.Outputs {
		if t := f.file.Graph.Init(v.Name); t != nil && made[v.Name] == nil {
			constants = append(constants, t)
		}
	}
	for _, t := range append(constants, f.consts...) {
		if c.Graph.Init(t.Name) == nil {
			u := *t
			c.Graph.Inits = append(c.Graph.Inits, &u)
		}
	}
}

func cloned(nodes []*graph.Node) []*graph.Node {
	return (&graph.Graph{Nodes: nodes}).Clone().Nodes
}

// front puts the file's inputs in place of the lowered model's: what a part of the model reads is made of the columns
// that it reads, and of all of them only where that is asked for. The product of the inputs of one column of categories
// with a table becomes a look-up of the category's row.
func (f *Signature) front(g *graph.Graph) {
	core := g.Nodes
	all := &graph.Graph{
		Inputs: slices.Concat(g.Inputs, f.file.Graph.Inputs, f.file.Graph.Outputs),
		Inits:  slices.Concat(g.Inits, f.consts), Nodes: slices.Concat(core, f.back),
	}
	w := &inputWriter{
		Signature: f, b: graph.NewBuilder(all, ""), inits: g.InitMap(), fixed: map[string]bool{}, made: map[string]string{},
	}
	w.b.G = g
	g.Nodes = nil
	g.Inputs = slices.Concat(f.file.Graph.DataInputs(),
		slices.DeleteFunc(g.Inputs, func(v graph.Value) bool { return v.Name == f.input }))
	for name := range w.inits {
		w.fixed[name] = true
	}
	cuts := map[string]inputRange{f.input: {0, width(f.Columns)}} // what holds inputs of the lowered model
	for _, n := range core {
		if s, ok := f.slice(n, w.inits); ok && !g.IsOutput(n.Outputs[0]) {
			cuts[n.Outputs[0]] = s
			continue
		}
		if s, ok := cuts[n.Input(0)]; !ok || !w.lookUp(n, s) {
			for i, in := range n.Inputs {
				if s, ok := cuts[in]; ok {
					n.Inputs[i] = w.join(s)
				}
			}
		}
		fixed := !slices.ContainsFunc(n.Inputs, func(in string) bool { return in != "" && !w.fixed[in] })
		for _, o := range n.Outputs {
			w.fixed[o] = fixed
		}
		g.Nodes = append(g.Nodes, n)
	}
	uses := used(g.Nodes)
	g.Inits = slices.DeleteFunc(g.Inits, func(t *graph.Tensor) bool { return !uses[t.Name] && !g.IsOutput(t.Name) })
}

// Lowered reports whether the model has another input than its file.
func (f *Signature) Lowered() bool { return f.lowered }

// Feed makes the inputs of the file of rows of the lowered model's input. A row without any category of a column has
// one that no look-up knows, or the first where there must be one.
func (f *Signature) Feed(x []float32) (out []*graph.Tensor, err error) {
	dim := width(f.Columns)
	for _, v := range f.file.Graph.DataInputs() {
		t, err := feed(v, f.Columns, len(x)/dim, func(row, column int) string {
			c := &f.Columns[column]
			of := x[row*dim+c.First:][:c.Width()]
			if c.Values == nil {
				return strconv.FormatFloat(float64(of[0]), 'g', -1, 32)
			}
			i := slices.Index(of, 1)
			if i < 0 && c.DType == graph.String && !c.Strict {
				return unknownText
			}
			return c.Values[max(i, 0)]
		})
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// Rows are n inputs of the lowered model that the file takes.
func (f *Signature) Rows(n int) []float32 {
	dim := width(f.Columns)
	r := rand.New(rand.NewPCG(7, 14))
	x := make([]float32, n*dim)
	for i := range n {
		for k := range f.Columns {
			c := &f.Columns[k]
			at := x[i*dim+c.First:]
			switch {
			case c.Values != nil:
				if k := r.IntN(len(c.Values)); c.Strict || c.DType != graph.String || i%8 != k%8 { // else one that is not known
					at[k] = 1
				}
			case c.DType == graph.Bool:
				at[0] = float32(r.IntN(2))
			case c.DType.IsFloat():
				at[0] = float32(r.NormFloat64() * math.Exp(3*r.NormFloat64()))
			case i%4 < 2:
				at[0] = float32(r.IntN(20))
			default: // any size that the type, and a float, has exactly
				at[0] = float32(r.IntN(1 << min(c.DType.Bits()-1, r.IntN(24)+1)))
				if i%4 == 3 && !c.unsigned() {
					at[0] = -at[0]
				}
			}
		}
	}
	return x
}

func (f *Signature) compare(ctx context.Context, low *graph.Model, o ort.Options) error {
	const slack = 1e-4
	input := low.Graph.DataInputs()[0]
	batch := cmp.Or(max(0, int(input.Shape[0].Size)), 64)
	x := f.Rows(batch)
	produced := f.file.Graph.Producers()
	names := lists.Filter(graph.Names(low.Graph.Outputs), func(name string) bool { return produced[name] != nil })
	if len(names) == 0 {
		return nil
	}
	o.Level = ort.Disabled
	dims, _ := sizesOf(input)
	lowered := []*graph.Tensor{graph.FromNumbers(input.Name, input.DType, x, append([]int64{int64(batch)}, dims...)...)}
	in, err := lowered, error(nil)
	if f.lowered {
		if in, err = f.Feed(x); err != nil {
			return err
		}
	}
	want, err := ort.Evaluate(ctx, f.file, o, in, names...)
	if err != nil {
		return fmt.Errorf("the model does not run: %w", err)
	}
	got, err := ort.Evaluate(ctx, low, o, lowered, names...)
	if err != nil {
		return fmt.Errorf("the lowered model does not run: %w", err)
	}
	for i, name := range names {
		a, errA := want[i].Numbers()
		b, errB := got[i].Numbers()
		if errA != nil || errB != nil {
			continue // texts
		}
		for k := range a {
			same := k < len(b) && (math.Abs(a[k]-b[k]) <= slack*(1+math.Abs(a[k])) || math.IsNaN(a[k]) && math.IsNaN(b[k]) ||
				a[k] == b[k])
			if !same {
				return fmt.Errorf("the output %q is not what it is when the columns' categories are inputs of their own (%v): the "+
					"model makes something else of its columns than look-ups", name, a[k])
			}
		}
	}
	return nil
}
