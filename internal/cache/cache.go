// Package cache keeps results in files of a folder from one run to the next.
//
// In: results as bytes, each under a key that names all that it was computed from.
// Out: the same bytes, or nothing. The invariant: it never fails and never gives
// back anything else: what cannot be read is not there, what cannot be written is
// not kept. Any number of processes may use a folder at once, since files appear
// whole and a reader believes a file only by its own hash.
package cache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cfq/internal/tempfile"
)

// Dir is a folder of results.
type Dir struct {
	Path  string // made when it is not there
	Limit int64  // bytes of all files together; the least recently used go
}

// Key names what a result was computed from: a SHA-256.
type Key [sha256.Size]byte

// A file is the SHA-256 of the content, and the content.
const (
	header = sha256.Size
	suffix = ".cfq"
)

func (c Dir) path(k Key) string { return filepath.Join(c.Path, hex.EncodeToString(k[:])+suffix) }

// Get returns what Put kept under k. A file that is damaged, or not one of the
// cache's, counts as none.
func (c Dir) Get(k Key) ([]byte, bool) {
	b, err := os.ReadFile(c.path(k))
	if err != nil || len(b) < header {
		return nil, false
	}
	content := b[header:]
	if sum := sha256.Sum256(content); !bytes.Equal(b[:header], sum[:]) {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(c.path(k), now, now) // used: not the next to go
	return content, true
}

// Put keeps content under k and removes the files used longest ago when the folder
// becomes larger than the limit.
func (c Dir) Put(k Key, content []byte) {
	if int64(len(content)+header) > c.Limit || os.MkdirAll(c.Path, 0o700) != nil {
		return
	}
	f, err := tempfile.New(c.Path)
	if err != nil {
		return
	}
	sum := sha256.Sum256(content)
	if _, err = f.Write(append(sum[:], content...)); err == nil {
		err = tempfile.Place(f, c.path(k))
	}
	if err != nil {
		_ = tempfile.Remove(f)
		return
	}
	c.prune()
}

// prune removes files, those used longest ago first, until the rest fits.
func (c Dir) prune() {
	entries, err := os.ReadDir(c.Path)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == suffix {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= c.Limit {
			return
		}
		if os.Remove(filepath.Join(c.Path, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
