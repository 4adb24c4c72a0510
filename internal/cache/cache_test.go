package cache

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func keyOf(s string) Key { return sha256.Sum256([]byte(s)) }

func TestCache(t *testing.T) {
	t.Parallel()
	c := Dir{Path: filepath.Join(t.TempDir(), "a", "b"), Limit: 1 << 20}
	if _, ok := c.Get(keyOf("x")); ok {
		t.Error("an empty cache has something")
	}
	for _, content := range []string{"first", "second, longer", ""} {
		c.Put(keyOf("x"), []byte(content))
		if got, ok := c.Get(keyOf("x")); !ok || string(got) != content {
			t.Errorf("%q, %v; want %q", got, ok, content)
		}
	}
	if _, ok := c.Get(keyOf("y")); ok {
		t.Error("another key has something")
	}
	// The whole key counts.
	twin := keyOf("x")
	twin[31]++
	if _, ok := c.Get(twin); ok {
		t.Error("a key that begins alike has something")
	}
	// A cache that cannot be written is no cache.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Path = file
	c.Put(keyOf("x"), []byte("content"))
	if _, ok := c.Get(keyOf("x")); ok {
		t.Error("a file served as a folder")
	}
}

// Whatever byte of a file is damaged, or how much of it is missing, the file counts as none
// and the next put mends it.
func TestCacheDamage(t *testing.T) {
	t.Parallel()
	c := Dir{Path: t.TempDir(), Limit: 1 << 20}
	key, content := keyOf("x"), []byte("what was computed")
	c.Put(key, content)
	whole, err := os.ReadFile(c.path(key))
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(c.path(key), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Get(key); ok {
			t.Errorf("%d damaged bytes gave %q", len(b), got)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1
		spoil(b)
		spoil(whole[:i])
	}
	spoil(append(bytes.Clone(whole), 0))
	c.Put(key, content)
	if got, ok := c.Get(key); !ok || !bytes.Equal(got, content) {
		t.Errorf("after mending: %q, %v", got, ok)
	}
}

// The files used longest ago go first; those of others stay.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(foreign, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Dir{Path: dir, Limit: 3 * int64(header+1000)}
	long := time.Now().Add(-time.Hour)
	for i, name := range []string{"a", "b", "c"} {
		c.Put(keyOf(name), make([]byte, 1000))
		then := long.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(c.path(keyOf(name)), then, then); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := c.Get(keyOf("a")); !ok { // now the youngest
		t.Fatal("a is gone")
	}
	c.Put(keyOf("d"), make([]byte, 1000))
	for name, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if _, ok := c.Get(keyOf(name)); ok != want {
			t.Errorf("%s is there: %v, want %v", name, ok, want)
		}
	}
	c.Put(keyOf("e"), make([]byte, c.Limit)) // larger than all
	if _, ok := c.Get(keyOf("e")); ok {
		t.Error("a file larger than the limit was kept")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// Writers and readers of one key at once: a reader sees a whole content or none.
func TestCacheConcurrent(t *testing.T) {
	t.Parallel()
	c := Dir{Path: t.TempDir(), Limit: 40 << 10} // some are pruned meanwhile
	keys := []Key{keyOf("a"), keyOf("b"), keyOf("c")}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 40 {
				key := keys[(w+i)%len(keys)]
				c.Put(key, bytes.Repeat([]byte{byte(w)}, 10000+w))
				if got, ok := c.Get(key); ok && (len(got) != 10000+int(got[0]) ||
					!bytes.Equal(got, bytes.Repeat(got[:1], len(got)))) {
					t.Errorf("%d bytes of %d", len(got), got[0])
				}
			}
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(c.Path, "new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	c.Put(keys[0], []byte("last"))
	if got, ok := c.Get(keys[0]); !ok || string(got) != "last" {
		t.Errorf("%q, %v", got, ok)
	}
}
