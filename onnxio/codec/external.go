package codec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// external reads tensors that are kept in files beside the model. It opens
// nothing outside of dir, not by "..", not by a symbolic link, and reads each
// byte of a file once only, so that a small file cannot fill the memory.
type external struct {
	dir   string
	root  *os.Root
	files map[string]*dataFile
}

type dataFile struct {
	size, read int64
	regions    map[[2]int64][]byte
}

func (e *external) close() {
	if e.root != nil {
		e.root.Close()
	}
}

// read returns the elements of t, which entries (location, offset, length) point to.
func (e *external) read(t *graph.Tensor, entries []*onnxpb.StringStringEntryProto) ([]byte, error) {
	location, offset, length, err := e.entries(entries)
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	want, err := rawSize(t)
	if err != nil {
		return nil, err
	}
	f, err := e.file(location)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("external data file %q does not exist beside the model", filepath.ToSlash(location))
	}
	if err != nil {
		return nil, fmt.Errorf("external data: %w", err)
	}
	if length < 0 {
		length = want
	}
	switch {
	case length != want:
		return nil, fmt.Errorf("external data: %s%v takes %d bytes, not %d", t.DType, t.Dims, want, length)
	case offset > f.size || length > f.size-offset:
		return nil, fmt.Errorf("external data: %d bytes at %d are beyond the end of %s, which has %d bytes", length, offset,
			location, f.size)
	}
	region := [2]int64{offset, length}
	if raw, ok := f.regions[region]; ok {
		return raw, nil
	}
	if f.read += length; f.read > f.size {
		return nil, fmt.Errorf("external data: tensors overlap in %s", location)
	}
	raw := make([]byte, length)
	if err := e.fill(raw, location, offset); err != nil {
		return nil, fmt.Errorf("external data: %s: %w", location, err)
	}
	f.regions[region] = raw
	return raw, nil
}

func (e *external) entries(entries []*onnxpb.StringStringEntryProto) (location string, offset, length int64,
	err error,
) {
	length = -1
	for _, p := range entries {
		switch p.GetKey() {
		case "location":
			location = p.GetValue()
		case "offset":
			offset, err = natural(p)
		case "length":
			length, err = natural(p)
		}
		if err != nil {
			return "", 0, 0, err
		}
	}
	switch {
	case location == "":
		return "", 0, 0, errors.New("no location given")
	case e.dir == "":
		return "", 0, 0, fmt.Errorf("%q is needed, but the model was not read from a folder", location)
	case !filepath.IsLocal(filepath.FromSlash(location)):
		return "", 0, 0, fmt.Errorf("location %q is outside of the model's folder", location)
	}
	return filepath.FromSlash(location), offset, length, nil
}

func natural(p *onnxpb.StringStringEntryProto) (int64, error) {
	n, err := strconv.ParseInt(p.GetValue(), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %q is not a number of bytes", p.GetKey(), p.GetValue())
	}
	return n, nil
}

// file looks location up in dir, once.
func (e *external) file(location string) (*dataFile, error) {
	if f, ok := e.files[location]; ok {
		return f, nil
	}
	if e.root == nil {
		root, err := os.OpenRoot(e.dir)
		if err != nil {
			return nil, err
		}
		e.root, e.files = root, map[string]*dataFile{}
	}
	info, err := e.root.Stat(location)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", location)
	}
	f := &dataFile{size: info.Size(), regions: map[[2]int64][]byte{}}
	e.files[location] = f
	return f, nil
}

func (e *external) fill(raw []byte, location string, offset int64) error {
	f, err := e.root.Open(location)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(io.NewSectionReader(f, offset, int64(len(raw))), raw)
	return err
}

// rawSize is the size of t's elements as its type and shape have it.
func rawSize(t *graph.Tensor) (int64, error) {
	bits := int64(t.DType.Bits())
	if bits == 0 {
		return 0, fmt.Errorf("external data of %s elements is not supported", t.DType)
	}
	for _, d := range t.Dims {
		if d < 0 || d > 0 && bits > math.MaxInt64/16/d {
			return 0, fmt.Errorf("has the absurd shape %v", t.Dims)
		}
		bits *= d
	}
	return (bits + 7) / 8, nil
}

// ExternalFiles lists the files beside the model at path that its initializers name
// as their data, slash-separated as in the model; nil when it cannot be read.
func ExternalFiles(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var m onnxpb.ModelProto
	if proto.Unmarshal(data, &m) != nil {
		return nil
	}
	var files []string
	for _, t := range m.GetGraph().GetInitializer() {
		for _, e := range t.GetExternalData() {
			if e.GetKey() == "location" {
				files = append(files, filepath.Join(filepath.Dir(path), filepath.FromSlash(e.GetValue())))
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}
