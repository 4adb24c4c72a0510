// Package codec turns ONNX files into graph.Model and back.
//
// In: files or bytes, with external data next to them. Out: a checked Model whose
// tensors are all inline, or bytes made from one. The invariant: reading what was
// written gives an equal Model, and fields that package graph has no names for
// survive the trip. (Opset and metadata entries are the exception: their unknown
// fields, of which the standard has none, are dropped.)
package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
)

// maxSize is the largest message that protobuf can hold.
const maxSize = math.MaxInt32

// ReadFile reads the model at path. External data is resolved within the
// model's folder. Errors name the file and the place in it.
func ReadFile(path string) (*graph.Model, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read model: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("read model: %s is a directory, not an ONNX file", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read model: %s is not a regular file", path)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("read model: %s has %d bytes, more than the 2 GB that an ONNX file can have (larger models "+
			"keep their tensors as external data)", path, info.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read model: %w", err)
	}
	defer f.Close()
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read model: %s: %w", path, err)
	}
	m, err := Read(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("read model: %s: %w", path, err)
	}
	return m, nil
}

// Read decodes and checks a model. External data is looked for in the folder
// dir and never outside of it; an empty dir refuses external data.
func Read(data []byte, dir string) (*graph.Model, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%d bytes are more than the 2 GB that an ONNX file can have", len(data))
	}
	if modelParts().count(data) > maxMessages {
		return nil, fmt.Errorf("the file has more than %d nodes, attributes and tensors: it is damaged or not meant well",
			maxMessages)
	}
	var p onnxpb.ModelProto
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, diagnose(data)
	}
	switch {
	case p.Graph == nil:
		return nil, diagnose(data)
	case p.GetIrVersion() <= 0:
		return nil, errors.New("the model states no IR version: it is truncated or not an ONNX model")
	case len(p.GetOpsetImport()) == 0:
		return nil, errors.New("the model imports no operator set: it is truncated or older than ONNX 1.0")
	}
	d := decoder{external: external{dir: dir}}
	defer d.external.close()
	m := d.model(&p)
	d.check(m)
	if err := d.err(); err != nil {
		return nil, err
	}
	return m, nil
}

// check holds m against the rules of package graph, function by function.
func (d *decoder) check(m *graph.Model) {
	d.place = nil
	if err := m.Graph.Check(); err != nil {
		d.bad(err)
	}
	for _, f := range m.Functions {
		body := graph.Graph{Nodes: f.Nodes}
		for _, in := range f.Inputs {
			body.Inputs = append(body.Inputs, graph.Value{Name: in})
		}
		for _, out := range f.Outputs {
			body.Outputs = append(body.Outputs, graph.Value{Name: out})
		}
		if err := body.Check(); err != nil {
			d.bad(fmt.Errorf("function %q: %w", f.Name, err))
		}
	}
}

// diagnose says why data is not an ONNX model.
func diagnose(data []byte) error {
	head := bytes.TrimSpace(bytes.TrimPrefix(data[:min(len(data), 512)], []byte("\xef\xbb\xbf")))
	lower := bytes.ToLower(head)
	switch {
	case len(data) == 0:
		return errors.New("the file is empty")
	case bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")):
		return errors.New("the file is a Git LFS pointer, not the model itself: fetch it with \"git lfs pull\"")
	case bytes.HasPrefix(lower, []byte("<!doctype html")) || bytes.HasPrefix(lower, []byte("<html")):
		return errors.New("the file is an HTML page, not an ONNX model: the download went wrong")
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return errors.New("the file is a zip archive (perhaps a PyTorch checkpoint), not an ONNX model")
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return errors.New("the file is compressed with gzip: unpack it first")
	case len(data) >= 8 && string(data[4:8]) == "ORTM":
		return errors.New("the file is in ONNX Runtime's own format (.ort), not an ONNX model")
	}
	return malformed(data)
}

// malformed walks the fields of the outermost message and says where they stop
// making sense.
func malformed(data []byte) error {
	for rest := data; len(rest) > 0; {
		at := len(data) - len(rest)
		num, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("the file is not an ONNX model, or is damaged: no protobuf field at byte %d", at)
		}
		rest = rest[n:]
		if typ == protowire.BytesType {
			if size, k := protowire.ConsumeVarint(rest); k > 0 && size > uint64(len(rest)-k) {
				return fmt.Errorf("the file is truncated, or not an ONNX model: field %d at byte %d has %d bytes, of which %d "+
					"are there", num, at, size, len(rest)-k)
			}
		}
		n = protowire.ConsumeFieldValue(num, typ, rest)
		if n < 0 {
			return fmt.Errorf("the file is truncated, or not an ONNX model: field %d at byte %d is not complete", num, at)
		}
		rest = rest[n:]
		if num == 7 && len(rest) == 0 {
			return fmt.Errorf("the file is damaged: the graph at byte %d cannot be decoded", at)
		}
	}
	return errors.New("the file holds no graph: it is not an ONNX model, or is damaged")
}

// maxMessages bounds the messages (nodes, attributes, tensors, values ...) of a
// file. An empty one takes two bytes in the file and hundreds in memory; without
// a bound, a hostile file could fill the memory. Real models have thousands.
const maxMessages = 1 << 21

// parts is the tree of a message's fields that are messages themselves.
type parts map[protowire.Number]parts

// modelParts is that of ModelProto, as far as onnx.proto describes it.
func modelParts() parts {
	entry := parts{}
	tensor := parts{13: entry}
	node := parts{5: {5: tensor}}
	value := parts{2: {1: {2: {1: entry}}}}
	return parts{
		7:  {1: node, 5: tensor, 11: value, 12: value, 13: value},
		8:  entry,
		14: entry,
		25: {7: node, 9: entry},
	}
}

// count returns the number of messages in data, which is not decoded for it. It
// stops at what is malformed, which the decoder then reports.
func (p parts) count(data []byte) int {
	total := 0
	for len(data) > 0 && total <= maxMessages {
		field, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(field, typ, data[n:])
		if size < 0 {
			break
		}
		if inner, ok := p[field]; ok && typ == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(data[n:])
			total += 1 + inner.count(body)
		}
		data = data[n+size:]
	}
	return total
}

// external reads tensors that are kept in files next to the model. It opens
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
		return nil, fmt.Errorf("external data file %q does not exist next to the model", filepath.ToSlash(location))
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

// ExternalFiles lists the files next to the model at path that its initializers name
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
