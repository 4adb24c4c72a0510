package chart

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	longest = 20 // letters of a category
	turned  = math.Pi / 4
)

// categories shortens the names of categories at their beginning and says whether they must be turned, for which it makes room.
func (s *sheet) categories(c *Chart, f *frame, edge vg.Length) (names []string, turn bool) {
	var widest vg.Length
	for _, name := range c.Categories {
		if r := []rune(name); len(r) > longest {
			name = "…" + string(r[len(r)-longest+1:])
		}
		names = append(names, name)
		widest = max(widest, s.letters.width(small, name))
	}
	if widest+6 <= (f.right-f.left)/vg.Length(max(len(names), 1)) {
		return names, false
	}
	f.bottom += widest*vg.Length(math.Sin(turned)) - 4
	// The first name ends in the middle of the first slot and must not begin left of the panel.
	reach := widest*vg.Length(math.Cos(turned)) + padding
	n := vg.Length(2 * len(names))
	f.left = max(f.left, (edge+reach-f.right/n)/(1-1/n))
	return names, true
}

// name writes the names of categories, as many as there is room for.
func (s *sheet) name(f *frame, names []string, turn bool) {
	slot := (f.right - f.left) / vg.Length(max(len(names), 1))
	stride := max(1, int(math.Ceil(float64(11/slot))))
	for i, name := range names {
		x := f.left + (vg.Length(i)+0.5)*slot
		switch {
		case i%stride != 0:
		case turn:
			s.words(small, x, f.bottom-tickSize-3, float64(draw.XRight), turned, name)
		default:
			s.words(small, x, f.bottom-tickSize-7, -0.5, 0, name)
		}
	}
}

// bars draws one group of bars for each category.
func (s *sheet) bars(c *Chart, f *frame) {
	slot := (f.right - f.left) / vg.Length(max(len(c.Categories), 1))
	wide := 0.8 * slot / vg.Length(max(len(c.Series), 1))
	floor := f.bottom
	if !c.LogY {
		floor = f.atY(0)
	}
	for k := range c.Series {
		r := &c.Series[k]
		for i, v := range r.Y {
			if !shown(v, c.LogY) {
				continue
			}
			left := f.left + (vg.Length(i)+0.1)*slot + vg.Length(k)*wide
			s.box(colour(k), area{left, floor, left + 0.92*wide, f.atY(v)})
			if c.hasError(r, i) {
				s.strokes(grey(0x40), 0.8, whisker(left+0.46*wide, f.atY(r.Low[i]), f.atY(r.High[i])))
			}
		}
	}
}
