package quant

import (
	"errors"
	"fmt"

	"cfq/internal/lists"
)

// Input lays a tabular input on a common uint8 grid with zero point 0 and one
// scale, column by column, instead of quantizing unlike columns with one range.
//
// A column whose range is wider than 255*Scale/Gain is split into segments [lo,c1], [c1,c2], ..., each a column of its
// own with the same weights: the sum over the segments of clip(x,Lo,Hi)-Lo is x minus the first Lo. No weight grows and
// the grid stays fine. Offsets go into the layer's bias and gains into its weight columns (Fold), so every layer that
// reads the input is covered. Segments share their codes, which the file holds once.
type Input struct {
	// Value is the value that is laid on the grid, rank 2 [N, dim]; "" means the model's only input.
	Value   string        `json:"value,omitempty"`
	Scale   float32       `json:"scale"`
	Columns []InputColumn `json:"columns"`
}

// InputColumn is one column of the integer input, u = (min(x[Source],Hi)-Lo)*Gain, quantized with zero point 0. Below
// Lo the code saturates at 0. Hi bounds only segments that another one of the same source follows: in the last one the
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
		case follows && in.Columns[j-1].Gain != c.Gain:
			bad("column %d of the input has the gain %v; the segment before has %v", j, c.Gain, in.Columns[j-1].Gain)
		case follows && quantize((c.Lo-in.Columns[j-1].Lo)*c.Gain, in.Scale, 0, 0, 256) > 255:
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

// Ranges returns the range of each of dim model inputs, from its first segment to its last; 0 to 0 where it has none.
func (in *Input) Ranges(dim int) (lo, hi []float32) {
	lo, hi = make([]float32, dim), make([]float32, dim)
	for j, c := range in.Columns {
		if c.Source < 0 || c.Source >= dim { // no layer reads the grid, so nobody has looked
			continue
		}
		if hi[c.Source] = c.Hi; j == 0 || in.Columns[j-1].Source != c.Source {
			lo[c.Source] = c.Lo
		}
	}
	return lo, hi
}

// Inner reports whether column j is bounded by its Hi because another segment of its source follows.
func (in *Input) Inner(j int) bool {
	return j+1 < len(in.Columns) && in.Columns[j+1].Source == in.Columns[j].Source
}

// Reads returns what the integer kernel reads of each model input: the sum over its segments of code times Scale, rows
// x dim. Times the weights of Fold it gives the layer's sums.
func (in *Input) Reads(x []float32, dim int) []float32 {
	out := make([]float32, len(x)) // sums of codes are whole numbers below 2^24: exact
	for j := range in.Columns {
		c := &in.Columns[j]
		inner := in.Inner(j)
		for k := c.Source; k < len(x); k += dim {
			v := x[k]
			if inner {
				v = min(v, c.Hi)
			}
			out[k] += float32(quantize((v-c.Lo)*c.Gain, in.Scale, 0, 0, 255))
		}
	}
	for k := range out {
		out[k] *= in.Scale
	}
	return out
}

// Reads returns what a layer's kernel reads in place of rows of the values of its input: what the quantizer act makes
// of them, or the grid of the model's input where that feeds the layer, or the values as they are where both are nil.
func Reads(act *Act, input *Input, values []float32, rows int) []float32 {
	switch {
	case act != nil:
		return lists.Map(values, act.Apply)
	case input != nil:
		return input.Reads(values, len(values)/rows)
	}
	return values
}

// Round returns the rows x as the grid shows them to the model.
func (in *Input) Round(x []float32, dim int) []float32 {
	out := in.Reads(x, dim)
	for j, c := range in.Columns {
		if j > 0 && in.Columns[j-1].Source == c.Source {
			continue
		}
		for k := c.Source; k < len(out); k += dim {
			out[k] = c.Lo + out[k]/c.Gain
		}
	}
	return out
}

// Sources returns the model input of each column, nil where the columns are the model's inputs as they are.
func (in *Input) Sources() []int {
	sources := make([]int, len(in.Columns))
	identity := true
	for j, c := range in.Columns {
		sources[j] = c.Source
		identity = identity && c.Source == j
	}
	if identity {
		return nil
	}
	return sources
}

// Fold returns l with the integer input in front: its weight columns, one per
// model input, divided by the gains, and the offsets added to the bias.
func (in *Input) Fold(l LayerInfo) LayerInfo {
	f := l
	f.Columns, f.W, f.B = len(in.Columns), make([]float32, len(l.W)), make([]float32, l.Out)
	for o := range l.Out {
		var b float64
		if l.B != nil {
			b = float64(l.B[o])
		}
		for j, c := range in.Columns {
			if j > 0 && in.Columns[j-1].Source == c.Source {
				continue
			}
			v := float64(l.W[o*l.In+c.Source])
			f.W[o*l.In+c.Source] = float32(v / float64(c.Gain))
			b += v * float64(c.Lo)
		}
		f.B[o] = float32(b)
	}
	return f
}

func (in *Input) before(info LayerInfo, data string) *Input {
	if in != nil && (in.Value == info.Input || in.Value == "" && info.Input == data) {
		return in
	}
	return nil
}
