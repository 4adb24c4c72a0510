// Package chart draws line and bar charts as SVG, with gonum.org/v1/plot.
//
// In: charts, which are numbers with names. Out: one picture with all of them in two columns, or one chart as part of
// an HTML page. The invariants: the same charts give the same bytes; no legend covers data; series differ in colour,
// dash and marker, in colours that colour-blind people can tell apart.
package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series is a line of points, joined in their order, or the bars of one colour. A value that cannot be shown (not
// finite, or larger than an axis can be divided) has no point and interrupts the line.
type Series struct {
	Name string
	X, Y []float64 // bars do not use X
	// Low and High, if set, are the ends of each point's error bar.
	Low, High []float64
	// NoMarkers leaves out the markers, for lines of many points.
	NoMarkers bool
}

// Chart is one pair of axes.
type Chart struct {
	Title, X, Y string // titles of the chart and of its axes
	// Categories make it a chart of horizontal bars, which leaves room for long names: one group per category, in which
	// the bar of series k is as long as its Y for that category. X is the title of the axis of the values.
	Categories []string
	Series     []Series
}

// The sizes of the pictures.
const (
	panelWidth  = 5.4 * vg.Inch
	panelHeight = 3.5 * vg.Inch
	border      = 0.12 * vg.Inch

	// A figure is as wide as a phone, so that its text is readable there.
	figureWidth  = 3.45 * vg.Inch
	figureHeight = 2.75 * vg.Inch
	barStep      = 13 // of bars
	groupStep    = 9  // between groups of bars, in addition
	figureFrame  = 48 // height of the axis and its title
)

// Numbers beyond these, of which axes cannot be divided into ticks reliably, are not shown.
const (
	largest  = 1e12
	smallest = 1e-12
)

// Draw draws charts of lines in one picture of two columns.
func Draw(w io.Writer, charts ...Chart) error {
	panels := make([]panel, len(charts))
	var legend vg.Length // the highest
	for i := range charts {
		if err := panels[i].build(&charts[i]); err != nil {
			return err
		}
		legend = max(legend, panels[i].legendHeight())
	}
	tiles := draw.Tiles{Rows: (len(charts) + 1) / 2, Cols: 2, PadX: border, PadY: border}
	canvas := vgsvg.New(2*panelWidth+2*border, vg.Length(tiles.Rows)*(panelHeight+legend)+2*border)
	all := draw.Crop(paper(canvas), border, -border, border, -border)
	for i := range panels {
		panels[i].draw(tiles.At(all, i%2, i/2))
	}
	svg, err := text(canvas)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, svg)
	return err
}

// Figure draws one chart, without its title, as an svg element that can stand in a page with others.
func Figure(c Chart) (string, error) {
	c.Title = ""
	var p panel
	if err := p.build(&c); err != nil {
		return "", err
	}
	height := vg.Length(figureHeight)
	if c.bars() {
		height = p.legendHeight() + figureFrame + vg.Length(len(c.Categories)*(groupStep+barStep*len(c.Series)))
	}
	canvas := vgsvg.New(figureWidth, height)
	p.draw(draw.Crop(paper(canvas), 2, -2, 2, -2))
	svg, err := text(canvas)
	_, element, _ := strings.Cut(svg, "<svg") // the XML declaration before it belongs to a file
	return "<svg" + element, err
}

func paper(canvas vg.CanvasSizer) draw.Canvas {
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	return c
}

// text is a picture as a file. The typeface is not in an SVG: readers without it need the names of others of the same
// widths.
func text(picture io.WriterTo) (string, error) {
	var b strings.Builder
	if _, err := picture.WriteTo(&b); err != nil {
		return "", fmt.Errorf("chart: %w", err)
	}
	const family = "font-family:Liberation Sans;"
	return strings.ReplaceAll(b.String(), family, "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"), nil
}

func (c *Chart) bars() bool { return c.Categories != nil }

func shown(v float64) bool { return math.Abs(v) <= largest }
