package autodiff_test

import (
	"strings"
	"testing"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

func TestWindowErrors(t *testing.T) {
	for _, c := range []struct {
		op, shapes, attrs string
		y                 string // shape of the result, where it cannot be inferred
		want              string
	}{
		{"Conv", "N 1 H 4, 2 1 3 3", "", "N 2 H 2", "size of axis 2 of the image"},
		{"Conv", "N 1 4 4, 2 1 3 3", "auto_pad=SAME", "N 2 4 4", "auto_pad SAME"},
		{"Conv", "N 1 2 4, 2 1 3 3", "", "N 2 1 2", "does not fit"},
		{"Conv", "N 3 4 4, 2 1 3 3", "group=2", "N 2 2 2", "2 groups of the image"},
		{"Conv", "N 3 4 4, 2 3 3 3", "kernel_shape=3,2", "N 2 2 2", "kernel_shape [3 2]"},
		{"Conv", "N 3 4 4, 2 3 3 3", "strides=1", "N 2 2 2", "strides [1] for 2 spatial axes"},
		{"Conv", "N 3 4 4, 2 3 3 3", "strides=0,1", "N 2 2 2", "strides [0 1]"},
		{"Conv", "N 3, 2 3", "", "N 2", "an image double[N,3]"},
		{"ConvTranspose", "N 1 2, 1 2 2", "strides=2 auto_pad=SAME_UPPER", "N 2 4", "write pads and output_padding"},
		{"ConvTranspose", "N 1 2, 1 2 2", "output_shape=4", "N 2 4", "write pads and output_padding"},
		{"ConvTranspose", "N 1 1, 1 2 2", "pads=1,1", "N 2 0", "nothing is left"},
		{"AveragePool", "N 1 5", "kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1", "", "ceil_mode adds a window"},
		{"AveragePool", "N 1 2", "", "N 1 1", "kernel_shape is missing"},
		{"AveragePool", "1 1 2000000", "kernel_shape=2000000", "", "too large"},
	} {
		t.Run(c.op+" "+c.shapes+" "+c.attrs, func(t *testing.T) {
			b := newBench(t, ort.Options{}, graph.Double, 19, 2)
			n := &graph.Node{Name: "node", Op: c.op, Outputs: []string{"y"}, Attrs: spatial(c.attrs)}
			for i, shape := range strings.Split(c.shapes, ", ") {
				name := []string{"x", "w"}[i]
				b.g.Inputs = append(b.g.Inputs, graph.Value{Name: name, DType: graph.Double, Shape: shapeOf(shape)})
				n.Inputs = append(n.Inputs, name)
			}
			b.g.Nodes = append(b.g.Nodes, n)
			if c.y != "" {
				b.types["y"] = graph.Type{DType: graph.Double, Shape: shapeOf(c.y)}
			}
			before := dump(b.g)
			_, err := autodiff.Gradients(b.g, b.types, "y", n.Inputs, autodiff.Options{})
			if err == nil || !strings.Contains(err.Error(), c.op+` node "node"`) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want it to name the node and say %q", err, c.want)
			}
			if got := dump(b.g); got != before {
				t.Errorf("the graph has changed:\n%s", got)
			}
		})
	}
}
