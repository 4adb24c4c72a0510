// Package chart draws line and bar charts as SVG, with gonum.org/v1/plot.
//
// In: charts, which are numbers with names. Out: one picture with all of them, one below the other, or in two columns
// when there are more than three; or one chart as part of an HTML page. The invariants: the same charts give the same
// bytes; no legend covers data; series differ in colour, dash and marker, in colours that colour-blind people can tell
// apart.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series is a line of points, joined in their order, or the bars of one colour. A value that cannot be shown (not
// finite, or not positive on a logarithmic axis) has no point and interrupts the line.
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
	oneColumn   = 3  // charts that are drawn in one column; more take two
	maxCharts   = 40 // of one picture

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

// Draw draws charts in one picture.
func Draw(w io.Writer, charts ...Chart) error {
	p, err := newPicture(charts)
	if err != nil {
		return err
	}
	canvas := vgsvg.New(p.width, p.height)
	p.draw(canvas)
	return write(w, canvas)
}

// plotPicture is charts in tiles.
type plotPicture struct {
	panels        []panel
	width, height vg.Length
	tiles         draw.Tiles
}

func newPicture(charts []Chart) (*plotPicture, error) {
	if len(charts) == 0 || len(charts) > maxCharts {
		return nil, fmt.Errorf("chart: cannot draw %d charts in one picture: want 1 to %d", len(charts), maxCharts)
	}
	columns := 1
	if len(charts) > oneColumn {
		columns = 2
	}
	rows := (len(charts) + columns - 1) / columns
	p := &plotPicture{
		panels: make([]panel, len(charts)),
		tiles:  draw.Tiles{Rows: rows, Cols: columns, PadX: border, PadY: border},
	}
	var legend, height vg.Length = 0, panelHeight // the highest
	for i := range charts {
		if err := p.panels[i].build(&charts[i]); err != nil {
			return nil, err
		}
		legend, height = max(legend, p.panels[i].legendHeight()), max(height, charts[i].barsHeight())
	}
	p.width, p.height = vg.Length(columns)*panelWidth+2*border, vg.Length(rows)*(height+legend)+2*border
	return p, nil
}

func (p *plotPicture) draw(canvas vg.CanvasSizer) {
	all := draw.Crop(paper(canvas), border, -border, border, -border)
	for i := range p.panels {
		p.panels[i].draw(p.tiles.At(all, i%p.tiles.Cols, i/p.tiles.Cols))
	}
}

// Figure draws one chart, without its title, as an svg element that can stand in a page with others.
func Figure(w io.Writer, c Chart) error {
	c.Title = ""
	var p panel
	if err := p.build(&c); err != nil {
		return err
	}
	height := vg.Length(figureHeight)
	if c.bars() {
		height = c.barsHeight() + p.legendHeight()
	}
	canvas := vgsvg.New(figureWidth, height)
	p.draw(draw.Crop(paper(canvas), 2, -2, 2, -2))
	var b bytes.Buffer
	if err := write(&b, canvas); err != nil {
		return err
	}
	_, svg, _ := bytes.Cut(b.Bytes(), []byte("<svg")) // the XML declaration before it belongs to a file
	_, err := w.Write(append([]byte("<svg"), svg...))
	return err
}

func paper(canvas vg.CanvasSizer) draw.Canvas {
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	return c
}

// write writes a picture. The typeface is not in an SVG: readers without it need the names of others of the same
// widths.
func write(w io.Writer, picture io.WriterTo) error {
	var b bytes.Buffer
	if _, err := picture.WriteTo(&b); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	const family = "font-family:Liberation Sans;"
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte(family),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")))
	return err
}

func (c *Chart) bars() bool { return c.Categories != nil }

func (c *Chart) barsHeight() vg.Length {
	return vg.Length(len(c.Categories)*(groupStep+barStep*len(c.Series))) + figureFrame
}

func shown(v float64) bool { return math.Abs(v) <= largest }
