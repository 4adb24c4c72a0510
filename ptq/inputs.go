package ptq

import (
	"math"
	"slices"

	"cfq/task"
)

// inputDomain returns the values that the input grid must cover whether the data show
// them or not: those that the values of categories have, the least and the largest level of ordinal ones, and the
// bounds of pixels.
func inputDomain(t *task.Task) [][]float32 {
	out := make([][]float32, 0, t.ModelDim())
	for i := range t.Features {
		f := &t.Features[i]
		for k := range f.ModelInputs() {
			c, n := f.Category(), f.Number()
			switch {
			case c != nil && c.Made() != nil:
				lo, hi := math.Inf(1), math.Inf(-1)
				for _, row := range c.Made() {
					lo, hi = min(lo, row[k]), max(hi, row[k])
				}
				out = append(out, []float32{float32(lo), float32(hi)})
			case c != nil:
				out = append(out, []float32{0, 1})
			case len(n.Levels) > 0 && n.Spread == 0 && n.Clip == nil:
				out = append(out, []float32{n.ToInput(n.Levels[0]), n.ToInput(n.Levels[len(n.Levels)-1])})
			case t.IsPixel(f) && f.Bounds[1]-f.Bounds[0] <= 255: // one that is always black may be painted, in any shade
				lo, hi := f.Bounds[0], f.Bounds[1]
				out = append(out, []float32{f.ToInput(lo), f.ToInput(min(lo+1, hi)), f.ToInput(hi)})
			default:
				out = append(out, nil)
			}
		}
	}
	return out
}

func inputNames(t *task.Task) (names []string) {
	if !t.Made() {
		return t.InputNames()
	}
	for i := range t.Features {
		names = append(names, slices.Repeat([]string{t.Features[i].Name}, t.Features[i].ModelInputs())...)
	}
	return names
}
