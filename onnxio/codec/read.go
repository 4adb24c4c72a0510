// Package codec turns ONNX files into graph.Model and back.
//
// In: files or bytes, with external data next to them. Out: a checked Model whose tensors are all inline, or bytes made
// from one. The invariant: reading what was written gives an equal Model, and fields that package graph has no names
// for survive the trip. (Opset and metadata entries are the exception: their unknown fields, of which the standard has
// none, are dropped.)
package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/lists"
	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
	"cfq/onnxio/refuse"
)

const maxSize = math.MaxInt32

// FileError is why a file cannot be read as a model. It names the file and the place in it.
type FileError struct {
	Err     error
	IsModel bool // it is decoded, and breaks a rule of ONNX
}

type ruleError struct{ error }

func (e ruleError) Unwrap() error { return e.error }

func (e *FileError) Error() string { return "read model: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// ReadFile reads the model at path. External data is resolved within the model's folder. Errors are of type FileError.
func ReadFile(path string) (_ *graph.Model, err error) {
	defer func() {
		if err != nil {
			err = &FileError{err, errors.As(err, new(ruleError))}
		}
	}()
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory, not an ONNX file", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s: %w", path, refuse.TooLarge(info.Size()))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Read(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Read decodes and checks a model. External data is looked for in the folder
// dir and never outside of it; an empty dir refuses external data.
func Read(data []byte, dir string) (*graph.Model, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%d bytes are more than the 2 GB that an ONNX file can have", len(data))
	}
	if modelParts().count(data, 0) > maxMessages {
		return nil, fmt.Errorf("the file has more than %d nodes, attributes and tensors: it is damaged or not meant well",
			maxMessages)
	}
	var p onnxpb.ModelProto
	switch err := proto.Unmarshal(data, &p); {
	case err != nil || p.Graph == nil:
		return nil, diagnose(data)
	case p.GetIrVersion() <= 0:
		return nil, errors.New("the model states no IR version: it is truncated or not an ONNX model")
	case len(p.GetOpsetImport()) == 0:
		return nil, errors.New("the model imports no operator set: it is truncated or older than ONNX 1.0")
	}
	c, m := modelCoder{external: external{dir: dir}}, &graph.Model{}
	defer c.external.close()
	c.model(m, &p)
	c.check(m)
	if err := c.err(); err != nil {
		return nil, ruleError{err}
	}
	return m, nil
}

func (c *modelCoder) check(m *graph.Model) {
	c.place = nil
	m.Graph.Sort()
	if err := m.Graph.Check(); err != nil {
		c.bad(err)
	}
	for _, f := range m.Functions {
		value := func(name string) graph.Value { return graph.Value{Name: name} }
		body := graph.Graph{Nodes: f.Nodes, Inputs: lists.Map(f.Inputs, value), Outputs: lists.Map(f.Outputs, value)}
		if err := body.Check(); err != nil {
			c.bad(fmt.Errorf("function %q: %w", f.Name, err))
		}
	}
}

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
	case !bytes.ContainsFunc(head, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return errors.New("the file is text, not an ONNX model")
	}
	return errors.New("the file holds no graph that can be read: it is truncated or damaged, or not an ONNX model")
}

// maxMessages bounds the messages (nodes, attributes, tensors, values ...) of a file. An empty one takes two bytes in
// the file and hundreds in memory; without a bound, a hostile file could fill the memory. Real models have thousands.
const maxMessages = 1 << 21

// maxDepth bounds graphs within graphs; package protobuf and ONNX Runtime stop far earlier.
const maxDepth = 100

// messageParts are the messages in a message by the numbers of their fields.
type messageParts map[protowire.Number]messageParts

// modelParts are those of a model that may be many, or hold tensors: dense and sparse ones, those of attributes, and
// what subgraphs and functions hold.
func modelParts() messageParts {
	entry := messageParts{}
	tensor := messageParts{tensorExternal: entry}
	sparse := messageParts{1: tensor, 2: tensor}
	attr := messageParts{5: tensor, 10: tensor, 22: sparse, 23: sparse}
	node := messageParts{5: attr}
	value := messageParts{2: {1: {2: {1: entry}}}}
	graph := messageParts{1: node, 5: tensor, 11: value, 12: value, 13: value, graphSparseTensor: sparse}
	attr[attributeGraph], attr[attributeGraph+5] = graph, graph
	return messageParts{7: graph, 8: entry, 14: entry, 25: {7: node, 9: entry, functionDefaults: attr}}
}

// count returns the number of messages in data, which is not decoded for it. It
// stops at what is malformed, which the decoder then reports.
func (p messageParts) count(data []byte, depth int) int {
	total := 0
	for f := range fields(data) {
		if inner, ok := p[f.number]; ok && f.body != nil && total <= maxMessages && depth <= maxDepth {
			total += 1 + inner.count(f.body, depth+1)
		}
	}
	return total
}

// external reads tensors that are kept in files next to the model. It opens nothing outside of dir, not by "..", not by
// a symbolic link, and reads each byte of a file once only, so that a small file cannot fill the memory.
type external struct {
	dir   string
	root  *os.Root
	files map[string]*dataFile
	total int64 // bytes of all tensors that were read
}

// ErrMissingData is wrapped by the error for a file with weights that is not there.
var ErrMissingData = errors.New("does not exist next to the model")

var errReported = errors.New("another tensor has reported its file")

type dataFile struct {
	size, read int64
	regions    map[[2]int64][]byte
}

func (e *external) close() {
	if e.root != nil {
		e.root.Close()
	}
}

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
	if err != nil {
		return nil, err
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
	if e.total += length; e.total > maxSize {
		return nil, refuse.TooLarge(e.total)
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

func (e *external) file(location string) (*dataFile, error) {
	if f, ok := e.files[location]; f != nil {
		return f, nil
	} else if ok {
		return nil, errReported
	}
	if e.root == nil {
		root, err := os.OpenRoot(e.dir)
		if err != nil {
			return nil, err
		}
		e.root, e.files = root, map[string]*dataFile{}
	}
	info, err := e.root.Stat(location)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.files[location] = nil
		return nil, fmt.Errorf("external data file %q %w", filepath.ToSlash(location), ErrMissingData)
	case err != nil:
		return nil, fmt.Errorf("external data: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("external data: %s is not a regular file", location)
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
	_, err = f.ReadAt(raw, offset)
	return err
}

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

// shape takes the sizes out of t's dimensions. Negative sizes, which some exporters write, are unknown sizes.
func shape(t *onnxpb.TypeProto_Tensor) graph.Shape {
	if t.Shape == nil {
		return nil
	}
	s := make(graph.Shape, len(t.Shape.Dim))
	for i, dim := range t.Shape.Dim {
		s[i] = graph.Dim{Size: -1, Param: dim.GetDimParam()}
		if dim.DimValue != nil && dim.GetDimValue() >= 0 {
			s[i] = graph.Dim{Size: dim.GetDimValue()}
		}
		dim.DimValue, dim.DimParam = nil, nil
	}
	return s
}

// prune removes the parts of p's type that are empty now. Dimensions stay as
// long as one of them holds something (a denotation), to keep their order.
func prune(p *onnxpb.ValueInfoProto) {
	t := p.GetType().GetTensorType()
	if t != nil && proto.Size(t.Shape) == 2*len(t.GetShape().GetDim()) { // an empty dimension takes two bytes
		t.Shape = nil
	}
	if t != nil && proto.Size(t) == 0 {
		p.Type.TensorType = nil
	}
	if p.Type != nil && proto.Size(p.Type) == 0 {
		p.Type = nil
	}
}

// external is TensorProto.DataLocation.EXTERNAL.
const externalLocation = 1

func (c *modelCoder) contents(t *graph.Tensor, p *onnxpb.TensorProto) error {
	held := 0 // lists of elements
	for _, n := range []int{
		len(p.FloatData), len(p.Int32Data), len(p.Int64Data), len(p.DoubleData), len(p.Uint64Data), len(p.StringData),
	} {
		held += min(n, 1)
	}
	isExternal := p.GetDataLocation() == externalLocation
	switch {
	case held > 1 || held == 1 && (len(p.RawData) > 0 || isExternal) || isExternal && len(p.RawData) > 0:
		return errors.New("has its elements in more than one place")
	case isExternal:
		raw, err := c.external.read(t, p.ExternalData)
		t.Raw, p.ExternalData, p.DataLocation = raw, nil, nil
		return err
	case t.DType == graph.String:
		if len(p.RawData) > 0 || held == 1 && len(p.StringData) == 0 {
			return errors.New("is a string tensor without string data")
		}
		t.Strings, p.StringData, p.RawData = p.StringData, nil, nil
		return nil
	case p.RawData != nil || t.DType.Bits() == 0:
		t.Raw = p.RawData
		return nil
	}
	return typed(t, p, held)
}

func typed(t *graph.Tensor, p *onnxpb.TensorProto, held int) (err error) {
	switch t.DType {
	case graph.Float:
		t.Raw = encoded(p.FloatData)
	case graph.Double:
		t.Raw = encoded(p.DoubleData)
	case graph.Int64:
		t.Raw = encoded(p.Int64Data)
	case graph.Uint64:
		t.Raw = encoded(p.Uint64Data)
	case graph.Uint32:
		t.Raw, err = narrow[uint32](t.DType, p.Uint64Data)
	case graph.Int32:
		t.Raw = encoded(p.Int32Data)
	case graph.Int16:
		t.Raw, err = narrow[int16](t.DType, p.Int32Data)
	case graph.Int8:
		t.Raw, err = narrow[int8](t.DType, p.Int32Data)
	case graph.Uint16, graph.Float16, graph.BFloat16: // 16-bit floats are there as their bits
		t.Raw, err = narrow[uint16](t.DType, p.Int32Data)
	default: // also types below a byte, which are there as packed bytes
		t.Raw, err = narrow[uint8](t.DType, p.Int32Data)
	}
	p.FloatData, p.DoubleData, p.Int64Data, p.Uint64Data, p.Int32Data = nil, nil, nil, nil, nil
	if err == nil && held == 1 && len(t.Raw) == 0 {
		err = fmt.Errorf("is of type %s but has its elements in a field for another type", t.DType)
	}
	return err
}

func encoded[T any](v []T) []byte {
	raw, err := binary.Append([]byte{}, binary.LittleEndian, v)
	if err != nil {
		panic(err) // a slice of numbers has a size
	}
	return raw
}

func narrow[T uint32 | int16 | uint16 | int8 | uint8, W int32 | uint64](t graph.DType, v []W) ([]byte, error) {
	out := make([]T, len(v))
	for i, x := range v {
		if out[i] = T(x); W(out[i]) != x || t == graph.Bool && x > 1 {
			return nil, fmt.Errorf("element %d is %d, which is not a %s", i, x, t)
		}
	}
	return encoded(out), nil
}
