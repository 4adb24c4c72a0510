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
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/onnxpb"
	"cfq/onnxio/graph"
	"cfq/onnxio/refuse"
)

const maxSize = math.MaxInt32

// FileError is why a file cannot be read as a model. It names the file and the place in it.
type FileError struct{ Err error }

func (e *FileError) Error() string { return "read model: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

// ReadFile reads the model at path. External data is resolved within the model's folder. Errors are of type FileError.
func ReadFile(path string) (*graph.Model, error) {
	m, err := readFile(path)
	if err != nil {
		return nil, &FileError{err}
	}
	return m, nil
}

func readFile(path string) (*graph.Model, error) {
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
	d := modelDecoder{external: external{dir: dir}}
	defer d.external.close()
	m := d.model(&p)
	d.check(m)
	if err := d.err(); err != nil {
		return nil, err
	}
	return m, nil
}

func (d *modelDecoder) check(m *graph.Model) {
	d.place = nil
	m.Graph.Sort()
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

// maxMessages bounds the messages (nodes, attributes, tensors, values ...) of a file. An empty one takes two bytes in
// the file and hundreds in memory; without a bound, a hostile file could fill the memory. Real models have thousands.
const maxMessages = 1 << 21

type messageParts map[protowire.Number]messageParts

func modelParts() messageParts {
	entry := messageParts{}
	tensor := messageParts{13: entry}
	node := messageParts{5: {5: tensor}}
	value := messageParts{2: {1: {2: {1: entry}}}}
	return messageParts{
		7:  {1: node, 5: tensor, 11: value, 12: value, 13: value},
		8:  entry,
		14: entry,
		25: {7: node, 9: entry},
	}
}

// count returns the number of messages in data, which is not decoded for it. It
// stops at what is malformed, which the decoder then reports.
func (p messageParts) count(data []byte) int {
	total := 0
	for f := range fields(data) {
		if inner, ok := p[f.number]; ok && f.body != nil && total <= maxMessages {
			total += 1 + inner.count(f.body)
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

const maxErrors = 20

// modelDecoder turns messages into a graph.Model and collects what is wrong with
// them. It takes the messages apart: what is left of each becomes its Extra.
type modelDecoder struct {
	external external
	place    func() string // where the decoder is, for messages; nil when the error says so
	errs     []error
	more     int
}

func (d *modelDecoder) bad(err error) {
	if len(d.errs) == maxErrors {
		d.more++
		return
	}
	if d.place != nil {
		err = fmt.Errorf("%s: %w", d.place(), err)
	}
	d.errs = append(d.errs, err)
}

func (d *modelDecoder) err() error {
	if d.more > 0 {
		return errors.Join(append(d.errs, fmt.Errorf("and %d errors more", d.more))...)
	}
	return errors.Join(d.errs...)
}

func leftover(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // it was decoded a moment ago
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

func (d *modelDecoder) model(p *onnxpb.ModelProto) *graph.Model {
	m := &graph.Model{
		IRVersion:       p.GetIrVersion(),
		ProducerName:    p.GetProducerName(),
		ProducerVersion: p.GetProducerVersion(),
		Domain:          p.GetDomain(),
		ModelVersion:    p.GetModelVersion(),
		Doc:             p.GetDocString(),
		Opsets:          opsets(p.OpsetImport),
	}
	for _, e := range p.MetadataProps {
		m.Metadata = append(m.Metadata, graph.Meta{Key: e.GetKey(), Value: e.GetValue()})
	}
	m.Graph = d.graph(p.Graph)
	for _, f := range p.Functions {
		m.Functions = append(m.Functions, d.function(f))
	}
	p.IrVersion, p.ProducerName, p.ProducerVersion, p.Domain, p.ModelVersion, p.DocString = nil, nil, nil, nil, nil, nil
	p.OpsetImport, p.MetadataProps, p.Graph, p.Functions = nil, nil, nil, nil
	m.Extra = leftover(p)
	return m
}

func opsets(ps []*onnxpb.OperatorSetIdProto) []graph.Opset {
	var out []graph.Opset
	for _, p := range ps {
		out = append(out, graph.Opset{Domain: p.GetDomain(), Version: p.GetVersion()})
	}
	return out
}

func (d *modelDecoder) graph(p *onnxpb.GraphProto) *graph.Graph {
	g := &graph.Graph{
		Name:    p.GetName(),
		Doc:     p.GetDocString(),
		Inputs:  values(p.Input),
		Outputs: values(p.Output),
		Values:  values(p.ValueInfo),
	}
	for _, t := range p.Initializer {
		name := t.GetName()
		d.place = func() string { return fmt.Sprintf("initializer %q", name) }
		g.Inits = append(g.Inits, d.tensor(t))
	}
	g.Nodes = d.nodes(p.Node, "")
	p.Name, p.DocString, p.Input, p.Output, p.ValueInfo, p.Initializer, p.Node = nil, nil, nil, nil, nil, nil, nil
	g.Extra = leftover(p)
	return g
}

func (d *modelDecoder) function(p *onnxpb.FunctionProto) *graph.Function {
	f := &graph.Function{
		Name:    p.GetName(),
		Domain:  p.GetDomain(),
		Inputs:  p.Input,
		Outputs: p.Output,
		Attrs:   p.Attribute,
		Opsets:  opsets(p.OpsetImport),
		Doc:     p.GetDocString(),
	}
	f.Nodes = d.nodes(p.Node, fmt.Sprintf("function %q: ", f.Name))
	p.Name, p.Domain, p.Input, p.Output, p.Attribute = nil, nil, nil, nil, nil
	p.OpsetImport, p.DocString, p.Node = nil, nil, nil
	f.Extra = leftover(p)
	return f
}

func (d *modelDecoder) nodes(ps []*onnxpb.NodeProto, place string) []*graph.Node {
	var out []*graph.Node
	for _, p := range ps {
		n := &graph.Node{
			Name:    p.GetName(),
			Op:      p.GetOpType(),
			Domain:  p.GetDomain(),
			Inputs:  p.Input,
			Outputs: p.Output,
			Doc:     p.GetDocString(),
		}
		d.place = func() string { return place + n.Label() }
		if n.Op == "" {
			d.bad(errors.New("has no operator"))
		}
		for _, a := range p.Attribute {
			name := a.GetName()
			d.place = func() string { return fmt.Sprintf("%s%s: attribute %q", place, n.Label(), name) }
			n.Attrs = append(n.Attrs, d.attr(a))
		}
		p.Name, p.OpType, p.Domain, p.Input, p.Output, p.DocString, p.Attribute = nil, nil, nil, nil, nil, nil, nil
		n.Extra = leftover(p)
		out = append(out, n)
	}
	return out
}

func (d *modelDecoder) attr(p *onnxpb.AttributeProto) graph.Attr {
	a := graph.Attr{Name: p.GetName(), Kind: kind(p), Ref: p.GetRefAttrName(), Doc: p.GetDocString()}
	p.Name, p.Type, p.RefAttrName, p.DocString = nil, nil, nil, nil
	if a.Ref != "" { // the value comes from the caller of the function
		a.Extra = leftover(p)
		return a
	}
	switch a.Kind {
	case graph.AttrFloat:
		a.F, p.F = p.GetF(), nil
	case graph.AttrInt:
		a.I, p.I = p.GetI(), nil
	case graph.AttrString:
		a.S, p.S = append([]byte{}, p.S...), nil // some writers leave out what is empty
	case graph.AttrTensor:
		if p.T == nil {
			d.bad(errors.New("has no tensor"))
			break
		}
		a.T, p.T = d.tensor(p.T), nil
		if err := a.T.Check(); err != nil {
			d.bad(fmt.Errorf("tensor %w", err))
		}
	case graph.AttrFloats:
		a.Floats, p.Floats = p.Floats, nil
	case graph.AttrInts:
		a.Ints, p.Ints = p.Ints, nil
	case graph.AttrStrings:
		a.Strings, p.Strings = p.Strings, nil
	}
	a.Extra = leftover(p)
	return a
}

// kind is the attribute's stated type or, in files of the first IR version,
// which state none, the type of the field that is set.
func kind(p *onnxpb.AttributeProto) graph.AttrKind {
	switch {
	case p.GetType() != 0 || p.GetRefAttrName() != "":
		return graph.AttrKind(p.GetType())
	case p.F != nil:
		return graph.AttrFloat
	case p.I != nil:
		return graph.AttrInt
	case p.S != nil:
		return graph.AttrString
	case p.T != nil:
		return graph.AttrTensor
	case len(p.Floats) > 0:
		return graph.AttrFloats
	case len(p.Ints) > 0:
		return graph.AttrInts
	case len(p.Strings) > 0:
		return graph.AttrStrings
	}
	return 0
}

func values(ps []*onnxpb.ValueInfoProto) []graph.Value {
	var out []graph.Value
	for _, p := range ps {
		v := graph.Value{Name: p.GetName(), Doc: p.GetDocString()}
		if t := p.GetType().GetTensorType(); t != nil {
			v.DType = graph.DType(t.GetElemType())
			t.ElemType = nil
			v.Shape = shape(t)
		}
		p.Name, p.DocString = nil, nil
		prune(p)
		v.Extra = leftover(p)
		out = append(out, v)
	}
	return out
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

// tensor turns p into a tensor whose elements are in Raw (or Strings), wherever p has them. Typed data of an element
// type that package graph does not know stays in Extra.
func (d *modelDecoder) tensor(p *onnxpb.TensorProto) *graph.Tensor {
	t := &graph.Tensor{Name: p.GetName(), DType: graph.DType(p.GetDataType()), Dims: p.Dims, Doc: p.GetDocString()}
	if err := d.contents(t, p); err != nil {
		d.bad(err)
		t.Raw, t.Dims = nil, []int64{0} // one mistake is one error: without elements, t has nothing else to object to
	}
	p.Name, p.DataType, p.Dims, p.DocString, p.RawData = nil, nil, nil, nil, nil
	t.Extra = leftover(p)
	return t
}

func (d *modelDecoder) contents(t *graph.Tensor, p *onnxpb.TensorProto) error {
	lists := 0
	for _, n := range []int{
		len(p.FloatData), len(p.Int32Data), len(p.Int64Data), len(p.DoubleData), len(p.Uint64Data), len(p.StringData),
	} {
		lists += min(n, 1)
	}
	isExternal := p.GetDataLocation() == externalLocation
	switch {
	case lists > 1 || lists == 1 && (len(p.RawData) > 0 || isExternal) || isExternal && len(p.RawData) > 0:
		return errors.New("has its elements in more than one place")
	case isExternal:
		raw, err := d.external.read(t, p.ExternalData)
		t.Raw, p.ExternalData, p.DataLocation = raw, nil, nil
		return err
	case t.DType == graph.String:
		if len(p.RawData) > 0 || lists == 1 && len(p.StringData) == 0 {
			return errors.New("is a string tensor without string data")
		}
		t.Strings, p.StringData, p.RawData = p.StringData, nil, nil
		return nil
	case p.RawData != nil || t.DType.Bits() == 0:
		t.Raw = p.RawData
		return nil
	}
	return typed(t, p, lists)
}

func typed(t *graph.Tensor, p *onnxpb.TensorProto, lists int) (err error) {
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
	if err == nil && lists == 1 && len(t.Raw) == 0 {
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
