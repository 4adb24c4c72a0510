// Package tempfile has files that are written under a name of their own and get that of the result when they are whole.
package tempfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
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

// Lock keeps other processes that lock the path waiting until unlock is called: for as long as a file is read and
// written again. A process that was killed meanwhile is waited for some seconds. Where no folder can be made, nothing
// is locked.
func Lock(path string) (unlock func()) {
	path += ".lock"
	for tries := range 2000 {
		err := os.Mkdir(path, 0o755)
		if err == nil || !errors.Is(err, fs.ErrExist) && tries > 20 { // Windows may be removing the folder
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return func() { _ = os.Remove(path) }
}
