package autodiff

import (
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

func convolutions() []Operator {
	return []Operator{
		{Name: "Conv", need: 2, infer: convType, grads: []Rule{
			func(c *Call, _ int) string { return c.spreadKernel(c.Grad(), c.in(1), c.convWindows()) },
			func(c *Call, _ int) string { return c.correlate(c.x(), c.Grad(), c.convWindows()) },
			channelSums,
		}},
		{Name: "ConvTranspose", need: 2, infer: func(c *Call) []graph.Type {
			group, _ := c.kernelSizes()
			ws := c.transposeWindows()
			x, w := c.types[0].Shape, c.types[1].Shape
			out := graph.Shape{x[0], graph.Shape{w[1], {Size: group}}.Elements()}
			out = append(out, graph.Fixed(lists.Map(ws, func(w window) int64 { return w.image })...)...)
			return single(c.types[0].DType, out)
		}, grads: []Rule{
			func(c *Call, _ int) string {
				ws := c.transposeWindows()
				return c.Op("Conv", []string{c.trimmed(c.Grad(), ws), c.in(1)}, c.moving(ws, stride, dilation)...)
			},
			func(c *Call, _ int) string { return c.correlate(c.Grad(), c.x(), c.transposeWindows()) },
			channelSums,
		}},
	}
}

func channelSums(c *Call, _ int) string {
	axes := append([]int64{0}, axesFrom(2, c.Type(c.Grad()))...)
	return c.reduce("ReduceSum", c.Grad(), 0, axes...)
}

// spreadKernel adds the kernel, times each element of small, up in the window that the element was made of. The image
// has the size that it had, also where no window read it: output_padding, which ConvTranspose takes to be less than a
// stride. Where nothing strides it is a Conv with the kernel turned round, which takes a fraction of the time: a stored
// one is turned once, at load.
func (c *Call) spreadKernel(small, kernel string, ws []window) string {
	strides := func(w window) bool { return w.stride > 1 || w.begin >= w.reach() || w.end >= w.reach() }
	if c.b.inits[kernel] != nil && !slices.ContainsFunc(ws, strides) {
		turned := lists.Map(ws, func(w window) window {
			w.begin, w.end = w.reach()-1-w.begin, w.reach()-1-w.end
			return w
		})
		return c.Op("Conv", []string{small, c.turned(kernel)}, c.moving(turned, stride, dilation)...)
	}
	attrs := c.moving(ws, stride, dilation)
	if rest := lists.Map(ws, func(w window) int64 { return max(0, -w.end) }); slices.Max(rest) > 0 {
		attrs = append(attrs, graph.IntsAttr("output_padding", rest...))
	}
	return c.Op("ConvTranspose", []string{small, kernel}, attrs...)
}

// turned is the kernel with the channels of each group exchanged, and each image turned by half.
func (c *Call) turned(kernel string) string {
	w, group := sizes(c.Type(kernel).Shape), c.Node.Int("group", 1)
	parted := append([]int64{group, w[0] / group, w[1]}, w[2:]...)
	k := c.swapped(c.op("Reshape", kernel, c.b.vector(parted...)), 1, 2)
	k = c.op("Reshape", k, c.b.vector(append([]int64{group * w[1], w[0] / group}, w[2:]...)...))
	n := len(w) - 2
	last, past := slices.Repeat([]int64{-1}, n), slices.Repeat([]int64{math.MinInt32}, n)
	return c.op("Slice", k, c.b.vector(last...), c.b.vector(past...), c.b.vector(axesFrom(2, c.Type(k))...),
		c.b.vector(last...))
}

func (c *Call) trimmed(image string, ws []window) string {
	var axes, starts, ends []int64
	for i, w := range ws {
		if w.end < 0 {
			axes, starts, ends = append(axes, int64(i+2)), append(starts, 0), append(ends, w.image+w.end)
		}
	}
	if axes == nil {
		return image
	}
	return c.slice(image, starts, ends, axes)
}

// correlate is the gradient by the kernel, input 1 of the node: element k of it sums small[o]·image[o·stride +
// k·dilation − begin] over rows and o. That is a convolution with small as the kernel, whose stride is the dilation and
// the other way round; rows play the part of channels. A group's rows of the image become the channels of a group.
func (c *Call) correlate(image, small string, ws []window) string {
	group := c.Node.Int("group", 1)
	image = c.trimmed(image, ws)
	if group == 1 {
		image = c.swapped(image, 0, 1)
	} else {
		rest := sizes(c.Type(image).Shape[2:])
		image = c.Op("Reshape", []string{image, c.b.vector(append([]int64{0, group, -1}, rest...)...)})
		image = c.swapped(image, 0, 2)
		image = c.Op("Reshape", []string{image, c.b.vector(append([]int64{0, -1}, rest...)...)})
	}
	k := c.Op("Conv", []string{image, c.swapped(small, 0, 1)}, c.moving(ws, dilation, stride)...)
	return c.reshapeLike(c.swapped(k, 0, 1), c.in(1))
}

func (c *Call) kernelSizes() (group int64, k []int64) {
	x, w := c.types[0].Shape, c.types[1].Shape
	c.failIf(len(x) < 3 || len(w) != len(x), "an image %v and a kernel %v", c.types[0], c.types[1])
	k = sizes(w[2:])
	c.failIf(slices.Min(k) < 0, "the size of the kernel %v is %w", c.types[1], errVariable)
	if group = c.Node.Int("group", 1); group < 1 || group > largest || (w[0].Size >= 0 && w[0].Size%group != 0) {
		c.Fail("%d groups with the kernel %v", group, c.types[1])
	}
	return group, k
}

func (c *Call) convWindows() []window {
	_, k := c.kernelSizes()
	return c.windows(k)
}

func convType(c *Call) []graph.Type {
	group, k := c.kernelSizes()
	ws, x, w := c.windows(k), c.types[0].Shape, c.types[1].Shape
	c.failIf(x[1].Size >= 0 && w[1].Size >= 0 && x[1].Size != w[1].Size*group,
		"%d groups of the image %v with the kernel %v", group, c.types[0], c.types[1])
	return single(c.types[0].DType, append(graph.Shape{x[0], w[0]}, results(ws)...))
}

// transposeWindows returns the windows of the Conv whose gradient by its image the
// node is: its image is the node's output.
func (c *Call) transposeWindows() []window {
	_, k := c.kernelSizes()
	auto := c.Node.Text("auto_pad", "NOTSET")
	c.failIf(c.Node.Attr("output_shape") != nil || auto != "NOTSET" && auto != "VALID",
		"output_shape or auto_pad: write pads and output_padding in their place")
	n := len(k)
	more := c.spatial("output_padding", n, 0, 0)
	ws := c.windows(slices.Repeat([]int64{1}, n)) // checks the attributes; a kernel of one element always fits
	for i := range ws {
		w := &ws[i]
		w.result, w.kernel = w.image, k[i]
		w.end = w.declared - more[i]
		if w.image = (w.result-1)*w.stride + w.reach() - w.begin - w.end; w.image < 1 {
			c.Fail("spatial axis %d: nothing is left between the padding", i)
		}
	}
	return ws
}

// window says how a kernel moves along one spatial axis of an image: element o of the result is made of the elements
// o·stride + k·dilation − begin of the image, for all k < kernel. Those that the image does not have are padding.
type window struct {
	image, result            int64 // sizes
	kernel, stride, dilation int64
	begin                    int64 // padding in front
	// end is the padding behind that the last window reads; it is negative where that window leaves so many elements of
	// the image unread. What the node declares may be more (a remainder) or less (ceil_mode).
	end, declared int64
}

// Axis says how a Conv moves along one spatial axis of its image: element o of the Size elements of the result
// reads the elements o·Stride + k·Dilation − Begin of the Input for all k of the Kernel.
type Axis struct{ Input, Kernel, Stride, Dilation, Begin, Size int }

// ConvAxes returns the spatial axes of the Conv n for an image and a kernel of known shapes.
func ConvAxes(n *graph.Node, image, kernel graph.Shape) (axes []Axis, err error) {
	err = attempt(func() {
		c := &Call{Node: n, types: append(single(graph.Float, image), single(graph.Float, kernel)...)}
		convType(c) // checks more than convWindows
		for _, w := range c.convWindows() {
			axes = append(axes, Axis{
				int(w.image), int(w.kernel), int(w.stride), int(w.dilation), int(w.begin), int(w.result),
			})
		}
	})
	return axes, err
}

func (w window) reach() int64 { return (w.kernel-1)*w.dilation + 1 }

// largest bounds the sizes that attributes may have: products of two fit in 64 bits.
const largest = 1 << 30

func (c *Call) spatial(name string, n int, def, least int64) []int64 {
	v := c.Node.Ints(name)
	if v == nil {
		v = slices.Repeat([]int64{def}, n)
	}
	c.failIf(len(v) != n, "%s %v for %d spatial axes", name, v, n)
	for _, x := range v {
		c.failIf(x < least || x > largest, "%s %v", name, v)
	}
	return v
}

func (c *Call) windows(kernel []int64) []window {
	s := c.types[0].Shape
	n := len(s) - 2
	c.failIf(n < 1 || n != len(kernel),
		"a kernel of sizes %v over %v, which is not rows x channels x image", kernel, c.types[0])
	stride, dilation := c.spatial("strides", n, 1, 1), c.spatial("dilations", n, 1, 1)
	pads := c.spatial("pads", 2*n, 0, 0)
	out := make([]window, n)
	for i, size := range sizes(s[2:]) {
		c.failIf(size < 0, "the size of axis %d of the image is %w", i+2, errVariable)
		c.failIf(size > largest || kernel[i] < 1 || kernel[i] > largest,
			"a kernel of size %d over an image of size %d", kernel[i], size)
		w := window{
			image: size, kernel: kernel[i], stride: stride[i], dilation: dilation[i], begin: pads[i],
			declared: pads[n+i],
		}
		if err := c.fit(&w); err != nil {
			c.Fail("spatial axis %d: %w", i, err)
		}
		out[i] = w
	}
	return out
}

func (c *Call) fit(w *window) error {
	auto := c.Node.Text("auto_pad", "")
	switch auto {
	case "", "NOTSET":
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
		return fmt.Errorf("a kernel that reaches over %d elements does not fit into %d of the image with its padding",
			w.reach(), w.image+w.begin+w.declared)
	}
	w.result = room/w.stride + 1
	// ceil_mode adds a last window for the rest, unless it would start in the padding.
	if c.Node.Int("ceil_mode", 0) != 0 && room%w.stride != 0 && w.result*w.stride < w.image+w.begin {
		w.result++
	}
	w.end = (w.result-1)*w.stride + w.reach() - w.begin - w.image
	return nil
}

func results(ws []window) graph.Shape {
	return graph.Fixed(lists.Map(ws, func(w window) int64 { return w.result })...)
}

// moving makes the attributes of a node. Padding cannot be negative: the caller sees to elements that are not read.
func (c *Call) moving(ws []window, stride, dilation func(w window) int64) []graph.Attr {
	pads := append(lists.Map(ws, func(w window) int64 { return w.begin }),
		lists.Map(ws, func(w window) int64 { return max(0, w.end) })...)
	return []graph.Attr{
		graph.IntsAttr("dilations", lists.Map(ws, dilation)...), graph.IntAttr("group", c.Node.Int("group", 1)),
		graph.IntsAttr("pads", pads...), graph.IntsAttr("strides", lists.Map(ws, stride)...),
	}
}

func stride(w window) int64   { return w.stride }
func dilation(w window) int64 { return w.dilation }

func pools() []Operator {
	return []Operator{
		// The pool is a gathering of elements: a second MaxPool tells their places, which are constants when differentiated
		// again.
		unary("MaxPool", func(c *Call) string {
			attrs := slices.DeleteFunc(slices.Clone(c.Node.Attrs), func(a graph.Attr) bool { return a.Name == "storage_order" })
			index := c.b.ops("MaxPool", []string{c.x()}, 2, attrs...)[1]
			flat := func(v string) string { return c.op("Reshape", v, c.b.vector(-1)) }
			sum := c.scatter(flat(c.b.filled(c.x(), 0)), flat(index), flat(c.Grad()), 0)
			return c.reshapeLike(sum, c.x())
		}).of(func(c *Call) []graph.Type {
			out := averagePoolType(c)
			return append(out, single(graph.Int64, out[0].Shape)...)
		}),
		// Each element of g/count is added up in its window. Every channel is an image of its own: one kernel of ones serves
		// all.
		unary("AveragePool", func(c *Call) string {
			ws := c.poolWindows()
			g := c.Grad()
			kernel, image := []int64{1, 1}, []int64{1, 1}
			for i, w := range ws {
				if c.Node.Int("count_include_pad", 0) != 0 && w.end > w.declared {
					return c.Fail("spatial axis %d: ceil_mode adds a window that reaches past the padding, and "+
						"count_include_pad does not say by what to divide it", i)
				}
				kernel, image = append(kernel, w.kernel), append(image, w.image)
			}
			ones := c.ones(g, kernel)
			if c.Node.Int("count_include_pad", 0) != 0 || !slices.ContainsFunc(ws, window.padded) {
				g = c.scale(g, 1/float64(graph.Fixed(kernel...).Elements().Size))
			} else { // the elements of each window that the image has
				g = c.div(g, c.Op("Conv", []string{c.ones(g, image), ones}, c.moving(ws, stride, dilation)...))
			}
			one := c.Op("Reshape", []string{g, c.b.vector(append([]int64{-1, 1}, sizes(results(ws))...)...)})
			return c.reshapeLike(c.spreadKernel(one, ones, ws), c.x())
		}).of(averagePoolType),
		unary("GlobalAveragePool", mean).of(globalPoolType),
		unary("GlobalMaxPool", func(c *Call) string {
			return c.shared(c.Grad(), c.y(), axesFrom(2, c.Type(c.x())))
		}).of(globalPoolType),
	}
}

func (w window) padded() bool { return w.begin > 0 || w.end > 0 }

const largestConstant = 1 << 20

func (c *Call) ones(like string, dims []int64) string {
	n := graph.Fixed(dims...).Elements().Size
	c.failIf(n > largestConstant, "a window or an image of %v elements is too large", dims[2:])
	return c.b.numbers(like, slices.Repeat([]float64{1}, int(n)), dims...)
}

func (c *Call) poolWindows() []window {
	k := c.Node.Ints("kernel_shape")
	c.failIf(k == nil, "kernel_shape is missing")
	return c.windows(k)
}

func averagePoolType(c *Call) []graph.Type {
	ws := c.poolWindows()
	x := c.types[0]
	return single(x.DType, append(graph.Shape{x.Shape[0], x.Shape[1]}, results(ws)...))
}

func globalPoolType(c *Call) []graph.Type {
	s := c.types[0].Shape
	c.failIf(len(s) < 3, "%v is not rows x channels x image", c.types[0])
	return single(c.types[0].DType, append(graph.Shape{s[0], s[1]}, slices.Repeat(graph.Shape{one()}, len(s)-2)...))
}
