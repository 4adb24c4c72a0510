package quant

import (
	"errors"
	"fmt"
	"math"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

// Conv describes the convolution of a layer, of one or two dimensions.
//
// Row o of the layer's weights belongs to the group o / (Out/Group). At each of Positions() places of the output it
// multiplies one patch: the numbers of the group's Channels/Group input channels under the kernel, channel by channel.
type Conv struct {
	Group    int
	Channels int // of the input that it reads; Channels/Group of them meet each output
	First    int // of those channels; 0 but for one group out of many
	// Sizes behind the channels, one or two of each.
	Input, Output, Kernel, Strides, Dilations []int
	Begin                                     []int // zeros before the input
}

// Positions is the number of places of the output at which each weight is used.
func (c *Conv) Positions() int { return product(c.Output) }

// Patch copies what the kernel of a group meets at one position into dst, of length Channels/Group x kernel, from x,
// one row of the layer's input (Channels x Input).
func (c *Conv) Patch(dst []float64, x []float32, group, position int) {
	// A single dimension is the second of two.
	h, kh, w, kw := 1, 1, c.Input[len(c.Input)-1], c.Kernel[len(c.Kernel)-1]
	last := len(c.Input) - 1
	top, down := 0, 1
	if last == 1 {
		h, kh, down = c.Input[0], c.Kernel[0], c.Dilations[0]
		top = position/c.Output[1]*c.Strides[0] - c.Begin[0]
	}
	left := position%c.Output[last]*c.Strides[last] - c.Begin[last]
	per := c.Channels / c.Group
	at := 0
	for ch := c.First + group*per; ch < c.First+(group+1)*per; ch++ {
		for i := range kh {
			row := top + i*down
			for j := range kw {
				col := left + j*c.Dilations[last]
				dst[at] = 0
				if row >= 0 && row < h && col >= 0 && col < w {
					dst[at] = float64(x[(ch*h+row)*w+col])
				}
				at++
			}
		}
	}
}

// Within returns a with a scale, and if need be a zero point, whose codes all lie within what the Relu or Clip in front
// of the output quantizer lets through, so that the integer kernel takes it in.
func (b *Behind) Within(a Act) Act {
	minimum, maximum := b.Bounds()
	if minimum >= 0 && a.Zero != 0 {
		a = FitAct(a.Bits, 0, float32(a.QMax()-int(a.Zero))*a.Scale)
	}
	for below, above := float32(a.Zero), float32(a.QMax()-int(a.Zero)); ; a.Scale = math.Nextafter32(a.Scale, 0) {
		lo, hi := -below*a.Scale, above*a.Scale
		switch {
		case hi > maximum*1.00001:
			a.Scale = maximum / above
		case lo < minimum*1.00001:
			a.Scale = -minimum / below
		case !(hi > maximum || lo < minimum):
			return a
		}
	}
}

// maxSize bounds each size of a convolution: a file may declare any.
const maxSize = 1 << 24

func convOf(n *graph.Node, weights []int64, in graph.Shape) (*Conv, error) {
	if in == nil {
		return nil, errors.New("the size of its input is not known")
	}
	axes, err := autodiff.ConvAxes(n, in, graph.Fixed(weights...))
	if err != nil {
		return nil, err
	}
	c := &Conv{Group: int(n.Int("group", 1)), Channels: int(in[1].Size)}
	for i, a := range axes {
		c.Input, c.Kernel = append(c.Input, int(in[2+i].Size)), append(c.Kernel, int(weights[2+i]))
		c.Strides, c.Dilations = append(c.Strides, a.Stride), append(c.Dilations, a.Dilation)
		c.Begin, c.Output = append(c.Begin, a.Begin), append(c.Output, a.Size)
	}
	if c.Positions() > maxSize {
		return nil, fmt.Errorf("its output has a size that is too large, %v", c.Output)
	}
	return c, nil
}

func product(v []int) int {
	p := 1
	for _, x := range v {
		if p *= x; p > maxSize {
			return maxSize + 1
		}
	}
	return p
}
