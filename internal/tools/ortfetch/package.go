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
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cfq/onnxio/ort"
)

// pack has npm put the package's tarball into dir, and returns its path.
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

// libraryOf is the library of a release inside the tarball. It fails when the hash is not the pinned one.
func libraryOf(tarball string, r ort.Release) (lib []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("unpacking %s: %w", tarball, err)
		}
	}()
	f, err := os.Open(tarball)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
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
