package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"

	"cfq/internal/lists"
	"cfq/internal/onnxpb"
)

// Digest returns the size and the SHA-256, in hexadecimal, of the model at path with all files that its tensors name as
// external data. Each file is read once and counts as a whole. A model in one file has the SHA-256 of the file.
func Digest(path string) (size int64, sum string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, "", err
	}
	size, sum = int64(len(data)), fmt.Sprintf("%x", sha256.Sum256(data))
	named := locations(data)
	if len(named) == 0 {
		return size, sum, nil
	}
	e, all := external{dir: filepath.Dir(path)}, sha256.New()
	defer e.close()
	fmt.Fprintln(all, sum)
	for _, name := range named {
		h := sha256.New()
		n, err := e.copy(h, name)
		if err != nil {
			return 0, "", fmt.Errorf("%s: %w", path, err)
		}
		size += n
		fmt.Fprintf(all, "%q %x\n", filepath.ToSlash(name), h.Sum(nil))
	}
	return size, hex.EncodeToString(all.Sum(nil)), nil
}

func (e *external) copy(w io.Writer, location string) (int64, error) {
	if _, err := e.file(location); err != nil {
		return 0, err
	}
	f, err := e.root.Open(location)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.Copy(w, f)
}

// ExternalFiles lists the files that the tensors of the model at path name as their data; nil when it cannot be read.
func ExternalFiles(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return lists.Map(locations(data), func(name string) string { return filepath.Join(filepath.Dir(path), name) })
}

// locations returns the files that the tensors of an encoded model name, ascending and each once.
func locations(data []byte) []string {
	named := map[string]bool{}
	dataParts().locations(data, 0, named)
	return slices.Sorted(maps.Keys(named))
}

const (
	tensorExternal = 13  // TensorProto.external_data
	maxDepth       = 100 // of graphs within graphs; package protobuf and ONNX Runtime stop far earlier
)

// dataParts is where an encoded model holds tensors: as initializers, dense and sparse, and as attributes of nodes, in
// subgraphs and functions, too.
func dataParts() messageParts {
	tensor := messageParts{tensorExternal: {}}
	sparse := messageParts{1: tensor, 2: tensor}
	attr := messageParts{5: tensor, 10: tensor, 22: sparse, 23: sparse}
	node := messageParts{5: attr}
	graph := messageParts{1: node, 5: tensor, graphSparseTensor: sparse}
	attr[attributeGraph], attr[attributeGraph+5] = graph, graph
	return messageParts{7: graph, 25: {7: node, functionDefaults: attr}}
}

func (p messageParts) locations(data []byte, depth int, named map[string]bool) {
	for f := range fields(data) {
		inner, ok := p[f.number]
		switch {
		case !ok || f.body == nil || depth > maxDepth:
		case f.number == tensorExternal:
			var t onnxpb.TensorProto
			if proto.Unmarshal(data, &t) == nil && t.GetDataLocation() == externalLocation {
				for _, x := range t.ExternalData {
					if x.GetKey() == "location" {
						named[filepath.Clean(filepath.FromSlash(x.GetValue()))] = true
					}
				}
			}
			return
		default:
			inner.locations(f.body, depth+1, named)
		}
	}
}
