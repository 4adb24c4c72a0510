package ort

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The pinned release of ONNX Runtime: what make fetches and what the tests ran
// on. Any release from MinVersion on is accepted at run time.
const (
	Package    = "onnxruntime-node" // the npm package that carries the library
	Version    = "1.30.0"
	MinVersion = "1.24" // the first release with the C API that the binding speaks (24)
)

// Release says where the pinned library for one platform is inside Package.
type Release struct {
	Platform string // GOOS/GOARCH
	Member   string // path inside the package's tarball
	Name     string // file name in the cache
	SHA256   string // of the library itself, hexadecimal
}

// releases lists the platforms that Package carries a library for.
func releases() []Release {
	const bin = "package/bin/napi-v6/"
	return []Release{
		{
			"linux/amd64", bin + "linux/x64/libonnxruntime.so.1", "libonnxruntime.so.1",
			"ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23",
		},
		{
			"linux/arm64", bin + "linux/arm64/libonnxruntime.so.1", "libonnxruntime.so.1",
			"1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76",
		},
		{
			"darwin/arm64", bin + "darwin/arm64/libonnxruntime.1.dylib", "libonnxruntime.1.dylib",
			"685d2be5dba1309c89d3a5324b7fd06a5c42f1a61bfea32d14c4cc28d072121d",
		},
		{
			"windows/amd64", bin + "win32/x64/onnxruntime.dll", "onnxruntime.dll",
			"508c362f5673483dd3a086379c392795b2e42d10d5e6f3f90ebd7ac21c97af67",
		},
		{
			"windows/arm64", bin + "win32/arm64/onnxruntime.dll", "onnxruntime.dll",
			"6c3a2abf5c6aca11c48a0d338a91af309f2266f25ce2e4084e6a87bbcb0fbfd0",
		},
	}
}

// Pinned returns the release for the platform that the program runs on. The
// package has none for darwin/amd64 and some others: the error says so.
func Pinned() (Release, error) { return pinnedFor(runtime.GOOS + "/" + runtime.GOARCH) }

func pinnedFor(platform string) (Release, error) {
	for _, r := range releases() {
		if r.Platform == platform {
			return r, nil
		}
	}
	return Release{}, fmt.Errorf("%s %s has no library for %s: get ONNX Runtime %s or later yourself and set %s to it",
		Package, Version, platform, MinVersion, LibEnv)
}

// Environment variables that say where the library is.
const (
	LibEnv   = "CFQ_ORT_LIB"   // the library file itself
	CacheEnv = "CFQ_CACHE_DIR" // the project's cache, in place of <user cache>/cfq
)

// CacheDir returns the project's cache directory: CFQ_CACHE_DIR, else cfq in the
// user's cache. It need not exist.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return dir, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache directory: %w", err)
	}
	return filepath.Join(user, "cfq"), nil
}

// CachePath returns the path where make puts the pinned library:
// <cache>/onnxruntime/<version>/<library>. The file need not exist.
func CachePath() (string, error) {
	r, err := Pinned()
	if err != nil {
		return "", err
	}
	dir, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "onnxruntime", Version, r.Name), nil
}
