// Package quant holds the number formats, the arithmetic of scales and rounding, and the plan: what bits go where.
//
// In: a float model (package graph, opset 21 or later). Out: its canonical form, the list of its layers, and plans
// whose codes package quant/qdq writes. The invariant: the codes, scales and biases that Encode returns are exactly
// those in the file, so what calibration sees is what the runtime computes. In the paper: section "Quantizer
// parameterization".
package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Plan says what bits go where. It is complete: the same plan and the same canonical model always give the same file.
type Plan struct {
	Input  *Input  // nil: the input is quantized by its layers' Act
	Layers []Layer // layers that are not listed stay in float
}

// Layer is the plan of one layer, named by its Gemm node in the canonical model.
//
// Three kinds of layers: Float stays as it is; with Act (or fed by Plan.Input) the layer runs on integers; without,
// only its weights are stored in few bits and the arithmetic stays in float.
type Layer struct {
	Node  string
	Float bool // stay in float; all else is ignored
	// Bits is the width of the weights: 2, 3, 4 or 8.
	Bits int
	// RowBits holds the width of each output's weights (row of W), in place of
	// Bits, which is 0 then. Such a layer has one scale per output.
	RowBits []int
	// Reduced keeps 8-bit codes within -64..64; see ReducedMax.
	Reduced bool
	// Scales holds one scale for the whole tensor or one per output (row of W). In float, a negative one mirrors what its
	// codes stand for: those of 2 bits reach from -1 to 2 units.
	Scales []float32
	// Codes, Out x In, replaces rounding to the nearest.
	Codes []int8
	// Bias replaces the layer's float bias (length Out), for calibrations that
	// correct it; behind Plan.Input, in place of the bias that Input.Fold gives.
	Bias []float32
	// Act quantizes the activation that the layer reads.
	Act *Act
	// Result quantizes what the layer makes, behind a Relu or Clip that follows it;
	// integer convolutions need one, others have none.
	Result *Act
}

// Width returns the width of the weights of output o.
func (l *Layer) Width(o int) int {
	if l.RowBits != nil {
		return l.RowBits[o]
	}
	return l.Bits
}

// MeanBits is the mean width of the weights, all rows of which are equally long; 0 for layers that stay in float.
func (l *Layer) MeanBits() float64 {
	if l.Float {
		return 0
	}
	sum := l.Bits
	for _, b := range l.RowBits {
		sum += b
	}
	return float64(sum) / float64(max(1, len(l.RowBits)))
}

// Act is an asymmetric unsigned quantizer of activations: the value x has the
// code clip(round(x/Scale)+Zero, 0, 2^Bits-1). After a Relu Zero must be 0.
type Act struct {
	Bits  int     `json:"bits"` // 2 to 8
	Scale float32 `json:"scale"`
	Zero  uint8   `json:"zero,omitempty"`
}

// QMax is the largest code.
func (a Act) QMax() int { return 1<<a.Bits - 1 }

// Apply returns x after quantization and dequantization, as ONNX Runtime computes it.
func (a Act) Apply(x float32) float32 {
	q := quantize(x, a.Scale, int(a.Zero), 0, a.QMax())
	return float32(q-int(a.Zero)) * a.Scale
}

// FitAct returns the quantizer of the given width whose range is [lo, hi],
// widened to contain zero, with the zero point on the grid.
func FitAct(bits int, lo, hi float32) Act {
	lo, hi = min(lo, 0), max(hi, 0)
	a := Act{Bits: bits}
	a.Scale = (hi - lo) / float32(a.QMax())
	if !(a.Scale > 1e-30) || math.IsInf(float64(a.Scale), 0) {
		a.Scale = 1
		return a
	}
	a.Zero = uint8(quantize(-lo, a.Scale, 0, 0, a.QMax()))
	return a
}

// Check reports every entry of a that no model can be written from.
func (a Act) Check() error {
	var errs []error
	if a.Bits < 2 || a.Bits > 8 {
		errs = append(errs, fmt.Errorf("%d-bit activations are not supported: 2 to 8 bits are", a.Bits))
	} else if int(a.Zero) > a.QMax() {
		errs = append(errs, fmt.Errorf("zero point %d does not fit %d bits", a.Zero, a.Bits))
	}
	if !goodScale(a.Scale) {
		errs = append(errs, fmt.Errorf("activation scale %v is not a positive number", a.Scale))
	}
	return errors.Join(errs...)
}

// goodScale reports whether s is positive, finite and not denormal: quotients by
// denormal scales overflow, and some runtimes flush them to zero.
func goodScale(s float32) bool {
	return s >= 0x1p-126 && s <= math.MaxFloat32
}

// Layer returns the plan of the layer called node, or nil.
func (p *Plan) Layer(node string) *Layer {
	if i := slices.IndexFunc(p.Layers, func(l Layer) bool { return l.Node == node }); i >= 0 {
		return &p.Layers[i]
	}
	return nil
}

// Encoded is a layer's weight side as it stands in the file.
type Encoded struct {
	In, Out  int
	Columns  int       // of the integer kernel; see LayerInfo
	Formats  []Format  // Out; the format of each output's weights
	Codes    []int8    // Out x In
	Scales   []float32 // 1 or Out
	Bias     []int32   // Out, in units of InScale*Scales; nil for layers with float arithmetic
	InScale  float32   // scale of the input activation; 0 for layers with float arithmetic
	FloatB   []float32 // Out; the bias before quantization
	AllZeroB bool      // the bias is zero and need not be stored
}

// biasLimit leaves the sum of products, which joins the bias in 32 bits, as much room as the bias itself.
const biasLimit = 1 << 30

// Encode quantizes the layer info as l says. info is that of Input.Fold when Plan.Input feeds the layer. inScale is the
// scale of the quantized input, 0 when the layer's arithmetic stays in float. Errors name the layer's node.
//
// The bias is int32 with the scale inScale*scale (the float32 product). Where it
// would not fit, the output's scale grows until it does, at the price of coarser weights.
func (l *Layer) Encode(info LayerInfo, inScale float32) (*Encoded, error) {
	formats, err := l.check(info, inScale > 0)
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
	e.AllZeroB = !slices.ContainsFunc(e.FloatB, func(b float32) bool { return b != 0 })
	e.Codes = make([]int8, len(info.W))
	for i := range e.Codes {
		o := i / e.In
		s, planned := e.Scale(o), l.Scales[o%len(l.Scales)]
		switch {
		case l.Codes == nil:
			e.Codes[i] = formats[o].Quantize(info.W[i], s)
		case s == planned:
			e.Codes[i] = l.Codes[i]
		default:
			e.Codes[i] = formats[o].Quantize(Dequantize(l.Codes[i], planned), s)
		}
	}
	return e, nil
}

// Scale returns the weight scale of output o.
func (e *Encoded) Scale(o int) float32 { return e.Scales[o%len(e.Scales)] }

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
	}
	for o, b := range e.FloatB {
		e.Bias = append(e.Bias, int32(math.RoundToEven(float64(b)/float64(e.InScale*e.Scale(o)))))
	}
	return nil
}

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

func (l *Layer) check(info LayerInfo, integers bool) ([]Format, error) {
	formats, err := l.formats(info.Out)
	errs := []error{err}
	badIf := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	badIf(info.Fixed != "", "it must stay in float: %s", info.Fixed)
	badIf(len(l.Scales) != 1 && len(l.Scales) != info.Out, "%d scales for %d outputs: give one, or one for each",
		len(l.Scales), info.Out)
	for o, s := range l.Scales {
		badIf(!goodScale(max(s, -s)) || s < 0 && integers, "scale %d is %v, not a positive number", o, s)
	}
	badIf(l.Codes != nil && len(l.Codes) != info.In*info.Out, "%d codes for %d x %d weights", len(l.Codes), info.Out,
		info.In)
	if len(l.Codes) == info.In*info.Out && err == nil {
		for i, q := range l.Codes {
			if f := formats[i/info.In]; int(q) < f.QMin || int(q) > f.QMax {
				badIf(true, "code %d is %d, outside %d..%d", i, q, f.QMin, f.QMax)
				break
			}
		}
	}
	badIf(l.Bias != nil && len(l.Bias) != info.Out || !finite(l.Bias), "the bias is not %d finite numbers", info.Out)
	errs = append(errs, l.checkResult(info))
	if l.Act != nil {
		errs = append(errs, l.Act.Check())
	}
	return formats, errors.Join(errs...)
}

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
	minimum, maximum := info.Behind.Bounds()
	lo := -float32(l.Result.Zero) * l.Result.Scale
	hi := float32(l.Result.QMax()-int(l.Result.Zero)) * l.Result.Scale
	if lo < minimum || hi > maximum {
		return fmt.Errorf("its output quantizer covers %v to %v, but the Relu or Clip behind it passes only %v to %v",
			lo, hi, minimum, maximum)
	}
	return nil
}
