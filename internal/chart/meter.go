package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Meter is one number next to its limits: a bar from 0 to the value, a line from bound to bound, a shade where values
// are allowed and a mark where that ends. A number that is not finite is not drawn.
type Meter struct {
	Value     float64
	Low, High float64 // bounds of the value
	From, To  float64 // the values allowed
}

const meterHeight = 20

// SVG draws the meter as an svg element that is as wide as what it stands in. It has no letters and no colours of its
// own: the style of the page has those of its classes allowed, value, bounds and limit.
func (m Meter) SVG() string {
	from, to := 0.0, 0.0
	for _, x := range []float64{m.Value, m.Low, m.High, m.From, m.To} {
		if shown(x) {
			from, to = min(from, x), max(to, x)
		}
	}
	margin := 0.06 * (to - from) // what is at an end stays visible
	if margin == 0 {
		margin = 0.5
	}
	if from < 0 {
		from -= margin
	}
	to += margin
	at := func(x float64) string {
		return strconv.FormatFloat(100*(min(max(x, from), to)-from)/(to-from), 'f', 2, 64) + "%"
	}
	var b strings.Builder
	box := func(class string, x0, x1, y, height float64) {
		fmt.Fprintf(&b, `<rect class="%s" x="%s" y="%g" width="%s" height="%g" />`, class, at(x0), y,
			at(from+x1-x0), height)
	}
	line := func(class string, x0, x1, y0, y1 float64) {
		fmt.Fprintf(&b, `<line class="%s" x1="%s" x2="%s" y1="%g" y2="%g" />`, class, at(x0), at(x1), y0, y1)
	}
	const middle = meterHeight / 2
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="100%%" height="%d">`, meterHeight)
	box("allowed", max(m.From, from), min(m.To, to), 0, meterHeight)
	if shown(m.Value) {
		box("value", min(m.Value, 0), max(m.Value, 0), middle-4, 8)
		fmt.Fprintf(&b, `<circle class="value" cx="%s" cy="%d" r="4" />`, at(m.Value), middle)
	}
	low, high := shown(m.Low), shown(m.High)
	if low && high {
		line("bounds", m.Low, m.High, middle, middle)
	}
	for _, x := range []float64{m.Low, m.High} {
		if shown(x) {
			line("bounds", x, x, middle-4, middle+4)
		}
	}
	for _, x := range []float64{m.From, m.To} {
		if !math.IsInf(x, 0) {
			line("limit", x, x, 0, meterHeight)
		}
	}
	b.WriteString("</svg>")
	return b.String()
}
