// Package tempfile has files that are written under a name of their own and get that of the result when they are whole.
package tempfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// New makes a file in the folder dir. The caller gives it to Place or Remove.
func New(dir string) (*os.File, error) {
	path := filepath.Join(dir, fmt.Sprintf(".cfq-%016x.tmp", rand.Uint64()))
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
}

// Place closes a file of New and gives it its name, in place of a file that has that. When it fails the file is still
// there.
func Place(f *os.File, path string) error {
	if err := f.Close(); err != nil { // Windows renames no open file
		return err
	}
	return os.Rename(f.Name(), path)
}

// Remove closes a file of New, unless Place has done so, and removes it.
func Remove(f *os.File) error {
	err := f.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()))
}
