// Package codec turns ONNX files into graph.Model and back.
//
// In: files or bytes, with external data next to them. Out: a checked Model whose
// tensors are all inline, or bytes made from one. The invariant: reading what was
// written gives an equal Model, and fields that package graph has no names for
// survive the trip. (Opset and metadata entries are the exception: their unknown
// fields, of which the standard has none, are dropped.)
package codec

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

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
