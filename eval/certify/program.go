package certify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// step computes the form of a slot from those of others.
type step interface{ run(p *pass) }

// pass is one evaluation of a program.
type pass struct {
	*space
	forms []*form // by slot
	first bool    // others will refer to it
	full  []*form // the slots of the full model, which this pass is to stay close to; nil without
}

// program is a model as steps from its input to its logits.
type program struct {
	steps  []step
	slots  int
	input  int
	width  int // of the input
	logits int
	twins  map[string]*bend // by the value that they make
	names  map[string]int   // slots of values
}

// slotOf returns the slot of a value, -1 when it has none.
func (g *program) slotOf(value string) int {
	if at, ok := g.names[value]; ok {
		return at
	}
	return -1
}

// run evaluates the program.
func (g *program) run(p *pass, x *form) *form {
	p.forms = make([]*form, g.slots)
	p.forms[g.input] = x
	for _, s := range g.steps {
		s.run(p)
	}
	return p.forms[g.logits]
}

// compiler makes a program of a graph.
type compiler struct {
	m         *graph.Model
	o         ort.Options
	values    map[string]*graph.Tensor // all values of the graph for one row of zeros
	slot      map[string]int           // values that depend on the input
	kernels   *graph.Graph             // what ONNX Runtime makes of the graph
	producers map[string]*graph.Node
	inits     map[string]*graph.Tensor
	p         *program
}

// compile makes the program of a classifier's model. values are those of probed.
func compile(ctx context.Context, m *graph.Model, c *classifier.Model, o ort.Options, values map[string]*graph.Tensor) (*program, error) {
	if c.Fixed() > 1 {
		return nil, fmt.Errorf("the model takes %d rows at a time; certificates need one that takes any number, or one", c.Fixed())
	}
	onnx, err := codec.Marshal(m)
	if err != nil {
		return nil, err
	}
	opt, err := ort.Optimized(onnx, o)
	if err != nil {
		return nil, err
	}
	k := &compiler{
		m: m, o: o, values: values, slot: map[string]int{}, kernels: opt.Graph,
		producers: m.Graph.Producers(), inits: m.Graph.InitMap(), p: &program{twins: map[string]*bend{}},
	}
	if err := k.dynamic(); err != nil {
		return nil, err
	}
	input := c.Input().Name
	logits, _ := c.Head()
	k.p.input, k.p.width = k.name(input), c.Dim()
	needed := k.needed(logits)
	var errs []error
	for _, n := range m.Graph.Nodes {
		if !needed[n] {
			continue
		}
		if err := k.node(ctx, n); err != nil {
			errs = append(errs, err)
			for _, out := range n.Outputs { // look at the others, too
				k.name(out)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	at, ok := k.slot[logits]
	if !ok {
		return nil, fmt.Errorf("the logits %q do not depend on the input", logits)
	}
	k.p.logits, k.p.names = at, k.slot
	return k.p, nil
}

// dynamic refuses graphs in which ONNX Runtime rounds what layers read on a grid that it makes up at run time.
func (k *compiler) dynamic() error {
	var errs []error
	for _, n := range k.kernels.Nodes {
		switch n.Op {
		case "MatMulNBits", "DynamicQuantizeMatMul", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger":
			errs = append(errs, fmt.Errorf("certificates do not know the operator of %s, which ONNX Runtime runs: it rounds what the layer reads on a grid that depends on the row", n.Label()))
		}
	}
	return errors.Join(errs...)
}

// needed returns the nodes that the value is computed by.
func (k *compiler) needed(value string) map[*graph.Node]bool {
	out := map[*graph.Node]bool{}
	for todo := []string{value}; len(todo) > 0; {
		n := k.producers[todo[len(todo)-1]]
		todo = todo[:len(todo)-1]
		if n != nil && !out[n] {
			out[n] = true
			todo = append(todo, n.Inputs...)
		}
	}
	return out
}

// name returns the slot of a value, a new one when it has none.
func (k *compiler) name(value string) int {
	if at, ok := k.slot[value]; ok {
		return at
	}
	k.slot[value] = k.p.slots
	k.p.slots++
	return k.p.slots - 1
}

// moving returns the positions of n's inputs that depend on the model's input.
func (k *compiler) moving(n *graph.Node) []int {
	var out []int
	for i, in := range n.Inputs {
		if _, ok := k.slot[in]; ok {
			out = append(out, i)
		}
	}
	return out
}

// node compiles one node.
func (k *compiler) node(ctx context.Context, n *graph.Node) error {
	moving := k.moving(n)
	op := n.Op
	if !n.Standard() || n.HasGraphs() {
		op = ""
	}
	random := slices.Contains([]string{"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}, op)
	if !n.HasGraphs() && !random && (len(moving) == 0 || op == "Shape" || op == "Size") {
		return nil // a constant, for one row
	}
	compile := operators()[op]
	if compile == nil {
		return fmt.Errorf("certificates do not know the operator of %s", n.Label())
	}
	if err := compile(ctx, k, n, moving); err != nil {
		return fmt.Errorf("certificates: %s: %w", n.Label(), err)
	}
	return nil
}

// constant returns the numbers of a constant and its dimensions.
func (k *compiler) constant(name string) ([]float64, []int64, error) {
	t := k.values[name]
	if _, moves := k.slot[name]; moves || t == nil {
		return nil, nil, fmt.Errorf("%q is no constant", name)
	}
	v, err := numbers(t)
	if err != nil {
		return nil, nil, fmt.Errorf("constant %q: %w", name, err)
	}
	return v, t.Dims, nil
}
