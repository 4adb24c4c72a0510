package autodiff_test

import (
	"fmt"
	"strings"

	"cfq/onnxio/graph"
)

// ONNX Runtime convolves in float only. The operands lie on a grid, so that sums of
// products are exact all the same.
const grid = 1. / 8

// spatial makes attributes of "strides=2,1 pads=0,1,1,0 group=2 auto_pad=VALID".
func spatial(text string) []graph.Attr {
	var out []graph.Attr
	for _, f := range strings.Fields(text) {
		name, value, _ := strings.Cut(f, "=")
		var v []int64
		for _, s := range strings.Split(value, ",") {
			var n int64
			if _, err := fmt.Sscan(s, &n); err == nil {
				v = append(v, n)
			}
		}
		switch name {
		case "auto_pad":
			out = append(out, graph.StringAttr(name, value))
		case "group", "ceil_mode", "count_include_pad", "storage_order":
			out = append(out, graph.IntAttr(name, v[0]))
		default:
			out = append(out, graph.IntsAttr(name, v...))
		}
	}
	return out
}

func kernelSample(op, shapes, attrs string) sample {
	s := sample{op: op, note: attrs, attrs: spatial(attrs), single: true, grid: grid}
	for _, shape := range strings.Split(shapes, ", ") {
		s.in = append(s.in, in(shape))
	}
	return s
}

func convSamples() []sample {
	var out []sample
	for _, k := range [][3]string{
		{"Conv", "N 2 3 3, 2 2 2 2, 2", ""},
		{"Conv", "2 2 4 3, 3 2 1 1", "strides=2,2 kernel_shape=1,1"},
		{"Conv", "2 1 6 7, 2 1 3 3", "strides=3,2"},
		{"Conv", "2 1 5 4, 2 1 3 2", "pads=0,2,1,1 dilations=2,1"},
		{"Conv", "1 1 2 3, 2 1 2 2, 2", "pads=3,2,2,3"},
		{"Conv", "2 1 7 6, 1 1 2 3", "strides=4,3 dilations=3,2 pads=1,0,0,2"},
		{"Conv", "N 4 3 3, 6 2 2 2, 6", "group=2"},
		{"Conv", "2 4 5 4, 2 2 3 2", "group=2 strides=2,3 dilations=1,2 pads=2,1,0,1"},
		{"Conv", "N 3 4 3, 3 1 3 2", "group=3 pads=1,0,1,1 strides=2,1"},
		{"Conv", "2 2 3 3, 4 1 2 2, 4", "group=2 auto_pad=VALID"},
		{"Conv", "2 1 5 6, 2 1 2 3", "auto_pad=SAME_UPPER strides=2,3"},
		{"Conv", "2 1 5 5, 1 1 2 2", "auto_pad=SAME_LOWER strides=1,2"},
		{"Conv", "N 2 7, 3 2 3, 3", "strides=2 pads=1,0 dilations=2"},
		{"Conv", "2 4 5, 4 1 2", "group=4"},
		{"Conv", "1 2 3 2 3, 1 2 2 1 2", "pads=1,0,0,0,0,1 strides=2,1,1"},
		{"ConvTranspose", "N 2 2 2, 2 2 2 2, 2", ""},
		{"ConvTranspose", "2 2 2 3, 2 1 3 2", "strides=3,2 pads=0,1,1,0"},
		{"ConvTranspose", "2 1 3 2, 1 2 2 3", "strides=2,3 output_padding=1,2 pads=1,0,0,1"},
		{"ConvTranspose", "2 1 2 2, 1 1 2 2", "strides=2,3 dilations=3,2 output_padding=1,2"},
		{"ConvTranspose", "N 4 2 2, 4 1 2 2, 2", "group=2 strides=2,2 pads=1,1,1,1 output_padding=1,0"},
		{"ConvTranspose", "2 2 3, 2 1 2", "strides=2 auto_pad=VALID"},
	} {
		out = append(out, kernelSample(k[0], k[1], k[2]))
	}
	return out
}

// steps gives an operand n values that differ by half a unit or more, in an order
// that is not theirs: no step of a grid makes another one the largest.
func (o operand) steps(n int) operand {
	for i := range n {
		o.values = append(o.values, float64(i*7%n)/2)
	}
	return o
}

func poolSamples() []sample {
	var out []sample
	for _, k := range [][3]string{
		{"N 2 4 4", "kernel_shape=2,2 strides=2,2", ""},
		{"2 2 4 3", "kernel_shape=3,3 pads=1,1,1,1", ""},
		{"2 1 5 4", "kernel_shape=2,3 pads=0,1,1,2 strides=2,1 dilations=2,1", "dilated"},
		{"2 1 5 6", "kernel_shape=2,3 strides=3,2 ceil_mode=1 pads=1,0,0,1", "ceil"},
		{"2 1 5 5", "kernel_shape=2,2 strides=2,2 auto_pad=SAME_UPPER", ""},
		{"2 1 4 5", "kernel_shape=3,2 strides=2,2 auto_pad=SAME_LOWER", ""},
		{"N 2 6", "kernel_shape=3 strides=2", ""},
		{"2 1 3 2 3", "kernel_shape=2,1,2", ""},
	} {
		attrs := spatial(k[1])
		out = append(out, sample{op: "MaxPool", note: k[1], in: []operand{in(k[0])}, attrs: attrs})
		average := func(note string) {
			s := sample{
				op: "AveragePool", note: k[1] + note, in: []operand{in(k[0])},
				attrs: append(attrs[:len(attrs):len(attrs)], spatial(note)...), single: true, grid: grid, rounds: true,
			}
			if k[2] == "dilated" {
				s.opset = 19 // the first that lets averages have gaps
			}
			out = append(out, s)
		}
		average("")
		if k[2] != "ceil" {
			average(" count_include_pad=1")
		}
	}
	places := sample{op: "MaxPool", in: []operand{in("2 2 3 4")}, outs: 2, use: []int{0}}
	places.note, places.attrs = "places", spatial("kernel_shape=2,2")
	columns := places
	columns.note, columns.attrs = "places by column", spatial("kernel_shape=2,2 storage_order=1")
	out = append(out, places, columns,
		sample{
			op: "AveragePool", note: "ceil_mode that adds nothing", in: []operand{in("2 1 6")}, single: true, grid: grid,
			attrs: spatial("kernel_shape=2 strides=2 ceil_mode=1 count_include_pad=1"),
		})
	for _, shape := range []string{"N 2 2 3", "2 3 4", "1 2 2 1 3"} {
		out = append(out,
			sample{op: "GlobalAveragePool", in: []operand{in(shape)}, single: true, grid: grid, rounds: true},
			sample{op: "GlobalMaxPool", in: []operand{in(shape).steps(36)}, single: true, grid: grid},
		)
	}
	return out
}
