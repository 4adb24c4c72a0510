package autodiff

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// convolutions lists the operators that move a learned kernel over images of any
// number of spatial axes. They are linear in each input, and each one's rules are
// made of the other: the two are closed under differentiation.
func convolutions() []Operator {
	return []Operator{
		{Name: "Conv", Since: 1, infer: convType, grads: []Rule{
			func(c *Call, _ int) string {
				ws, err := c.query().convWindows()
				if err != nil {
					return c.Fail("%w", err)
				}
				return c.spreadKernel(c.Grad(), c.in(1), ws, c.Node.Int("group", 1))
			},
			func(c *Call, _ int) string {
				ws, err := c.query().convWindows()
				if err != nil {
					return c.Fail("%w", err)
				}
				return c.correlate(c.x(), c.Grad(), ws)
			},
			channelSums,
		}, Doc: "ConvTranspose(g, W); the kernel that g makes of x, as a Conv with rows and channels, and strides and dilations, exchanged; " +
			"Σ g of each channel; the image's size must be constant"},
		{Name: "ConvTranspose", Since: 11, infer: convTransposeType, grads: []Rule{
			func(c *Call, _ int) string {
				ws, err := c.query().transposeWindows()
				if err != nil {
					return c.Fail("%w", err)
				}
				return c.Op("Conv", []string{c.trimmed(c.Grad(), ws), c.in(1)}, moving(ws, stride, dilation, c.Node.Int("group", 1))...)
			},
			func(c *Call, _ int) string {
				ws, err := c.query().transposeWindows()
				if err != nil {
					return c.Fail("%w", err)
				}
				return c.correlate(c.Grad(), c.x(), ws)
			},
			channelSums,
		}, Doc: "Conv(g, W); the kernel that x makes of g; Σ g of each channel; without output_shape and auto_pad SAME"},
	}
}

// channelSums is the rule of biases.
func channelSums(c *Call, _ int) string {
	axes := []int64{0}
	for i := 2; i < len(c.Type(c.Grad()).Shape); i++ {
		axes = append(axes, int64(i))
	}
	return c.Op("ReduceSum", []string{c.Grad(), c.b.vector(axes...)}, graph.IntAttr("keepdims", 0))
}

// spreadKernel adds the kernel, times each element of small, up in the window that
// the element was made of. The image has the size that it had, also where no window
// read it: output_padding, which ConvTranspose takes to be less than a stride.
func (c *Call) spreadKernel(small, kernel string, ws []window, group int64) string {
	attrs := moving(ws, stride, dilation, group)
	if rest := list(ws, func(w window) int64 { return max(0, -w.end) }); slices.Max(rest) > 0 {
		attrs = append(attrs, graph.IntsAttr("output_padding", rest...))
	}
	return c.Op("ConvTranspose", []string{small, kernel}, attrs...)
}

// trimmed cuts off the end of the image that no window reads.
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

// correlate is the gradient by the kernel, input 1 of the node: element k of it sums
// small[o]·image[o·stride + k·dilation − begin] over rows and o. That is a
// convolution with small as the kernel, whose stride is the dilation and the other
// way round; rows play the part of channels. A group's rows of the image become the
// channels of a group.
func (c *Call) correlate(image, small string, ws []window) string {
	group := c.Node.Int("group", 1)
	image = c.trimmed(image, ws)
	if group == 1 {
		image = c.exchanged(image)
	} else {
		rest := sizes(c.Type(image).Shape[2:])
		image = c.Op("Reshape", []string{image, c.b.vector(append([]int64{0, group, -1}, rest...)...)})
		perm := []int64{2, 1, 0}
		for i := range rest {
			perm = append(perm, int64(i+3))
		}
		image = c.Op("Transpose", []string{image}, graph.IntsAttr("perm", perm...))
		image = c.Op("Reshape", []string{image, c.b.vector(append([]int64{0, -1}, rest...)...)})
	}
	k := c.Op("Conv", []string{image, c.exchanged(small)}, moving(ws, dilation, stride, group)...)
	return c.reshapeLike(c.exchanged(k), c.in(1))
}

// exchanged swaps the first two axes.
func (c *Call) exchanged(a string) string {
	perm := make([]int64, len(c.Type(a).Shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[0], perm[1] = 1, 0
	return c.Op("Transpose", []string{a}, graph.IntsAttr("perm", perm...))
}

// kernelSizes returns the group and the spatial sizes of the kernel, input 1.
func (q *query) kernelSizes() (group int64, k []int64, err error) {
	if err := q.need(2); err != nil {
		return 0, nil, err
	}
	x, w := q.in[0].Shape, q.in[1].Shape
	if len(x) < 3 || len(w) != len(x) {
		return 0, nil, fmt.Errorf("an image %v and a kernel %v", q.in[0], q.in[1])
	}
	k = sizes(w[2:])
	if slices.Min(k) < 0 {
		return 0, nil, fmt.Errorf("the size of the kernel %v is %w", q.in[1], errVariable)
	}
	if given := q.node.Ints("kernel_shape"); given != nil && !slices.Equal(given, k) {
		return 0, nil, fmt.Errorf("kernel_shape %v for the kernel %v", given, q.in[1])
	}
	if group = q.node.Int("group", 1); group < 1 || group > largest || (w[0].Size >= 0 && w[0].Size%group != 0) {
		return 0, nil, fmt.Errorf("%d groups with the kernel %v", group, q.in[1])
	}
	return group, k, nil
}

func (q *query) convWindows() ([]window, error) {
	_, k, err := q.kernelSizes()
	if err != nil {
		return nil, err
	}
	return q.windows(k)
}

func convType(q *query) ([]Type, error) {
	group, _, err := q.kernelSizes()
	if err != nil {
		return nil, err
	}
	ws, err := q.convWindows()
	if err != nil {
		return nil, err
	}
	x, w := q.in[0].Shape, q.in[1].Shape
	if x[1].Size >= 0 && w[1].Size >= 0 && x[1].Size != w[1].Size*group {
		return nil, fmt.Errorf("%d groups of the image %v with the kernel %v", group, q.in[0], q.in[1])
	}
	return []Type{{q.in[0].DType, append(graph.Shape{x[0], w[0]}, results(ws)...)}}, nil
}

// transposeWindows returns the windows of the Conv whose gradient by its image the
// node is: its image is the node's output.
func (q *query) transposeWindows() ([]window, error) {
	_, k, err := q.kernelSizes()
	if err != nil {
		return nil, err
	}
	if a := q.node.Attr("auto_pad"); q.node.Attr("output_shape") != nil || a != nil && string(a.S) != "NOTSET" && string(a.S) != "VALID" {
		return nil, fmt.Errorf("output_shape or auto_pad: write pads and output_padding in their place")
	}
	n := len(k)
	more, err := q.spatial("output_padding", n, 0, 0)
	if err != nil {
		return nil, err
	}
	ws, err := q.windows(slices.Repeat([]int64{1}, n)) // checks the attributes; a kernel of one element always fits
	if err != nil {
		return nil, err
	}
	for i := range ws {
		w := &ws[i]
		w.result, w.kernel = w.image, k[i]
		w.end = w.declared - more[i]
		if w.image = (w.result-1)*w.stride + w.reach() - w.begin - w.end; w.image < 1 {
			return nil, fmt.Errorf("spatial axis %d: nothing is left between the padding", i)
		}
	}
	return ws, nil
}

func convTransposeType(q *query) ([]Type, error) {
	group, _, err := q.kernelSizes()
	if err != nil {
		return nil, err
	}
	ws, err := q.transposeWindows()
	if err != nil {
		return nil, err
	}
	x, w := q.in[0].Shape, q.in[1].Shape
	if x[1].Size >= 0 && w[0].Size >= 0 && x[1].Size != w[0].Size {
		return nil, fmt.Errorf("an image %v and a kernel %v", q.in[0], q.in[1])
	}
	out := graph.Shape{x[0], product(graph.Shape{w[1], {Size: group}})}
	for _, w := range ws {
		out = append(out, graph.Dim{Size: w.image})
	}
	return []Type{{q.in[0].DType, out}}, nil
}
