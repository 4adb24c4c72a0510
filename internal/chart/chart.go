// Package chart draws line and bar charts as SVG or PNG.
//
// In: charts, which are numbers with names. Out: one picture with all of them, one
// beneath the other, or in two columns when there are more than three; or one
// chart as a part of a page. The invariants: the same charts give the same bytes; no legend lies on data; series
// differ in colour, dash and marker, in colours that colour-blind people can tell apart.
package chart

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Series is a line of points, in the order in which they are joined, or the bars of one
// colour. Where a value cannot be shown (it is not finite, or not positive on a
// logarithmic axis) there is no point and the line is broken.
type Series struct {
	Name string
	X, Y []float64 // X is not used by bars
	// Low and High, if there are any, are the ends of each point's error bar.
	Low, High []float64
	// Bare leaves out the markers of the points, for lines of many.
	Bare bool
}

// Chart is one pair of axes.
type Chart struct {
	Title, X, Y string // titles of the chart and of its axes
	LogX, LogY  bool
	// Categories make it a chart of grouped bars: one group for each category, in
	// which the bar of series k is as high as its Y for that category.
	Categories []string
	// Lying makes the bars lie, each category beneath the one before, which leaves room for long names. Their
	// axis has the title X.
	Lying  bool
	Rules  []float64 // x of lines across a chart that has no bars
	Series []Series
}

// The sizes of the picture, on paper; a PNG has resolution dots per inch.
const (
	panelWidth  = 5.4 * vg.Inch
	panelHeight = 3.5 * vg.Inch
	border      = 0.12 * vg.Inch
	resolution  = 110
	oneColumn   = 3  // as many charts stand one beneath the other
	mostCharts  = 40 // beyond, nobody finds anything
)

// largest is the largest number that axes go to, so that sums of such numbers are finite.
const largest = 1e300

// Formats lists the formats that Draw knows.
func Formats() []string { return []string{"svg", "png"} }

// Draw draws charts in one of the Formats. Charts that all have series of the same
// names share a legend above them, others have one each.
func Draw(w io.Writer, format string, charts ...Chart) error {
	if !slices.Contains(Formats(), format) {
		return fmt.Errorf("chart: there is no format %q, only svg and png", format)
	}
	if len(charts) == 0 || len(charts) > mostCharts {
		return fmt.Errorf("chart: %d charts cannot be drawn in one picture, 1 to %d can", len(charts), mostCharts)
	}
	var errs []error
	for i := range charts {
		errs = append(errs, charts[i].check())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	t, err := letters()
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	columns := 1
	if len(charts) > oneColumn {
		columns = 2
	}
	inner := vg.Length(columns) * panelWidth
	var shared legend
	if common(charts) {
		shared = t.legendOf(&charts[0], inner)
	}
	rows := vg.Length((len(charts) + columns - 1) / columns)
	s := sheet{format: format, letters: t}
	s.open(inner+2*border, rows*panelHeight+2*border+shared.height())
	all := area{border, border, border + inner, border + rows*panelHeight + shared.height()}
	s.legend(shared, area{all.left, all.top - shared.height(), all.right, all.top})
	for i := range charts {
		left, top := all.left+vg.Length(i%columns)*panelWidth, all.top-shared.height()-vg.Length(i/columns)*panelHeight
		s.panel(&charts[i], area{left, top - panelHeight, left + panelWidth, top}, shared == nil)
	}
	if err := s.write(w); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}

// check reports numbers that do not belong together.
func (c *Chart) check() error {
	var errs []error
	bad := func(s *Series, format string, args ...any) {
		errs = append(errs, fmt.Errorf("chart %q, series %q: %s", c.Title, s.Name, fmt.Sprintf(format, args...)))
	}
	for i := range c.Series {
		s := &c.Series[i]
		switch n := len(s.Y); {
		case c.bars() && n != len(c.Categories):
			bad(s, "%d bars for %d categories", n, len(c.Categories))
		case !c.bars() && len(s.X) != n:
			bad(s, "%d values of x and %d of y", len(s.X), n)
		case (s.Low == nil) != (s.High == nil), s.Low != nil && (len(s.Low) != n || len(s.High) != n):
			bad(s, "%d lower and %d upper ends of error bars for %d points", len(s.Low), len(s.High), n)
		}
	}
	return errors.Join(errs...)
}

func (c *Chart) bars() bool  { return c.Categories != nil }
func (c *Chart) lying() bool { return c.bars() && c.Lying }

// common says whether one legend serves all charts.
func common(charts []Chart) bool {
	for i := range charts {
		if charts[i].bars() != charts[0].bars() ||
			!slices.EqualFunc(charts[i].Series, charts[0].Series, func(a, b Series) bool { return a.Name == b.Name }) {
			return false
		}
	}
	return len(charts) > 1
}

// shown says whether an axis can show v.
func shown(v float64, log bool) bool {
	return math.Abs(v) <= largest && (!log || v >= 1/largest)
}
