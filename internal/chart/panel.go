package chart

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// frame is the inside of a chart's axes.
type frame struct {
	area
	x, y axis
}

func (f *frame) atX(v float64) vg.Length { return f.left + vg.Length(f.x.at(v))*(f.right-f.left) }
func (f *frame) atY(v float64) vg.Length { return f.bottom + vg.Length(f.y.at(v))*(f.top-f.bottom) }

// The room that a panel leaves around the axes.
const (
	padding   = 8
	textStep  = 15 // a line of text
	tickSize  = 4
	lastSpace = 14
)

// panel draws a chart, with a legend of its own if it is to have one.
func (s *sheet) panel(c *Chart, a area, own bool) {
	var f frame
	switch {
	case c.lying():
		f.x = c.yAxis()
	case c.bars():
		f.y = c.yAxis()
	default:
		f.x, f.y = c.xAxis(), c.yAxis()
	}
	f.area = area{a.left + padding, a.bottom + padding + textStep, a.right - lastSpace, a.top - padding}
	if c.Title != "" {
		s.words(title, (a.left+a.right)/2, f.top-textStep/2, -0.5, 0, c.Title)
		f.top -= textStep + 4
	}
	if own {
		l := s.letters.legendOf(c, a.right-a.left-2*padding)
		s.legend(l, area{a.left + padding, f.top - l.height(), a.right - padding, f.top})
		f.top -= l.height()
	}
	if c.X != "" {
		f.bottom += textStep
	}
	if c.Y != "" {
		f.left += textStep
	}
	var widest vg.Length
	for _, t := range f.y.ticks {
		widest = max(widest, s.letters.width(small, t.label))
	}
	f.left += widest + tickSize + 4
	if c.lying() {
		names := s.shorten(c, &f)
		s.axes(c, &f, a)
		s.lyingBars(c, &f, names)
	} else {
		names, turn := s.categories(c, &f, a.left)
		s.axes(c, &f, a)
		s.name(&f, names, turn)
		if c.bars() {
			s.bars(c, &f)
		} else {
			s.lines(c, &f)
		}
	}
	s.strokes(grey(0x20), 0.8, strokes{{f.left, f.bottom, f.left, f.top}, {f.left, f.bottom, f.right, f.bottom}})
}

func (c *Chart) xAxis() axis {
	var values [][]float64
	for i := range c.Series {
		values = append(values, c.Series[i].X)
	}
	return axisOf(c.LogX, nothing, append(values, c.Rules)...)
}

func (c *Chart) yAxis() axis {
	var values [][]float64
	for i := range c.Series {
		values = append(values, c.Series[i].Y, c.Series[i].Low, c.Series[i].High)
	}
	zero := worthwhile
	if c.bars() {
		zero = needed
	}
	return axisOf(c.LogY, zero, values...)
}

// axes draws ticks, lines across and the titles.
func (s *sheet) axes(c *Chart, f *frame, a area) {
	var across, ticks strokes
	for _, t := range f.y.ticks {
		y := f.atY(t.value)
		across = append(across, [4]vg.Length{f.left, y, f.right, y})
		ticks = append(ticks, [4]vg.Length{f.left - tickSize, y, f.left, y})
		s.words(small, f.left-tickSize-3, y, float64(draw.XRight), 0, t.label)
	}
	for _, t := range f.x.ticks {
		x := f.atX(t.value)
		across = append(across, [4]vg.Length{x, f.bottom, x, f.top})
		ticks = append(ticks, [4]vg.Length{x, f.bottom - tickSize, x, f.bottom})
		s.words(small, x, f.bottom-tickSize-7, -0.5, 0, t.label)
	}
	s.strokes(grey(0xe2), 0.5, across)
	if !c.bars() {
		var rules strokes
		for _, x := range c.Rules {
			if shown(x, c.LogX) {
				rules = append(rules, [4]vg.Length{f.atX(x), f.bottom, f.atX(x), f.top})
			}
		}
		s.strokes(grey(0x60), 1, rules)
	}
	s.strokes(grey(0x20), 0.8, ticks)
	if c.X != "" {
		s.words(normal, (f.left+f.right)/2, a.bottom+padding+3, -0.5, 0, c.X)
	}
	if c.Y != "" {
		s.words(normal, a.left+padding, (f.bottom+f.top)/2, -0.5, math.Pi/2, c.Y)
	}
}

// lines draws the error bars, the lines and the points, each above those before.
func (s *sheet) lines(c *Chart, f *frame) {
	for k := range c.Series {
		r, faint := &c.Series[k], colour(k)
		faint.A = 0x80
		var ends strokes
		for i := range r.Y {
			if c.has(r, i) && c.hasError(r, i) {
				ends = append(ends, whisker(f.atX(r.X[i]), f.atY(r.Low[i]), f.atY(r.High[i]))...)
			}
		}
		s.strokes(faint, 0.8, ends)
	}
	for k := range c.Series {
		r := &c.Series[k]
		stroke, _ := style(k)
		var run []vg.Point
		for i := 0; i <= len(r.Y); i++ {
			if i < len(r.Y) && c.has(r, i) {
				run = append(run, vg.Point{X: f.atX(r.X[i]), Y: f.atY(r.Y[i])})
				continue
			}
			if len(run) > 1 {
				s.StrokeLines(stroke, slices.Clone(run))
			}
			run = run[:0]
		}
	}
	for k := range c.Series {
		r := &c.Series[k]
		_, mark := style(k)
		for i := range r.Y {
			if c.has(r, i) && !r.Bare {
				s.DrawGlyphNoClip(mark, vg.Point{X: f.atX(r.X[i]), Y: f.atY(r.Y[i])})
			}
		}
	}
}

// has says whether point i can be shown.
func (c *Chart) has(r *Series, i int) bool { return shown(r.X[i], c.LogX) && shown(r.Y[i], c.LogY) }

// hasError says whether the error bar of point i can be shown.
func (c *Chart) hasError(r *Series, i int) bool {
	return r.Low != nil && shown(r.Low[i], c.LogY) && shown(r.High[i], c.LogY)
}
