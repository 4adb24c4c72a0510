package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cfq/onnxio/ort"
)

// open is the package's tarball, as a stream: a reader that stops at the library does not fetch the rest. Where the
// registry wants what only npm has, such as a password, npm fetches it whole.
func open() (io.ReadCloser, error) {
	spec := ort.Package + "@" + ort.Version
	log.Printf("fetching %s", spec)
	url, err := npm("view", spec, "dist.tarball")
	if err != nil {
		return nil, err
	}
	resp, err := http.Get(url) //nolint:gosec // npm names it, and the pinned hash is checked
	if err == nil && resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	if err == nil {
		err = errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	log.Printf("%s: %v; npm tries (about 110 MB)", url, err)
	dir, err := os.MkdirTemp("", "ortfetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // an open file stays readable
	name, err := npm("pack", "--silent", "--pack-destination", dir, spec)
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(dir, filepath.Base(name)))
}

// npm is the output of a command of npm.
func npm(args ...string) (string, error) {
	cmd := exec.Command("npm", args...)
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr // no project's package.json
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm %s: %w; without npm or a network, set %s to an ONNX Runtime library (%s or later)",
			strings.Join(args, " "), err, ort.LibEnv, ort.MinVersion)
	}
	return strings.TrimSpace(string(out)), nil
}

// libraryOf is the library of a release inside the tarball. It fails when the hash is not the pinned one.
func libraryOf(tarball io.Reader, r ort.Release) (lib []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("unpacking %s: %w", ort.Package, err)
		}
	}()
	z, err := gzip.NewReader(tarball)
	if err != nil {
		return nil, err
	}
	tr := tar.NewReader(z)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it holds no %s", r.Member)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == r.Member {
			break
		}
	}
	if lib, err = io.ReadAll(tr); err != nil {
		return nil, err
	}
	if sum := hashOf(lib); sum != r.SHA256 {
		return nil, fmt.Errorf("the hash of %s is %s and should be %s: not the library that is pinned", r.Member, sum,
			r.SHA256)
	}
	return lib, nil
}

// hashOf is the SHA-256 of data, in hexadecimal.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
