package chart

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The sizes of a legend.
const (
	sample    = 26 // length of a piece of line
	sampleGap = 5
	entryGap  = 18
	lineStep  = 14
)

// legend is the names of series with samples of how they are drawn, in lines of text.
type legend [][]entry

type entry struct {
	series int
	name   string
	width  vg.Length
	bar    bool
	bare   bool
}

// legendOf breaks the names of a chart's series into lines of a width; one series without a name needs no legend.
func (l lettering) legendOf(c *Chart, width vg.Length) legend {
	out := legend{nil}
	var used vg.Length
	for k := range c.Series {
		e := entry{k, c.Series[k].Name, l.width(normal, c.Series[k].Name) + sample + sampleGap, c.bars(), c.Series[k].Bare}
		if last := len(out) - 1; used > 0 && used+entryGap+e.width > width {
			out, used = append(out, []entry{e}), e.width
		} else {
			out[last], used = append(out[last], e), used+entryGap+e.width
		}
	}
	if len(c.Series) == 0 || len(c.Series) == 1 && c.Series[0].Name == "" {
		return nil
	}
	return out
}

func (l legend) height() vg.Length {
	if l == nil {
		return 0
	}
	return vg.Length(len(l))*lineStep + 6
}

// legend draws l, its lines centred.
func (s *sheet) legend(l legend, a area) {
	for i, line := range l {
		width := vg.Length(len(line)-1) * entryGap
		for _, e := range line {
			width += e.width
		}
		x, y := (a.left+a.right-width)/2, a.top-vg.Length(i)*lineStep-lineStep/2
		for _, e := range line {
			if e.bar {
				s.box(colour(e.series), area{x + sample - 10, y - 4, x + sample, y + 4})
			} else {
				stroke, mark := style(e.series)
				s.StrokeLine2(stroke, x, y, x+sample, y)
				if !e.bare {
					s.DrawGlyphNoClip(mark, vg.Point{X: x + sample/2, Y: y})
				}
			}
			s.words(normal, x+sample+sampleGap, y, float64(draw.XLeft), 0, e.name)
			x += e.width + entryGap
		}
	}
}
