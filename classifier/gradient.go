package classifier

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cfq/autodiff"
	"cfq/graph"
)

// The sessions that gradients run in.
const (
	keyMargin  = "margin"
	keyLoss    = "loss"
	keyObserve = "observe:"
)

// MarginGrads returns each row's target margin and its gradient by the inputs,
// rows x Dim. Where two other classes tie, the gradient is that of autodiff's
// ReduceMax.
func (c *Model) MarginGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	return c.grads(ctx, keyMargin, x)
}

// LossGrads returns each row's target margin and the gradient by the inputs of
// the cross-entropy with the target class, the paper's L_cf; rows x Dim. For two
// classes the cross-entropy is log(1+exp(-m)), so its gradient is the margin's
// times -1/(1+exp(m)).
func (c *Model) LossGrads(ctx context.Context, x []float32) (m, grads []float32, err error) {
	if c.classes > 2 {
		return c.grads(ctx, keyLoss, x)
	}
	m, grads, err = c.grads(ctx, keyMargin, x)
	if err != nil {
		return nil, nil, err
	}
	for i, v := range m {
		k := float32(-1 / (1 + math.Exp(float64(v))))
		row := grads[i*c.dim : (i+1)*c.dim]
		for j := range row {
			row[j] *= k
		}
	}
	return m, grads, nil
}

func (c *Model) grads(ctx context.Context, key string, x []float32) (m, grads []float32, err error) {
	out, err := c.run(ctx, key, x, []want{{marginName, 1}, {gradName, c.dim}})
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// Probe says what Observe looks at.
type Probe struct {
	Values []string // values of the graph
	Grads  []string // values whose gradient of each row's cross-entropy is wanted
	// Classes is the class of the cross-entropy of each row; nil is the target for all.
	Classes []int
}

// Observe runs x batch by batch, in order, and hands to visit, for each batch,
// the probed values and gradients, each as rows x size. Memory is bounded by the
// batch.
func (c *Model) Observe(ctx context.Context, x []float32, p Probe, visit func(from, rows int, values, grads [][]float32) error) error {
	values, grads := p.Values, p.Grads
	key := keyObserve + strings.Join(values, "\x00") + "\x01" + strings.Join(grads, "\x00")
	wants := make([]want, 0, len(values)+len(grads))
	for i, name := range append(append([]string{}, values...), grads...) {
		t, ok := c.types[name]
		if !ok {
			return fmt.Errorf("the model has no value %q", name)
		}
		size := 1
		for _, d := range t.Shape[min(1, len(t.Shape)):] {
			if d.Size < 0 {
				return fmt.Errorf("value %q is not of the form rows x features", name)
			}
			size *= int(d.Size)
		}
		if i >= len(values) {
			name = fmt.Sprintf("%s%d", gradName, i-len(values))
		}
		wants = append(wants, want{name, size})
	}
	n := len(x) / c.dim
	for from := 0; from < n; from += c.o.Batch {
		to := min(from+c.o.Batch, n)
		var extra []*graph.Tensor
		if len(grads) > 0 {
			extra = append(extra, c.picks(p.Classes, from, to))
		}
		out, err := c.run(ctx, key, x[from*c.dim:to*c.dim], wants, extra...)
		if err != nil {
			return err
		}
		if err := visit(from, to-from, out[:len(values)], out[len(values):]); err != nil {
			return err
		}
	}
	return nil
}

// picks makes the input that picks each row's class: -1 at the class, 0 elsewhere.
func (c *Model) picks(classes []int, from, to int) *graph.Tensor {
	k := c.Classes()
	v := make([]float32, (to-from)*k)
	for i := range to - from {
		class := c.target
		if classes != nil {
			class = classes[from+i]
		}
		v[i*k+class] = -1
	}
	return graph.FromFloats(pickName, v, int64(to-from), int64(k))
}

// Names of the values that the gradient graphs add.
const (
	marginName = "cfq.margin"
	gradName   = "cfq.grad"
	pickName   = "cfq.pick"
)

// build makes the graph of a session that needs gradients.
func (c *Model) build(key string) (*graph.Model, error) {
	m, err := c.upgraded()
	if err != nil {
		return nil, err
	}
	if err := opaque(m.Graph); err != nil {
		return nil, err
	}
	types := maps.Clone(c.types)
	g := m.Graph
	var values, wrt, names []string
	scalar := ""
	switch {
	case key == keyMargin:
		wrt, names = []string{c.input.Name}, []string{gradName}
		scalar = c.appendMargin(g, types)
		values = []string{marginName}
	case key == keyLoss:
		wrt, names = []string{c.input.Name}, []string{gradName}
		c.appendMargin(g, types)
		scalar = c.appendLoss(g, types, "")
		values = []string{marginName}
	default:
		a, b, _ := strings.Cut(strings.TrimPrefix(key, keyObserve), "\x01")
		if a != "" {
			values = strings.Split(a, "\x00")
		}
		if b != "" {
			wrt = strings.Split(b, "\x00")
			shape := graph.Shape{types[c.head.logits].Shape[0], {Size: int64(c.Classes())}}
			g.Inputs = append(g.Inputs, graph.Value{Name: pickName, DType: graph.Float, Shape: shape})
			types[pickName] = autodiff.Type{DType: graph.Float, Shape: shape}
			scalar = c.appendLoss(g, types, pickName)
		}
		for i := range wrt {
			names = append(names, fmt.Sprintf("%s%d", gradName, i))
		}
	}
	g.Outputs = nil
	for _, v := range append(slices.Clone(values), scalar) {
		g.Outputs = append(g.Outputs, graph.Value{Name: v})
	}
	if len(wrt) > 0 {
		got, err := autodiff.Gradients(g, types, scalar, wrt, autodiff.Options{Prefix: "cfq.d.", Policy: straightThrough(m)})
		if err != nil {
			return nil, fmt.Errorf("gradient of the model: %w", err)
		}
		for i, name := range got {
			g.Nodes = append(g.Nodes, &graph.Node{Op: "Identity", Inputs: []string{name}, Outputs: []string{names[i]}})
		}
	}
	g.Outputs = nil
	for _, v := range append(values, names...) {
		g.Outputs = append(g.Outputs, graph.Value{Name: v})
	}
	return m, nil
}

// appendMargin adds the target margin, rows x 1, as marginName: the target's
// logit less the largest other one.
func (c *Model) appendMargin(g *graph.Graph, types autodiff.Types) string {
	b, z := c.logits2(g, types)
	k := max(c.classes, 2)
	rows := types[z].Shape[0]
	pick, mask := make([]float64, k), make([]float64, k)
	pick[c.target] = 1
	mask[c.target] = -1e30 // never the largest of the others
	sum := func(v string) string {
		return c.add(b, types, graph.Shape{rows, {Size: 1}}, "ReduceSum", []string{v, b.Const(graph.FromInts("axes", []int64{1}, 1))}, graph.IntAttr("keepdims", 1))
	}
	shape := types[z].Shape
	at := sum(c.add(b, types, shape, "Mul", []string{z, c.constant(b, types, pick)}))
	var other string
	if k == 2 {
		pick[0], pick[1] = pick[1], pick[0]
		other = sum(c.add(b, types, shape, "Mul", []string{z, c.constant(b, types, pick)}))
	} else {
		masked := c.add(b, types, shape, "Add", []string{z, c.constant(b, types, mask)})
		other = c.add(b, types, graph.Shape{rows, {Size: 1}}, "ReduceMax", []string{masked, b.Const(graph.FromInts("axes", []int64{1}, 1))}, graph.IntAttr("keepdims", 1))
	}
	g.Nodes = append(g.Nodes, &graph.Node{Op: "Sub", Name: marginName, Inputs: []string{at, other}, Outputs: []string{marginName}})
	types[marginName] = types[at]
	return marginName
}

// appendLoss adds the cross-entropy, rows x 1, with the class that the input pick
// picks, or with the target class when pick is "".
func (c *Model) appendLoss(g *graph.Graph, types autodiff.Types, pick string) string {
	b, z := c.logits2(g, types)
	if pick == "" {
		v := make([]float64, c.Classes())
		v[c.target] = -1
		pick = c.constant(b, types, v)
	} else if t := types[z].DType; t != graph.Float {
		pick = c.add(b, types, types[z].Shape, "Cast", []string{pick}, graph.IntAttr("to", int64(t)))
	}
	logp := c.add(b, types, types[z].Shape, "LogSoftmax", []string{z}, graph.IntAttr("axis", 1))
	own := c.add(b, types, types[z].Shape, "Mul", []string{logp, pick})
	return c.add(b, types, graph.Shape{types[z].Shape[0], {Size: 1}}, "ReduceSum",
		[]string{own, b.Const(graph.FromInts("axes", []int64{1}, 1))}, graph.IntAttr("keepdims", 1))
}

// logits2 returns a builder and the logits as rows x classes with at least two
// columns: a single logit z becomes [0, z].
func (c *Model) logits2(g *graph.Graph, types autodiff.Types) (*graph.Builder, string) {
	b := graph.NewBuilder(g, "cfq.")
	z := c.head.logits
	t := types[z]
	if len(t.Shape) == 1 {
		z = c.add(b, types, graph.Shape{t.Shape[0], {Size: 1}}, "Unsqueeze", []string{z, b.Const(graph.FromInts("axes", []int64{1}, 1))})
	}
	if c.classes == 1 {
		two := c.constant(b, types, []float64{0, 1})
		z = c.add(b, types, graph.Shape{t.Shape[0], {Size: 2}}, "Mul", []string{z, two})
	}
	return b, z
}

// add appends a node and records the type of its output, which has the logits' element type.
func (c *Model) add(b *graph.Builder, types autodiff.Types, shape graph.Shape, op string, in []string, attrs ...graph.Attr) string {
	out := b.Op(op, in, attrs...)
	types[out] = autodiff.Type{DType: c.types[c.head.logits].DType, Shape: shape}
	for _, name := range in {
		if t := b.G.Init(name); t != nil {
			types[name] = autodiff.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
		}
	}
	return out
}

// constant adds a row vector of the logits' element type, shape [1, len(v)].
func (c *Model) constant(b *graph.Builder, types autodiff.Types, v []float64) string {
	t := graph.FromDoubles("c", v, 1, int64(len(v)))
	if c.types[c.head.logits].DType == graph.Float {
		f := make([]float32, len(v))
		for i, x := range v {
			f[i] = float32(x)
		}
		t = graph.FromFloats("c", f, 1, int64(len(v)))
	}
	name := b.Const(t)
	types[name] = autodiff.Type{DType: t.DType, Shape: graph.Fixed(t.Dims...)}
	return name
}
