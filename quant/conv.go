package quant

import (
	"errors"
	"fmt"
	"math"

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

// Groups returns the layer's groups, each as a layer of its own that reads its
// share of the channels; the layer itself when it is not split.
func (l LayerInfo) Groups() []LayerInfo {
	if l.Conv == nil || l.Conv.Group == 1 {
		return []LayerInfo{l}
	}
	out := make([]LayerInfo, l.Conv.Group)
	for g := range out {
		c := *l.Conv
		c.Group, c.Channels = 1, l.Conv.Channels/len(out)
		c.First = l.Conv.First + g*c.Channels
		part := l
		part.Conv, part.Out = &c, l.Out/len(out)
		part.W = l.W[g*part.Out*l.In : (g+1)*part.Out*l.In]
		part.B = l.B[g*part.Out : (g+1)*part.Out]
		out[g] = part
	}
	return out
}

// Within returns a with a scale, and if need be a zero point, whose codes all lie
// within what the Relu or Clip in front of the output quantizer lets through, so
// that the integer kernel takes it in.
func (c *Conv) Within(a Act) Act {
	least, most := c.bounds()
	if least >= 0 && a.Zero != 0 {
		hi := float32(a.QMax()-int(a.Zero)) * a.Scale
		a = FitAct(a.Bits, 0, hi)
	}
	for below, above := int(a.Zero), a.QMax()-int(a.Zero); ; a.Scale = math.Nextafter32(a.Scale, 0) {
		lo, hi := float32(-below)*a.Scale, float32(above)*a.Scale
		switch {
		case hi > most*1.00001:
			a.Scale = most / float32(above)
		case lo < least*1.00001:
			a.Scale = -least / float32(below)
		case !(hi > most || lo < least):
			return a
		}
	}
}

// checkResult reports what is wrong with the output quantizer of the plan l.
func (l *Layer) checkResult(info LayerInfo) error {
	switch {
	case info.Conv == nil && l.Result != nil:
		return errors.New("it is no convolution: it has no output quantizer")
	case info.Conv == nil || l.Act == nil && l.Result == nil:
		return nil
	case l.Result == nil:
		return errors.New("it is a convolution on integers: it needs an output quantizer (result)")
	case l.Act == nil:
		return errors.New("it has an output quantizer (result), but its input has none (act)")
	}
	if err := l.Result.Check(); err != nil {
		return fmt.Errorf("output quantizer: %w", err)
	}
	least, most := info.Conv.bounds()
	lo := -float32(l.Result.Zero) * l.Result.Scale
	hi := float32(l.Result.QMax()-int(l.Result.Zero)) * l.Result.Scale
	if lo < least || hi > most {
		return fmt.Errorf("its output quantizer covers %v to %v, but the Relu or Clip behind it lets only %v to %v through", lo, hi, least, most)
	}
	return nil
}

// conv reads n if it is a convolution with stored weights; nil otherwise.
func (f *finder) conv(n *graph.Node) (*LayerInfo, error) {
	w, b := f.stored[n.Input(1)], f.inits[n.Input(2)]
	if w == nil || !w.DType.IsFloat() || w.Len() == 0 || len(w.Dims) < 3 {
		return nil, nil
	}
	l := &LayerInfo{Node: n.Name, Weight: n.Input(1), Bias: n.Input(2), Input: n.Input(0), Output: n.Outputs[0], Positions: 1}
	if l.Node == "" {
		l.Node = l.Output
	}
	l.Out = int(w.Dims[0])
	l.In = w.Len() / l.Out
	l.Columns = l.In
	switch {
	case len(w.Dims) > 4:
		l.Fixed = fmt.Sprintf("it is a convolution of %d dimensions, not 1 or 2", len(w.Dims)-2)
	case w.DType != graph.Float:
		l.Fixed = fmt.Sprintf("its weights are %s, not float32", w.DType)
	case f.inits[n.Input(1)] == nil:
		l.Fixed = "its weights are converted by a Cast"
	case n.Input(2) != "" && b == nil:
		l.Fixed = fmt.Sprintf("its bias %q is computed", n.Input(2))
	case b != nil && (b.DType != graph.Float || len(b.Dims) != 1 || b.Dims[0] != w.Dims[0]):
		l.Fixed = fmt.Sprintf("its bias is %s of shape %v, not one float32 for each output", b.DType, b.Dims)
	default:
		sizes := f.shapes()
		var err error
		if l.Conv, err = convOf(n, w.Dims, sizes[n.Input(0)]); err != nil {
			l.Fixed = err.Error()
		}
	}
	if l.Fixed != "" {
		return l, nil
	}
	l.Positions = l.Conv.Positions()
	f.follow(l)
	return l, f.numbers(l, w, b)
}

// follow finds the Relu or Clip that alone reads the layer's output.
func (f *finder) follow(l *LayerInfo) {
	c := l.Conv
	c.Behind = l.Output
	readers := f.consumers[l.Output]
	if len(readers) != 1 || f.outputs[l.Output] || len(readers[0].Outputs) != 1 || readers[0].Input(0) != l.Output {
		return
	}
	n := readers[0]
	switch {
	case n.Is("Relu"):
		c.Behind, c.Hi = n.Outputs[0], float32(math.Inf(1))
	case n.Is("Clip"):
		lo, hi, ok := f.bounds(n)
		// A range without 0 has no zero point.
		if ok && lo <= 0 && hi > 0 {
			c.Behind, c.Lo, c.Hi = n.Outputs[0], lo, hi
		}
	}
}

// bounds returns the constant bounds of a Clip.
func (f *finder) bounds(n *graph.Node) (lo, hi float32, ok bool) {
	b := [2]float32{float32(math.Inf(-1)), float32(math.Inf(1))}
	for i := range b {
		name := n.Input(i + 1)
		if name == "" {
			continue
		}
		t := f.inits[name]
		if t == nil || t.DType != graph.Float || t.Len() != 1 {
			return 0, 0, false
		}
		v, err := t.Floats()
		if err != nil || v[0] != v[0] {
			return 0, 0, false
		}
		b[i] = v[0]
	}
	return b[0], b[1], true
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
	if len(c.Input) != d || c.Group < 1 || int64(c.Group)*weights[1] != int64(c.Channels) || weights[0]%int64(c.Group) != 0 {
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

// sources fills in Source: where the input of each layer is the output quantizer's
// value of a convolution, moved about at most.
func (f *finder) sources(layers []LayerInfo) {
	from := map[string]string{}
	for _, l := range layers {
		if l.Conv != nil && l.Fixed == "" {
			from[l.Conv.Behind] = l.Node
		}
	}
	if len(from) == 0 {
		return
	}
	for _, n := range f.g.Nodes {
		if s, ok := from[n.Input(0)]; ok && Moves(n) {
			from[n.Outputs[0]] = s
		}
	}
	for i := range layers {
		layers[i].Source = from[layers[i].Input]
	}
}

// Moves reports whether every number of n's output is one of its first input.
func Moves(n *graph.Node) bool {
	switch n.Op {
	case "MaxPool", "GlobalMaxPool", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity":
		return n.Standard() && len(n.Outputs) == 1
	}
	return false
}
