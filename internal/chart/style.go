package chart

import (
	"fmt"
	"image/color"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// colours returns those of Okabe and Ito but yellow, which is too light for lines on white.
//
// References: Okabe and Ito, Color Universal Design, 2008.
func colours() []color.NRGBA {
	return []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, // blue
		{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		{0x00, 0x9e, 0x73, 0xff}, // bluish green
		{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
		{0x00, 0x00, 0x00, 0xff}, // black
		{0xe6, 0x9f, 0x00, 0xff}, // orange
		{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	}
}

func colour(k int) color.NRGBA { return colours()[k%len(colours())] }

// style is how series k is drawn. The numbers of colours, dashes and markers have no
// common divisor, so that series beyond the last colour are still unlike the others.
func style(k int) (draw.LineStyle, draw.GlyphStyle) {
	dashes := [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {7, 2, 1.5, 2}, {2.5, 1}}
	shapes := []draw.GlyphDrawer{
		draw.CircleGlyph{},
		draw.BoxGlyph{},
		draw.PyramidGlyph{},
		diamond{},
		draw.RingGlyph{},
		draw.SquareGlyph{},
		draw.TriangleGlyph{},
		draw.PlusGlyph{},
	}
	return draw.LineStyle{Color: colour(k), Width: 1.4, Dashes: dashes[k%len(dashes)]},
		draw.GlyphStyle{Color: colour(k), Radius: 2.8, Shape: shapes[k%len(shapes)]}
}

// diamond is a square that stands on a corner.
type diamond struct{}

// DrawGlyph fills the square.
func (diamond) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, p vg.Point) {
	r := g.Radius * 1.25
	c.FillPolygon(g.Color, []vg.Point{{X: p.X, Y: p.Y - r}, {X: p.X + r, Y: p.Y}, {X: p.X, Y: p.Y + r}, {X: p.X - r, Y: p.Y}})
}

func grey(v uint8) color.NRGBA { return color.NRGBA{v, v, v, 0xff} }

// size of text in points; titles are bold.
type size vg.Length

const (
	title  size = 10.5
	normal size = 9
	small  size = 8
)

// family is a typeface with the widths of Arial, by which most systems replace it.
const family = "Liberation Sans"

// lettering is what text is written with.
type lettering struct{ text.Plain }

func letters() (lettering, error) {
	var faces font.Collection
	for _, f := range []struct {
		weight xfont.Weight
		data   []byte
	}{{xfont.WeightNormal, liberationsansregular.TTF}, {xfont.WeightBold, liberationsansbold.TTF}} {
		face, err := opentype.Parse(f.data)
		if err != nil {
			return lettering{}, fmt.Errorf("font: %w", err)
		}
		faces = append(faces, font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Weight: f.weight}, Face: face})
	}
	return lettering{text.Plain{Fonts: font.NewCache(faces)}}, nil
}

func (l lettering) style(s size) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(s)}
	if s == title {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: grey(0x20), Font: f, XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: l}
}

func (l lettering) width(s size, words string) vg.Length { return l.style(s).Width(words) }
