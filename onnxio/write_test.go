package onnxio_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/graph"
	"cfq/onnxio"
)

func read(t *testing.T, data []byte) *graph.Model {
	t.Helper()
	m, err := onnxio.Read(data, "")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	m := read(t, linear())
	must(t, onnxio.WriteFile(path, m))
	got, err := os.ReadFile(path)
	must(t, err)
	if want, _ := onnxio.Marshal(m); !bytes.Equal(got, want) {
		t.Error("the file is not what Marshal gives")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("files left: %v", entries)
	}
}

// TestWriteFileFails: after an error nothing new is there and nothing old is gone.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	m := read(t, linear())
	bad := m.Clone()
	bad.Graph.Extra = []byte{0xff}
	path := filepath.Join(dir, "m.onnx")
	must(t, os.WriteFile(path, []byte("old"), 0o644))
	if err := onnxio.WriteFile(path, bad); err == nil || !strings.Contains(err.Error(), "graph: extra fields") {
		t.Errorf("damaged extra fields: %v", err)
	}
	if err := onnxio.WriteFile(dir, m); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("over a directory: %v", err)
	}
	if err := onnxio.WriteFile(filepath.Join(dir, "none", "m.onnx"), m); err == nil {
		t.Error("into a folder that is not there")
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the old file is %q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("files left: %v", entries)
	}
}
