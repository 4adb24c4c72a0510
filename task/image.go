package task

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/config"
	"cfq/internal/message"
)

// Pixels is an image: Standardized inputs, of which each is a feature. No feature of Task.Features has this encoding.
type Pixels struct {
	Shape []int // in the order of Layout
	// Layout is chw, for channels, rows, columns, as PyTorch has them, or hwc, as Keras has.
	Layout string
	Standardized
	// Means and Stds are of the channels, in raw units; nil when Mean and Std are for all.
	Means, Stds []float64
}

// Kind is image.
func (m *Pixels) Kind() string { return "image" }

func (m *Pixels) width() int {
	if len(m.Shape) != 3 {
		return 0
	}
	return m.Shape[0] * m.Shape[1] * m.Shape[2]
}

func (m *Pixels) inputName(name string, j int) string { return m.pixelName(name, j) }

func (m *Pixels) declare(d *fileDecoder, _ *Task) ([]key, func(featureEntry)) {
	return []key{
		{Name: "shape", Value: config.Listed(&d.Decoder, &m.Shape, func(v *int) value { return d.Count(v, 1) })},
		{Name: "layout", Value: config.Word(&d.Decoder, &m.Layout, "chw", "hwc")},
		{Name: "mean", Value: d.orList(d.Number, &m.Mean, &m.Means), Keep: true},
		{Name: "std", Value: d.orList(d.Above0, &m.Std, &m.Stds)},
	}, m.validate
}

const (
	maxChannels = 4
	maxPixels   = 1 << 16 // numbers of one image, each of which is a feature
)

func (m *Pixels) place(i int) (channel, row, column int) {
	channels, rows, columns := m.Axes()
	if m.Layout == "hwc" {
		return i % channels, i / channels / columns, i / channels % columns
	}
	return i / columns / rows, i / columns % rows, i % columns
}

// Axes returns the number of channels, rows and columns.
func (m *Pixels) Axes() (channels, rows, columns int) {
	if m.Layout == "hwc" {
		return m.Shape[2], m.Shape[0], m.Shape[1]
	}
	return m.Shape[0], m.Shape[1], m.Shape[2]
}

// pixelName is the name of an input: name.row.column, with several channels name.channel.row.column, from 0.
func (m *Pixels) pixelName(base string, i int) string {
	channel, row, column := m.place(i)
	if channels, _, _ := m.Axes(); channels > 1 {
		return fmt.Sprintf("%s.%d.%d.%d", base, channel, row, column)
	}
	return fmt.Sprintf("%s.%d.%d", base, row, column)
}

func (f *Feature) pixels() []Feature {
	m := f.image()
	channels, _, _ := m.Axes()
	encodings := make([]*Standardized, channels)
	for c := range encodings {
		encodings[c] = &Standardized{Mean: m.Mean, Std: m.Std}
		if m.Means != nil {
			encodings[c].Mean, encodings[c].Std = m.Means[c], m.Stds[c]
		}
	}
	all := make([]Feature, m.width())
	for i := range all {
		channel, _, _ := m.place(i)
		all[i] = Feature{
			Name: m.pixelName(f.Name, i), Column: m.pixelName(f.Column, i), Encoding: encodings[channel], Action: f.Action,
			Offset: f.Offset + i, Width: 1,
		}
	}
	return all
}

func (f *Feature) image() *Pixels {
	m, _ := f.Encoding.(*Pixels)
	return m
}

// Entries returns the features as the file lists them: an image instead of its pixels.
func (t *Task) Entries() (all []Feature) {
	for i := 0; i < len(t.Features); i++ {
		f := t.Features[i]
		if im := t.imageOf(&f); im != nil {
			f = *im
			i += im.Width - 1
		}
		all = append(all, f)
	}
	return all
}

// Column is a feature, or the pixels of one channel of an image, of which the feature is one, by another name.
type Column struct {
	Feature
	At []int // where the inputs of each value begin
}

// Columns returns the features with all pixels of a channel as one.
func (t *Task) Columns() []Column {
	var all []Column
	for _, f := range t.Entries() {
		m := f.image()
		if m == nil {
			all = append(all, Column{f, []int{f.Offset}})
			continue
		}
		channels, _, _ := m.Axes()
		of := make([]Column, channels)
		for i, p := range f.pixels() {
			channel, _, _ := m.place(i)
			c := &of[channel]
			if c.At == nil {
				if c.Feature, c.Name = p, f.Name; channels > 1 {
					c.Name = fmt.Sprintf("%s.%d", f.Name, channel)
				}
			}
			c.At = append(c.At, p.Offset)
		}
		all = append(all, of...)
	}
	return all
}

// IsPixel reports whether a feature is a pixel of an image.
func (t *Task) IsPixel(f *Feature) bool { return t.imageOf(f) != nil }

func (t *Task) imageOf(f *Feature) *Feature {
	for i := range t.Images {
		if im := &t.Images[i]; f.Offset >= im.Offset && f.Offset < im.Offset+im.Width {
			return im
		}
	}
	return nil
}

type imageColumn struct {
	*Feature
	first int // of its pixels among Task.Features
	at    int // of a record
}

// pixelColumns returns the columns of a file with those of pixels that are numbered from 0 or 1 by the pixels' names.
func (t *Task) pixelColumns(names []string) []string {
	for i := range t.Images {
		f := &t.Images[i]
		m := f.image()
		if slices.Contains(names, m.pixelName(f.Column, 0)) || slices.Contains(names, f.Column) {
			continue
		}
		first := 0
		if !slices.Contains(names, f.Column+"0") {
			first = 1
		}
		number := map[string]int{}
		for k := range f.Width {
			number[f.Column+strconv.Itoa(k+first)] = k
		}
		names = slices.Clone(names)
		for j, name := range names {
			if k, ok := number[name]; ok {
				names[j] = m.pixelName(f.Column, k)
			}
		}
	}
	return names
}

func (rd *peopleReader) encodeImage(im *imageColumn, field string, dst []float32) *Problem {
	pixels, err := rd.pixelsOf(im.Feature, field)
	for k, v := range pixels {
		x := rd.task.Features[im.first+k].ToInput(float64(v))
		if dst[im.Offset+k] = x; math.IsInf(float64(x), 0) {
			err = fmt.Errorf("the pixel %d is too large for a model input", v)
		}
	}
	if err != nil {
		return &Problem{Column: im.Column, Reason: err.Error()}
	}
	return nil
}

// pixelsOf are the numbers of an image in the order of the inputs: the field itself in an IDX file, else those of the
// PNG file that it names.
func (rd *peopleReader) pixelsOf(f *Feature, field string) ([]byte, error) {
	if rd.source.dims == nil {
		data, config, err := readPNG(field, rd.source.folder)
		if err != nil {
			return nil, err
		}
		pixels, err := f.fromPNG(data, config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", message.Quote(field), err)
		}
		return pixels, nil
	}
	if len(field) != f.Width {
		return nil, fmt.Errorf("%d bytes are not the %d numbers of an image of the shape %v", len(field), f.Width,
			f.image().Shape)
	}
	return []byte(field), nil
}

const maxName = 1024

// readPNG reads the PNG file that a field names, and its size: before memory is made for what it says.
func readPNG(field, folder string) (data []byte, size image.Config, err error) {
	switch {
	case field == "":
		return nil, size, errors.New("the image is missing")
	case len(field) > maxName || strings.ContainsRune(field, 0):
		return nil, size, fmt.Errorf("%d bytes are not the name of a PNG file", len(field))
	case folder == "":
		return nil, size, fmt.Errorf("%s cannot be read: only a data file may name files of images", message.Quote(field))
	case !filepath.IsLocal(filepath.FromSlash(field)):
		return nil, size, fmt.Errorf("%s: name the file relative to the folder of the data file, and within it",
			message.Quote(field))
	}
	if data, err = os.ReadFile(filepath.Join(folder, filepath.FromSlash(field))); err != nil {
		return nil, size, err
	}
	if !bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) {
		return nil, size, fmt.Errorf("%s is no PNG file; convert it to PNG", message.Quote(field))
	}
	if size, err = png.DecodeConfig(bytes.NewReader(data)); err != nil {
		return nil, size, fmt.Errorf("%s: %w", message.Quote(field), err)
	}
	return data, size, nil
}

func (f *Feature) fromPNG(data []byte, config image.Config) ([]byte, error) {
	m := f.image()
	channels, rows, columns := m.Axes()
	if config.Width != columns || config.Height != rows {
		return nil, fmt.Errorf("the image has %d x %d pixels, and the task says %d x %d (width x height)", config.Width,
			config.Height, columns, rows)
	}
	if slices.Contains([]color.Model{color.Gray16Model, color.RGBA64Model, color.NRGBA64Model}, config.ColorModel) {
		return nil, errors.New("the PNG has 16 bits a channel; convert it to 8")
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	order := [][]int{1: {0}, 2: {0, 3}, 3: {0, 1, 2}, 4: {0, 1, 2, 3}}[channels] // of grey, red, green, blue, alpha
	out := make([]byte, f.Width)
	for i := range out {
		channel, row, column := m.place(i)
		at := picture.Bounds().Min.Add(image.Pt(column, row))
		c, ok := color.NRGBAModel.Convert(picture.At(at.X, at.Y)).(color.NRGBA)
		if !ok || channels < 3 && (c.R != c.G || c.G != c.B) {
			return nil, fmt.Errorf("the image has colours, and the task says %d channels", channels)
		}
		out[i] = [...]byte{c.R, c.G, c.B, c.A}[order[channel]]
	}
	return out, nil
}

func (m *Pixels) validate(e featureEntry) {
	if !e.Has("bounds") {
		e.Bounds = [2]float64{0, 255}
	}
	if !e.Has("step") {
		e.Step = 1
	}
	size, channels, shape := 1.0, 0, m.Shape
	for _, v := range shape {
		size *= float64(v)
	}
	if len(shape) == 3 {
		channels, _, _ = m.Axes()
	}
	m.Shape = nil // that of a mistake has no pixels
	switch {
	case len(shape) != 3:
		e.errorf("shape", "an image needs its shape, three numbers in the order of its layout, as [1, 28, 28] for %s",
			m.Layout)
	case size > maxPixels:
		e.errorf("shape", "an image has at most %d numbers, not %.0f", maxPixels, size)
	case channels > maxChannels:
		e.errorf("shape", "an image has 1 to 4 channels, not %d; layout is chw for channels, rows, columns, and hwc for "+
			"rows, columns, channels", channels)
	case (m.Means == nil) != (m.Stds == nil):
		e.errorf("mean", "mean and std are both lists, one number for each channel, or both one number for all")
	case m.Means != nil && (len(m.Means) != channels || len(m.Stds) != channels):
		e.errorf("mean", "mean and std have one number for each of %d channels", channels)
	default:
		m.Shape = shape
	}
}
