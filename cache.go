package cfq

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cache keeps results in files of a folder, each under a key that names all that it
// was computed from. It never fails: what cannot be read is not there, what cannot be
// written is not kept. Any number of processes may use a folder at once, since
// files appear whole and a reader believes a file only by its own hash.
type cache struct {
	dir   string
	limit int64 // bytes of all files together
}

type cacheKey [sha256.Size]byte

// A file is cacheMagic, the key, the SHA-256 of the content, and the content.
const (
	cacheMagic  = "cfq cache 1\n"
	cacheHeader = len(cacheMagic) + 2*sha256.Size
	cacheSuffix = ".cfq"
)

func (c cache) path(k cacheKey) string {
	return filepath.Join(c.dir, hex.EncodeToString(k[:16])+cacheSuffix)
}

// get returns what put kept under k. A file that is damaged, or not one of the
// cache's, counts as none.
func (c cache) get(k cacheKey) ([]byte, bool) {
	b, err := os.ReadFile(c.path(k))
	if err != nil || len(b) < cacheHeader || string(b[:len(cacheMagic)]) != cacheMagic {
		return nil, false
	}
	content := b[cacheHeader:]
	sum := sha256.Sum256(content)
	if !bytes.Equal(b[len(cacheMagic):cacheHeader], append(k[:], sum[:]...)) {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(c.path(k), now, now) // used: not the next to go
	return content, true
}

// put keeps content under k and removes the files used longest ago when the folder
// becomes larger than the limit.
func (c cache) put(k cacheKey, content []byte) {
	if int64(len(content)+cacheHeader) > c.limit || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, "new-*"+cacheSuffix)
	if err != nil {
		return
	}
	sum := sha256.Sum256(content)
	for _, part := range [][]byte{[]byte(cacheMagic), k[:], sum[:], content} {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path(k))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return
	}
	c.prune()
}

// prune removes files, those used longest ago first, until the rest fits.
func (c cache) prune() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), cacheSuffix) {
			continue // not ours
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= c.limit {
			return
		}
		if os.Remove(filepath.Join(c.dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
