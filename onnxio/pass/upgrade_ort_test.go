package pass_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
		all = append(all, small{
			name: op, opset: 9, dims: []int64{2, 3, 4}, nodes: []*graph.Node{node(op, "x", "y")},
			want: []string{op + "(x)"},
		})
	}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "MatMul", "Sum", "Mean"} {
		all = append(all, small{
			name: op, opset: 9, dims: []int64{2, 3},
			inits: []*graph.Tensor{floats("c", []float32{1, -2, 3}, 3)}, nodes: []*graph.Node{node(op, "x c", "y")},
		})
	}
	return append(all, []small{
		{name: "clip", opset: 9, dims: []int64{4, 3}, nodes: []*graph.Node{node("Clip", "x", "y", real("min", -.5),
			real("max", .25))}, want: []string{"Clip(x, y_min, y_max)"}},
		{
			name: "clip max only", opset: 10, dims: []int64{4, 3},
			nodes: []*graph.Node{node("Clip", "x", "y", real("max", .25))}, want: []string{"Clip(x, _, y_max)"},
		},
		{
			name: "clip of unknown type", opset: 9, dims: []int64{4},
			nodes: []*graph.Node{node("Other", "x", "h"), node("Clip", "h", "y", real("min", 0))}, reject: "Clip node",
		},
		{
			name: "dropout", opset: 9, dims: []int64{4, 3},
			nodes: []*graph.Node{node("Dropout", "x", "y mask", real("ratio", .3))}, want: []string{"Dropout(x, y_ratio)"},
		},
		{
			name: "dropout mask used", opset: 9, dims: []int64{4},
			nodes: []*graph.Node{node("Dropout", "x", "h mask"), node("Add", "h mask", "y")}, reject: "mask",
		},
		{
			name: "batch normalization", opset: 9, dims: []int64{4, 3}, inits: bn,
			nodes: []*graph.Node{node("BatchNormalization", "x g b m v", "y", real("epsilon", 1e-3))},
		},
		{
			name: "batch normalization in training", opset: 9, dims: []int64{4, 3}, inits: bn,
			nodes: []*graph.Node{node("BatchNormalization", "x g b m v", "y o p q r")}, reject: "training form",
		},
		{
			name: "squeeze", opset: 9, dims: []int64{4, 1, 3},
			nodes: []*graph.Node{node("Squeeze", "x", "y", ints("axes", 1))}, want: []string{"Squeeze(x, y_axes)"},
		},
		{
			name: "squeeze all", opset: 12, dims: []int64{4, 1, 3}, nodes: []*graph.Node{node("Squeeze", "x", "y")},
			want: []string{"Squeeze(x)"},
		},
		{
			name: "unsqueeze", opset: 11, dims: []int64{4, 3},
			nodes: []*graph.Node{node("Unsqueeze", "x", "y", ints("axes", 0, -1))}, want: []string{"Unsqueeze(x, y_axes)"},
		},
		{
			name: "reduce sum", opset: 11, dims: []int64{4, 3},
			nodes: []*graph.Node{node("ReduceSum", "x", "y", ints("axes", 1),
				num("keepdims", 0))}, want: []string{"ReduceSum(x, y_axes) {keepdims=0}"},
		},
		{
			name: "reduce sum of all", opset: 11, dims: []int64{4, 3}, nodes: []*graph.Node{node("ReduceSum", "x", "y")},
			want: []string{"ReduceSum(x)"},
		},
		{
			name: "reduce mean", opset: 13, dims: []int64{4, 3},
			nodes: []*graph.Node{node("ReduceMean", "x", "y", ints("axes", -1))},
		},
		{name: "reduce l2", opset: 9, dims: []int64{4, 3}, nodes: []*graph.Node{node("ReduceL2", "x", "y", ints("axes", 0))}},
		{
			name: "reduce max", opset: 12, dims: []int64{4, 3},
			nodes: []*graph.Node{node("ReduceMax", "x", "y", ints("axes"))}, want: []string{"ReduceMax(x)"},
		},
		{
			name: "softmax of a matrix", opset: 9, dims: []int64{4, 3}, nodes: []*graph.Node{node("Softmax", "x", "y")},
			want: []string{"Softmax(x) {axis=1}"},
		},
		{
			name: "softmax of the last axis", opset: 12, dims: []int64{4, 2, 3},
			nodes: []*graph.Node{node("Softmax", "x", "y", num("axis", -1))}, want: []string{"Softmax(x) {axis=-1}"},
		},
		{
			name: "softmax coerced", opset: 9, dims: []int64{4, 2, 3}, nodes: []*graph.Node{node("Softmax", "x", "y")},
			want: []string{"Flatten(x) {axis=1}", "Reshape(y_matrix, y_shape)"},
		},
		{
			name: "softmax coerced at 0", opset: 12, dims: []int64{4, 3},
			nodes: []*graph.Node{node("Softmax", "x", "y", num("axis", 0))}, want: []string{"Flatten(x) {axis=0}"},
		},
		{
			name: "log softmax coerced from the end", opset: 11, dims: []int64{4, 2, 3},
			nodes: []*graph.Node{node("LogSoftmax", "x", "y", num("axis", -2))}, want: []string{"Flatten(x) {axis=-2}"},
		},
		{
			name: "hardmax of open rank", opset: 9, dims: []int64{4, 3}, open: true,
			nodes: []*graph.Node{node("Hardmax", "x", "y")}, want: []string{"Flatten(x) {axis=1}"},
		},
		{
			name: "rank through Gemm", opset: 9, dims: []int64{
				4,
				3,
			}, inits: []*graph.Tensor{floats("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2), floats("c", []float32{1}, 1)},
			nodes: []*graph.Node{
				node("Gemm", "x w c", "h"), node("Relu", "h", "r"),
				node("Softmax", "r", "y"),
			}, want: []string{"Softmax(r) {axis=1}"},
		},
		{name: "pad", opset: 9, dims: []int64{4, 3}, nodes: []*graph.Node{node("Pad", "x", "y", ints("pads", 1, 0, 0, 2),
			real("value", 7))}, want: []string{"Pad(x, y_pads, y_value)"}},
		{name: "slice", opset: 9, dims: []int64{4, 3}, nodes: []*graph.Node{node("Slice", "x", "y", ints("starts", 1, -2),
			ints("ends", 3, 9), ints("axes", 0, 1))}, want: []string{"Slice(x, y_starts, y_ends, y_axes)"}},
		{
			name: "split", opset: 11, dims: []int64{4, 3},
			nodes: []*graph.Node{node("Split", "x", "a y", ints("split", 1, 2),
				num("axis", 1))}, want: []string{"Split(x, a_split)"},
		},
		{
			name: "split evenly", opset: 11, dims: []int64{4, 3}, nodes: []*graph.Node{node("Split", "x", "a y")},
			want: []string{"num_outputs=2"},
		},
		{
			name: "downsample", opset: 10, dims: []int64{1, 1, 4, 5},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, .5, .6}, 4)}, nodes: []*graph.Node{node("Resize", "x s", "y")},
			want: []string{"Resize(x, _, s)", "ceil"},
		},
		{
			name: "upsample nearest", opset: 10, dims: []int64{1, 2, 3, 4},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, 2, 1.5}, 4)}, nodes: []*graph.Node{node("Resize", "x s", "y")},
			want: []string{"Resize(x, _, s)", "floor"},
		},
		{
			name: "resize linear", opset: 10, dims: []int64{1, 1, 4, 5},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, 2, .6}, 4)},
			nodes: []*graph.Node{node("Resize", "x s", "y", graph.StringAttr("mode", "linear"))},
		},
		{
			name: "resize of both kinds", opset: 10, dims: []int64{1, 1, 4, 4},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, .5, 2}, 4)}, nodes: []*graph.Node{node("Resize", "x s", "y")},
			reject: "larger and some smaller",
		},
		{
			name: "upsample", opset: 9, dims: []int64{1, 1, 2, 3},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, 2, 3}, 4)}, nodes: []*graph.Node{node("Upsample", "x s", "y")},
			want: []string{"Resize(x, _, s)"},
		},
		{
			name: "upsample linear", opset: 9, dims: []int64{1, 1, 2, 3},
			inits: []*graph.Tensor{floats("s", []float32{1, 1, 2, 3}, 4)},
			nodes: []*graph.Node{node("Upsample", "x s", "y", graph.StringAttr("mode", "linear"))},
		},
		{
			name: "upsample by attribute", opset: 7, dims: []int64{1, 1, 2, 3}, nodes: []*graph.Node{
				node("Upsample", "x", "y", graph.Attr{Name: "scales", Kind: graph.AttrFloats, Floats: []float32{1, 1, 2, 2}}),
			},
		},
		{
			name: "top k", opset: 9, dims: []int64{4, 5}, nodes: []*graph.Node{node("TopK", "x", "y i", num("k", 3))},
			want: []string{"TopK(x, y_k)"},
		},
		{
			name: "top k of rows", opset: 10, dims: []int64{4, 5}, inits: []*graph.Tensor{graph.FromInts("k", []int64{2}, 1)},
			nodes: []*graph.Node{node("TopK", "x k", "y i", num("axis", 0))},
		},
		{
			name: "scatter", opset: 10, dims: []int64{3, 3}, inits: []*graph.Tensor{
				graph.FromInts("i", []int64{1, 0, 2, 0, 2, 1}, 2, 3), floats("u", []float32{1, 2, 3, 4, 5, 6}, 2, 3),
			},
			nodes: []*graph.Node{node("Scatter", "x i u", "y")}, want: []string{"ScatterElements(x, i, u)"},
		},
		{
			name: "fourier", opset: 17, dims: []int64{1, 4, 2}, nodes: []*graph.Node{node("DFT", "x", "y")},
			reject: "cannot be upgraded",
		},
		{
			name: "argmax", opset: 9, dims: []int64{4, 3},
			nodes: []*graph.Node{node("ArgMax", "x", "i", num("axis", 1)), node("Cast", "i", "y", num("to", 1))},
		},
		{
			name: "leaky relu and flatten", opset: 9, dims: []int64{4, 3},
			nodes: []*graph.Node{node("LeakyRelu", "x", "h", real("alpha", .1)), node("Flatten", "h", "y")},
		},
		{
			name: "shapes", opset: 9, dims: []int64{4, 3}, inits: []*graph.Tensor{
				graph.FromInts("s", []int64{-1, 2}, 2),
				graph.FromInts("i", []int64{1, 0}, 2),
			},
			nodes: []*graph.Node{
				node("Reshape", "x s", "r"), node("Gather", "r i", "g", num("axis", 1)),
				node("Transpose", "g", "t"), node("Concat", "t t", "y", num("axis", 0)),
			},
		},
		{
			name: "max pool", opset: 9, dims: []int64{1, 1, 5, 5},
			nodes: []*graph.Node{node("MaxPool", "x", "y", ints("kernel_shape", 2, 3), ints("strides", 2, 2))},
		},
		{
			name: "average pool", opset: 9, dims: []int64{1, 1, 5, 5},
			nodes: []*graph.Node{node("AveragePool", "x", "y", ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1))},
		},
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
				m := s.model()
				before := m.Graph.Text()
				if err := pass.Upgrade(m, nil); err == nil || !strings.Contains(err.Error(), s.reject) {
					t.Errorf("error %v, want one with %q", err, s.reject)
				}
				if m.Graph.Text() != before || m.Opset("") != s.opset {
					t.Error("the model was changed all the same")
				}
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
			m := s.model()
			must.Do(t, pass.Upgrade(m, nil))
			must.Do(t, m.Graph.Check())
			if got := run(t, m, in, options); !same(got, want) {
				t.Errorf("%v, was %v", got, want)
			}
			for _, w := range s.want {
				if text := m.Graph.Text(); !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
		})
	}
}

func run(t *testing.T, m *graph.Model, in *graph.Tensor, o ort.Options) *graph.Tensor {
	t.Helper()
	s, err := ort.Open(m, o)
	if err != nil {
		t.Fatalf("opset %d: %v\n%s", m.Opset(""), err, m.Graph.Text())
	}
	defer s.Close()
	out, err := s.Run(context.Background(), []*graph.Tensor{in})
	if err != nil {
		t.Fatalf("opset %d: %v\n%s", m.Opset(""), err, m.Graph.Text())
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
