package task

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	found, err := findImages(f, numbers, how)
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", path, err)
	}
	return found, nil
}

func findImages(f *os.File, numbers int, how func(head []byte) (*Data, error)) (*ImageFile, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	names := []string{"pixel", "label"}
	found := &ImageFile{Column: names[0]}
	if info.IsDir() {
		rows, err := newFolderRows(f.Name(), names)
		if err != nil {
			return nil, err
		}
		found.Names = rows.names
		return found, found.size(rows.files[0], f.Name())
	}
	idx, err := isIDX(f)
	if err != nil {
		return nil, err
	}
	if idx {
		rows, err := newIDXRows(f, names)
		if err != nil {
			return nil, err
		}
		found.Names = rows.names
		dims := rows.images.dims
		switch {
		case len(dims) == 2 || len(dims) == 3 && dims[2] <= maxChannels:
			found.Rows, found.Columns, found.Grey = dims[0], dims[1], len(dims) == 2
		case len(dims) == 3:
			found.Rows, found.Columns = dims[1], dims[2]
		}
		return found, nil
	}
	if numbers == 0 {
		return nil, nil //nolint:nilnil // a table
	}
	rows, err := NewRows(f, func(head []byte) (*Data, error) {
		d, err := how(head)
		if d != nil {
			found.Data = *d
		}
		return d, err
	})
	if err != nil {
		return nil, err
	}
	return found.inRows(rows, numbers, filepath.Dir(f.Name()))
}

func (p *ImageFile) inRows(rows Rows, numbers int, folder string) (*ImageFile, error) {
	p.Names, p.Named = rows.Names(), true
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
			p.Names = trimmed(slices.Clone(fields))
			for i := range p.Names {
				p.Names[i] = strings.Clone(p.Names[i])
			}
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
	if !filepath.IsLocal(filepath.FromSlash(field)) {
		return fmt.Errorf("%q: name the file relative to the folder of the data file, and within it", field)
	}
	data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(field)))
	if err != nil {
		return err
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return err
	}
	p.Rows, p.Columns, p.Grey = config.Height, config.Width, config.ColorModel == color.GrayModel
	return nil
}
