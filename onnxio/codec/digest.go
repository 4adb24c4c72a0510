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
	modelParts().locations(data, 0, named)
	return slices.Sorted(maps.Keys(named))
}

func (p messageParts) locations(data []byte, depth int, named map[string]bool) {
	tensor := len(p) == 1 && p[tensorExternal] != nil
	for f := range fields(data) {
		inner, ok := p[f.number]
		switch {
		case !ok || f.body == nil || depth > maxDepth:
		case tensor:
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
