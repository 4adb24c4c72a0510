package qat

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// A file that is damaged, of other inputs, of other threads or not a checkpoint is an error that names it.
func TestOpenCheckpoint(t *testing.T) {
	t.Parallel()
	path, e := filepath.Join(t.TempDir(), "checkpoint"), orttest.Need(t)
	open := func(path string, e ort.Options, inputs byte) (Checkpoint, error) {
		return OpenCheckpoint(path, e, "inputs", []byte{inputs})
	}
	c, err := open(path, e, 1)
	if err != nil || c.Load() != nil {
		t.Fatalf("without a file: %v", err)
	}
	state := []byte("some state")
	must.Do(t, c.Save(state))
	if c, err = open(path, e, 1); err != nil || !bytes.Equal(c.Load(), state) {
		t.Fatalf("read back: %v", err)
	}
	refused := func(what, want string, e ort.Options, inputs byte) {
		t.Helper()
		if _, err := open(path, e, inputs); err == nil || !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("other inputs", "it is of a training with other inputs", e, 2)
	threads := e
	threads.Threads += 2
	refused("other threads", "it is of a training with other inputs", threads, 1)
	whole := must.Get(os.ReadFile(path))(t)
	for want, content := range map[string][]byte{
		"it is damaged": whole[:len(whole)-1], "it is not a checkpoint": whole[1:],
	} {
		must.Do(t, os.WriteFile(path, content, 0o600))
		refused("another file", want, e, 1)
	}
	if c, err = open(filepath.Join(path, "file"), e, 1); err == nil {
		err = c.Save(state)
	}
	if err == nil {
		t.Error("a folder that is a file")
	}
}
