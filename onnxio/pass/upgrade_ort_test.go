package pass_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
)

// small is a model of one node (or a few) at an old operator set, that
// ONNX Runtime must see no difference in after an upgrade.
type small struct {
	name   string
	opset  int64
	dims   []int64
	nodes  []*graph.Node
	inits  []*graph.Tensor
	open   bool     // do not state the rank of x
	want   []string // operators and inputs that the result must show
	reject string   // the error, in place of a result
}

func node(op string, in, out string, attrs ...graph.Attr) *graph.Node {
	return &graph.Node{Op: op, Inputs: strings.Fields(in), Outputs: strings.Fields(out), Attrs: attrs}
}

func floats(name string, v []float32, dims ...int64) *graph.Tensor {
	return graph.FromFloats(name, v, dims...)
}

func (s small) model() *graph.Model {
	x := graph.Value{Name: "x", DType: graph.Float, Shape: graph.Fixed(s.dims...)}
	if s.open {
		x.Shape = nil
	}
	return &graph.Model{
		IRVersion: 4,
		Opsets:    []graph.Opset{{Version: s.opset}},
		Graph: &graph.Graph{
			Name:    s.name,
			Inputs:  []graph.Value{x},
			Outputs: []graph.Value{{Name: "y", DType: x.DType}},
			Inits:   s.inits,
			Nodes:   s.nodes,
		},
	}
}

func runs(name string, opset int64, dims string, nodes ...*graph.Node) small {
	s := small{name: name, opset: opset, nodes: nodes}
	for d := range strings.FieldsSeq(dims) {
		n, _ := strconv.ParseInt(d, 10, 64)
		s.dims = append(s.dims, n)
	}
	return s
}

func (s small) shows(want ...string) small {
	s.want = want
	return s
}

func (s small) with(inits ...*graph.Tensor) small {
	s.inits = inits
	return s
}

func (s small) refused(reason string) small {
	s.reject = reason
	return s
}

func (s small) openRank() small {
	s.open = true
	return s
}

func smalls() []small {
	ints, num, real := graph.IntsAttr, graph.IntAttr, graph.FloatAttr
	bn := []*graph.Tensor{
		floats("g", []float32{1, 2, .5}, 3), floats("b", []float32{0, 1, -1}, 3),
		floats("m", []float32{.1, .2, .3}, 3), floats("v", []float32{1, 2, 3}, 3),
	}
	var all []small
	for op := range strings.FieldsSeq("Abs Neg Exp Sqrt Erf Floor Ceil Sign Sin Atan Relu Selu Elu LeakyRelu " +
		"HardSigmoid Sigmoid Tanh Softplus Softsign Reciprocal GlobalAveragePool GlobalMaxPool LpNormalization Identity " +
		"Transpose Flatten") {
		all = append(all, runs(op, 9, "2 3 4", node(op, "x", "y")).shows(op+"(x)"))
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "MatMul", "Sum", "Mean"} {
		all = append(all, runs(op, 9, "2 3", node(op, "x c", "y")).with(floats("c", []float32{1, -2, 3}, 3)))
	}
	return append(all, []small{
		runs("clip", 9, "4 3", node("Clip", "x", "y", real("min", -.5), real("max", .25))).shows("Clip(x, y_min, y_max)"),
		runs("clip max only", 10, "4 3", node("Clip", "x", "y", real("max", .25))).shows("Clip(x, , y_max)"),
		runs("clip of unknown type", 9, "4", node("Other", "x", "h"), node("Clip", "h", "y", real("min", 0))).
			refused("Clip node"),
		runs("dropout", 9, "4 3", node("Dropout", "x", "y mask", real("ratio", .3))).shows("Dropout(x, y_ratio)"),
		runs("dropout mask used", 9, "4", node("Dropout", "x", "h mask"), node("Add", "h mask", "y")).refused("mask"),
		runs("batch normalization", 9, "4 3", node("BatchNormalization", "x g b m v", "y", real("epsilon", 1e-3))).
			with(bn...),
		runs("batch normalization in training", 9, "4 3", node("BatchNormalization", "x g b m v", "y o p q r")).with(bn...).
			refused("training form"),
		runs("squeeze", 9, "4 1 3", node("Squeeze", "x", "y", ints("axes", 1))).shows("Squeeze(x, y_axes)"),
		runs("squeeze all", 12, "4 1 3", node("Squeeze", "x", "y")).shows("Squeeze(x)"),
		runs("unsqueeze", 11, "4 3", node("Unsqueeze", "x", "y", ints("axes", 0, -1))).shows("Unsqueeze(x, y_axes)"),
		runs("reduce sum", 11, "4 3", node("ReduceSum", "x", "y", ints("axes", 1), num("keepdims", 0))).
			shows("ReduceSum(x, y_axes) keepdims=0"),
		runs("reduce sum of all", 11, "4 3", node("ReduceSum", "x", "y")).shows("ReduceSum(x)"),
		runs("reduce mean", 13, "4 3", node("ReduceMean", "x", "y", ints("axes", -1))),
		runs("reduce l2", 9, "4 3", node("ReduceL2", "x", "y", ints("axes", 0))),
		runs("reduce max", 12, "4 3", node("ReduceMax", "x", "y", ints("axes"))).shows("ReduceMax(x)"),
		runs("softmax of a matrix", 9, "4 3", node("Softmax", "x", "y")).shows("Softmax(x) axis=1"),
		runs("softmax of the last axis", 12, "4 2 3", node("Softmax", "x", "y", num("axis", -1))).
			shows("Softmax(x) axis=-1"),
		runs("softmax coerced", 9, "4 2 3", node("Softmax", "x", "y")).shows("Flatten(x) axis=1",
			"Reshape(y_matrix, y_shape)"),
		runs("softmax coerced at 0", 12, "4 3", node("Softmax", "x", "y", num("axis", 0))).shows("Flatten(x) axis=0"),
		runs("log softmax coerced from the end", 11, "4 2 3", node("LogSoftmax", "x", "y", num("axis", -2))).
			shows("Flatten(x) axis=-2"),
		runs("hardmax of open rank", 9, "4 3", node("Hardmax", "x", "y")).shows("Flatten(x) axis=1").openRank(),
		runs("rank through Gemm", 9, "4 3", node("Gemm", "x w c", "h"), node("Relu", "h", "r"), node("Softmax", "r", "y")).
			shows("Softmax(r) axis=1").with(floats("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2), floats("c", []float32{1}, 1)),
		runs("pad", 9, "4 3", node("Pad", "x", "y", ints("pads", 1, 0, 0, 2), real("value", 7))).
			shows("Pad(x, y_pads, y_value)"),
		runs("slice", 9, "4 3", node("Slice", "x", "y", ints("starts", 1, -2), ints("ends", 3, 9), ints("axes", 0, 1))).
			shows("Slice(x, y_starts, y_ends, y_axes)"),
		runs("split", 11, "4 3", node("Split", "x", "a y", ints("split", 1, 2), num("axis", 1))).shows("Split(x, a_split)"),
		runs("split evenly", 11, "4 3", node("Split", "x", "a y")).shows("num_outputs=2"),
		runs("resize", 10, "1 1 4 5", node("Resize", "x s", "y")).with(floats("s", []float32{1, 1, .5, .6}, 4)).
			refused("cannot be upgraded"),
		runs("top k", 9, "4 5", node("TopK", "x", "y i", num("k", 3))).shows("TopK(x, y_k)"),
		runs("top k of rows", 10, "4 5", node("TopK", "x k", "y i", num("axis", 0))).
			with(graph.FromInts("k", []int64{2}, 1)),
		runs("scatter", 10, "3 3", node("Scatter", "x i u", "y")).shows("ScatterElements(x, i, u)").
			with(graph.FromInts("i", []int64{1, 0, 2, 0, 2, 1}, 2, 3), floats("u", []float32{1, 2, 3, 4, 5, 6}, 2, 3)),
		runs("groups", 20, "2 4 3", node("GroupNormalization", "x s b", "y", num("num_groups", 2))).
			with(floats("s", []float32{2, 3}, 2), floats("b", []float32{1, -1}, 2)).refused("cannot be upgraded"),
		runs("fourier", 17, "1 4 2", node("DFT", "x", "y")).refused("cannot be upgraded"),
		runs("argmax", 9, "4 3", node("ArgMax", "x", "i", num("axis", 1)), node("Cast", "i", "y", num("to", 1))),
		runs("leaky relu and flatten", 9, "4 3", node("LeakyRelu", "x", "h", real("alpha", .1)), node("Flatten", "h", "y")),
		runs("shapes", 9, "4 3", node("Reshape", "x s", "r"), node("Gather", "r i", "g", num("axis", 1)),
			node("Transpose", "g", "t"), node("Concat", "t t", "y", num("axis", 0))).
			with(graph.FromInts("s", []int64{-1, 2}, 2), graph.FromInts("i", []int64{1, 0}, 2)),
		runs("max pool", 9, "1 1 5 5", node("MaxPool", "x", "y", ints("kernel_shape", 2, 3), ints("strides", 2, 2))),
		runs("average pool", 9, "1 1 5 5",
			node("AveragePool", "x", "y", ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1))),
	}...)
}

func TestUpgradeRuns(t *testing.T) {
	options := orttest.Need(t)
	options.Level = ort.Disabled
	all := smalls()
	for _, s := range smalls() { // what the older sets have, too
		for s.opset--; s.opset >= 7 && s.opset < 9; s.opset-- {
			equal := s.opset < 8 && slices.Contains([]string{"Max", "Min", "Sum", "Mean"}, s.name) // they did not broadcast
			if old, err := ort.Open(s.model(), options); err == nil && !equal {
				must.Do(t, old.Close())
				all = append(all, s)
			}
		}
	}
	if extra := len(all) - len(smalls()); extra < 60 {
		t.Errorf("%d models of opsets 7 and 8", extra)
	}
	for _, s := range all {
		t.Run(fmt.Sprintf("%s, opset %d", s.name, s.opset), func(t *testing.T) {
			if s.reject != "" {
				m := s.model().Clone()
				must.Fail(t, pass.Upgrade(m, nil), s.reject)
				must.Same(t, s.opset, m.Opset(""))
				return
			}
			n := int64(1)
			for _, d := range s.dims {
				n *= d
			}
			rng := rand.New(rand.NewPCG(1, uint64(len(s.name))))
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			in := graph.FromFloats("x", x, s.dims...)
			want := run(t, s.model(), in, options)
			m := s.model().Clone()
			must.Do(t, pass.Upgrade(m, nil))
			must.Do(t, m.Graph.Check())
			if got := run(t, m, in, options); !same(got, want) {
				t.Errorf("%v, was %v", got, want)
			}
			for _, w := range s.want {
				must.Has(t, shown(m.Graph), w)
			}
		})
	}
}

func run(t *testing.T, m *graph.Model, in *graph.Tensor, o ort.Options) *graph.Tensor {
	t.Helper()
	s, err := ort.Open(m, o)
	if err != nil {
		t.Fatalf("opset %d: %v", m.Opset(""), err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), []*graph.Tensor{in})
	if err != nil {
		t.Fatalf("opset %d: %v", m.Opset(""), err)
	}
	return out[0]
}

// same compares shapes exactly and elements to within the rounding of a kernel.
func same(a, b *graph.Tensor) bool {
	x, err1 := a.Doubles()
	y, err2 := b.Doubles()
	if err1 != nil || err2 != nil || fmt.Sprint(a.Dims) != fmt.Sprint(b.Dims) || len(x) != len(y) {
		return false
	}
	for i := range x {
		if math.Abs(x[i]-y[i]) > 1e-6*(1+math.Abs(y[i])) {
			return false
		}
	}
	return true
}

func shown(g *graph.Graph) string {
	var b strings.Builder
	for _, n := range g.Nodes {
		fmt.Fprintf(&b, "%s(%s)", n.Op, strings.Join(n.Inputs, ", "))
		for _, a := range n.Attrs {
			fmt.Fprintf(&b, " %s=%d", a.Name, a.I)
		}
	}
	return b.String()
}
