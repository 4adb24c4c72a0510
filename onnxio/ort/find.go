package ort

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNotFound is wrapped by the error for a library that no rule found.
var ErrNotFound = errors.New("ONNX Runtime library not found")

// Info describes the ONNX Runtime library in use.
type Info struct {
	Path    string
	Version string // such as "1.30.0"
	Source  string // the rule that found it: "--ort-lib", "CFQ_ORT_LIB", "cache" or "system"
}

// Find locates the library: lib (the flag --ort-lib) if it is not empty, then
// CFQ_ORT_LIB, then the project's cache, then the system's library path. A
// library that was asked for by name and is not there is an error, never a
// reason to look further. The library is loaded only when its version cannot be
// read from the file. The error wraps ErrNotFound when nothing was found.
func Find(lib string) (Info, error) { return find(lib, systemDirs) }

func find(lib string, dirs func() []string) (Info, error) {
	info, err := locate(lib, dirs)
	if err != nil {
		return Info{}, err
	}
	if info.Version, err = fileVersion(info.Path); err != nil {
		return Info{}, err
	}
	if info.Version != "" {
		return info, checkVersion(info)
	}
	return load(lib)
}

// locate applies the order of Find, with the system's library path in dirs; Version
// stays empty.
func locate(lib string, dirs func() []string) (Info, error) {
	if lib != "" {
		return named(lib, "--ort-lib")
	}
	if env := os.Getenv(LibEnv); env != "" {
		return named(env, LibEnv)
	}
	tried := []string{"--ort-lib (not given)", LibEnv + " (not set)"}
	switch path, err := CachePath(); {
	case err != nil:
		tried = append(tried, fmt.Sprintf("the cache (%v)", err))
	case isFile(path):
		return Info{Path: path, Source: "cache"}, nil
	default:
		tried = append(tried, fmt.Sprintf("the cache (no %s)", path))
	}
	system := dirs()
	for _, dir := range system {
		for _, name := range systemNames() {
			if path := filepath.Join(dir, name); isFile(path) {
				return Info{Path: path, Source: "system"}, nil
			}
		}
	}
	tried = append(tried, fmt.Sprintf("the system's library path (no %s in %s)",
		strings.Join(systemNames(), " or "), strings.Join(system, ", ")))
	return Info{}, fmt.Errorf("%w; looked at %s; run `make ort` or set %s to the library (%s or later)",
		ErrNotFound, strings.Join(tried, ", "), LibEnv, MinVersion)
}

// named checks a path that the user gave.
func named(path, source string) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, fmt.Errorf("%w: %s names %q: %w", ErrNotFound, source, path, errors.Unwrap(err))
	}
	if st.IsDir() {
		return Info{}, fmt.Errorf("%w: %s names %q, which is a directory; name the library in it (%s)",
			ErrNotFound, source, path, strings.Join(systemNames(), " or "))
	}
	// dlopen takes a name without a slash for one to search for.
	abs, err := filepath.Abs(path)
	if err != nil {
		return Info{}, fmt.Errorf("%s %q: %w", source, path, err)
	}
	return Info{Path: abs, Source: source}, nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func systemNames() []string {
	switch runtime.GOOS {
	case "windows":
		return []string{"onnxruntime.dll"}
	case "darwin":
		return []string{"libonnxruntime.dylib", "libonnxruntime.1.dylib"}
	}
	return []string{"libonnxruntime.so.1", "libonnxruntime.so"}
}

// systemDirs returns the directories that the platform's loader searches, near
// enough: the environment's, those configured, the customary ones.
func systemDirs() []string {
	var dirs []string
	add := func(list ...string) {
		for _, d := range list {
			if st, err := os.Stat(d); filepath.IsAbs(d) && err == nil && st.IsDir() && !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	switch runtime.GOOS {
	case "windows":
		add(filepath.SplitList(os.Getenv("PATH"))...)
	case "darwin":
		add(filepath.SplitList(os.Getenv("DYLD_LIBRARY_PATH"))...)
		add("/usr/local/lib", "/opt/homebrew/lib", "/opt/local/lib", "/usr/lib")
	default:
		add(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
		files, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf") // the pattern is well formed
		for _, f := range append([]string{"/etc/ld.so.conf"}, files...) {
			text, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(text)) {
				add(strings.TrimSpace(line))
			}
		}
		add("/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/lib")
	}
	return dirs
}
