package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// nameShare is how much of a panel's width the names of lying bars take at most.
const nameShare = 0.42

// shorten makes room for the names of categories at the left and shortens, at their beginning, those for which there is not enough.
func (s *sheet) shorten(c *Chart, f *frame) []string {
	most := vg.Length(nameShare) * (f.right - f.left)
	names := make([]string, len(c.Categories))
	var widest vg.Length
	for i, name := range c.Categories {
		r := []rune(name)
		for s.letters.width(small, name) > most && len(r) > 1 {
			r = r[1:]
			name = "…" + string(r)
		}
		names[i] = name
		widest = max(widest, s.letters.width(small, name))
	}
	f.left += widest + 2
	return names
}

// lyingBars draws one group of bars for each category, from the top, with its name at the left.
func (s *sheet) lyingBars(c *Chart, f *frame, names []string) {
	slot := (f.top - f.bottom) / vg.Length(max(len(names), 1))
	thick := 0.76 * slot / vg.Length(max(len(c.Series), 1))
	floor := f.left
	if !c.LogY {
		floor = f.atX(0)
	}
	for i, name := range names {
		s.words(small, f.left-5, f.top-(vg.Length(i)+0.5)*slot, float64(draw.XRight), 0, name)
	}
	for k := range c.Series {
		r := &c.Series[k]
		for i, v := range r.Y {
			if !shown(v, c.LogY) {
				continue
			}
			top := f.top - (vg.Length(i)+0.12)*slot - vg.Length(k)*thick
			s.box(colour(k), area{floor, top - 0.92*thick, f.atX(v), top})
			if c.hasError(r, i) {
				y, low, high := top-0.46*thick, f.atX(r.Low[i]), f.atX(r.High[i])
				s.strokes(grey(0x40), 0.8, strokes{{low, y, high, y}, {low, y - 2.5, low, y + 2.5}, {high, y - 2.5, high, y + 2.5}})
			}
		}
	}
}
