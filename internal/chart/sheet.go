package chart

import (
	"bytes"
	"image/color"
	"io"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// area is a rectangle of the picture; y goes up.
type area struct{ left, bottom, right, top vg.Length }

// sheet is what is drawn on.
type sheet struct {
	format  string
	letters lettering
	draw.Canvas
	result io.WriterTo
}

// open makes a white sheet.
func (s *sheet) open(width, height vg.Length) {
	if s.format == "svg" {
		c := vgsvg.New(width, height)
		s.Canvas, s.result = draw.New(c), c
	} else {
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))
		s.Canvas, s.result = draw.New(c), vgimg.PngCanvas{Canvas: c}
	}
	s.box(color.White, area{0, 0, width, height})
}

// write writes the picture. The typeface of an SVG is not in it: readers without it take
// one of the same widths.
func (s *sheet) write(w io.Writer) error {
	var b bytes.Buffer
	if _, err := s.result.WriteTo(&b); err != nil {
		return err
	}
	out := b.Bytes()
	if s.format == "svg" {
		out = bytes.ReplaceAll(out, []byte("font-family:"+family+";"), []byte("font-family:'"+family+"',Arial,Helvetica,sans-serif;"))
	}
	_, err := w.Write(out)
	return err
}

// box fills an area.
func (s *sheet) box(c color.Color, a area) {
	s.FillPolygon(c, []vg.Point{{X: a.left, Y: a.bottom}, {X: a.right, Y: a.bottom}, {X: a.right, Y: a.top}, {X: a.left, Y: a.top}})
}

// strokes are straight lines that are drawn as one path: x0, y0, x1, y1 of each.
type strokes [][4]vg.Length

func (s *sheet) strokes(c color.Color, width vg.Length, lines strokes) {
	if len(lines) == 0 {
		return
	}
	var p vg.Path
	for _, l := range lines {
		p.Move(vg.Point{X: l[0], Y: l[1]})
		p.Line(vg.Point{X: l[2], Y: l[3]})
	}
	s.SetLineStyle(draw.LineStyle{Color: c, Width: width})
	s.Stroke(p)
}

// whisker is an error bar with its ends.
func whisker(x, low, high vg.Length) strokes {
	return strokes{{x, low, x, high}, {x - 2.5, low, x + 2.5, low}, {x - 2.5, high, x + 2.5, high}}
}

// words writes text at x, y: right of it when xalign is 0, left of it when it is -1, centred when it is -0.5.
func (s *sheet) words(z size, x, y vg.Length, xalign, turn float64, words string) {
	st := s.letters.style(z)
	st.XAlign, st.Rotation = draw.XAlignment(xalign), turn
	s.FillText(st, vg.Point{X: x, Y: y}, words)
}
