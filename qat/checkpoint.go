package qat

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"cfq/internal/tempfile"
	"cfq/onnxio/ort"
)

// Checkpoint keeps the state of a training, so that a training that was stopped goes on.
type Checkpoint interface {
	Load() []byte // nil when there is none
	Save(state []byte) error
}

// A checkpoint file is this line, the SHA-256 of what the training depends on, that of the state, and the state.
const checkpointHeader = "cfq checkpoint\n"

type checkpointFile struct {
	path  string
	key   [sha256.Size]byte
	state []byte
}

// OpenCheckpoint returns the checkpoint of a training in a file, which need not exist. The training is known by its
// inputs and settings (strings, and slices of numbers), the program and the library: the file of another one is an
// error.
func OpenCheckpoint(path string, e ort.Options, inputs ...any) (Checkpoint, error) {
	key, err := keyOf(e, inputs)
	if err != nil {
		return nil, err
	}
	c := &checkpointFile{path: path, key: key}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	b, found := bytes.CutPrefix(b, []byte(checkpointHeader))
	if !found || len(b) < 2*sha256.Size {
		return nil, fmt.Errorf("checkpoint %s: it is not a checkpoint: name one, or a file that does not exist", path)
	}
	saved, sum, state := b[:sha256.Size], b[sha256.Size:2*sha256.Size], b[2*sha256.Size:]
	if got := sha256.Sum256(state); !bytes.Equal(sum, got[:]) {
		return nil, fmt.Errorf("checkpoint %s: it is damaged; remove it to train from the start", path)
	}
	if !bytes.Equal(saved, c.key[:]) {
		return nil, fmt.Errorf("checkpoint %s: it is of a training with other inputs or settings, or by another version of "+
			"cfq or ONNX Runtime; remove it to train from the start", path)
	}
	c.state = state
	return c, nil
}

// Load implements Checkpoint.
func (c *checkpointFile) Load() []byte { return c.state }

// Save implements Checkpoint. The file is whole whenever the process is killed.
func (c *checkpointFile) Save(state []byte) error {
	f, err := tempfile.New(filepath.Dir(c.path))
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	sum := sha256.Sum256(state)
	if _, err = f.Write(slices.Concat([]byte(checkpointHeader), c.key[:], sum[:], state)); err == nil {
		err = tempfile.Place(f, c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint %s: %w", c.path, err), tempfile.Remove(f))
	}
	return nil
}

// keyOf is the hash of what computes, the program and ONNX Runtime, and of the inputs.
func keyOf(e ort.Options, inputs []any) (key [sha256.Size]byte, err error) {
	path, err := os.Executable()
	if err != nil {
		return key, fmt.Errorf("finding the program: %w", err)
	}
	program, err := os.Open(path)
	if err != nil {
		return key, fmt.Errorf("the program: %w", err)
	}
	defer program.Close()
	h := sha256.New()
	if _, err := io.Copy(h, program); err != nil {
		return key, fmt.Errorf("the program: %w", err)
	}
	lib, err := ort.Find(e.Lib)
	if err != nil {
		return key, err
	}
	fmt.Fprintf(h, "%q %q %v %d", runtime.GOARCH, lib.Version, e.Level, e.Threads)
	for _, v := range inputs {
		if text, ok := v.(string); ok {
			v = []byte(text)
		}
		fmt.Fprintf(h, "\n%d\n", binary.Size(v)) // so that nothing moves from one input to the next
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			return key, err
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
