package certify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/quant/verify"
)

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
	needed := m.Graph.Needed(logits)
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
		err = of.compile(k, ctx, n, varying)
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
	v, err := t.Numbers()
	if err != nil {
		return nil, nil, fmt.Errorf("constant %q: %w", name, err)
	}
	return v, t.Dims, nil
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

// operator says how a certificate supports an operator.
type operator struct {
	// compile compiles a node whose inputs at the positions varying depend on the model's input.
	compile  func(k *compiler, ctx context.Context, n *graph.Node, varying []int) error
	anyInput bool // inputs but the first may depend on the model's input
}

// operators are those that certificates support.
func operators() map[string]operator {
	dense := operator{(*compiler).compileDense, false}
	arithmetic, function := operator{(*compiler).compileArithmetic, true}, operator{(*compiler).compileActivation, true}
	table := map[string]operator{
		"BatchNormalization": {(*compiler).compileNormalization, false},
		"Cast":               {(*compiler).compileCast, false},
		"QuantizeLinear":     {(*compiler).compileQuantizer, false},
		"DequantizeLinear":   {(*compiler).compileDequantizer, false},
		"Concat":             {(*compiler).compileMove, true},
		"Gemm":               dense, "MatMul": dense,
		"Conv": {(*compiler).compileConv, false}, "GlobalAveragePool": {(*compiler).compileAverage, false},
		"Add": arithmetic, "Sub": arithmetic, "Mul": arithmetic, "Div": arithmetic, "Neg": arithmetic,
		"Relu": function, "LeakyRelu": function, "Sigmoid": function, "Tanh": function,
		"Clip": function, "Min": function, "Max": function,
		"Elu": function, "Erf": function, "Gelu": function, "HardSigmoid": function, "HardSwish": function,
		"Softplus": function,
	}
	for _, op := range movers() {
		table[op] = operator{(*compiler).compileMove, false}
	}
	return table
}

// movers are the operators that only move numbers.
func movers() []string {
	return []string{
		"Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze",
		"Gather", "Slice", "Transpose", "Split", "Expand", "Tile",
	}
}

// step appends s to the program.
func (k *compiler) step(s step) { k.p.steps = append(k.p.steps, s) }

func (k *compiler) compileCast(_ context.Context, n *graph.Node, _ []int) error {
	in, to := k.values[n.Input(0)], graph.DType(n.Int("to", 0))
	switch {
	case to == graph.Double || to == graph.Float && in.DType != graph.Double:
		k.slot[n.Outputs[0]] = k.slot[n.Input(0)]
	case to == graph.Float:
		k.affine(n, n.Input(0), func(int) (a, b, terms float64) { return 1, 0, 0 })
	default:
		return fmt.Errorf("it converts %s to %s: want float or double", in.DType, to)
	}
	return nil
}

// affine adds the step y = a x + b for x the elements of a value, broadcast to the shape of n's output.
// terms bounds the terms that b was computed from.
func (k *compiler) affine(n *graph.Node, value string, of func(i int) (a, b, terms float64)) *linear {
	d := &linear{out: k.name(n.Outputs[0])}
	slot := k.slot[value]
	for i, from := range k.broadcast(value, n) {
		a, b, terms := of(i)
		d.numbers = append(d.numbers, number{terms: []term{{slot, from, a}}, b: b, size: math.Abs(b) + terms})
	}
	k.step(d)
	return d
}

// broadcast returns, for each element of node n's output, the element of a value that it meets.
func (k *compiler) broadcast(value string, n *graph.Node) []int {
	return broadcast(k.values[value].Dims, k.values[n.Outputs[0]].Dims)
}

// compileArithmetic compiles Add, Sub, Mul, Div and Neg.
func (k *compiler) compileArithmetic(_ context.Context, n *graph.Node, varying []int) error {
	if len(varying) == 2 && n.Op == "Mul" {
		return k.product(n)
	}
	if len(varying) == 2 {
		return k.sum(n)
	}
	in := n.Input(varying[0])
	if n.Op == "Neg" {
		k.affine(n, in, func(int) (a, b, terms float64) { return -1, 0, 0 })
		return nil
	}
	if n.Op == "Div" && varying[0] != 0 {
		return errors.New("its divisor depends on the model's input")
	}
	constant := n.Input(1 - varying[0])
	v, _, err := k.constant(constant)
	if err != nil {
		return err
	}
	meets := k.broadcast(constant, n)
	k.affine(n, in, func(i int) (a, b, terms float64) {
		switch c := v[meets[i]]; n.Op {
		case "Add":
			return 1, c, 0
		case "Mul":
			return c, 0, 0
		case "Div":
			return 1 / c, 0, 0
		default:
			if varying[0] == 1 {
				return -1, c, 0
			}
			return 1, -c, 0
		}
	})
	return nil
}

// sum compiles Add and Sub of two values that depend on the model's input.
func (k *compiler) sum(n *graph.Node) error {
	sign := map[string]float64{"Add": 1, "Sub": -1}[n.Op]
	if sign == 0 {
		return errors.New("both of its inputs depend on the model's")
	}
	a, b := k.slot[n.Input(0)], k.slot[n.Input(1)]
	first, second := k.broadcast(n.Input(0), n), k.broadcast(n.Input(1), n)
	d := &linear{out: k.name(n.Outputs[0])}
	for i := range first {
		d.numbers = append(d.numbers, number{terms: []term{{a, first[i], 1}, {b, second[i], sign}}})
	}
	k.step(d)
	return nil
}

// compileNormalization compiles BatchNormalization in its inference form.
func (k *compiler) compileNormalization(_ context.Context, n *graph.Node, varying []int) error {
	if n.Int("training_mode", 0) != 0 {
		return errors.New("it is in training mode")
	}
	x := k.values[n.Input(0)]
	if len(x.Dims) < 2 {
		return fmt.Errorf("its input has %d dimensions: want 2 or more", len(x.Dims))
	}
	var p [4][]float64 // scale, bias, mean, variance
	for i := range p {
		var err error
		if p[i], _, err = k.constant(n.Input(i + 1)); err != nil {
			return err
		}
	}
	channels := int(x.Dims[1])
	each := x.Len() / channels
	eps := float64(n.Float("epsilon", 1e-5))
	k.affine(n, n.Input(0), func(i int) (a, b, terms float64) {
		c := i / each
		a = p[0][c] / math.Sqrt(p[3][c]+eps)
		return a, p[1][c] - p[2][c]*a, math.Abs(p[1][c]) + math.Abs(p[2][c]*a)
	})
	return nil
}

// compileMove compiles an operator that only moves numbers. ONNX Runtime runs it on the numbers 0, 1, 2 and so
// on, which shows where each of them goes.
func (k *compiler) compileMove(ctx context.Context, n *graph.Node, _ []int) error {
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
	var from []number // those that are fed
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
				from = append(from, number{terms: []term{{at, j, 1}}})
			}
			if !data {
				v, err := t.Numbers()
				if err != nil {
					return err
				}
				for j, c := range v {
					from[first+j] = number{b: c, size: math.Abs(c)}
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
		d := &linear{exact: true}
		for _, x := range v {
			if x < 0 || int(x) >= len(from) || x != math.Trunc(x) {
				return fmt.Errorf("it computes %v, but is to move numbers only", x)
			}
			d.numbers = append(d.numbers, from[int(x)])
		}
		d.out = k.name(t.Name)
		k.step(d)
	}
	return nil
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

// compileDense compiles Gemm and MatMul with constant weights.
func (k *compiler) compileDense(_ context.Context, n *graph.Node, varying []int) error {
	x, out := k.values[n.Input(0)], k.values[n.Outputs[0]]
	if len(x.Dims) == 0 || int64(x.Len()) != x.Dims[len(x.Dims)-1] || n.Int("transA", 0) != 0 {
		return fmt.Errorf("one row of its input has the dimensions %v: want a vector", x.Dims)
	}
	d := &dense{in: k.slot[n.Input(0)], rows: out.Len(), cols: x.Len()}
	w := k.values[n.Input(1)]
	if w.Len() != d.rows*d.cols {
		return fmt.Errorf("its weights have the dimensions %v: want %d x %d", w.Dims, d.cols, d.rows)
	}
	q, err := k.integerCodes(n)
	if err != nil {
		return err
	}
	if q == nil {
		if err := k.refuseRounding(n); err != nil {
			return err
		}
	}
	alpha, beta := 1.0, 1.0
	if n.Op == "Gemm" {
		alpha, beta = float64(n.Float("alpha", 1)), float64(n.Float("beta", 1))
	}
	var v []float64
	if q != nil && alpha == 1 && beta == 1 {
		d.exact, v = true, q.weights
	} else if v, _, err = k.constant(n.Input(1)); err != nil {
		return err
	}
	d.w = make([]float64, len(v))
	for i, x := range v {
		o, j := i%d.rows, i/d.rows
		if n.Op == "Gemm" && n.Int("transB", 0) != 0 {
			o, j = i/d.cols, i%d.cols
		}
		d.w[o*d.cols+j] = alpha * x
	}
	if d.b, err = k.bias(n, d, q, beta); err != nil {
		return err
	}
	d.out = k.name(n.Outputs[0])
	k.step(d)
	return nil
}

// codes are the weights of a layer that runs on an integer kernel, dequantized in double precision.
type codes struct {
	weights    []float64 // as in the file, code times scale
	scales     []float64 // one, or one for each output
	inputScale float64   // of the codes that the layer reads
}

// halfUnit is half of the largest unit of the integer sums: the error of a bias that is rounded to them.
func (q *codes) halfUnit() float64 { return slices.Max(q.scales) * q.inputScale / 2 }

// integerCodes returns the codes of the node's weights if ONNX Runtime runs it on an integer kernel, and nil if not.
func (k *compiler) integerCodes(n *graph.Node) (*codes, error) {
	kernel := k.kernel(n)
	if kernel == nil || !isInteger(kernel) {
		return nil, nil
	}
	dq, data := k.producers[n.Input(1)], k.producers[n.Input(0)]
	if dq == nil || !dq.Is("DequantizeLinear") {
		return nil, errors.New("its weights are floats that ONNX Runtime rounds to 8 bits, " +
			"since there are quantizers on both sides: remove one of those")
	}
	if data == nil || !data.Is("DequantizeLinear") || dq.Int("block_size", 0) != 0 {
		return nil, nil // the bounds of float arithmetic are wider than those of what runs
	}
	v, dims, err := k.constant(dq.Input(0))
	if err != nil {
		return nil, err
	}
	if k.values[dq.Input(0)].DType == graph.Int8 && ort.Saturates() &&
		slices.ContainsFunc(v, func(code float64) bool { return quant.Saturates(8, int64(math.Abs(code))) }) {
		return nil, fmt.Errorf("sums of its 8-bit weights beyond %d saturate on this processor, which has no VNNI: "+
			"quantize without --full-range, or prove on another processor", quant.ReducedMax)
	}
	q := &codes{weights: v}
	if q.scales, _, err = k.constant(dq.Input(1)); err != nil {
		return nil, err
	}
	zeros := []float64{0}
	if dq.Input(2) != "" {
		if zeros, _, err = k.constant(dq.Input(2)); err != nil {
			return nil, err
		}
	}
	if q.inputScale, _, _, err = k.grid(data); err != nil {
		return nil, err
	}
	axis := int(dq.Int("axis", 1))
	if axis < 0 {
		axis += len(dims)
	}
	inner := 1
	for _, d := range dims[min(axis+1, len(dims)):] {
		inner *= int(d)
	}
	for i := range v {
		at := i / inner
		v[i] = (v[i] - zeros[at%len(zeros)]) * q.scales[at%len(q.scales)]
	}
	return q, nil
}

// bias returns the bias of the node, one number for each output, in the units of the output.
func (k *compiler) bias(n *graph.Node, d *dense, q *codes, beta float64) ([]float64, error) {
	b := make([]float64, d.rows)
	name := n.Input(2)
	if name == "" {
		if d.exact && k.biasOf(n) != "" { // the kernel may round the bias of the Add to the units of the sums
			d.biasError = q.halfUnit()
		}
		return b, nil
	}
	v, dims, err := k.constant(name)
	if err != nil {
		return nil, err
	}
	if len(v) != 1 && len(v) != d.rows || len(dims) > 2 {
		return nil, fmt.Errorf("its bias has the dimensions %v: want %d numbers", dims, d.rows)
	}
	for o := range b {
		b[o] = beta * v[o%len(v)]
	}
	if !d.exact {
		return b, nil
	}
	dq := k.producers[name]
	if dq == nil || !dq.Is("DequantizeLinear") { // ONNX Runtime rounds it to the units of the sums
		d.biasError = q.halfUnit()
		return b, nil
	}
	ints, _, err := k.constant(dq.Input(0))
	if err != nil {
		return nil, err
	}
	if k.values[dq.Input(0)].DType != graph.Int32 || len(ints) != d.rows {
		return nil, errors.New("its bias is not one int32 code for each output")
	}
	for o := range b {
		b[o] = ints[o] * q.inputScale * q.scales[o%len(q.scales)]
	}
	return b, nil
}

// compileActivation compiles activation functions, and Clip, Min and Max by constants.
func (k *compiler) compileActivation(_ context.Context, n *graph.Node, varying []int) error {
	out := k.values[n.Outputs[0]]
	if len(varying) != 1 {
		return errors.New("several of its inputs depend on the model's")
	}
	list, err := k.functions(n, varying[0], out.Len())
	if err != nil {
		return err
	}
	in := n.Input(varying[0])
	at := k.slot[in]
	if k.values[in].Len() != out.Len() {
		d := k.affine(n, in, func(int) (a, b, terms float64) { return 1, 0, 0 })
		d.exact = true
		at = d.out
	}
	k.activate(n, at, list)
	return nil
}

// activate adds the functions, one after the other, of the numbers in a slot, as the output of n.
func (k *compiler) activate(n *graph.Node, at int, list [][]function) {
	for i, of := range list {
		d := &activation{in: at, of: of, out: k.p.slots}
		k.p.slots++
		at = d.out
		k.step(d)
		k.p.activations[fmt.Sprintf("%s#%d", n.Outputs[0], i)] = d
	}
	k.slot[n.Outputs[0]] = at
}

// functions returns the functions that the node applies one after the other, each as a list with one function
// for each of size numbers.
func (k *compiler) functions(n *graph.Node, varying, size int) ([][]function, error) {
	var out [][]function
	all := func(f function) { out = append(out, slices.Repeat([]function{f}, size)) }
	limits := map[int]func(bound float64) piecewiseLinear{} // by input
	switch n.Op {
	case "Relu":
		all(atLeast(0))
	case "LeakyRelu":
		a := float64(n.Float("alpha", 0.01))
		if a < 0 {
			return nil, fmt.Errorf("its slope %v is negative", a)
		}
		all(piecewiseLinear{0, a, 1})
	case "Sigmoid", "Tanh", "Erf", "Softplus", "HardSwish":
		all(curve{kind: curveKind(n.Op), factor: 1})
	case "Gelu":
		c := curve{kind: curveGelu, factor: 1}
		if a := n.Attr("approximate"); a != nil && string(a.S) == "tanh" {
			c.alpha = 1
		}
		all(c)
	case "Elu":
		c := curve{kind: curveElu, alpha: float64(n.Float("alpha", 1)), factor: 1}
		if c.alpha < 0 {
			return nil, fmt.Errorf("its alpha %v is negative", c.alpha)
		}
		all(c)
	case "HardSigmoid":
		c := curve{curveHardSigmoid, float64(n.Float("alpha", 0.2)), float64(n.Float("beta", 0.5)), 1}
		if c.alpha <= 0 {
			return nil, fmt.Errorf("its alpha %v is not positive", c.alpha)
		}
		all(c)
	case "Clip":
		if varying != 0 {
			return nil, errors.New("its bounds depend on the model's input")
		}
		if a := n.Attr("min"); a != nil {
			all(atLeast(float64(a.F)))
		}
		if a := n.Attr("max"); a != nil {
			all(atMost(float64(a.F)))
		}
		limits[1], limits[2] = atLeast, atMost
	case "Max", "Min":
		of := atMost
		if n.Op == "Max" {
			of = atLeast
		}
		for i := range n.Inputs {
			limits[i] = of
		}
		delete(limits, varying)
	}
	for i, in := range n.Inputs {
		of := limits[i]
		if of == nil || in == "" {
			continue
		}
		v, _, err := k.constant(in)
		if err != nil {
			return nil, err
		}
		var list []function
		for _, at := range k.broadcast(in, n) {
			list = append(list, of(v[at]))
		}
		out = append(out, list)
	}
	return out, nil
}

// grid returns the scale, the zero point and the type of the codes of a QuantizeLinear or DequantizeLinear of
// activations.
func (k *compiler) grid(n *graph.Node) (scale, zero float64, codes graph.DType, err error) {
	s, _, err := k.constant(n.Input(1))
	if err != nil {
		return 0, 0, 0, err
	}
	if len(s) != 1 || n.Int("block_size", 0) != 0 || !(s[0] > 0) {
		return 0, 0, 0, errors.New("its scale is not one positive number")
	}
	codes = graph.Uint8
	if n.Input(2) != "" {
		z, _, err := k.constant(n.Input(2))
		if err != nil || len(z) != 1 {
			return 0, 0, 0, errors.New("its zero point is not one constant")
		}
		zero, codes = z[0], k.values[n.Input(2)].DType
	} else if t := n.Int("output_dtype", 0); t != 0 {
		codes = graph.DType(t)
	}
	return s[0], zero, codes, nil
}

func (k *compiler) compileQuantizer(_ context.Context, n *graph.Node, varying []int) error {
	scale, zero, codes, err := k.grid(n)
	if err != nil {
		return err
	}
	if err := k.refuseRequantize(n); err != nil {
		return err
	}
	limits, ok := map[graph.DType][2]float64{graph.Uint8: {0, 255}, graph.Int8: {-128, 127}}[codes]
	if !ok {
		return fmt.Errorf("it makes %s: want uint8 or int8", codes)
	}
	d := &quantize{in: k.slot[n.Input(0)], scale: scale, zero: zero, qmin: limits[0], qmax: limits[1]}
	d.out = k.name(n.Outputs[0])
	k.step(d)
	return nil
}

func (k *compiler) compileDequantizer(_ context.Context, n *graph.Node, varying []int) error {
	scale, zero, _, err := k.grid(n)
	if err != nil {
		return err
	}
	d := k.affine(n, n.Input(0), func(int) (a, b, terms float64) {
		return scale, -scale * zero, 0
	})
	d.exact = true // the step behind it allows for the rounding, if there is any
	return nil
}

// ONNX Runtime does not always compute what the file says: between quantizers it rounds float weights, and it merges
// quantizers. The methods below find the kernels that it runs, and refuse what it changes.

// kernel returns the node that ONNX Runtime runs for n, nil when it is not found. A MatMul and the Add behind
// it become one Gemm.
func (k *compiler) kernel(n *graph.Node) *graph.Node {
	if at := slices.IndexFunc(k.kernels.Nodes, func(o *graph.Node) bool {
		return n.Is("MatMul") && n.Name != "" && o.Name == n.Name+"/MatMulAddFusion"
	}); at >= 0 {
		return k.kernels.Nodes[at]
	}
	return verify.Kernel(k.kernels, n.Name, n.Outputs[0])
}

// isInteger reports whether a kernel adds up integers.
func isInteger(kernel *graph.Node) bool {
	return slices.Contains([]string{"QGemm", "QLinearMatMul", "MatMulIntegerToFloat", "QLinearConv"}, kernel.Op)
}

// dequantizer returns the DequantizeLinear that the value comes from, through operators that only move numbers; nil
// without one, or when its input does not depend on the model's.
func (k *compiler) dequantizer(value string) *graph.Node {
	for range len(k.producers) + 1 {
		n := k.producers[value]
		_, varying := k.slot[value]
		switch {
		case n == nil || !varying:
			return nil
		case n.Is("DequantizeLinear"):
			return n
		case !slices.Contains(movers(), n.Op):
			return nil
		}
		value = n.Input(0)
	}
	return nil
}

// refuseRequantize refuses a quantizer that reads what another one rounded with another scale, zero point or
// type: ONNX Runtime merges the two.
func (k *compiler) refuseRequantize(n *graph.Node) error {
	d := k.dequantizer(n.Input(0))
	if d == nil || k.o.Level == ort.Disabled {
		return nil
	}
	scale, zero, codes, err := k.grid(d)
	if s, z, c, err2 := k.grid(n); err != nil || err2 != nil || s != scale || z != zero || c != codes {
		return fmt.Errorf("it quantizes again what %s made with another scale, "+
			"and ONNX Runtime makes one quantizer of the two: remove one", d.Label())
	}
	return nil
}

// refuseRounding refuses a layer of float arithmetic whose weights or bias are floats in the file and integers
// when it runs: between quantizers, ONNX Runtime rounds them.
func (k *compiler) refuseRounding(n *graph.Node) error {
	if k.o.Level == ort.Disabled || k.dequantizer(n.Input(0)) == nil {
		return nil
	}
	coded := func(producers map[string]*graph.Node, value string) bool {
		p := producers[value]
		return p != nil && p.Is("DequantizeLinear")
	}
	running := k.kernels.Producers()
	kernel := k.kernel(n)
	for i, value := range []string{n.Input(1), k.biasOf(n)} {
		switch {
		case value == "" || coded(k.producers, value):
		case kernel == nil:
			return errors.New("its weights or bias are floats behind a quantizer, " +
				"and its kernel is not found in the graph that ONNX Runtime runs: give the node a name")
		case isInteger(kernel) || coded(running, kernel.Input(i+1)):
			return errors.New("its weights or bias are floats that ONNX Runtime rounds, " +
				"since there are quantizers on both sides: remove one of those")
		}
	}
	return nil
}

// biasOf returns the value that is added to the layer's sums, by the layer or by the Add behind a MatMul,
// which may run as one kernel with it; "" without one.
func (k *compiler) biasOf(n *graph.Node) string {
	if !n.Is("MatMul") {
		return n.Input(2)
	}
	for _, o := range k.m.Graph.Nodes {
		if at := slices.Index(o.Inputs, n.Outputs[0]); o.Is("Add") && at >= 0 {
			return o.Input(1 - at)
		}
	}
	return ""
}
