package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// Conv describes the convolution of a layer, of one or two dimensions.
//
// Row o of the layer's weights belongs to the group o / (Out/Group). At each of
// Positions() places of the output it multiplies one patch: the numbers of the
// group's Channels/Group input channels under the kernel, channel by channel.
type Conv struct {
	Group    int
	Channels int // of the input that it reads; Channels/Group of them meet each output
	First    int // of those channels; 0 but for one group out of many
	// Sizes behind the channels, one or two of each.
	Input, Output, Kernel, Strides, Dilations []int
	Begin, End                                []int // zeros before and behind the input
	// Behind is the value that the output quantizer stands at: that of the Relu or
	// Clip that follows, or else the layer's own output.
	Behind string
	// Lo and Hi bound Behind: 0 and +Inf behind a Relu. Two zeros bound nothing.
	Lo, Hi float32
}

// bounds returns Lo and Hi, infinite where nothing is bounded.
func (c *Conv) bounds() (lo, hi float32) {
	if c.Lo == 0 && c.Hi == 0 {
		return float32(math.Inf(-1)), float32(math.Inf(1))
	}
	return c.Lo, c.Hi
}

// Positions is the number of places of the output at which each weight is used.
func (c *Conv) Positions() int { return product(c.Output) }

// Patch copies what the kernel of a group meets at one position into dst, of
// length Channels/Group x kernel, from x, one row of the layer's input
// (Channels x Input).
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

// Within returns a with a scale, and if need be a zero point, whose codes all lie
// within what the Relu or Clip in front of the output quantizer lets through, so
// that the integer kernel takes it in.
func (c *Conv) Within(a Act) Act {
	minimum, maximum := c.bounds()
	if minimum >= 0 && a.Zero != 0 {
		hi := float32(a.QMax()-int(a.Zero)) * a.Scale
		a = FitAct(a.Bits, 0, hi)
	}
	for below, above := int(a.Zero), a.QMax()-int(a.Zero); ; a.Scale = math.Nextafter32(a.Scale, 0) {
		lo, hi := float32(-below)*a.Scale, float32(above)*a.Scale
		switch {
		case hi > maximum*1.00001:
			a.Scale = maximum / float32(above)
		case lo < minimum*1.00001:
			a.Scale = -minimum / float32(below)
		case !(hi > maximum || lo < minimum):
			return a
		}
	}
}

// maxSize bounds each size of a convolution: a file may declare any.
const maxSize = 1 << 24

// convOf reads the attributes of a Conv with weights of the given dimensions on an
// input of the given sizes behind the batch.
func convOf(n *graph.Node, weights []int64, in []int) (*Conv, error) {
	d := len(weights) - 2
	if in == nil {
		return nil, errors.New("the size of its input is not known")
	}
	c := &Conv{Group: int(n.Int("group", 1)), Channels: in[0], Input: in[1:]}
	if len(c.Input) != d || c.Group < 1 || int64(c.Group)*weights[1] != int64(c.Channels) ||
		weights[0]%int64(c.Group) != 0 {
		return nil, fmt.Errorf("its weights %v do not fit its input %v in %d groups", weights, in, c.Group)
	}
	for _, k := range weights[2:] {
		c.Kernel = append(c.Kernel, int(k))
	}
	w, err := windowOf(n, c.Kernel, c.Input)
	if err != nil {
		return nil, err
	}
	c.Strides, c.Dilations, c.Begin, c.End, c.Output = w.strides, w.dilations, w.begin, w.end, w.output
	return c, nil
}

// window is how a kernel moves over an input.
type window struct{ strides, dilations, begin, end, output []int }

// windowOf reads strides, dilations and pads of a Conv or pooling operator.
func windowOf(n *graph.Node, kernel, in []int) (*window, error) {
	d := len(kernel)
	w := &window{}
	var err error
	read := func(name string, count, def, minimum int) []int {
		out := slices.Repeat([]int{def}, count)
		v := n.Ints(name)
		if v == nil {
			return out
		}
		if len(v) != count {
			err = fmt.Errorf("its %s are %v", name, v)
			return out
		}
		for i, x := range v {
			if x < int64(minimum) || x > maxSize {
				err = fmt.Errorf("its %s are %v", name, v)
				return out
			}
			out[i] = int(x)
		}
		return out
	}
	w.strides, w.dilations = read("strides", d, 1, 1), read("dilations", d, 1, 1)
	pads := read("pads", 2*d, 0, 0)
	if err != nil {
		return nil, err
	}
	auto := "NOTSET"
	if a := n.Attr("auto_pad"); a != nil {
		auto = string(a.S)
	}
	for i, k := range kernel {
		reach := (k-1)*w.dilations[i] + 1
		begin, end := pads[i], pads[d+i]
		switch auto {
		case "NOTSET", "":
		case "VALID":
			begin, end = 0, 0
		case "SAME_UPPER", "SAME_LOWER":
			out := (in[i] + w.strides[i] - 1) / w.strides[i]
			total := max((out-1)*w.strides[i]+reach-in[i], 0)
			if begin, end = total/2, total-total/2; auto == "SAME_LOWER" {
				begin, end = end, begin
			}
		default:
			return nil, fmt.Errorf("its auto_pad is %q", auto)
		}
		room := in[i] + begin + end - reach
		if room < 0 {
			return nil, errors.New("its kernel is larger than its input")
		}
		size := room/w.strides[i] + 1
		w.begin, w.end, w.output = append(w.begin, begin), append(w.end, end), append(w.output, size)
	}
	if product(w.output) > maxSize {
		return nil, fmt.Errorf("its output has a size that is too large, %v", w.output)
	}
	return w, nil
}

// product multiplies sizes; it stops growing beyond maxSize.
func product(v []int) int {
	p := 1
	for _, x := range v {
		if p *= x; p > maxSize {
			return maxSize + 1
		}
	}
	return p
}
