package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Input reports why path cannot be read as an input file: it is missing, a
// directory or empty. What says what the file should be, such as "model".
func Input(what, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint := ""
		if s := sibling(path); s != "" {
			hint = fmt.Sprintf("there is a file %s", s)
		}
		return Usagef(hint, "%s %s does not exist", what, path)
	case err != nil:
		return Usagef("", "%s: %w", what, err)
	case info.IsDir():
		return Usagef("name the file in it", "%s %s is a directory", what, path)
	case info.Mode().IsRegular() && info.Size() == 0:
		return Usagef("was it written completely?", "%s %s is empty", what, path)
	}
	return nil
}

// sibling returns the file beside path whose name is nearest to it, or "".
func sibling(path string) string {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	s := Suggest(filepath.Base(path), names)
	if s == "" {
		return ""
	}
	return filepath.Join(dir, s)
}

// Output reports why path must not be written: it exists and overwrite is not
// set, or its directory is missing. Checked before work begins.
func Output(path string, overwrite bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return Usagef("name a file in it", "output %s is a directory", path)
	case err == nil && !overwrite:
		return Usagef("--overwrite replaces it", "output %s exists", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return Usagef("", "output: %w", err)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return Usagef("make it first", "output %s: there is no directory %s", path, filepath.Dir(path))
	}
	return nil
}

// Write writes a file by write, all of it or nothing.
func Write(path string, write func(io.Writer) error) (err error) {
	f, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if err := write(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
