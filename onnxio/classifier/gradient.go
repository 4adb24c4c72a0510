package classifier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/internal/ordered"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
)

// MarginGrads returns each row's target margin and its gradient by the inputs, rows x Dim. Where two other classes tie,
// the gradient is that of autodiff's ReduceMax.
func (c *Model) MarginGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	return c.grads(ctx, "margin", c.appendMargin, x)
}

// LossGrads returns each row's target margin and the gradient by the inputs of
// the cross-entropy with the target class, the paper's L_cf; rows x Dim.
func (c *Model) LossGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	return c.grads(ctx, "loss", c.appendTargetLoss, x)
}

func (c *Model) grads(ctx context.Context, key string, scalar appender, x []float32) (m, grads []float32, err error) {
	values := []string{marginName}
	wants := []want{{name: marginName, size: 1}, {name: gradOf(0), size: c.Dim(), input: true}}
	if limit := c.Limit(); c.file != nil && limit != "" {
		values, wants = append(values, limit), append(wants, want{name: limit, size: 1})
	}
	build := func() (*graph.Model, error) { return c.withGradients(values, []string{c.Input().Name}, scalar) }
	out, err := c.run(ctx, key, build, x, wants)
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// Probe says what Observe looks at.
type Probe struct {
	Values []string // values of the graph, perhaps some of them more than once
	Grads  []string // values whose gradient of each row's cross-entropy is wanted
	// Classes is the class of the cross-entropy of each row; nil is the target for all.
	Classes []int
	// Margin makes Grads those of each row's target margin instead, see MarginGrads.
	Margin bool
}

// Observe runs x batch by batch, in order, and hands to visit, for each batch, the probed values and gradients, each as
// rows x size. Memory is bounded by the batch, and nothing stays open.
func (c *Model) Observe(ctx context.Context, x []float32, p Probe,
	visit func(from, rows int, values, grads [][]float32) error,
) error {
	values, grads := p.Values, p.Grads
	scalar := c.appendPickedLoss
	if p.Margin {
		scalar = c.appendMargin
	}
	wants := make([]want, 0, len(values)+len(grads))
	for i, name := range slices.Concat(values, grads) {
		if _, ok := c.Types()[name]; !ok {
			return fmt.Errorf("the model has no value %q", name)
		}
		size, ok := c.PerRow(name)
		if !ok {
			return fmt.Errorf("value %q is not of the form rows x features", name)
		}
		if i >= len(values) {
			name = gradOf(i - len(values))
		}
		wants = append(wants, want{name: name, size: size})
	}
	m, err := c.withGradients(values, grads, scalar)
	if err != nil {
		return err
	}
	n, err := c.count(x)
	if err != nil {
		return err
	}
	s, err := ort.Open(m, c.Engine())
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing is lost
	picks := func(from, to int) []*graph.Tensor {
		if len(grads) == 0 || p.Margin {
			return nil
		}
		return []*graph.Tensor{c.picks(p.Classes, from, to)}
	}
	if n > 0 {
		if err := c.order(ctx, s, x[:c.Dim()], wants, slices.Concat(values, grads), picks); err != nil {
			return err
		}
	}
	for from := 0; from < n; from += c.o.Batch {
		to := min(from+c.o.Batch, n)
		extra := picks(from, to)
		out := make([][]float32, len(wants))
		if err := c.runBatch(ctx, s, x[from*c.Dim():to*c.Dim()], wants, out, extra...); err != nil {
			return err
		}
		if err := visit(from, to-from, out[:len(values)], out[len(values):]); err != nil {
			return err
		}
	}
	return nil
}

// order finds how the numbers of values stand whose first axis is not that of the batch: those of one row need not
// stand together, such as in [tokens, rows, features], also where the first two axes are one. It shows in what changes
// with the second row of a batch.
func (c *Model) order(ctx context.Context, s *ort.Session, x []float32, wants []want, values []string,
	picks func(from, to int) []*graph.Tensor,
) error {
	var open []int
	var probed []want
	for i, v := range values {
		shape := c.Types()[v].Shape
		if len(shape) == 0 || c.Fixed() == 1 || shape[0].Size == int64(c.Fixed()) {
			continue
		}
		if _, times := shape[0].Multiple(); shape[0].Size >= 0 || times > 1 {
			open, probed = append(open, i), append(probed, wants[i])
		}
	}
	if len(open) == 0 {
		return nil
	}
	moved := slices.Clone(x)
	for j, v := range x {
		moved[j] += 0.5 + float32(j%7)/8 + 0.1*v
	}
	rows := max(2, c.Fixed())
	var seen [2][][]float32
	for k, second := range [][]float32{x, moved} {
		batch := slices.Concat(x, second)
		for len(batch) < rows*len(x) {
			batch = append(batch, x...)
		}
		seen[k] = make([][]float32, len(probed))
		if err := c.runBatch(ctx, s, batch, probed, seen[k], picks(0, rows)...); err != nil {
			return err
		}
	}
	for k, i := range open {
		inner := innermost(seen[0][k], seen[1][k], rows)
		if inner == 0 {
			return fmt.Errorf("value %q mixes the rows of a batch", values[i])
		}
		wants[i].inner = inner
	}
	return nil
}

// innermost returns how many neighbouring numbers belong to one row, where a and b, of as many rows as given, differ in
// the second row alone: as many as possible. It is 0 where other rows differ, too.
func innermost(a, b []float32, rows int) int {
	size := len(a) / rows
	for inner := size; inner > 0; inner-- {
		if size%inner != 0 {
			continue
		}
		other := false
		for at := range a {
			other = other || at/inner%rows != 1 && a[at] != b[at]
		}
		if !other {
			return inner
		}
	}
	return 0
}

// picks makes the input that picks each row's class: -1 at the class, 0 elsewhere.
func (c *Model) picks(classes []int, from, to int) *graph.Tensor {
	k := c.Classes()
	rows := max(to-from, c.Fixed())
	v := make([]float32, rows*k)
	for i := range to - from {
		class := c.target
		if from+i < len(classes) {
			class = classes[from+i]
		}
		v[i*k+class] = -1
	}
	return graph.FromFloats(pickName, v, int64(rows), int64(k))
}

// Names of the values that the gradient graphs add.
const (
	marginName  = "cfq.margin"
	pickName    = "cfq.pick"
	vectorName  = "cfq.v"
	productName = "cfq.hv"
)

func gradOf(i int) string { return fmt.Sprintf("cfq.grad%d", i) }

// appender adds the nodes of what the gradient is wanted of, a number per row, and returns a value y on the way to it
// and its derivative by y, "" where it is y. Their types follow from those of the model.
type appender func(b *graph.Builder) (y, seed string)

// Training is a copy of a classifier's graph to train through: what the losses need is appended.
type Training struct {
	Graph  *graph.Model
	Types  graph.Types              // of its values
	Policy map[string]autodiff.Rule // of the quantizers among its nodes
	Margin string                   // the target margin, rows x 1
	Logits string                   // at least two columns: a single logit z is [0, z]

	y, seed string // as an appender returns them
}

func (c *Model) derive(scalar appender) (*Training, error) {
	if err := c.Differentiable(); err != nil {
		return nil, err
	}
	m := c.Graph().Clone()
	if slices.ContainsFunc(m.Graph.Nodes, (*graph.Node).HasGraphs) { // behind the logits: nothing differentiates them
		needed := m.Graph.Needed(c.logits, cmp.Or(c.Limit(), c.logits))
		m.Graph.Nodes = slices.DeleteFunc(m.Graph.Nodes, func(n *graph.Node) bool { return !needed[n] })
		m.Graph.Outputs = []graph.Value{{Name: c.logits}}
	}
	if m.Opset("") < 18 { // autodiff's rules speak later ones
		if err := pass.Upgrade(m, c.Types()); err != nil {
			return nil, err
		}
	}
	d := &Training{Graph: m, Types: maps.Clone(c.Types())}
	for i, v := range m.Graph.Inputs {
		if v.Name == c.Input().Name { // with the name that sizes of gradients have
			m.Graph.Inputs[i].Shape = d.Types[v.Name].Shape
		}
	}
	d.y, d.seed = scalar(graph.NewBuilder(m.Graph, "cfq."))
	var err error
	if d.Policy, err = c.through(m); err != nil {
		return nil, err
	}
	if n := autodiff.Stop(m.Graph, d.Types, d.y, c.Input().Name, d.Policy); n != nil {
		return nil, refuse.Stepped(n)
	}
	return d, nil
}

func (d *Training) gradients(y string, wrt []string, prefix, seed string) ([]string, error) {
	names, err := autodiff.Gradients(d.Graph.Graph, d.Types, y, wrt,
		autodiff.Options{Prefix: prefix, Seed: seed, Policy: d.Policy})
	if err != nil {
		return nil, fmt.Errorf("gradient of the model: %w", err)
	}
	return names, nil
}

func (c *Model) withGradients(values, wrt []string, scalar appender) (*graph.Model, error) {
	m, outputs := c.Graph().Clone(), slices.Clone(values)
	if len(wrt) > 0 {
		d, err := c.derive(scalar)
		if err != nil {
			return nil, err
		}
		names, err := d.gradients(d.y, wrt, "cfq.d.", d.seed)
		if err != nil {
			return nil, err
		}
		m = d.Graph
		for i, name := range names {
			m.Graph.Nodes = append(m.Graph.Nodes,
				&graph.Node{Op: "Identity", Inputs: []string{name}, Outputs: []string{gradOf(i)}})
			outputs = append(outputs, gradOf(i))
		}
	}
	m.Graph.Outputs = nil
	for i, v := range outputs {
		if !slices.Contains(outputs[:i], v) {
			m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: v})
		}
	}
	return m, nil
}

// appendMargin adds the target margin, rows x 1, as marginName: the target's logit less the largest other one.
func (c *Model) appendMargin(b *graph.Builder) (margin, seed string) {
	z, sign := c.flatLogits(b), float64(2*c.target-1)
	n := &graph.Node{Op: "MatMul", Name: marginName, Outputs: []string{marginName}}
	switch c.classes {
	case 1:
		n.Op, n.Inputs = "Mul", []string{z, c.row(b, []float64{sign})}
	case 2: // one product, which takes a tenth of the time of sums over two columns
		n.Inputs = []string{z, b.Const(c.numbers([]float64{-sign, sign}, 2, 1))}
	default:
		mask := make([]float64, c.classes)
		mask[c.target] = -1e30 // never the largest of the others
		other := overClasses(b, "ReduceMax", b.Op("Add", []string{z, c.row(b, mask)}))
		n.Op, n.Inputs = "Sub", []string{c.column(b, z, c.target, 1), other}
	}
	if of := c.Limit(); of != "" {
		n.Outputs = []string{b.Name("margin_without_limit")}
		b.Append(n)
		if t := c.Types()[c.logits].DType; t != graph.Float {
			of = b.Op("Cast", []string{of}, graph.IntAttr("to", int64(t)))
		}
		n = &graph.Node{Op: "Min", Inputs: []string{n.Outputs[0], of}, Outputs: []string{marginName}}
	}
	b.Append(n)
	return marginName, ""
}

// appendTargetLoss adds the target margin m, and the cross-entropy with the target
// class, rows x 1. For two classes that is log(1+exp(-m)), whose derivative by m is -1/(1+exp(m)). With a limit to the
// margin it is the same for more classes.
func (c *Model) appendTargetLoss(b *graph.Builder) (y, seed string) {
	m, _ := c.appendMargin(b)
	if c.Classes() == 2 || c.Limit() != "" {
		odds := b.Op("Add", []string{b.Op("Exp", []string{m}), c.row(b, []float64{1})})
		return m, b.Op("Div", []string{c.row(b, []float64{-1}), odds})
	}
	return c.column(b, logSoftmax(b, c.flatLogits(b)), c.target, -1), ""
}

// appendPickedLoss adds the cross-entropy with each row's own class, which a new input picks, rows x 1.
func (c *Model) appendPickedLoss(b *graph.Builder) (loss, seed string) {
	t := c.Types()[c.logits]
	shape := graph.Shape{t.Shape[0], {Size: int64(c.Classes())}}
	b.G.Inputs = append(b.G.Inputs, graph.Value{Name: pickName, DType: graph.Float, Shape: shape})
	z, pick := c.wideLogits(b), pickName
	if t.DType != graph.Float {
		pick = b.Op("Cast", []string{pick}, graph.IntAttr("to", int64(t.DType)))
	}
	return overClasses(b, "ReduceSum", b.Op("Mul", []string{logSoftmax(b, z), pick})), ""
}

func logSoftmax(b *graph.Builder, z string) string {
	return b.Op("LogSoftmax", []string{z}, graph.IntAttr("axis", 1))
}

func overClasses(b *graph.Builder, op, v string) string {
	axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
	return b.Op(op, []string{v, axes}, graph.IntAttr("keepdims", 1))
}

// column adds one column of z times a factor, rows x 1: as a product, which takes a tenth of the time of sums over a
// few columns.
func (c *Model) column(b *graph.Builder, z string, class int, factor float64) string {
	factors := make([]float64, c.Classes())
	factors[class] = factor
	return b.Op("MatMul", []string{z, b.Const(c.numbers(factors, int64(len(factors)), 1))})
}

func (c *Model) flatLogits(b *graph.Builder) string {
	switch rank := len(c.Types()[c.logits].Shape); {
	case rank > 2: // a pooled image of one element per class
		return b.Op("Flatten", []string{c.logits}, graph.IntAttr("axis", 1))
	case rank == 1:
		return b.Op("Unsqueeze", []string{c.logits, b.Const(graph.FromInts("axes", []int64{1}, 1))})
	}
	return c.logits
}

func (c *Model) wideLogits(b *graph.Builder) string {
	z := c.flatLogits(b)
	if c.classes == 1 {
		z = b.Op("Mul", []string{z, c.row(b, []float64{0, 1})})
	}
	return z
}

func (c *Model) numbers(v []float64, dims ...int64) *graph.Tensor {
	return graph.FromNumbers("c", c.Types()[c.logits].DType, v, dims...)
}

func (c *Model) row(b *graph.Builder, v []float64) string {
	return b.Const(c.numbers(v, 1, int64(len(v))))
}

// LogitGrads returns the gradient by the inputs of one class's logit, rows x Dim. A single logit z stands for [0, z].
func (c *Model) LogitGrads(ctx context.Context, x []float32, class int) ([]float32, error) {
	build := func() (*graph.Model, error) {
		return c.withGradients(nil, []string{c.Input().Name}, func(b *graph.Builder) (y, seed string) {
			return c.column(b, c.wideLogits(b), class, 1), ""
		})
	}
	out, err := c.run(ctx, fmt.Sprintf("logit %d", class), build, x, []want{{name: gradOf(0), size: c.Dim(), input: true}})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

func (c *Model) through(m *graph.Model) (map[string]autodiff.Rule, error) {
	quantizes := func(n *graph.Node) bool { return n.Op == "QuantizeLinear" }
	rules := map[string]autodiff.Rule{}
	if c.o.Through != nil {
		maps.Copy(rules, c.o.Through(m))
	} else if i := slices.IndexFunc(m.Graph.Nodes, quantizes); i >= 0 { // the gradient would vanish silently
		return nil, fmt.Errorf("%s: no gradient passes it: Options.Through is not set", m.Graph.Nodes[i].Label())
	}
	maps.Copy(rules, c.Passes())
	return rules, nil
}

// Differentiable returns why the model has no gradients: it computes on integers as a whole, or in subgraphs. Its
// recourse can then not be searched for.
func (c *Model) Differentiable() error {
	g := c.Graph().Graph
	needed := g.Needed(c.logits)
	for _, n := range g.Nodes {
		if needed[n] && n.HasGraphs() {
			return fmt.Errorf("no gradient passes through %s, whose branches or body use values of the graph around it; "+
				"export the model without it", n.Label())
		}
	}
	if c.o.Through == nil {
		return opaque(g, c.Input().Name, c.logits)
	}
	m := c.Graph().Clone()
	c.o.Through(m)
	return opaque(m.Graph, c.Input().Name, c.logits, "QuantizeLinear")
}

// opaque finds what computes on integers as a whole between the input and the logits, or is one of the further
// operators: a gradient would vanish in it without a word.
func opaque(g *graph.Graph, input, logits string, further ...string) error {
	integer := append([]string{
		"QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeLinear", "DynamicQuantizeMatMul",
		"QLinearConv", "ConvInteger", "MatMulNBits",
	}, further...)
	moving := map[string]bool{input: true} // values that depend on the input
	needed := g.Needed(logits)
	for _, n := range g.Nodes {
		if !needed[n] || !slices.ContainsFunc(n.Inputs, func(in string) bool { return moving[in] }) {
			continue
		}
		for _, o := range n.Outputs {
			moving[o] = o != ""
		}
		if slices.Contains(integer, n.Op) {
			return fmt.Errorf("no gradient passes through integer operators, the first of them %s; give the model with "+
				"QuantizeLinear and DequantizeLinear around float operators (QDQ form)", n.Label())
		}
	}
	return nil
}

// Along is a model with the gradients of another one: where a quantized model has none, its recourse is searched in the
// directions of the model that it was made of. Margins are its own.
type Along struct {
	*Model
	Of *Model
}

// MarginGrads returns the model's margins and the other's gradients.
func (a Along) MarginGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	if m, err = a.Margins(ctx, x); err == nil {
		_, grads, err = a.Of.MarginGrads(ctx, x)
	}
	return m, grads, err
}

// LossGrads is MarginGrads for the cross-entropy with the target class.
func (a Along) LossGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	if m, err = a.Margins(ctx, x); err == nil {
		_, grads, err = a.Of.LossGrads(ctx, x)
	}
	return m, grads, err
}

// HessianVector returns the product of the Hessian, by the initializer called weight, of the mean cross-entropy over
// the rows of x with the vector v, which has the weight's elements in its order; so has the result. classes holds each
// row's class, nil is the target for all, as for Observe.
//
// It is the gradient of <gradient, v>, so a piecewise linear network has the curvature of its cross-entropy only, and
// kinks have none. Batches are summed in double precision and in their order: the result does not depend on the number
// of workers.
func (c *Model) HessianVector(ctx context.Context, x []float32, classes []int, weight string, v []float32) ([]float32,
	error,
) {
	w := c.Graph().Graph.Init(weight)
	if w == nil {
		return nil, fmt.Errorf("the model has no initializer %q to take the curvature by", weight)
	}
	s, err := c.session("hessian "+weight, func() (*graph.Model, error) { return c.withProduct(w) })
	if err != nil {
		return nil, fmt.Errorf("curvature by %q: %w", weight, err)
	}
	n, sum := len(x)/c.Dim(), make([]float64, len(v))
	batches := ordered.New[[]float32](c.o.Workers, c.o.Workers)
	for from := 0; from < n && err == nil; from += c.o.Batch {
		err = batches.Go(func() ([]float32, error) {
			to := min(from+c.o.Batch, n)
			out, err := s.Run(ctx, []*graph.Tensor{
				c.feed(x[from*c.Dim() : to*c.Dim()]), c.picks(classes, from, to),
				graph.FromNumbers(vectorName, w.DType, v, w.Dims...),
			})
			if err != nil {
				return nil, err
			}
			return out[0].Floats()
		}, func(part []float32) error {
			for i, p := range part {
				sum[i] += float64(p)
			}
			return nil
		})
	}
	if err = errors.Join(err, batches.Wait()); err != nil {
		return nil, fmt.Errorf("curvature by %q: %w", weight, err)
	}
	return lists.Map(sum, func(s float64) float32 { return float32(s / float64(n)) }), nil
}

func (c *Model) withProduct(w *graph.Tensor) (*graph.Model, error) {
	v := graph.Value{Name: vectorName, DType: w.DType, Shape: graph.Fixed(w.Dims...)}
	d, err := c.derive(func(b *graph.Builder) (y, seed string) {
		b.G.Inputs = append(b.G.Inputs, v)
		return c.appendPickedLoss(b)
	})
	if err != nil {
		return nil, err
	}
	at := []string{w.Name}
	first, err := d.gradients(d.y, at, "cfq.d.", d.seed)
	if err != nil {
		return nil, err
	}
	second, err := d.gradients(first[0], at, "cfq.dd.", vectorName)
	if err != nil {
		return nil, err
	}
	g := d.Graph.Graph
	g.Nodes = append(g.Nodes, &graph.Node{
		Op: "Identity", Name: productName, Inputs: second, Outputs: []string{productName},
	})
	g.Outputs = []graph.Value{{Name: productName, DType: v.DType, Shape: v.Shape}}
	return d.Graph, nil
}

// Training returns the graph to train through.
func (c *Model) Training() (*Training, error) {
	logits := ""
	t, err := c.derive(func(b *graph.Builder) (y, seed string) {
		logits = c.wideLogits(b)
		return c.appendMargin(b)
	})
	if err != nil {
		return nil, err
	}
	t.Logits, t.Margin = logits, marginName
	return t, nil
}
