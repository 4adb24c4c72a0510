// Package lower makes a model of one float input of a model that takes a file's columns as they are.
//
// In: a graph with several inputs (texts, integers, floats), with operators of ai.onnx.ml, with labels and
// dictionaries as outputs. Out: a graph of standard operators on one float input, the columns side by side, and the
// Signature that gives a rewritten graph its own inputs and outputs back. A column of numbers is one input; a column
// of categories is one for each, of which that of the row's category is 1. The invariant: for every row of the file's
// inputs, the lowered model computes what the file computes.
//
// What a model makes of a category, be it an embedding, a code or an input of its own, is not read off its operators:
// the model is run on every category, and what comes out is a table. So the product of the categories' inputs with it
// has the gradients that a look-up lacks, and any operator may stand in front of it. In a graph that gets its
// own inputs back, the product of one column's categories with constants is a look-up again.
package lower

import (
	"context"
	"fmt"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Column is a column of the file's data that the model reads.
type Column struct {
	Input  string   // of the file
	Name   string   // Input, with the place where it has several
	Values []string // categories, in the order of their inputs; nil is a number
	DType  graph.DType
	Strict bool   // another category is an error
	Blank  string // the category that the empty text is taken for, "" where it is none of them
	First  int    // of its inputs in the lowered model
	// FromEnd says that the categories are 0, 1, ... and that negative numbers count them from the end, as Gather does.
	FromEnd bool

	domain  []string // categories that look-ups know
	refuses bool     // an unknown category is an error
	blank   bool     // the empty text is a category of its own
}

// Width is how many inputs of the lowered model the column is.
func (c *Column) Width() int { return max(1, len(c.Values)) }

func width(columns []Column) int {
	last := &columns[len(columns)-1]
	return last.First + last.Width()
}

func sizesOf(v graph.Value) (dims []int64, size int) {
	size = 1
	for _, d := range v.Shape[min(1, len(v.Shape)):] {
		n := max(d.Size, 1) // others are of inputs that nothing reads
		dims = append(dims, n)
		size *= int(n)
	}
	return dims, size
}

func used(nodes []*graph.Node) map[string]bool {
	all := map[string]bool{}
	for _, n := range nodes {
		lists.Mark(all, n.Inputs...)
	}
	return all
}

// Signature is what the file takes and gives where the lowered model differs; the zero value is that of a model that is
// not lowered.
type Signature struct {
	Columns []Column
	Labels  []string // of the classes, in their order; nil where the file does not say

	file    *graph.Model
	lowered bool   // the input is not the file's own
	input   string // of the lowered model
	back    []*graph.Node
	consts  []*graph.Tensor // of back
}

// Needed reports whether g is a model to be lowered: others have one input of numbers, and tensors of numbers as
// outputs.
func Needed(g *graph.Graph) bool {
	ins := g.DataInputs()
	return len(ins) > 1 || len(ins) == 1 && !ins[0].DType.IsFloat() ||
		slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return n.Domain == learning }) ||
		slices.ContainsFunc(g.Outputs, func(v graph.Value) bool { return v.DType == graph.String })
}

const learning = "ai.onnx.ml"

// Pass lowers a model of which Needed is true; its standard operators are of opset 21 or later. An error names
// everything in the way that was found. What is undone gives a graph that was made of the lowered model the inputs and
// outputs of the file.
func (f *Signature) Pass(ctx context.Context, o ort.Options) graph.Pass {
	return graph.Pass{
		Needed: func(m *graph.Model) bool { return Needed(m.Graph) },
		Run:    func(r *graph.Rewriter) error { return f.lower(ctx, r, o) },
		Undo:   f.restore,
	}
}

func (f *Signature) lower(ctx context.Context, r *graph.Rewriter, o ort.Options) error {
	low := r.Model
	f.file = low.Clone()
	f.Labels = labels(low.Graph)
	if err := standardize(r); err != nil {
		return err
	}
	f.split(low.Graph)
	ins := f.file.Graph.DataInputs()
	z, err := preprocessingOf(low, o)
	if err != nil {
		return err
	}
	f.Columns = z.columns
	if len(ins) == 1 && ins[0].DType.IsFloat() {
		extractors(low.Graph)
		f.input = ins[0].Name
		return f.compare(ctx, low, o)
	}
	f.lowered = true
	t, err := tabulate(ctx, low, z, o)
	if err == nil && z.blanks() {
		t, err = tabulate(ctx, low, z, o)
	}
	if err != nil {
		return err
	}
	if err := t.rewrite(low.Graph); err != nil {
		return err
	}
	f.input = t.x
	f.outputs(low.Graph)
	r.Index()
	r.Repeat(func(n *graph.Node) bool {
		return n.Is("Identity") && !low.Graph.IsOutput(n.Outputs[0]) && r.Bypass(n)
	})
	low.Graph.Prune()
	low.Graph.Inputs = lists.Filter(low.Graph.Inputs, func(v graph.Value) bool {
		return v.Name == f.input || low.Graph.Init(v.Name) != nil
	})
	low.Graph.Values = nil // types of values that may be gone: a run shows those that are there
	if err := low.Graph.Check(); err != nil {
		return fmt.Errorf("lowered model: %w", err)
	}
	return f.compare(ctx, low, o)
}

func (f *Signature) split(g *graph.Graph) {
	producers, own := g.Producers(), f.file.Graph.Producers()
	var numbers []graph.Value
	for _, v := range g.Outputs {
		at, n := v, producers[v.Name]
		for n != nil && (n.Op == "ZipMap" || // a sequence, also of a name
			n.Is("Identity") && v.DType == graph.Undefined && own[at.Name] != nil && own[at.Name].Is("Identity")) {
			at = graph.Value{Name: n.Input(0)}
			n = producers[at.Name]
		}
		integer := at.DType != graph.Undefined && !at.DType.IsFloat()
		if !integer && !slices.Contains(graph.Names(numbers), at.Name) {
			numbers = append(numbers, at)
		}
	}
	if len(numbers) == 0 {
		return // decisions alone: what they are made of is found behind them
	}
	needed := g.Needed(graph.Names(numbers)...)
	kept := lists.Filter(g.Nodes, func(n *graph.Node) bool { return needed[n] })
	f.back = lists.Filter(g.Nodes, func(n *graph.Node) bool { return !needed[n] })
	uses := used(f.back)
	lists.Mark(uses, graph.Names(f.file.Graph.Outputs)...)
	g.Nodes, g.Outputs = kept, numbers
	for _, n := range kept { // what is needed behind it stays a value of the model
		for _, o := range n.Outputs {
			if uses[o] && !g.IsOutput(o) {
				g.Outputs = append(g.Outputs, graph.Value{Name: o})
			}
		}
	}
	// Constants that only the others use are moved; those that both use are copied.
	here, there := used(g.Nodes), used(f.back)
	g.Inits = slices.DeleteFunc(g.Inits, func(t *graph.Tensor) bool {
		if there[t.Name] {
			f.consts = append(f.consts, t)
		}
		return there[t.Name] && !here[t.Name] && !g.IsOutput(t.Name)
	})
}

func (f *Signature) outputs(g *graph.Graph) {
	producers, inits := g.Producers(), g.InitMap()
	lost := func(name string) bool {
		return name != "" && name != f.input && producers[name] == nil && inits[name] == nil
	}
	needed := f.file.Graph.Needed(slices.DeleteFunc(graph.Names(g.Outputs), func(v string) bool { return !lost(v) })...)
	g.Outputs = slices.DeleteFunc(g.Outputs, func(v graph.Value) bool { return lost(v.Name) })
	zone := lists.Filter(f.file.Graph.Nodes, func(n *graph.Node) bool { return needed[n] && lost(n.Outputs[0]) })
	f.back = append(cloned(zone), f.back...)
	uses := used(zone)
	for _, t := range f.file.Graph.Inits {
		if uses[t.Name] && !slices.ContainsFunc(f.consts, func(c *graph.Tensor) bool { return c.Name == t.Name }) {
			f.consts = append(f.consts, t)
		}
	}
}

// labels returns what the classes are called. The last node that says it decides: those before it are parts of an
// ensemble or of one-against-all, which have classes of their own.
func labels(g *graph.Graph) []string {
	producers, constants := g.Producers(), g.Constants()
	for _, n := range slices.Backward(g.Nodes) {
		for _, name := range []string{"classlabels_strings", "classlabels_int64s", "classlabels_ints"} {
			if list := listed(n.Attr(name)); len(list) > 1 {
				return list
			}
		}
		if best := producers[n.Input(1)]; n.Op == "ArrayFeatureExtractor" && best != nil && best.Is("ArgMax") {
			if list := texts(constants[n.Input(0)]); len(list) > 1 {
				return list
			}
		}
	}
	return nil
}
