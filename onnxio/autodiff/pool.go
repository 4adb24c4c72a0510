package autodiff

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// pools lists the operators that take one number for a window of an image, or for
// all of it, channel by channel.
func pools() []Operator {
	return []Operator{
		{
			Name: "MaxPool", Since: 8, infer: maxPoolType, grads: []Rule{maxPool},
			Doc: "g to the element that Indices names: of those that equal y, " +
				"the first in memory",
		},
		{
			Name: "AveragePool", Since: 7, infer: averagePoolType, grads: []Rule{averagePool},
			Doc: "g/count, spread over the window by ConvTranspose; " +
				"an error where count_include_pad meets a window that ceil_mode adds, whose count is not the same everywhere",
		},
		{Name: "GlobalAveragePool", Since: 1, Doc: "g/count, repeated", infer: globalPoolType, grads: []Rule{mean}},
		{
			Name: "GlobalMaxPool", Since: 1, Doc: "g, shared equally by the elements that equal y", infer: globalPoolType,
			grads: []Rule{globalMax},
		},
	}
}

// maxPool takes the pool for what it is, a gathering of elements: a second MaxPool
// tells their places, which are constants when differentiated again.
func maxPool(c *Call, _ int) string {
	var index string
	if len(c.Node.Outputs) > 1 && c.Node.Int("storage_order", 0) == 0 {
		index = c.Node.Outputs[1]
	}
	if index == "" {
		attrs := slices.DeleteFunc(slices.Clone(c.Node.Attrs), func(a graph.Attr) bool { return a.Name == "storage_order" })
		index = c.b.ops("MaxPool", []string{c.x()}, 2, attrs...)[1]
	}
	flat := func(v string) string { return c.Op("Reshape", []string{v, c.b.vector(-1)}) }
	sum := c.scatter(flat(c.b.filled(c.x(), 0)), flat(index), flat(c.Grad()), 0)
	return c.reshapeLike(sum, c.x())
}

// averagePool adds each element of g/count up in its window. Every channel is an
// image of its own: one kernel of ones serves all.
func averagePool(c *Call, _ int) string {
	ws, err := c.query().poolWindows()
	if err != nil {
		return c.Fail("%w", err)
	}
	g := c.Grad()
	size := []int64{1, 1}
	all := int64(1)
	for _, w := range ws {
		if size, all = append(size, w.kernel), all*w.kernel; all > largestKernel {
			return c.Fail("a kernel of %v elements is too large", size[2:])
		}
	}
	ones := graph.FromNumbers("", c.Type(g).DType, slices.Repeat([]float64{1}, int(all)), size...)
	if ones == nil {
		return c.Fail("no gradient for elements of type %s", c.Type(g).DType)
	}
	if g, err = c.shares(g, ws, all); err != nil {
		return c.Fail("%w", err)
	}
	one := c.Op("Reshape", []string{g, c.b.vector(append([]int64{-1, 1}, sizes(results(ws))...)...)})
	return c.reshapeLike(c.spreadKernel(one, c.b.constant(ones), ws, 1), c.x())
}

// largestKernel bounds the constants that a rule makes.
const largestKernel = 1 << 20

// shares divides each element of g by the number of elements of its window: all of
// the kernel's, or, without count_include_pad, those that the image has.
func (c *Call) shares(g string, ws []window, all int64) (string, error) {
	even := true
	dims, counts := []int64{}, []float64{1}
	for i, w := range ws {
		if c.Node.Int("count_include_pad", 0) != 0 {
			if w.end > w.declared {
				return "", fmt.Errorf("spatial axis %d: ceil_mode adds a window that reaches past the padding, and "+
					"count_include_pad does not say by what to divide it", i)
			}
			continue
		}
		if w.result*int64(len(counts)) > largestKernel {
			return "", fmt.Errorf("an output of %v elements is too large", sizes(results(ws)))
		}
		next := make([]float64, 0, int64(len(counts))*w.result)
		for _, n := range counts {
			for o := range w.result {
				have := w.real(o)
				if have == 0 {
					return "", fmt.Errorf("spatial axis %d: window %d lies in the padding", i, o)
				}
				even = even && have == w.kernel
				next = append(next, n*float64(have))
			}
		}
		counts, dims = next, append(dims, w.result)
	}
	if even {
		return c.scale(g, 1/float64(all)), nil
	}
	return c.div(g, c.b.constant(graph.FromNumbers("", c.Type(g).DType, counts, dims...))), nil
}

// globalMax is the rule of ReduceMax over all axes of the image.
func globalMax(c *Call, _ int) string {
	return c.shared(c.Grad(), c.y(), spatialAxes(c.Type(c.x()).Shape))
}

func (q *query) poolWindows() ([]window, error) {
	k := q.node.Ints("kernel_shape")
	if k == nil {
		return nil, fmt.Errorf("kernel_shape is missing")
	}
	return q.windows(k)
}

func averagePoolType(q *query) ([]Type, error) {
	ws, err := q.poolWindows()
	if err != nil {
		return nil, err
	}
	x := q.in[0]
	return []Type{{x.DType, append(graph.Shape{x.Shape[0], x.Shape[1]}, results(ws)...)}}, nil
}

func maxPoolType(q *query) ([]Type, error) {
	out, err := averagePoolType(q)
	if err != nil {
		return nil, err
	}
	return append(out, Type{graph.Int64, out[0].Shape}), nil
}

func globalPoolType(q *query) ([]Type, error) {
	s := q.in[0].Shape
	if len(s) < 3 {
		return nil, fmt.Errorf("%v is not rows x channels x image", q.in[0])
	}
	out := graph.Shape{s[0], s[1]}
	for range s[2:] {
		out = append(out, one())
	}
	return []Type{{q.in[0].DType, out}}, nil
}
