package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/ort"
)

func TestUnpack(t *testing.T) {
	content := []byte("the library")
	sum := sha256.Sum256(content)
	right := ort.Release{Member: "package/bin/lib.so", Name: "lib.so", SHA256: hex.EncodeToString(sum[:])}
	wrong, missing := right, right
	wrong.SHA256 = strings.Repeat("0", 64)
	missing.Member = "package/bin/other.so"
	tarball := makeTarball(t, map[string][]byte{"package/README": []byte("hello"), right.Member: content})

	for _, c := range []struct {
		name    string
		release ort.Release
		want    string // of the error; "" for none
	}{
		{"right", right, ""},
		{"wrong hash", wrong, "the hash of package/bin/lib.so is"},
		{"missing", missing, "holds no package/bin/other.so"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			path := filepath.Join(dir, "lib.so")
			in, err := os.Open(tarball)
			must.Do(t, err)
			defer in.Close()
			err = install(in, c.release, path)
			got, _ := os.ReadFile(path)
			left, _ := os.ReadDir(dir)
			if c.want == "" {
				if err != nil || !bytes.Equal(got, content) || len(left) != 1 {
					t.Errorf("error %v, content %q, files %v", err, got, left)
				}
				return
			}
			must.Fail(t, err, c.want)
			must.Same(t, 0, len(left))
		})
	}
}

func TestFetchLeavesGivenLibraryAlone(t *testing.T) {
	t.Setenv(ort.LibEnv, "/some/libonnxruntime.so")
	t.Setenv(ort.CacheEnv, t.TempDir())
	must.Do(t, fetch("no such tarball"))
}

func TestFetchReplacesDamagedLibraryOnlyByAGoodOne(t *testing.T) {
	t.Setenv(ort.LibEnv, "")
	t.Setenv(ort.CacheEnv, t.TempDir())
	release, err := ort.Pinned()
	if err != nil {
		t.Skip(err)
	}
	path := must.Get(ort.CachePath())(t)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte("damaged"), 0o600))
	tarball := makeTarball(t, map[string][]byte{release.Member: []byte("forged")})
	must.Fail(t, fetch(tarball), "not the library that is pinned")
	if got, _ := os.ReadFile(path); string(got) != "damaged" {
		t.Errorf("the library was replaced by %q", got)
	}
}

func makeTarball(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for name, data := range files {
		must.Do(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}))
		must.Get(w.Write(data))(t)
	}
	must.Do(t, w.Close())
	must.Do(t, z.Close())
	path := filepath.Join(t.TempDir(), "package.tgz")
	must.Do(t, os.WriteFile(path, buf.Bytes(), 0o600))
	return path
}
