// Ortfetch puts the pinned ONNX Runtime library into the project's cache.
//
// In: the npm package that engine pins, fetched with npm, or its tarball. Out:
// the one library for this platform at ort.CachePath. The invariant: a file at
// that path has the pinned hash; it appears there whole or not at all.
//
// When the library is in the cache already, or CFQ_ORT_LIB names one, nothing is
// fetched.
package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"cfq/onnxio/ort"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("ortfetch: ")
	tarball := flag.String("tarball", "", "take the library from this tarball of the package instead of running npm")
	flag.Parse()
	if err := fetch(*tarball); err != nil {
		log.Fatal("error: ", err)
	}
}

func fetch(tarball string) error {
	if lib := os.Getenv(ort.LibEnv); lib != "" {
		log.Printf("%s names a library: nothing to fetch", ort.LibEnv)
		return nil
	}
	release, err := ort.Pinned()
	if err != nil {
		return err
	}
	path, err := ort.CachePath()
	if err != nil {
		return err
	}
	switch lib, err := os.ReadFile(path); {
	case err == nil && hash(lib) == release.SHA256:
		log.Printf("ONNX Runtime %s is at %s", ort.Version, path)
		return nil
	case err == nil:
		log.Printf("%s has the wrong hash: replacing it", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if tarball == "" {
		dir, err := os.MkdirTemp("", "ortfetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if tarball, err = pack(dir); err != nil {
			return err
		}
	}
	if err := unpack(tarball, release, path); err != nil {
		return fmt.Errorf("unpacking %s: %w", tarball, err)
	}
	log.Printf("ONNX Runtime %s for %s is at %s", ort.Version, release.Platform, path)
	return nil
}

// pack has npm put the package's tarball into dir.
func pack(dir string) (string, error) {
	spec := ort.Package + "@" + ort.Version
	log.Printf("fetching %s with npm (about 110 MB)", spec)
	cmd := exec.Command("npm", "pack", "--silent", "--pack-destination", dir, spec)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w; without npm or a network, set %s to an ONNX Runtime library (%s or later)",
			spec, err, ort.LibEnv, ort.MinVersion)
	}
	return filepath.Join(dir, filepath.Base(strings.TrimSpace(string(out)))), nil
}

// unpack writes the library inside the tarball to path, if its hash is right.
func unpack(tarball string, r ort.Release, path string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	tr := tar.NewReader(z)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("it holds no %s", r.Member)
		}
		if err != nil {
			return err
		}
		if h.Name == r.Member {
			break
		}
	}
	lib, err := io.ReadAll(tr)
	if err != nil {
		return err
	}
	if sum := hash(lib); sum != r.SHA256 {
		return fmt.Errorf("the hash of %s is %s and should be %s: not the library that is pinned", r.Member, sum, r.SHA256)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, lib, 0o644)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
