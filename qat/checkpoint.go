package qat

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"cfq/internal/tempfile"
	"cfq/onnxio/ort"
)

// A checkpoint file is this line, the SHA-256 of what the training depends on, and the state.
const checkpointHeader = "cfq checkpoint\n"

// Checkpoint keeps the state of a training in a file, so that a training that was stopped goes on.
type Checkpoint struct {
	path  string
	head  []byte
	saved *checkpointState // nil when there is none
}

type checkpointState struct {
	State   optimizerState
	History []Event
}

// OpenCheckpoint returns the checkpoint of a training in a file, which need not exist. The training is known by its
// inputs and settings (strings, and slices of numbers), the program and the library: the file of another one is an
// error.
func OpenCheckpoint(path string, e ort.Options, inputs ...any) (*Checkpoint, error) {
	key, err := keyOf(e, inputs)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{path: path, head: slices.Concat([]byte(checkpointHeader), key)}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if len(b) < len(c.head) || !bytes.HasPrefix(b, []byte(checkpointHeader)) {
		return nil, fmt.Errorf("checkpoint %s: it is not a checkpoint: name one, or a file that does not exist", path)
	}
	state, found := bytes.CutPrefix(b, c.head)
	if !found {
		return nil, fmt.Errorf("checkpoint %s: it is of a training with other inputs or settings, or by another version of "+
			"cfq or ONNX Runtime; remove it to train from the start", path)
	}
	if err := gob.NewDecoder(bytes.NewReader(state)).Decode(&c.saved); err != nil {
		return nil, fmt.Errorf("checkpoint %s: it is damaged; remove it to train from the start", path)
	}
	return c, nil
}

// save writes the file, which is whole whenever the process is killed.
func (c *Checkpoint) save(state checkpointState) error {
	f, err := tempfile.New(filepath.Dir(c.path))
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if _, err = f.Write(c.head); err == nil {
		err = gob.NewEncoder(f).Encode(state)
	}
	if err == nil {
		err = tempfile.Place(f, c.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint %s: %w", c.path, err), tempfile.Remove(f))
	}
	return nil
}

// keyOf is the hash of what computes, the program and ONNX Runtime, and of the inputs.
func keyOf(e ort.Options, inputs []any) ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the program: %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the program: %w", err)
	}
	h := sha256.New()
	h.Write(program)
	lib, err := ort.Find(e.Lib)
	if err != nil {
		return nil, err
	}
	into := gob.NewEncoder(h)
	for _, v := range append(inputs, runtime.GOARCH, lib.Version, fmt.Sprint(e.Level), e.Threads) {
		if err := into.Encode(v); err != nil {
			return nil, err
		}
	}
	return h.Sum(nil), nil
}
