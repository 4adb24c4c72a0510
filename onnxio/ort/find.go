package ort

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"cfq/onnxio/graph"
)

// ErrNotFound is wrapped by the error for a library that no rule found.
var ErrNotFound = errors.New("ONNX Runtime library not found")

// Info describes the ONNX Runtime library in use.
type Info struct {
	Path    string `json:"path"`
	Version string `json:"version"` // such as "1.30.0"
	Source  string `json:"source"`  // the rule that found it: "--ort-lib", "CFQ_ORT_LIB", "program", "cache" or "system"
}

// Find loads the library, unless it is loaded, and says which it is: lib (the flag --ort-lib) if it is not empty, then
// CFQ_ORT_LIB, then the folder of the program, then the project's cache, then the system's library path. A
// library that was asked for by name and is not there is an error, never a
// reason to look further. The error wraps ErrNotFound when nothing was found.
//
// A library named by lib must be the one that is loaded already, if one is. After a
// failure another library can be tried.
func Find(lib string) (Info, error) {
	process.Lock()
	defer process.Unlock()
	if have := process.info; have.Path != "" {
		asked, _ := os.Stat(lib)
		loaded, _ := os.Stat(have.Path)
		if lib != "" && !os.SameFile(asked, loaded) {
			return Info{}, fmt.Errorf("ONNX Runtime is loaded from %s already: one process cannot load %s too", have.Path, lib)
		}
		return have, nil
	}
	info, err := locate(lib, programDir(), systemDirs)
	if err != nil {
		return Info{}, err
	}
	// Telemetry leaves empty log files in the temporary directory, even when it is switched off after
	// loading, as it is below.
	if err := os.Setenv("ORT_DISABLE_TELEMETRY", "1"); err != nil {
		return Info{}, fmt.Errorf("switching telemetry off: %w", err)
	}
	ort.SetSharedLibraryPath(info.Path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		// The binding's message when the library has no API of the version asked for.
		if strings.Contains(err.Error(), "setting ORT API base") {
			return Info{}, fmt.Errorf("ONNX Runtime at %s (found by %s) is too old: %s or later is needed; run `make ort` or "+
				"set %s to the library", info.Path, info.Source, MinVersion, LibEnv)
		}
		return Info{}, fmt.Errorf("loading ONNX Runtime from %s (found by %s): %w", info.Path, info.Source, err)
	}
	if err := ort.DisableTelemetry(); err != nil {
		return Info{}, fmt.Errorf("switching telemetry off: %w", err)
	}
	info.Version = ort.GetVersion()
	process.info = info
	return info, nil
}

// process is the one piece of mutable package state of the project, and not by choice: ONNX Runtime is a C library with
// one environment per process, which the binding keeps in globals of its own. The first session loads the library and
// so fixes it; it is never unloaded.
//
//nolint:gochecknoglobals // see above
var process struct {
	sync.Mutex
	info Info // Path is empty until the library is loaded
}

// programDir is the folder that the program is in, behind links; "" when the system does not say.
func programDir() string {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

func locate(lib, program string, dirs func() []string) (Info, error) {
	if lib != "" {
		return named(lib, "--ort-lib")
	}
	if env := os.Getenv(LibEnv); env != "" {
		return named(env, LibEnv)
	}
	if path := libraryIn(program); path != "" {
		return Info{Path: path, Source: "program"}, nil
	}
	tried := []string{"--ort-lib (not given)", LibEnv + " (not set)", "the program's folder (" + program + ")"}
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
		if path := libraryIn(dir); path != "" {
			return Info{Path: path, Source: "system"}, nil
		}
	}
	tried = append(tried, fmt.Sprintf("the system's library path (no %s in %s)",
		strings.Join(systemNames(), " or "), strings.Join(system, ", ")))
	return Info{}, fmt.Errorf("%w; looked at %s; run `make ort` or set %s to the library (%s or later)",
		ErrNotFound, strings.Join(tried, ", "), LibEnv, MinVersion)
}

func libraryIn(dir string) string {
	for _, name := range systemNames() {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) && isFile(path) {
			return path
		}
	}
	return ""
}

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
// enough: the environment's and the customary ones.
func systemDirs() []string {
	switch runtime.GOOS {
	case "windows":
		return filepath.SplitList(os.Getenv("PATH"))
	case "darwin":
		return append(filepath.SplitList(os.Getenv("DYLD_LIBRARY_PATH")),
			"/usr/local/lib", "/opt/homebrew/lib", "/opt/local/lib", "/usr/lib")
	}
	multiarch, _ := filepath.Glob("/usr/lib/*-linux-gnu*") // the pattern is well formed
	return slices.Concat(filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")), multiarch,
		[]string{"/usr/local/lib", "/usr/lib64", "/usr/lib", "/lib64", "/lib"})
}

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

//go:embed releases.csv
var releases string

// Pinned returns the release for the platform that the program runs on. The
// package has none for darwin/amd64 and some others: the error says so.
func Pinned() (Release, error) { return pinnedFor(runtime.GOOS + "/" + runtime.GOARCH) }

func pinnedFor(platform string) (Release, error) {
	for row := range strings.Lines(releases) {
		if f := strings.Split(strings.TrimSpace(row), ","); f[0] == platform {
			return Release{f[0], "package/bin/napi-v6/" + f[1] + "/" + f[2], f[2], f[3]}, nil
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

// CachePath returns the path where make puts the pinned library: onnxruntime/<version>/<library> in CFQ_CACHE_DIR, else
// in cfq in the user's cache. The file need not exist.
func CachePath() (string, error) {
	r, err := Pinned()
	if err != nil {
		return "", err
	}
	dir := os.Getenv(CacheEnv)
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache directory: %w", err)
		}
		dir = filepath.Join(user, "cfq")
	}
	return filepath.Join(dir, "onnxruntime", Version, r.Name), nil
}

// Unloaded is why ONNX Runtime does not load a file, where that is known: no file with this model can be run.
type Unloaded struct {
	Reason  string
	Instead string // what to export instead, "" when that is not known
}

// Error says why, and what to do.
func (u *Unloaded) Error() string {
	if u.Instead == "" {
		return u.Reason
	}
	return u.Reason + ": " + u.Instead
}

const oldest = 7

var (
	noKernel = regexp.MustCompile(`Could not find an implementation for (\w+)\((\d+)\) node with name '([^']*)'`)
	newIR    = regexp.MustCompile(`Unsupported model IR version: (\d+), max supported IR version: (\d+)`)
	newOpset = regexp.MustCompile(`Opset (\d+) is under development.* domain (\S+) is till opset (\d+)`)
	place    = regexp.MustCompile(`\S+\.(?:cc|h):\d+ [^(]*\((?:[^()]|\([^()]*\))*\)(?: const)? `)
)

func unloaded(err error, m *graph.Model) error {
	text := err.Error()
	if f := newIR.FindStringSubmatch(text); f != nil {
		return &Unloaded{
			fmt.Sprintf("the file has IR version %s, and this ONNX Runtime reads versions up to %s", f[1], f[2]),
			fmt.Sprintf("export it with an older onnx package, or set model.ir_version = %s and save it again", f[2]),
		}
	}
	if f := newOpset.FindStringSubmatch(text); f != nil {
		return &Unloaded{
			fmt.Sprintf("the file has operator set %s of %s, and this ONNX Runtime knows sets up to %s", f[1], f[2], f[3]),
			fmt.Sprintf("export it with operator set %s or an older one", f[3]),
		}
	}
	f := noKernel.FindStringSubmatch(text)
	if f == nil {
		return nil
	}
	if v := m.Opset(""); v < oldest {
		return &Unloaded{
			fmt.Sprintf("the file has operator set %d, and ONNX Runtime has operators from set %d on", v, oldest),
			"export it with operator set 17, or convert it with onnx.version_converter",
		}
	}
	u := &Unloaded{Reason: fmt.Sprintf(
		"ONNX Runtime does not implement an operator for the types it has here: %s (version %s), node %q", f[1], f[2], f[3])}
	for _, v := range m.Graph.DataInputs() {
		if v.DType == graph.Double {
			u.Reason += fmt.Sprintf("; input %q is double", v.Name)
			u.Instead = "export the model with float inputs"
		}
	}
	return u
}
