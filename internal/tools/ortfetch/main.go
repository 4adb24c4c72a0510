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
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"cfq/onnxio/ort"
)

func main() {
	tarball := flag.String("tarball", "", "take the library from this tarball of the package instead of running npm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := fetch(ctx, *tarball)
	stop()
	if err != nil {
		say("error: %v", err)
		os.Exit(1)
	}
}

func say(format string, a ...any) { fmt.Fprintf(os.Stderr, "ortfetch: "+format+"\n", a...) }

func fetch(ctx context.Context, tarball string) error {
	if lib := os.Getenv(ort.LibEnv); lib != "" {
		say("%s names %s: nothing to fetch", ort.LibEnv, lib)
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
	switch sum, err := hashFile(path); {
	case err == nil && sum == release.SHA256:
		say("ONNX Runtime %s is at %s", ort.Version, path)
		return nil
	case err == nil:
		say("%s has the wrong hash: replacing it", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if tarball == "" {
		dir, err := os.MkdirTemp("", "ortfetch-")
		if err != nil {
			return fmt.Errorf("making a place for the package: %w", err)
		}
		defer os.RemoveAll(dir)
		if tarball, err = pack(ctx, dir); err != nil {
			return err
		}
	}
	if err := unpack(ctx, tarball, release, path); err != nil {
		return err
	}
	say("ONNX Runtime %s for %s is at %s", ort.Version, release.Platform, path)
	return nil
}

// pack has npm put the package's tarball into dir.
func pack(ctx context.Context, dir string) (string, error) {
	spec := ort.Package + "@" + ort.Version
	say("fetching %s with npm (about 110 MB)", spec)
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", dir, spec)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w; without npm or a network, set %s to an ONNX Runtime library (%s or later)",
			spec, err, ort.LibEnv, ort.MinVersion)
	}
	return filepath.Join(dir, filepath.Base(strings.TrimSpace(string(out)))), nil
}

// unpack writes the library inside the tarball to path.
func unpack(ctx context.Context, tarball string, r ort.Release, path string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return fmt.Errorf("opening the package: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("reading %s: %w", tarball, err)
	}
	for tr := tar.NewReader(z); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s holds no %s", tarball, r.Member)
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", tarball, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if h.Name != r.Member {
			continue
		}
		if err := install(tr, r, path); err != nil {
			return fmt.Errorf("unpacking %s: %w", r.Member, err)
		}
		return nil
	}
}

// install writes the library beside path and, if its hash is right, moves it there.
func install(lib io.Reader, r ort.Release, path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+r.Name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name()) //nolint:errcheck // being thrown away
		}
	}()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(tmp, h), lib); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != r.SHA256 {
		return fmt.Errorf("the hash is %s and should be %s: not the library that is pinned", sum, r.SHA256)
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
