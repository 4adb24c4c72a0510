// Ortfetch puts the pinned ONNX Runtime library into the project's cache.
//
// In: the npm package that engine pins, read from its registry up to the library,
// or its tarball. Out: the one library for this platform at ort.CachePath. The
// invariant: a file at that path has the pinned hash; it appears there whole or
// not at all.
//
// When the library is in the cache already, or CFQ_ORT_LIB names one, nothing is
// fetched.
package main

import (
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"cfq/onnxio/ort"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("ortfetch: ")
	tarball := flag.String("tarball", "", "take the library from this tarball of the package, not from the registry")
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
	case err == nil && hashOf(lib) == release.SHA256:
		log.Printf("ONNX Runtime %s is at %s", ort.Version, path)
		return nil
	case err == nil:
		log.Printf("%s has the wrong hash: replacing it", path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	in := io.ReadCloser(nil)
	if tarball == "" {
		in, err = open()
	} else {
		in, err = os.Open(tarball)
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was read
	if err := install(in, release, path); err != nil {
		return err
	}
	log.Printf("ONNX Runtime %s for %s is at %s", ort.Version, release.Platform, path)
	return nil
}

// install writes the library inside the tarball to path, if its hash is right.
func install(tarball io.Reader, r ort.Release, path string) error {
	lib, err := libraryOf(tarball, r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, lib, 0o644)
}
