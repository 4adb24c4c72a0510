package task

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
