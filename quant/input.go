package quant

import (
	"errors"
	"fmt"
)

// Input lays a tabular input on a common uint8 grid with zero point 0 and one
// scale, column by column, instead of quantizing unlike columns with one range.
//
// A column whose range is wider than 255*Scale/Gain is split into segments
// [lo,c1], [c1,c2], ..., each a column of its own with the same weights: the sum
// over the segments of clip(x,Lo,Hi)-Lo is x minus the first Lo. No weight grows
// and the grid stays fine. Offsets go into the layer's bias and gains into its
// weight columns (Widen), so every layer that reads the input is covered.
type Input struct {
	// Value is the value that is laid on the grid, rank 2 [N, dim]; "" means the model's only input.
	Value   string        `json:"value,omitempty"`
	Scale   float32       `json:"scale"`
	Columns []InputColumn `json:"columns"`
}

// InputColumn is one column of the integer input, u = (min(x[Source],Hi)-Lo)*Gain,
// quantized with zero point 0. Below Lo the code saturates at 0. Hi bounds only
// segments that another one of the same source follows: in the last one the
// codes grow to 255, since a range that was seen is no bound.
type InputColumn struct {
	Source int     `json:"source"` // column of the model's input
	Lo     float32 `json:"lo"`
	Hi     float32 `json:"hi"`
	Gain   float32 `json:"gain"`
}

// Check reports every column that does not fit an input of dim columns: each
// source must occur, its segments adjacent to each other and in ascending order.
func (in *Input) Check(dim int) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if !goodScale(in.Scale) {
		bad("scale %v of the input is not a positive number", in.Scale)
	}
	seen := make([]bool, max(dim, 0))
	for j, c := range in.Columns {
		if c.Source < 0 || c.Source >= dim {
			bad("column %d of the input has source %d; the model has the inputs 0 to %d", j, c.Source, dim-1)
			continue
		}
		if !goodScale(c.Gain) {
			bad("column %d of the input has the gain %v", j, c.Gain)
		}
		if !(c.Lo < c.Hi) || c.Lo-c.Lo != 0 || c.Hi-c.Hi != 0 {
			bad("column %d of the input has the range [%v, %v]", j, c.Lo, c.Hi)
		}
		follows := j > 0 && in.Columns[j-1].Source == c.Source
		switch {
		case seen[c.Source] && !follows:
			bad("column %d of the input: the segments of source %d are not next to each other", j, c.Source)
		case follows && in.Columns[j-1].Hi != c.Lo:
			bad("column %d of the input begins at %v; the segment before ends at %v", j, c.Lo, in.Columns[j-1].Hi)
		case follows && in.Columns[j-1].code(in.Columns[j-1].Hi, in.Scale) > 255:
			bad("column %d of the input reaches beyond code 255", j-1)
		}
		seen[c.Source] = true
	}
	for s, ok := range seen {
		if !ok {
			bad("input %d of the model has no column", s)
		}
	}
	return errors.Join(errs...)
}

// Inner reports whether column j is bounded by its Hi because another segment of its source follows.
func (in *Input) Inner(j int) bool {
	return j+1 < len(in.Columns) && in.Columns[j+1].Source == in.Columns[j].Source
}

// code returns the code of x before saturation at 255.
func (c InputColumn) code(x, scale float32) int {
	return quantize((x-c.Lo)*c.Gain, scale, 0, 0, 1<<20)
}

// Codes returns the codes of the rows x (rows x dim): rows x len(Columns),
// computed in float32 as the written model computes them.
func (in *Input) Codes(x []float32, dim int) []uint8 {
	n := len(x) / dim
	out := make([]uint8, n*len(in.Columns))
	for r := range n {
		row := x[r*dim : (r+1)*dim]
		for j, c := range in.Columns {
			v := row[c.Source]
			if in.Inner(j) {
				v = min(v, c.Hi)
			}
			out[r*len(in.Columns)+j] = uint8(min(c.code(v, in.Scale), 255))
		}
	}
	return out
}

// Widen returns l as it is with the integer input in front: one weight column
// per input column (divided by the gain), the offsets added to the bias.
func (in *Input) Widen(l LayerInfo) LayerInfo {
	w := l
	w.In = len(in.Columns)
	w.W = make([]float32, l.Out*w.In)
	w.B = make([]float32, l.Out)
	for o := range l.Out {
		var b float64
		if l.B != nil {
			b = float64(l.B[o])
		}
		for j, c := range in.Columns {
			v := float64(l.W[o*l.In+c.Source])
			w.W[o*w.In+j] = float32(v / float64(c.Gain))
			if j == 0 || in.Columns[j-1].Source != c.Source {
				b += v * float64(c.Lo)
			}
		}
		w.B[o] = float32(b)
	}
	return w
}
