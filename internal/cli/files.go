package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cfq/internal/lists"
	"cfq/internal/tempfile"
)

// standard is the name that stands for the standard input or output elsewhere. Here files are read
// more than once and replaced as a whole, so it is refused rather than taken for a file's name.
const standard = "-"

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
		if s := sibling(path); s != "" {
			return Usagef(hintMissingFile, "%s %s does not exist; there is a file %s", what, path, s)
		}
		return Usagef(hintMissingFile, "%s %s does not exist", what, path)
	case err != nil:
		return Usagef("", "%s: %w", what, err)
	case info.IsDir():
		return Usagef(HintFolder, "%s %s is a directory", what, path)
	case !info.Mode().IsRegular(): // some inputs are opened more than once, and what was read of a pipe is gone
		return Usagef(hintNotAFile, "%s %s is a pipe or a device, not a file", what, path)
	case info.Size() == 0:
		return Usagef("check that it was written completely", "%s %s is empty", what, path)
	}
	return nil
}

func sibling(path string) string {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir) // what cannot be read has no name to suggest
	files := slices.DeleteFunc(entries, fs.DirEntry.IsDir)
	if s := Suggest(filepath.Base(path), lists.Map(files, fs.DirEntry.Name)); s != "" {
		return filepath.Join(dir, s)
	}
	return ""
}

// Output reports why path must not be written: it is the standard output or no regular file (a device, a pipe, a link
// to nothing), it exists and overwrite is not set, or its directory is missing. Checked before work begins.
func Output(path string, overwrite bool) error {
	if path == standard {
		return notStandard("output")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return Usagef(HintFolder, "output %s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		return Usagef(hintNotAFile, "output %s is not a regular file and cannot be replaced by one", path)
	case err == nil && !overwrite:
		return Usagef("--overwrite replaces it", "output %s exists", path)
	case err == nil:
		return writable(path)
	case !errors.Is(err, fs.ErrNotExist):
		return Usagef("", "output: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return Usagef(hintNotAFile, "output %s is a link to a file that does not exist", path)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
		return Usagef("create the directory first", "output %s: no directory %s", path, filepath.Dir(path))
	}
	return writable(path)
}

func writable(path string) error {
	f, err := tempfile.New(filepath.Dir(path))
	if err != nil {
		return Usagef("", "output %s: %w", path, err)
	}
	return tempfile.Remove(f)
}

// Distinct reports an output that is one of the inputs, or another output.
func Distinct(inputs, outputs []string) error {
	for i, out := range outputs {
		for _, in := range inputs {
			if sameFile(in, out) {
				return Usagef(hintSameFile, "the output %s is one of the inputs", out)
			}
		}
		for _, other := range outputs[:i] {
			if sameFile(other, out) {
				return Usagef(hintSameFile, "two outputs have the same path %s", out)
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

// CopyFrom writes the contents of a file to w, such as a hash, and returns how many bytes these are.
func CopyFrom(w io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.Copy(w, f)
}

// File is a file to be written.
type File struct {
	Path  string
	Write func(io.Writer) error
}

// Content returns what writes data to a file.
func Content(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// Write writes a file by write, all of it or nothing, see [WriteAll].
func Write(path string, write func(io.Writer) error) error { return WriteAll(File{path, write}) }

// WriteAll writes files: each into a temporary file next to it and, when all are whole, they take the places of the
// paths, or of the files that they link to, one right after the other. Nothing is replaced unless all could be written.
// Only regular files are replaced.
func WriteAll(files ...File) (err error) {
	var pending []*os.File
	defer func() {
		for _, f := range pending {
			err = errors.Join(err, tempfile.Remove(f))
		}
	}()
	targets := make([]string, len(files))
	for i, x := range files {
		targets[i] = x.Path
		if real, err := filepath.EvalSymlinks(x.Path); err == nil {
			targets[i] = real
		}
		if info, err := os.Lstat(targets[i]); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("writing %s: it is not a regular file", x.Path)
		}
		f, err := tempfile.New(filepath.Dir(targets[i]))
		if err != nil {
			return fmt.Errorf("writing %s: %w", x.Path, err)
		}
		pending = append(pending, f)
		if err := cmp.Or(x.Write(f), f.Sync()); err != nil {
			return fmt.Errorf("writing %s: %w", x.Path, err)
		}
	}
	for _, path := range targets {
		if err := tempfile.Place(pending[0], path); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		pending = pending[1:]
	}
	return nil
}
