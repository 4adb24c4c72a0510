package ort_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	lib := library(t, "1.99.0")
	other := library(t, "1.98.0")
	t.Setenv(ort.CacheEnv, dir)
	t.Setenv(ort.LibEnv, "")
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(lib))
	want := func(flag, path, version, source string) {
		t.Helper()
		got, err := ort.Find(flag)
		if want := (ort.Info{Path: path, Version: version, Source: source}); err != nil || got != want {
			t.Errorf("Find(%q) = %+v, %v; want %+v", flag, got, err, want)
		}
	}
	want("", lib, "1.99.0", "system")

	cached, err := ort.CachePath()
	if err != nil {
		t.Skip(err)
	}
	if !strings.HasPrefix(cached, dir) {
		t.Errorf("CachePath is %s, not in %s", cached, dir)
	}
	copyFile(t, other, cached)
	want("", cached, "1.98.0", "cache")
	t.Setenv(ort.LibEnv, lib)
	want("", lib, "1.99.0", "CFQ_ORT_LIB")
	want(other, other, "1.98.0", "--ort-lib")
}

func TestFindSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(ort.CacheEnv, dir)
	system := filepath.Join(dir, "lib") // in place of the real system's library path
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, flag, env string
		notFound        bool
		want            []string
	}{
		{"nothing", "", "", true, []string{
			"not found", "CFQ_ORT_LIB (not set)", "the cache (no " + dir,
			"the system's library path (no libonnxruntime", " in " + system + ")", "make ort",
		}},
		{"flag", filepath.Join(dir, "none.so"), text, true, []string{"--ort-lib names", "none.so", "no such file"}},
		{"variable", "", filepath.Join(dir, "none.so"), true, []string{"CFQ_ORT_LIB names", "none.so"}},
		{"directory", dir, "", true, []string{"is a directory", "libonnxruntime"}},
		{"text", text, "", false, []string{"text.so is not a shared library"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(ort.LibEnv, c.env)
			_, err := ort.FindIn(c.flag, system)
			if errors.Is(err, ort.ErrNotFound) != c.notFound {
				t.Errorf("errors.Is(%v, ErrNotFound) is not %v", err, c.notFound)
			}
			for _, w := range c.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("error %v does not say %q", err, w)
				}
			}
		})
	}
}

func TestUnusableLibraries(t *testing.T) {
	for _, c := range []struct {
		name, version string
		want          []string
	}{
		{"too old by its name", "1.19.2", []string{
			"ONNX Runtime 1.19.2", "--ort-lib", "too old", "1.24 or later",
			"make ort",
		}},
		{"too old by its API", "", []string{"ONNX Runtime of unknown version", "too old", "1.24"}},
		{"new but without the API", "1.99.0", []string{"ONNX Runtime 1.99.0", "too old"}},
		{"another library", "none", []string{"is not ONNX Runtime", "OrtGetApiBase"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := inNewProcess(t, library(t, c.version))
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("%q is not in:\n%s", w, out)
				}
			}
		})
	}
}

// A process keeps the library that it loaded first.
func TestSecondLibraryIsRefused(t *testing.T) {
	o := orttest.Need(t)
	if err := ort.SelfTest(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	info, err := ort.Find("")
	if err != nil {
		t.Fatal(err)
	}
	o.Lib = info.Path
	if err := ort.SelfTest(t.Context(), o); err != nil {
		t.Errorf("the same library again: %v", err)
	}
	o.Lib = library(t, "1.99.0")
	if err := ort.SelfTest(t.Context(), o); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("another library: %v", err)
	}
}

// TestLoadHelper is not a test: inNewProcess runs it where nothing is loaded yet.
func TestLoadHelper(t *testing.T) {
	lib := os.Getenv("CFQ_TEST_LOAD")
	if lib == "" {
		t.Skip("runs only for other tests")
	}
	t.Logf("self-test: %v", ort.SelfTest(t.Context(), ort.Options{Lib: lib}))
}

func inNewProcess(t *testing.T, lib string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLoadHelper$", "-test.v")
	cmd.Env = append(os.Environ(), "CFQ_TEST_LOAD="+lib)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return string(out)
}

// library compiles a shared library that passes for ONNX Runtime of the given
// version and knows no API; "" states no version, "none" is another library.
func library(t *testing.T, version string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("makes ELF libraries")
	}
	dir := t.TempDir()
	code := `
struct base { const void *(*api)(unsigned); const char *(*version)(void); };
static const void *api(unsigned v) { return 0; }
static const char *version(void) { return "test"; }
static const struct base b = { api, version };
const struct base *OrtGetApiBase(void) { return &b; }
`
	if version == "none" {
		code = "int nothing(void) { return 0; }"
	}
	lib := filepath.Join(dir, "libonnxruntime.so.1")
	args := []string{"-shared", "-fPIC", "-o", lib, filepath.Join(dir, "lib.c")}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lib.c", code)
	if version != "" && version != "none" {
		write("version", "VERS_"+version+" { global: OrtGetApiBase; local: *; };\n")
		args = append(args, "-Wl,--version-script="+filepath.Join(dir, "version"))
	}
	if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
		t.Skipf("cc: %v\n%s", err, out)
	}
	return lib
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
