package onnxio

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"google.golang.org/protobuf/proto"

	"cfq/graph"
)

// Marshal encodes m with all tensors inline. The same model gives the same bytes.
func Marshal(m *graph.Model) ([]byte, error) {
	var e encoder
	p := e.model(m)
	if e.err != nil {
		return nil, fmt.Errorf("encode model: %w", e.err)
	}
	if n := proto.Size(p); n > maxSize {
		return nil, fmt.Errorf("encode model: %d bytes are more than the 2 GB that an ONNX file can have", n)
	}
	b, err := proto.MarshalOptions{Deterministic: true, UseCachedSize: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode model: %w", err)
	}
	return b, nil
}

// WriteFile writes m to path with mode 0644. The file is there completely or,
// after an error, is what it was before: the bytes are written to a temporary
// file in the same folder, synced and renamed.
func WriteFile(path string, m *graph.Model) error {
	data, err := Marshal(m)
	if err != nil {
		return fmt.Errorf("write model: %s: %w", path, err)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write model: %s is there already and is not a regular file", path)
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o644))
	if err != nil {
		return fmt.Errorf("write model: %w", err)
	}
	defer f.Cleanup() // does nothing after the rename
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write model: %s: %w", path, err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write model: %s: %w", path, err)
	}
	return nil
}
