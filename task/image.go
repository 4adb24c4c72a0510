package task

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
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

func (rd *peopleReader) rows(r io.Reader) (*Rows, error) {
	t := rd.task
	if file, ok := r.(*os.File); ok {
		var names []string // of files that have none: of the first image, and of the label
		if len(t.Images) > 0 {
			names = []string{t.Images[0].Column, cmp.Or(t.Data.Label, "label")}
		}
		rows, err := imageRows(file, names)
		if rows != nil || err != nil {
			return rows, err
		}
	}
	return t.Data.rows(r)
}

// imageRows reads the images of an IDX file or of a folder of PNG files, and their labels, as columns of these names.
// It returns nil for other files, and where there are no names.
func imageRows(file *os.File, names []string) (*Rows, error) {
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir() && names == nil:
		return nil, errors.New("this is a folder; a folder of PNG files needs a feature of kind image in the task file")
	case info.IsDir():
		return folderRows(file.Name(), names)
	case names == nil || !info.Mode().IsRegular(): // what is no file can be read once
		return nil, nil //nolint:nilnil // not images
	}
	if is, err := isIDX(file); err != nil || !is {
		return nil, err
	}
	return idxRows(file, names)
}

// idxItems reads the items of an IDX file: byte tensors, as MNIST and its kin have them.
type idxItems struct {
	in   *bufio.Reader
	left int
	item []byte // room for one
	dims []int
}

const idxMagic = "\x00\x00\x08"

func isIDX(f *os.File) (bool, error) {
	in, err := plainText(f)
	if err != nil {
		return false, err
	}
	is := starts(in, idxMagic)
	_, err = f.Seek(0, io.SeekStart)
	return is, err
}

func newIDX(r io.Reader) (*idxItems, error) {
	in, err := plainText(r)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:3]) != idxMagic || head[3] < 1 || head[3] > 4 {
		return nil, errors.New("this is no IDX file of bytes")
	}
	sizes := make([]uint32, head[3])
	if err := binary.Read(in, binary.BigEndian, sizes); err != nil {
		return nil, errors.New("the IDX file ends in its header")
	}
	x, size := &idxItems{in: in, left: int(sizes[0])}, 1
	for _, n := range sizes[1:] {
		x.dims = append(x.dims, int(n))
		if n == 0 {
			return nil, fmt.Errorf("an item of the IDX file has the dimensions %v: it is empty", x.dims)
		}
		if n > maxRecord || size*int(n) > maxRecord {
			return nil, fmt.Errorf("an item of the IDX file has the dimensions %v: more than 1 MiB", x.dims)
		}
		size *= int(n)
	}
	x.item = make([]byte, size)
	return x, nil
}

func (x *idxItems) next() ([]byte, error) {
	if x.left == 0 {
		return nil, io.EOF
	}
	x.left--
	if _, err := io.ReadFull(x.in, x.item); err != nil {
		return nil, fmt.Errorf("the IDX file ends %d items early", x.left+1)
	}
	return x.item, nil
}

// idxRows opens an IDX file of images. Labels are in the file whose name has "labels" for "images" and "idx1" for
// "idx3", as MNIST's files are called.
func idxRows(f *os.File, names []string) (*Rows, error) {
	images, err := newIDX(f)
	if err != nil {
		return nil, err
	}
	if len(images.dims) == 0 {
		return nil, errors.New("this IDX file holds single numbers, the labels perhaps; name the file of the images")
	}
	var labels *idxItems
	if path := labelsBeside(f.Name()); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if labels, err = newIDX(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		if labels.left != images.left || len(labels.dims) > 0 {
			return nil, fmt.Errorf("%s has %d labels of dimensions %v for %d images", filepath.Base(path), labels.left,
				labels.dims, images.left)
		}
	} else {
		names = names[:1]
	}
	row := 0
	return &Rows{Names: names, count: images.left, dims: images.dims, Next: func() ([]string, int, error) {
		image, err := images.next()
		if err != nil {
			return nil, 0, err
		}
		row++
		fields := []string{string(image)}
		if labels != nil {
			label, err := labels.next()
			if err != nil {
				return nil, 0, fmt.Errorf("labels: %w", err)
			}
			fields = append(fields, fmt.Sprint(label[0]))
		}
		return fields, row, nil
	}}, nil
}

// labelsBeside is the file of the labels of an IDX file of images; "" where its name does not tell, or there is none.
func labelsBeside(path string) string {
	folder, name := filepath.Split(path)
	labels := strings.NewReplacer("images", "labels", "idx3", "idx1", "idx4", "idx1").Replace(name)
	if _, err := os.Stat(folder + labels); labels == name || errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return folder + labels
}

// Beside returns the file of labels that belongs to an IDX file of images; "" of other files, and where there is none.
func Beside(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	if is, err := isIDX(f); err != nil || !is {
		return ""
	}
	return labelsBeside(path)
}

// ImagesIn returns the PNG files of a folder and of those in it, in their order, with slashes. Images of other formats
// are an error: people would be missing without a word.
func ImagesIn(path string) (files []string, err error) {
	var add func(prefix string) error
	add = func(prefix string) error {
		all, err := os.ReadDir(filepath.Join(path, prefix))
		for _, e := range all {
			name, isDir := prefix+e.Name(), e.IsDir()
			if e.Type()&os.ModeSymlink != 0 {
				info, err := os.Stat(filepath.Join(path, name))
				isDir = err == nil && info.IsDir()
			}
			switch ext := strings.ToLower(filepath.Ext(name)); {
			case isDir && prefix == "":
				if err := add(name + "/"); err != nil {
					return err
				}
			case ext == ".png":
				files = append(files, name)
			case slices.Contains([]string{".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}, ext):
				return fmt.Errorf("%s is no PNG file: convert it, or take it out of the folder", name)
			}
		}
		return err
	}
	if err := add(""); err != nil {
		return nil, err
	}
	slices.Sort(files)
	if len(files) == 0 {
		return nil, errors.New("there are no .png files in the folder, or in the folders in it; those further down are " +
			"not looked at")
	}
	return files, nil
}

func folderRows(path string, names []string) (*Rows, error) {
	files, err := ImagesIn(path)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(files, func(name string) bool { return strings.Contains(name, "/") }) {
		names = names[:1]
	}
	row := 0
	return &Rows{Names: names, count: len(files), folder: path, Next: func() ([]string, int, error) {
		if row == len(files) {
			return nil, 0, io.EOF
		}
		file := files[row]
		row++
		label, _, in := strings.Cut(file, "/")
		if !in {
			label = ""
		}
		return []string{file, label}[:len(names)], row, nil
	}}, nil
}

// ImageFile is what an IDX file or a folder of PNG files says of its images.
type ImageFile struct {
	Names         []string // of its columns: the images, and their labels where it has some
	Rows, Columns int      // of an image; 0 where the file does not say
	Grey          bool     // the file says that a pixel is one number
}

// FindImages looks at an IDX file or a folder of PNG files. It returns nil for other files.
func FindImages(path string) (*ImageFile, error) {
	return FromFile(path, func(r io.Reader) (*ImageFile, error) {
		rows, err := imageRows(r.(*os.File), []string{"pixel", "label"}) //nolint:forcetypeassert // FromFile opens one
		if err != nil || rows == nil {
			return nil, err
		}
		found := &ImageFile{Names: rows.Names}
		switch d := rows.dims; {
		case d == nil: // a folder
			file, _, err := rows.Next()
			if err != nil {
				return nil, err
			}
			_, config, err := readPNG(file[0], path)
			found.Rows, found.Columns, found.Grey = config.Height, config.Width, config.ColorModel == color.GrayModel
			return found, err
		case len(d) == 2 || len(d) == 3 && d[2] <= maxChannels:
			found.Rows, found.Columns, found.Grey = d[0], d[1], len(d) == 2
		case len(d) == 3:
			found.Rows, found.Columns = d[1], d[2]
		}
		return found, nil
	})
}
