package task

import (
	"errors"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ImageFile is what a data file says of its images.
type ImageFile struct {
	Data          Data     // how text is read; Delimiter 0 where the file is none
	Names         []string // its columns; those of IDX files and folders have none but these: the image and the label
	Named         bool     // the file itself names them
	Column        string   // of the images, or what the names of the columns of their pixels begin with
	Rows, Columns int      // of an image; 0 where the file does not say
	Grey          bool     // the file says that a pixel is one number
}

// FindImages looks for images in a data file, by its first row; in a table only if numbers is not 0, how many an image
// has. It returns nil when there are none. how says how text is read, see NewRows.
func FindImages(path string, numbers int, how func(head []byte) (*Data, error)) (*ImageFile, error) {
	return FromFile(path, func(r io.Reader) (*ImageFile, error) { return findImages(r, path, numbers, how) })
}

func findImages(r io.Reader, path string, numbers int, how func(head []byte) (*Data, error)) (*ImageFile, error) {
	found := &ImageFile{Column: "pixel"}
	rows, err := imageRows(r.(*os.File), []string{found.Column, "label"}) //nolint:forcetypeassert // FromFile opens one
	switch {
	case err != nil || rows == nil && numbers == 0:
		return nil, err
	case rows == nil:
		rows, err = NewRows(r, func(head []byte) (*Data, error) {
			d, err := how(head)
			if d != nil {
				found.Data = *d
			}
			return d, err
		})
		if err != nil {
			return nil, err
		}
		return found.inRows(rows, numbers, filepath.Dir(path))
	}
	found.Names = rows.Names
	switch d := rows.dims; {
	case d == nil: // a folder
		file, _, err := rows.Next()
		if err != nil {
			return nil, err
		}
		return found, found.size(file[0], path)
	case len(d) == 2 || len(d) == 3 && d[2] <= maxChannels:
		found.Rows, found.Columns, found.Grey = d[0], d[1], len(d) == 2
	case len(d) == 3:
		found.Rows, found.Columns = d[1], d[2]
	}
	return found, nil
}

// inRows looks for images in the first record of a table, and for columns of pixels; nil when there are none.
func (p *ImageFile) inRows(rows *Rows, numbers int, folder string) (*ImageFile, error) {
	p.Names, p.Named = rows.Names, true
	if p.Names == nil && p.Data.Columns != nil {
		p.Names, p.Named = p.Data.Columns, false
	}
	var rec []string
	for rec == nil {
		fields, _, err := rows.Next()
		var bad *Problem
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil //nolint:nilnil // no row, no image
		case errors.As(err, &bad):
		case err != nil:
			return nil, err
		case p.Names == nil:
			p.Names = trimmed(fields)
		default:
			rec = fields
		}
	}
	for i, field := range rec[:min(len(rec), len(p.Names))] {
		if strings.HasSuffix(field, ".png") {
			p.Column = p.Names[i]
			return p, p.size(field, folder)
		}
	}
	for _, name := range p.Names {
		base := strings.TrimRight(name, "0123456789")
		for first := range 2 {
			if base != "" && name == base+strconv.Itoa(first) && p.numbered(base, first, numbers) {
				p.Column = base
				return p, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // a table of other things
}

func (p *ImageFile) numbered(base string, first, numbers int) bool {
	has := map[string]bool{}
	for _, n := range p.Names {
		has[n] = true
	}
	for k := range numbers {
		if !has[base+strconv.Itoa(k+first)] {
			return false
		}
	}
	return !has[base+strconv.Itoa(numbers+first)]
}

func (p *ImageFile) size(field, folder string) error {
	_, config, err := readPNG(field, folder)
	p.Rows, p.Columns, p.Grey = config.Height, config.Width, config.ColorModel == color.GrayModel
	return err
}
