package chart

import (
	"bytes"
	"fmt"
	"io"

	"gonum.org/v1/plot/vg"
)

// The sizes of a figure: as wide as a telephone, so that its words can be read there without a magnifying glass.
const (
	figureWidth  = 3.45 * vg.Inch
	figureHeight = 2.75 * vg.Inch
	figureBorder = 0.03 * vg.Inch
	barStep      = 13 // from one lying bar to the next
	groupStep    = 9  // from one group of them to the next, beside the bars
)

// Figure draws one chart, without its title, as an svg element that can stand in a page with others.
func Figure(w io.Writer, c Chart) error {
	if err := c.check(); err != nil {
		return err
	}
	t, err := letters()
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	c.Title = ""
	width, height := figureWidth, figureHeight
	legend := t.legendOf(&c, width-2*figureBorder-2*padding)
	if c.lying() {
		height = vg.Length(len(c.Categories)*(groupStep+barStep*len(c.Series))) + legend.height() + 3*textStep + 2*padding
	}
	s := sheet{format: "svg", letters: t}
	s.open(width, height)
	s.panel(&c, area{figureBorder, figureBorder, width - figureBorder, height - figureBorder}, true)
	var b bytes.Buffer
	if err := s.write(&b); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	svg := b.Bytes()
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:] // what stands before belongs to a file
	}
	_, err = w.Write(svg)
	return err
}
