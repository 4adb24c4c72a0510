package main

import (
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
)

// What a file of images is known by covers its labels, which stand in a file of their own.
func TestFileHashOfLabels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	images := write("train-images-idx3-ubyte", "\x00\x00\x08\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x07")
	sums := map[string]bool{}
	for _, label := range []string{"", "\x01", "\x02"} {
		if label != "" {
			write("train-labels-idx1-ubyte", "\x00\x00\x08\x01\x00\x00\x00\x01"+label)
		}
		_, sum, err := fileHash(images)
		must.Do(t, err)
		sums[sum] = true
	}
	if len(sums) != 3 {
		t.Errorf("%d different hashes without labels and with two: want 3", len(sums))
	}
}
