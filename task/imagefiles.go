package task

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func (rd *peopleReader) rows(r io.Reader) (Rows, error) {
	t := rd.task
	file, _ := r.(*os.File)
	if file == nil {
		return t.Data.rows(r)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir() && len(t.Images) == 0:
		return nil, errors.New("this is a folder; a folder of PNG files needs a feature of kind image in the task file")
	case info.IsDir():
		rd.pixels.folder = file.Name()
		return newFolderRows(file.Name(), t.imageNames())
	}
	rd.pixels.folder = filepath.Dir(file.Name())
	if len(t.Images) == 0 || !info.Mode().IsRegular() { // what is no file can be read once
		return t.Data.rows(r)
	}
	if rd.pixels.idx, err = isIDX(file); err != nil {
		return nil, err
	}
	if rd.pixels.idx {
		return newIDXRows(file, t.imageNames())
	}
	return t.Data.rows(r)
}

func (t *Task) imageNames() []string {
	return []string{t.Images[0].Column, cmp.Or(t.Data.Label, "label")}
}

type idxRows struct {
	names  []string
	images *idx
	labels *idx // nil: there are none
	fields []string
	row    int
}

type idx struct {
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

func newIDX(r io.Reader) (*idx, error) {
	in, err := plainText(r)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil || string(head[:3]) != idxMagic || head[3] < 1 || head[3] > 4 {
		return nil, errors.New("this is no IDX file of bytes")
	}
	x, size := &idx{in: in}, 1
	for k := range int(head[3]) {
		var n uint32
		if err := binary.Read(in, binary.BigEndian, &n); err != nil {
			return nil, errors.New("the IDX file ends in its header")
		}
		if k == 0 {
			x.left = int(n)
			continue
		}
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

func (x *idx) next() ([]byte, error) {
	if x.left == 0 {
		return nil, io.EOF
	}
	x.left--
	if _, err := io.ReadFull(x.in, x.item); err != nil {
		return nil, fmt.Errorf("the IDX file ends %d items early", x.left+1)
	}
	return x.item, nil
}

// newIDXRows opens an IDX file of images. Labels are in the file whose name has "labels" for "images" and "idx1" for
// "idx3", as MNIST's files are called.
func newIDXRows(f *os.File, names []string) (*idxRows, error) {
	images, err := newIDX(f)
	if err != nil {
		return nil, err
	}
	if len(images.dims) == 0 {
		return nil, errors.New("this IDX file holds single numbers, the labels perhaps; name the file of the images")
	}
	x := &idxRows{names: names[:1], images: images}
	path := labelsOf(f.Name())
	if path == "" {
		return x, nil
	}
	beside := filepath.Base(path)
	labels, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	if x.labels, err = newIDX(strings.NewReader(string(labels))); err != nil {
		return nil, fmt.Errorf("%s: %w", beside, err)
	}
	if x.labels.left != images.left || len(x.labels.dims) > 0 {
		return nil, fmt.Errorf("%s has %d labels of dimensions %v for %d images", beside, x.labels.left, x.labels.dims,
			images.left)
	}
	x.names = names
	return x, nil
}

func labelsOf(path string) string {
	folder, name := filepath.Split(path)
	beside := strings.NewReplacer("images", "labels", "idx3", "idx1", "idx4", "idx1").Replace(name)
	if beside == name {
		return ""
	}
	return folder + beside
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
	labels := labelsOf(path)
	if _, err := os.Stat(labels); err != nil {
		return ""
	}
	return labels
}

// Names returns the columns of the image and, if there are labels, of these.
func (x *idxRows) Names() []string { return x.names }

func (x *idxRows) unreadable(string) string { return "" }

func (x *idxRows) position(field int) (row, column int) { return x.row, field + 1 }

// Next returns an image and its number, from 1; see Rows.
func (x *idxRows) Next() ([]string, int, error) {
	image, err := x.images.next()
	if err != nil {
		return nil, 0, err
	}
	x.row++
	x.fields = append(x.fields[:0], string(image))
	if x.labels != nil {
		label, err := x.labels.next()
		if err != nil {
			return nil, 0, fmt.Errorf("labels: %w", err)
		}
		x.fields = append(x.fields, fmt.Sprint(label[0]))
	}
	return x.fields, x.row, nil
}

type folderRows struct {
	names, files []string
	row          int
}

// ImagesIn returns the PNG files of a folder and of those in it, in their order, with slashes.
func ImagesIn(path string) ([]string, error) {
	f, err := newFolderRows(path, []string{"", ""})
	if err != nil {
		return nil, err
	}
	return f.files, nil
}

func newFolderRows(path string, names []string) (*folderRows, error) {
	f := &folderRows{names: names[:1]}
	all, err := f.add(path, "")
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		inside := filepath.Join(path, e.Name())
		if e.Type()&os.ModeSymlink != 0 {
			if info, err := os.Stat(inside); err != nil || !info.IsDir() {
				continue
			}
		} else if !e.IsDir() {
			continue
		}
		before := len(f.files)
		if _, err := f.add(inside, e.Name()+"/"); err != nil {
			return nil, err
		}
		if len(f.files) > before {
			f.names = names
		}
	}
	slices.Sort(f.files)
	if len(f.files) == 0 {
		return nil, errors.New("there are no .png files in the folder, or in the folders in it; those further down are " +
			"not looked at")
	}
	return f, nil
}

// add adds the images of a folder, whose names begin with prefix, and returns all that is in it. Images of other
// formats are an error: people would be missing without a word.
func (f *folderRows) add(path, prefix string) ([]os.DirEntry, error) {
	all, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		switch ext := strings.ToLower(filepath.Ext(e.Name())); {
		case ext == ".png":
			f.files = append(f.files, prefix+e.Name())
		case slices.Contains([]string{".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}, ext):
			return nil, fmt.Errorf("%s is no PNG file: convert it, or take it out of the folder", prefix+e.Name())
		}
	}
	return all, nil
}

// Names returns the columns of the image and, if there are folders, of their names.
func (f *folderRows) Names() []string { return f.names }

func (f *folderRows) unreadable(string) string { return "" }

func (f *folderRows) position(field int) (row, column int) { return f.row, field + 1 }

// Next returns the name of a file, which its image is read from, and its number, from 1; see Rows.
func (f *folderRows) Next() ([]string, int, error) {
	if f.row == len(f.files) {
		return nil, 0, io.EOF
	}
	file := f.files[f.row]
	f.row++
	fields := []string{file}
	if len(f.names) > 1 {
		label := ""
		if class, _, in := strings.Cut(file, "/"); in {
			label = class
		}
		fields = append(fields, label)
	}
	return fields, f.row, nil
}
