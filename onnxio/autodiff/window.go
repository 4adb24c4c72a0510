package autodiff

import (
	"errors"
	"fmt"

	"cfq/onnxio/graph"
)

// window says how a kernel moves along one spatial axis of an image: element o of
// the result is made of the elements o·stride + k·dilation − begin of the image, for
// all k < kernel. Those that the image does not have are padding.
type window struct {
	image, result            int64 // sizes
	kernel, stride, dilation int64
	begin                    int64 // padding in front
	// end is the padding behind that the last window reads; it is negative where
	// that window leaves so many elements of the image unread. What the node
	// declares may be more (a remainder) or less (ceil_mode).
	end, declared int64
}

// reach is the size of the kernel with its gaps.
func (w window) reach() int64 { return (w.kernel-1)*w.dilation + 1 }

// real is the number of elements of the image, not of the padding, that make element o.
func (w window) real(o int64) int64 {
	at := o*w.stride - w.begin // what k = 0 reads
	below := func(bound int64) int64 {
		return min(max(0, (bound-at+w.dilation-1)/w.dilation), w.kernel)
	}
	return below(w.image) - below(0)
}

// largest bounds the sizes that attributes may have: products of two fit in 64 bits.
const largest = 1 << 30

// spatial is an attribute with one number for each spatial axis.
func (q *query) spatial(name string, n int, def, least int64) ([]int64, error) {
	v := q.node.Ints(name)
	if v == nil {
		v = make([]int64, n)
		for i := range v {
			v[i] = def
		}
	}
	if len(v) != n {
		return nil, fmt.Errorf("%s %v for %d spatial axes", name, v, n)
	}
	for _, x := range v {
		if x < least || x > largest {
			return nil, fmt.Errorf("%s %v", name, v)
		}
	}
	return v, nil
}

// windows reads the attributes of a node that moves a kernel with the given sizes
// over the image of input 0.
func (q *query) windows(kernel []int64) ([]window, error) {
	s := q.in[0].Shape
	n := len(s) - 2
	if n < 1 || n != len(kernel) {
		return nil, fmt.Errorf("a kernel of sizes %v over %v, which is not rows x channels x image", kernel, q.in[0])
	}
	stride, err1 := q.spatial("strides", n, 1, 1)
	dilation, err2 := q.spatial("dilations", n, 1, 1)
	pads, err3 := q.spatial("pads", 2*n, 0, 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	out := make([]window, n)
	for i, size := range sizes(s[2:]) {
		if size < 0 {
			return nil, fmt.Errorf("the size of axis %d of the image is %w", i+2, errVariable)
		}
		if size > largest || kernel[i] < 1 || kernel[i] > largest {
			return nil, fmt.Errorf("a kernel of size %d over an image of size %d", kernel[i], size)
		}
		w := window{image: size, kernel: kernel[i], stride: stride[i], dilation: dilation[i], begin: pads[i], declared: pads[n+i]}
		if err := q.fit(&w); err != nil {
			return nil, fmt.Errorf("spatial axis %d: %w", i, err)
		}
		out[i] = w
	}
	return out, nil
}

// fit finds the padding and the size of the result.
func (q *query) fit(w *window) error {
	auto := "NOTSET"
	if a := q.node.Attr("auto_pad"); a != nil && len(a.S) > 0 {
		auto = string(a.S)
	}
	switch auto {
	case "NOTSET":
	case "VALID":
		w.begin, w.declared = 0, 0
	case "SAME_UPPER", "SAME_LOWER":
		all := max(0, ((w.image+w.stride-1)/w.stride-1)*w.stride+w.reach()-w.image)
		w.begin, w.declared = all/2, all-all/2
		if auto == "SAME_LOWER" {
			w.begin, w.declared = w.declared, w.begin
		}
	default:
		return fmt.Errorf("auto_pad %s", auto)
	}
	room := w.image + w.begin + w.declared - w.reach()
	if room < 0 {
		return fmt.Errorf("a kernel that reaches over %d elements does not fit into %d of the image with its padding", w.reach(), w.image+w.begin+w.declared)
	}
	w.result = room/w.stride + 1
	// ceil_mode adds a last window for the rest, unless it would start in the padding.
	if q.node.Int("ceil_mode", 0) != 0 && room%w.stride != 0 && w.result*w.stride < w.image+w.begin {
		w.result++
	}
	w.end = (w.result-1)*w.stride + w.reach() - w.begin - w.image
	return nil
}

// results returns the sizes of the result.
func results(ws []window) graph.Shape {
	out := make(graph.Shape, len(ws))
	for i, w := range ws {
		out[i].Size = w.result
	}
	return out
}

// list collects one number for each spatial axis.
func list(ws []window, f func(w window) int64) []int64 {
	out := make([]int64, len(ws))
	for i, w := range ws {
		out[i] = f(w)
	}
	return out
}

// moving makes the attributes of a node, without those that say nothing. Padding
// cannot be negative: the caller sees to elements that are not read.
func moving(ws []window, stride, dilation func(w window) int64, group int64) []graph.Attr {
	var attrs []graph.Attr
	add := func(name string, def int64, v []int64) {
		for _, x := range v {
			if x != def {
				attrs = append(attrs, graph.IntsAttr(name, v...))
				return
			}
		}
	}
	add("dilations", 1, list(ws, dilation))
	if group != 1 {
		attrs = append(attrs, graph.IntAttr("group", group))
	}
	add("pads", 0, append(list(ws, func(w window) int64 { return w.begin }), list(ws, func(w window) int64 { return max(0, w.end) })...))
	add("strides", 1, list(ws, stride))
	return attrs
}

func stride(w window) int64   { return w.stride }
func dilation(w window) int64 { return w.dilation }
