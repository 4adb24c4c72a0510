package chart

import (
	"cmp"
	"fmt"
	"image/color"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"cfq/internal/message"
)

type panel struct {
	*plot.Plot
	chart   *Chart
	bars    []*plotter.BarChart // of each series; their width depends on the canvas
	entries int                 // of the legend
}

func (p *panel) build(c *Chart) error {
	*p = panel{Plot: plot.New(), chart: c}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.TextStyle.Font = sans(10.5)
	p.Title.TextStyle.Font.Weight = xfont.WeightBold
	p.Title.Padding = 4
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(9), sans(8)
		a.Tick.Length = 4
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe2}, color.Gray{0xe2}
	if c.bars() { // whose categories need no lines
		grid.Horizontal.Width = 0
	}
	p.Add(grid)
	for k := range c.Series {
		add := p.addLine
		if c.bars() {
			add = p.addBars
		}
		if err := add(k); err != nil {
			return fmt.Errorf("chart %q: %w", c.Title, err)
		}
	}
	p.ranges()
	return nil
}

const legendLine = 13

func (p *panel) legendHeight() vg.Length { return vg.Length(p.entries) * legendLine }

// addEntry adds a series to the legend, which is above the data. One series without a name needs none.
func (p *panel) addEntry(name string, samples ...plot.Thumbnailer) {
	if name == "" && len(p.chart.Series) == 1 {
		return
	}
	p.entries++
	p.Legend.Add(cmp.Or(name, " "), samples...)
	p.Legend.TextStyle.Font, p.Legend.Padding = sans(9), 2
	p.Legend.Top, p.Legend.Left, p.Legend.YOffs = true, true, p.legendHeight()
	p.Title.Padding = p.legendHeight() + 4
	p.Title.Text = cmp.Or(p.Title.Text, " ") // gonum leaves out the padding of no title
}

// ends returns the bounds of point i's error bar as distances from y, or false without one that can be shown.
func (c *Chart) ends(s *Series, i int) (low, high float64, ok bool) {
	if s.Low == nil || !shown(s.Y[i]) || !shown(s.Low[i]) || !shown(s.High[i]) {
		return 0, 0, false
	}
	return max(0, s.Y[i]-s.Low[i]), max(0, s.High[i]-s.Y[i]), true
}

type errorBars struct {
	plotter.XYs
	plotter.YErrors
}

func (e *errorBars) add(x, y, low, high float64) {
	e.XYs = append(e.XYs, plotter.XY{X: x, Y: y})
	e.YErrors = append(e.YErrors, struct{ Low, High float64 }{low, high})
}

// XError makes the same distances horizontal.
func (e *errorBars) XError(i int) (low, high float64) { return e.YError(i) }

func (p *panel) addLine(k int) error {
	s := &p.chart.Series[k]
	var all plotter.XYs
	var ends errorBars
	stroke := draw.LineStyle{Color: colour(k), Width: 1.4, Dashes: plotutil.Dashes(k)}
	for i, start := 0, 0; i <= len(s.Y); i++ {
		if i < len(s.Y) && shown(s.X[i]) && shown(s.Y[i]) {
			all = append(all, plotter.XY{X: s.X[i], Y: s.Y[i]})
			if low, high, ok := p.chart.ends(s, i); ok {
				ends.add(s.X[i], s.Y[i], low, high)
			}
			continue
		}
		if len(all)-start > 1 {
			line, err := plotter.NewLine(all[start:])
			if err != nil {
				return err
			}
			line.LineStyle = stroke
			p.Add(line)
		}
		start = len(all)
	}
	if len(ends.XYs) > 0 {
		faint := colour(k)
		faint.A = 0x80
		if err := p.addErrors(ends, faint); err != nil {
			return err
		}
	}
	samples := []plot.Thumbnailer{&plotter.Line{LineStyle: stroke}}
	if len(all) > 0 && !s.NoMarkers {
		marks, err := plotter.NewScatter(all)
		if err != nil {
			return err
		}
		marks.GlyphStyle = draw.GlyphStyle{Color: colour(k), Radius: 2.8, Shape: plotutil.Shape(k)}
		p.Add(marks)
		samples = append(samples, marks)
	}
	p.addEntry(s.Name, samples...)
	return nil
}

func (p *panel) addErrors(ends errorBars, c color.Color) error {
	stroke := draw.LineStyle{Color: c, Width: 0.8}
	if p.chart.bars() {
		bars, err := plotter.NewXErrorBars(&ends)
		if err == nil {
			bars.LineStyle = stroke
			p.Add(bars)
		}
		return err
	}
	bars, err := plotter.NewYErrorBars(&ends)
	if err == nil {
		bars.LineStyle = stroke
		p.Add(bars)
	}
	return err
}

const groupWidth = 0.8

func (p *panel) addBars(k int) error {
	s, n := &p.chart.Series[k], float64(len(p.chart.Series))
	shift := groupWidth * ((float64(k)+0.5)/n - 0.5)
	values := make(plotter.Values, len(s.Y))
	var ends errorBars
	for i, y := range s.Y {
		if shown(y) {
			values[i] = y
		}
		if low, high, ok := p.chart.ends(s, i); ok {
			ends.add(y, float64(i)+shift, low, high)
		}
	}
	if len(values) == 0 {
		return nil
	}
	bars, err := plotter.NewBarChart(values, 1)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle, bars.XMin, bars.Horizontal = colour(k), draw.LineStyle{}, shift, true
	p.Add(bars)
	p.bars = append(p.bars, bars)
	p.addEntry(s.Name, bars)
	if len(ends.XYs) > 0 {
		return p.addErrors(ends, color.Gray{0x40})
	}
	return nil
}

func (p *panel) ranges() {
	c, value := p.chart, &p.Y
	if c.bars() {
		value = &p.X
		var ticks plot.ConstantTicks
		for i, name := range c.Categories {
			ticks = append(ticks, plot.Tick{Value: float64(i), Label: message.Tail(name, 24)})
		}
		p.Y.Min, p.Y.Max = -0.5, float64(max(len(ticks), 1))-0.5
		p.Y.Scale, p.Y.Padding = plot.InvertedScale{Normalizer: plot.LinearScale{}}, 0
		p.Y.Tick.Length, p.Y.Tick.Marker = 0, ticks
	} else {
		widen(&p.X)
	}
	if widen(value); value.Min > 0 && value.Min < value.Max/2 {
		value.Min = 0
	}
}

// widen gives an axis a length that can be divided into ticks.
func widen(a *plot.Axis) {
	if a.Min > a.Max {
		a.Min, a.Max = 0, 1
	}
	if size := max(math.Abs(a.Min), math.Abs(a.Max)); a.Max-a.Min <= max(1e-9*size, smallest) {
		half := max(0.05*size, 1e-3)
		a.Min, a.Max = a.Min-half, a.Max+half
	}
}

func (p *panel) draw(c draw.Canvas) {
	for _, b := range p.bars {
		slot := p.DataCanvas(c).Size().Y / vg.Length(len(p.chart.Categories))
		b.Width = max(0.92*groupWidth*slot/vg.Length(len(p.bars)), 0.1)
	}
	p.Draw(c)
}

// colour returns the colour of series k: those of Okabe and Ito but yellow, which is too light for lines on white.
//
// References: Okabe and Ito, Color Universal Design, 2008.
func colour(k int) color.NRGBA {
	colours := []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, // blue
		{0xd5, 0x5e, 0x00, 0xff}, // vermilion
		{0x00, 0x9e, 0x73, 0xff}, // bluish green
		{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
		{0x00, 0x00, 0x00, 0xff}, // black
		{0xe6, 0x9f, 0x00, 0xff}, // orange
		{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	}
	return colours[k%len(colours)]
}

// sans is a typeface with the widths of Arial, which most systems have instead.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}
