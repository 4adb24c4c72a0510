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

// standard is the name that stands for the standard input or output elsewhere. Here files are read
// more than once and replaced as a whole, so it is refused rather than taken for a file's name.
const standard = "-"

// notStandard reports that what, an input or the output, is asked of the standard input or output.
func notStandard(what string) error {
	return Usagef("name a file; ./- is one of that name", "%s -: standard input and output are not supported", what)
}

// Input reports why path cannot be read as an input file: it is the standard input,
// missing, a directory, a pipe or empty. What says what the file should be, such as "model".
func Input(what, path string) error {
	if path == standard {
		return notStandard(what)
	}
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
	case !info.Mode().IsRegular(): // some inputs are opened more than once, and what was read of a pipe is gone
		return Usagef("save it to a file first", "%s %s is a pipe or a device, not a file", what, path)
	case info.Size() == 0:
		return Usagef("check that it was written completely", "%s %s is empty", what, path)
	}
	return nil
}

// sibling returns the file in the same folder with the nearest name, or "".
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

// Output reports why path must not be written: it is the standard output or no regular
// file (a device, a pipe, a link to nothing), it exists and overwrite is not set, or its
// directory is missing. Checked before work begins.
func Output(path string, overwrite bool) error {
	if path == standard {
		return notStandard("output")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return Usagef("name a file in it", "output %s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		return Usagef("give a regular file", "output %s is not a regular file and cannot be replaced by one", path)
	case err == nil && !overwrite:
		return Usagef("--overwrite replaces it", "output %s exists", path)
	case err == nil:
		return writable(path)
	case !errors.Is(err, fs.ErrNotExist):
		return Usagef("", "output: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return Usagef("remove the link or name its target", "output %s is a link to a file that does not exist", path)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return Usagef("create the directory first", "output %s: no directory %s", path, filepath.Dir(path))
	}
	return writable(path)
}

// writable reports why no file can be made in the folder of path.
func writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".cfq-*")
	if err != nil {
		return Usagef("", "output %s: %w", path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Distinct reports an output that is one of the inputs, or another output.
func Distinct(inputs, outputs []string) error {
	for i, out := range outputs {
		for _, in := range inputs {
			if sameFile(in, out) {
				return Usagef("give the output another name", "the output %s is one of the inputs", out)
			}
		}
		for _, other := range outputs[:i] {
			if sameFile(other, out) {
				return Usagef("give each its own name", "two outputs have the same path %s", out)
			}
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	absA, errX := filepath.Abs(a)
	absB, errY := filepath.Abs(b)
	return errX == nil && errY == nil && absA == absB
}

// Write writes a file by write, all of it or nothing: into a temporary file that
// then takes the place of path, or of the file that path links to. It replaces
// regular files only.
func Write(path string, write func(io.Writer) error) (err error) {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	if info, err := os.Lstat(target); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("writing %s: it is not a regular file", path)
	}
	f, err := renameio.NewPendingFile(target, renameio.WithPermissions(0o644))
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
