package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Encoded is a layer's weight side as it stands in the file.
type Encoded struct {
	In, Out  int
	Columns  int       // of the integer kernel; see LayerInfo
	Formats  []Format  // Out; the format of each output's weights
	Codes    []int8    // Out x In
	Scales   []float32 // 1 or Out
	Bias     []int32   // Out, in units of InScale*Scales; nil for layers with float arithmetic
	InScale  float32   // scale of the input activation; 0 for layers with float arithmetic
	Widened  []int     // outputs whose scale had to grow for the bias to fit 31 bits
	FloatB   []float32 // Out; the bias before quantization
	AllZeroB bool      // the bias is zero and need not be stored
}

// biasLimit leaves the sum of products, which joins the bias in 32 bits, as much
// room as the bias itself.
const biasLimit = 1 << 30

// Encode quantizes the layer info as l says. info is that of Input.Fold when
// Plan.Input feeds the layer. inScale is the scale of the quantized input, 0 when
// the layer's arithmetic stays in float. Errors name the layer's node.
//
// The bias is int32 with the scale inScale*scale (the float32 product). Where it
// would not fit, the output's scale grows until it does, at the price of coarser weights.
func (l *Layer) Encode(info LayerInfo, inScale float32) (*Encoded, error) {
	formats, err := l.check(info)
	if err != nil {
		return nil, fmt.Errorf("layer %q: %w", l.Node, err)
	}
	e := &Encoded{
		Formats: formats, In: info.In, Out: info.Out, Columns: max(info.In, info.Columns), InScale: inScale,
		Scales: slices.Clone(l.Scales), FloatB: info.B,
	}
	if l.Bias != nil {
		e.FloatB = l.Bias
	}
	if inScale > 0 {
		if err := e.quantizeBias(); err != nil {
			return nil, fmt.Errorf("layer %q: %w", l.Node, err)
		}
	}
	e.AllZeroB = true
	for _, b := range e.FloatB {
		e.AllZeroB = e.AllZeroB && b == 0
	}
	e.Codes = make([]int8, len(info.W))
	for o := range e.Out {
		s, f := e.Scale(o), formats[o]
		for i := o * e.In; i < (o+1)*e.In; i++ {
			switch {
			case l.Codes == nil:
				e.Codes[i] = f.Quantize(info.W[i], s)
			case s == l.scale(o):
				e.Codes[i] = l.Codes[i]
			default:
				e.Codes[i] = f.Quantize(Dequantize(l.Codes[i], l.scale(o)), s)
			}
		}
	}
	return e, nil
}

// Scale returns the weight scale of output o.
func (e *Encoded) Scale(o int) float32 {
	if len(e.Scales) == 1 {
		return e.Scales[0]
	}
	return e.Scales[o]
}

func (e *Encoded) quantizeBias() error {
	for _, f := range e.Formats {
		if int64(e.Columns)*255*int64(-f.QMin) >= biasLimit {
			return fmt.Errorf("%d inputs overflow 32-bit sums", e.Columns)
		}
	}
	for o, b := range e.FloatB {
		need := math.Abs(float64(b)) / biasLimit / float64(e.InScale)
		if need < float64(e.Scale(o)) && goodScale(e.InScale*e.Scale(o)) {
			continue
		}
		s := float32(math.Max(need*1.001, 0x1p-120/float64(e.InScale)))
		if !goodScale(s) || !goodScale(s*e.InScale) {
			return fmt.Errorf("bias %v of output %d cannot be written in units of the input scale %v", b, o, e.InScale)
		}
		e.Scales[o%len(e.Scales)] = max(s, e.Scale(o))
		e.Widened = append(e.Widened, o)
	}
	e.Bias = make([]int32, e.Out)
	for o, b := range e.FloatB {
		unit := float64(e.InScale * e.Scale(o))
		e.Bias[o] = int32(math.RoundToEven(float64(b) / unit))
	}
	return nil
}

// scale returns the planned weight scale of output o.
func (l *Layer) scale(o int) float32 {
	if len(l.Scales) == 1 {
		return l.Scales[0]
	}
	return l.Scales[o]
}

// formats returns the format of each output's weights.
func (l *Layer) formats(out int) ([]Format, error) {
	widths := l.RowBits
	switch {
	case widths == nil:
		widths = []int{l.Bits}
	case l.Bits != 0:
		return nil, fmt.Errorf("it has both %d bits and bits by row", l.Bits)
	case len(widths) != out:
		return nil, fmt.Errorf("%d widths of rows for %d outputs", len(widths), out)
	case len(l.Scales) != out:
		return nil, fmt.Errorf("%d scales for %d outputs: rows of different widths need one each", len(l.Scales), out)
	}
	formats := make([]Format, out)
	for o := range formats {
		var err error
		if formats[o], err = FormatOf(widths[o%len(widths)], l.Reduced); err != nil {
			if l.RowBits != nil {
				err = fmt.Errorf("row %d: %w", o, err)
			}
			return nil, err
		}
	}
	return formats, nil
}

func (l *Layer) check(info LayerInfo) ([]Format, error) {
	formats, err := l.formats(info.Out)
	errs := []error{err}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if info.Fixed != "" {
		bad("it must stay in float: %s", info.Fixed)
	}
	if len(l.Scales) != 1 && len(l.Scales) != info.Out {
		bad("%d scales for %d outputs: give one, or one for each", len(l.Scales), info.Out)
	}
	for o, s := range l.Scales {
		if !goodScale(s) {
			bad("scale %d is %v, not a positive number", o, s)
		}
	}
	if l.Codes != nil && len(l.Codes) != info.In*info.Out {
		bad("%d codes for %d x %d weights", len(l.Codes), info.Out, info.In)
	} else if err == nil {
		for i, q := range l.Codes {
			if f := formats[i/info.In]; int(q) < f.QMin || int(q) > f.QMax {
				bad("code %d is %d, outside %d..%d", i, q, f.QMin, f.QMax)
				break
			}
		}
	}
	if l.Bias != nil && len(l.Bias) != info.Out || !finite(l.Bias) {
		bad("the bias is not %d finite numbers", info.Out)
	}
	errs = append(errs, l.checkResult(info))
	if l.Act != nil {
		if err := l.Act.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	return formats, errors.Join(errs...)
}
