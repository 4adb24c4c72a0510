// Package tempfile has temporary files and folders that do not outlive a process that is killed: they are locked while
// it has them open, and the next process that makes some in the same folder removes those that nobody has locked. Where
// files cannot be locked, they stay.
package tempfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
)

// New makes a file in the folder dir that is locked as long as it is open. The caller gives it to Place or Remove.
func New(dir string) (*os.File, error) {
	RemoveAbandoned(dir)
	for {
		path := filepath.Join(dir, fmt.Sprintf(".cfq-%016x.tmp", rand.Uint64()))
		f, err := open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if f, err = locked(f, err); f != nil || err != nil {
			return f, err
		}
	}
}

// NewFolder makes a folder in that for temporary files, and returns it with a function that removes it.
func NewFolder() (dir string, remove func() error, err error) {
	RemoveAbandoned(os.TempDir())
	for {
		dir := filepath.Join(os.TempDir(), fmt.Sprintf(".cfq-%016x.tmp", rand.Uint64()))
		err := os.Mkdir(dir, 0o700)
		var f *os.File
		if err == nil {
			if f, err = open(dir, os.O_RDONLY); errors.Is(err, fs.ErrNotExist) {
				continue // taken for an abandoned one before it was locked
			}
		}
		if f, err = locked(f, err); f != nil || err != nil {
			return dir, func() error { return discard(f, dir) }, err
		}
	}
}

// locked locks what has been made. It returns neither when another process had the same name, or has taken it for an
// abandoned one before it was locked.
func locked(f *os.File, err error) (*os.File, error) {
	if errors.Is(err, fs.ErrExist) {
		return nil, nil //nolint:nilnil // the caller tries another name
	}
	if err != nil {
		return nil, err
	}
	if !errors.Is(lock(f), errBusy) {
		there, err := os.Stat(f.Name())
		if own, failed := f.Stat(); err == nil && failed == nil && os.SameFile(own, there) {
			return f, nil
		}
	}
	return nil, f.Close()
}

// Place gives a file of New its name, in place of a file that has that, and closes it. When it fails the file is still
// there, and open.
func Place(f *os.File, path string) error {
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// Remove removes and closes a file of New.
func Remove(f *os.File) error { return discard(f, f.Name()) }

func discard(f *os.File, path string) error { return errors.Join(os.RemoveAll(path), f.Close()) }

// RemoveAbandoned removes what was made in a folder and no process has locked. What cannot be removed stays.
func RemoveAbandoned(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	ours := regexp.MustCompile(`^\.cfq-[0-9a-f]{16}\.tmp$`)
	for _, e := range entries {
		if !e.Type().IsRegular() && !e.IsDir() || !ours.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		how := os.O_RDWR // some network file systems lock nothing else
		if e.IsDir() {
			how = os.O_RDONLY
		}
		f, err := open(path, how)
		if err != nil {
			continue
		}
		if lock(f) == nil {
			_ = discard(f, path) // if that fails, the next run tries
			continue
		}
		_ = f.Close()
	}
}
