// Package quant holds the number formats, the arithmetic of scales and rounding,
// and the plan: what bits go where.
//
// In: a float model (package graph, opset 21 or later). Out: its canonical form,
// the list of its layers, and plans whose codes package quant/qdq writes. The
// invariant: the codes, scales and biases that Encode returns are exactly those
// in the file, so what calibration sees is what the runtime computes. In the
// paper: section "Quantizer parameterization".
package quant

import (
	"errors"
	"fmt"
	"math"
)

// Plan says what bits go where. It is complete: the same plan and the same
// canonical model always give the same file.
type Plan struct {
	Input  *Input  `json:"input,omitempty"` // nil: the input is quantized by its layers' Act
	Layers []Layer `json:"layers"`          // layers that are not listed stay in float
}

// Layer is the plan of one layer, named by its Gemm node in the canonical model.
//
// Three kinds of layers: Float stays as it is; with Act (or fed by Plan.Input)
// the layer runs on integers; without, only its weights are stored in few bits
// and the arithmetic stays in float.
type Layer struct {
	Node  string `json:"node"`
	Float bool   `json:"float,omitempty"` // stay in float; all else is ignored
	// Bits is the width of the weights: 2, 3, 4 or 8.
	Bits int `json:"bits,omitempty"`
	// RowBits holds the width of each output's weights (row of W), in place of
	// Bits, which is 0 then. Such a layer has one scale per output.
	RowBits []int `json:"row_bits,omitempty"`
	// Reduced keeps 8-bit codes within -64..64; see ReducedMax.
	Reduced bool `json:"reduced,omitempty"`
	// Scales holds one scale for the whole tensor or one per output (row of W).
	Scales []float32 `json:"scales,omitempty"`
	// Codes, Out x In, replaces rounding to the nearest.
	Codes []int8 `json:"codes,omitempty"`
	// Bias replaces the layer's float bias (length Out), for calibrations that
	// correct it; behind Plan.Input, in place of the bias that Input.Fold gives.
	Bias []float32 `json:"bias,omitempty"`
	// Act quantizes the activation that the layer reads.
	Act *Act `json:"act,omitempty"`
	// Result quantizes what the layer makes, behind a Relu or Clip that follows it;
	// integer convolutions need one, others have none.
	Result *Act `json:"result,omitempty"`
}

// Width returns the width of the weights of output o.
func (l *Layer) Width(o int) int {
	if l.RowBits != nil {
		return l.RowBits[o]
	}
	return l.Bits
}

// MeanBits is the mean width of the weights, all rows of which are equally long; 0
// for layers that stay in float.
func (l *Layer) MeanBits() float64 {
	switch {
	case l.Float:
		return 0
	case len(l.RowBits) == 0:
		return float64(l.Bits)
	}
	sum := 0
	for _, b := range l.RowBits {
		sum += b
	}
	return float64(sum) / float64(len(l.RowBits))
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
	for i := range p.Layers {
		if p.Layers[i].Node == node {
			return &p.Layers[i]
		}
	}
	return nil
}
