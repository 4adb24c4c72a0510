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

// step computes the zonotope of a slot from those of others.
type step interface{ run(p *pass) }

// pass is one evaluation of a program over a box.
type pass struct {
	*noiseSymbols
	values []*zonotope // by slot
	first  bool        // a second pass will be relaxed jointly with this one, so errors need symbols
	full   []*zonotope // the slots of the full model, which this pass is relaxed jointly with; nil without
}

// program is a model as steps from its input to its logits.
type program struct {
	steps  []step
	slots  int
	input  int
	logits int
	// activations are those of the program by the value that they make, so that the same activation of the other
	// model can be found.
	activations map[string]*activation
}

// run evaluates the program.
func (g *program) run(p *pass, x *zonotope) *zonotope {
	p.values = make([]*zonotope, g.slots)
	p.values[g.input] = x
	for _, s := range g.steps {
		s.run(p)
	}
	return p.values[g.logits]
}

// compiler makes a program of a graph.
type compiler struct {
	m         *graph.Model
	o         ort.Options
	values    map[string]*graph.Tensor // all values of the graph for one row of zeros
	slot      map[string]int           // values that depend on the input
	kernels   *graph.Graph             // what ONNX Runtime makes of the graph
	producers map[string]*graph.Node
	p         *program
}

// compile makes the program of a model.
func compile(ctx context.Context, c *classifier.Model) (*program, error) {
	m, o := c.Graph(), c.Engine()
	if c.Fixed() > 1 {
		return nil, fmt.Errorf("the model takes %d rows at a time: want any number, or one", c.Fixed())
	}
	values, err := allValues(ctx, c)
	if err != nil {
		return nil, err
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
		producers: m.Graph.Producers(), p: &program{activations: map[string]*activation{}},
	}
	if err := k.refuseDynamic(); err != nil {
		return nil, err
	}
	logits, _ := c.Head()
	k.p.input = k.name(c.Input().Name)
	needed := k.needed(logits)
	var errs []error
	for _, n := range m.Graph.Nodes {
		if !needed[n] {
			continue
		}
		if err := k.node(ctx, n); err != nil {
			errs = append(errs, err)
			for _, out := range n.Outputs { // so that the nodes behind it are checked, too
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
	k.p.logits = at
	return k.p, nil
}

// refuseDynamic refuses graphs in which ONNX Runtime quantizes activations with a scale that it computes at run time.
func (k *compiler) refuseDynamic() error {
	var errs []error
	for _, n := range k.kernels.Nodes {
		switch n.Op {
		case "MatMulNBits", "DynamicQuantizeMatMul", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger":
			errs = append(errs, fmt.Errorf("certificates do not support %s, which ONNX Runtime runs: "+
				"it quantizes what the layer reads with a scale that depends on the row", n.Label()))
		}
	}
	return errors.Join(errs...)
}

// needed returns the nodes that compute the value.
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

// varying returns the positions of n's inputs that depend on the model's input.
func (k *compiler) varying(n *graph.Node) []int {
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
	varying := k.varying(n)
	op := n.Op
	if !n.Standard() || n.HasGraphs() {
		op = ""
	}
	random := slices.Contains([]string{
		"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
	}, op)
	if !n.HasGraphs() && !random && (len(varying) == 0 || op == "Shape" || op == "Size") {
		return nil // a constant, for one row
	}
	of, ok := operators()[op]
	if !ok {
		return fmt.Errorf("certificates do not support %s", n.Label())
	}
	err := errors.New("only its first input may depend on the model's")
	if of.anyInput || slices.Equal(varying, []int{0}) {
		err = of.compile(ctx, k, n, varying)
	}
	if err != nil {
		return fmt.Errorf("certificates: %s: %w", n.Label(), err)
	}
	return nil
}

// constant returns the numbers of a constant and its dimensions.
func (k *compiler) constant(name string) ([]float64, []int64, error) {
	t := k.values[name]
	if _, varies := k.slot[name]; varies || t == nil {
		return nil, nil, fmt.Errorf("%q is not a constant", name)
	}
	v, err := numbers(t)
	if err != nil {
		return nil, nil, fmt.Errorf("constant %q: %w", name, err)
	}
	return v, t.Dims, nil
}

// numbers returns the elements of a tensor of any numeric type.
func numbers(t *graph.Tensor) ([]float64, error) {
	if t.DType.IsFloat() {
		return t.Doubles()
	}
	ints, err := t.Ints()
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(ints))
	for i, v := range ints {
		out[i] = float64(v)
	}
	return out, nil
}

// allValues runs a model on one row of zeros and returns every value of its graph: what does not depend on the input
// is then a constant, whatever operators compute it.
func allValues(ctx context.Context, c *classifier.Model) (map[string]*graph.Tensor, error) {
	values := map[string]*graph.Tensor{}
	for _, t := range c.Graph().Graph.Inits {
		values[t.Name] = t
	}
	s, err := c.Exposed()
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	in := c.Feed(make([]float32, max(c.Fixed(), 1)*c.Dim()))
	values[in.Name] = in
	out, err := s.Run(ctx, []*graph.Tensor{in})
	if err != nil {
		return nil, err
	}
	for _, t := range out {
		values[t.Name] = t
	}
	return values, nil
}
