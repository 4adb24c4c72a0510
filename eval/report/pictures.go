package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"

	"cfq/eval"
)

// Draw makes the images of points, which are model inputs: for each point one of every image that the task has.
type Draw func(points [][]float32) ([][]image.Image, error)

// Pictured is a person whose recourse at the headline margin is shown as images.
type Pictured struct {
	Who    string
	Images []Labelled
}

// Labelled is an image, as a PNG file, and what it shows.
type Labelled struct {
	Label string
	PNG   []byte
}

// At most so many people are shown as images, and as many pixels in all: an image may be large.
const (
	maxPictured = 8
	maxPixels   = 2 << 20
)

// Pictures shows people before and after recourse, those whose promise breaks first.
func Pictures(r *eval.Result, draw Draw) ([]Pictured, error) {
	h := r.Headline()
	if h < 0 {
		return nil, nil
	}
	order := func(a, b *eval.Record) int {
		if broken := a.Steps[h].Full.Broken(); broken != b.Steps[h].Full.Broken() {
			if broken {
				return -1
			}
			return 1
		}
		return byRow(a, b)
	}
	var people []*eval.Record
	for x, err := range r.Records.All() {
		if err != nil {
			return nil, err
		}
		if x.Evaluated && x.Steps[h].Full.Exists() && x.Steps[h].Full.Point != nil {
			at, _ := slices.BinarySearchFunc(people, x, order)
			people = slices.Insert(people, at, x)
			people = people[:min(len(people), maxPictured)]
		}
	}
	var list []Pictured
	pixels := 0
	for _, x := range people {
		p, n, err := pictured(x, h, draw)
		if err != nil {
			return nil, err
		}
		if pixels += n; pixels > maxPixels && len(list) > 0 {
			break
		}
		list = append(list, p)
	}
	return list, nil
}

func byRow(a, b *eval.Record) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Line, b.Line))
}

func pictured(x *eval.Record, h int, draw Draw) (p Pictured, pixels int, err error) {
	s := &x.Steps[h]
	points := [][]float32{x.X, s.Full.Point}
	if s.Quant.Exists() && s.Quant.Point != nil {
		points = append(points, s.Quant.Point)
	}
	all, err := draw(points)
	if err != nil {
		return p, 0, fmt.Errorf("report: images: %w", err)
	}
	both := func(full, quant eval.Float) string {
		return fmt.Sprintf("margin %s, quantized %s", signed(full, 2), signed(quant, 2))
	}
	add := func(label string, m image.Image) {
		var b bytes.Buffer
		if err == nil {
			err = png.Encode(&b, m)
		}
		size := m.Bounds().Size()
		pixels += size.X * size.Y
		p.Images = append(p.Images, Labelled{label, b.Bytes()})
	}
	for i, before := range all[0] {
		add("before: "+both(x.Full, x.Quant), before)
		add("after the original's recourse: "+both(s.Full.Own, s.Full.Other), all[1][i])
		add("what that changes", changed(before, all[1][i]))
		if len(all) > 2 {
			add("after the quantized model's: "+both(s.Quant.Other, s.Quant.Own), all[2][i])
			add("what that changes", changed(before, all[2][i]))
		}
	}
	p.Who = who(x.ID, x.Row, x.Line)
	if s.Full.Broken() {
		p.Who += ": the promise breaks"
	}
	return p, pixels, err
}

func who(id string, row, line int) string {
	switch {
	case id != "" && !strings.HasPrefix(id, eval.RowID):
		return id
	case line > 0:
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("row %d", row)
}

// changed is grey where nothing changes, lighter where an image gets lighter, and darker where it gets darker.
func changed(before, after image.Image) image.Image {
	r := before.Bounds()
	out := image.NewNRGBA(r)
	half := func(from, to uint8) uint8 { return uint8((int(to) - int(from) + 256) / 2) } //nolint:gosec // 0 to 255
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			a, _ := color.NRGBAModel.Convert(before.At(x, y)).(color.NRGBA)
			b, _ := color.NRGBAModel.Convert(after.At(x, y)).(color.NRGBA)
			out.SetNRGBA(x, y, color.NRGBA{half(a.R, b.R), half(a.G, b.G), half(a.B, b.B), 255})
		}
	}
	return out
}

func pictures(d *Document, how detail) pageBlock {
	if how == brief || len(d.Pictures) == 0 {
		return pageBlock{}
	}
	return pageBlock{Title: "What recourse looks like", People: d.Pictures, Lines: []string{"At the required margin of " +
		margin(d.Result.Settings.Margins[d.Result.Headline()]) +
		". Differences are grey where nothing changes, lighter and darker where the image gets so."}}
}
