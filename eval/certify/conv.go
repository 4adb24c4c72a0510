package certify

import (
	"context"
	"fmt"
	"math"

	"cfq/onnxio/graph"
)

// compileAverage compiles GlobalAveragePool.
func (k *compiler) compileAverage(_ context.Context, n *graph.Node, _ []int) error {
	x, out := k.values[n.Input(0)], k.values[n.Outputs[0]]
	each := x.Len() / max(out.Len(), 1)
	d := &linear{numbers: make([]number, out.Len())}
	for i := range x.Len() {
		to := &d.numbers[i/each]
		to.terms = append(to.terms, term{k.slot[n.Input(0)], i, 1 / float64(each)})
	}
	d.out = k.name(n.Outputs[0])
	k.step(d)
	return nil
}

// compileConv compiles Conv with constant weights, of any number of spatial axes.
func (k *compiler) compileConv(_ context.Context, n *graph.Node, _ []int) error {
	x, w, out := k.values[n.Input(0)], k.values[n.Input(1)], k.values[n.Outputs[0]]
	if _, varies := k.slot[n.Input(1)]; varies || len(x.Dims) < 3 || len(w.Dims) != len(x.Dims) {
		return fmt.Errorf("its weights have the dimensions %v, its image %v", w.Dims, x.Dims)
	}
	q, err := k.integerCodes(n)
	if err == nil && q == nil {
		err = k.refuseRounding(n)
	}
	if err != nil {
		return err
	}
	var v []float64
	if q != nil {
		v = q.weights
	} else if v, _, err = k.constant(n.Input(1)); err != nil {
		return err
	}
	channels := &dense{rows: int(w.Dims[0]), exact: q != nil}
	if channels.b, err = k.bias(n, channels, q, 1); err != nil {
		return err
	}
	g := newWindows(n, x.Dims, w.Dims, out.Dims)
	d := &linear{biasError: 1.01 * channels.biasError}
	each := out.Len() / channels.rows // positions
	for o := range channels.rows {
		for at := range each {
			b := channels.b[o]
			c := number{b: b, size: math.Abs(b)}
			g.visit(o, at, func(pixel, weight int) {
				if a := v[weight]; a != 0 {
					c.terms = append(c.terms, term{k.slot[n.Input(0)], pixel, a})
				}
			})
			d.numbers = append(d.numbers, c)
		}
	}
	d.out = k.name(n.Outputs[0])
	k.step(d)
	return nil
}

// windows are the places of an image that a convolution reads.
type windows struct {
	image, kernel, out          []int // sizes of the spatial axes
	strides, dilations, pads    []int
	in, each, group, kernelSize int // channels read by one output; output channels of a group; positions of the kernel
}

func newWindows(n *graph.Node, x, w, out []int64) *windows {
	axes := len(x) - 2
	ints := func(name string, fallback, size int) []int {
		v := make([]int, size)
		for i := range v {
			v[i] = fallback
		}
		if a := n.Attr(name); a != nil {
			for i, s := range a.Ints[:min(size, len(a.Ints))] {
				v[i] = int(s)
			}
		}
		return v
	}
	sizes := func(dims []int64) (v []int) {
		for _, s := range dims[2:] {
			v = append(v, int(s))
		}
		return v
	}
	g := &windows{
		image: sizes(x), kernel: sizes(w), out: sizes(out), strides: ints("strides", 1, axes),
		dilations: ints("dilations", 1, axes), pads: ints("pads", 0, 2*axes), in: int(w[1]), kernelSize: 1,
	}
	g.group = int(n.Int("group", 1))
	g.each = int(w[0]) / g.group
	for i, s := range g.kernel {
		g.kernelSize *= s
		if a := n.Attr("auto_pad"); a != nil && (string(a.S) == "SAME_UPPER" || string(a.S) == "SAME_LOWER") {
			all := max(0, (g.out[i]-1)*g.strides[i]+(s-1)*g.dilations[i]+1-g.image[i])
			if g.pads[i] = all / 2; string(a.S) == "SAME_LOWER" {
				g.pads[i] = all - all/2
			}
		}
	}
	return g
}

// visit calls f with the number of the image and of the weights for each product that is added up for a position of an
// output channel.
func (g *windows) visit(channel, position int, f func(pixel, weight int)) {
	axes := len(g.image)
	start := make([]int, axes)
	for i := axes - 1; i >= 0; i-- {
		start[i] = position%g.out[i]*g.strides[i] - g.pads[i]
		position /= g.out[i]
	}
	first := channel / g.each * g.in // of the group's input channels
	for c := range g.in {
		for at := range g.kernelSize {
			rest, pixel, step, inside := at, 0, 1, true
			for i := axes - 1; i >= 0; i-- {
				p := start[i] + rest%g.kernel[i]*g.dilations[i]
				rest /= g.kernel[i]
				inside = inside && p >= 0 && p < g.image[i]
				pixel += p * step
				step *= g.image[i]
			}
			if inside {
				f((first+c)*step+pixel, (channel*g.in+c)*g.kernelSize+at)
			}
		}
	}
}
