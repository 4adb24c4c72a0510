package sensitivity

import (
	"slices"

	"cfq/quant"
)

// Change is what a format makes of a layer, in float: the layer's output becomes
// B + W h' where it was B + W h.
type Change struct {
	W []float32 // Out x In
	B []float32 // Out
	// h' is h through Act or on the grid Input, or h where both are nil.
	Act   *quant.Act
	Input *quant.Input
}

// ChangeOf is the change of the plan l, made for the layer info: that of Input.Fold
// when input, the layout of the model's input (nil where there is none), feeds it. What
// the output quantizer of a convolution does is not in it.
func ChangeOf(l *quant.Layer, info quant.LayerInfo, input *quant.Input) (Change, error) {
	c := Change{Act: l.Act}
	var scale float32
	switch {
	case l.Act != nil:
		scale = l.Act.Scale
	case input != nil && info.Input == input.Value:
		c.Input, scale = input, input.Scale
	}
	e, err := l.Encode(info, scale)
	if err != nil {
		return c, err
	}
	c.W, c.B = make([]float32, len(e.Codes)), slices.Clone(e.FloatB)
	for i, q := range e.Codes {
		c.W[i] = quant.Dequantize(q, e.Scale(i/e.In))
	}
	if e.Bias != nil {
		for o, b := range e.Bias {
			c.B[o] = float32(float64(b) * float64(e.InScale*e.Scale(o)))
		}
	}
	return c, nil
}

// reads returns what the layer reads in place of the rows h of its input.
func (c *Change) reads(h []float32, rows int) []float32 {
	return quant.Reads(c.Act, c.Input, h, rows)
}

// sameReads reports whether both changes read the same.
func sameReads(a, b *Change) bool {
	if a.Act != nil && b.Act != nil {
		return *a.Act == *b.Act
	}
	return a.Act == b.Act && a.Input == b.Input
}
