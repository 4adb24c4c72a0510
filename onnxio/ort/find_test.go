package ort_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	file := func(folder string) string {
		path := filepath.Join(dir, folder, "libonnxruntime.so.1")
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	if runtime.GOOS != "linux" {
		t.Skip("makes a library with the name that it has on Linux")
	}
	system, named, flag := file("system"), file("named"), file("flag")
	t.Setenv(ort.CacheEnv, filepath.Join(dir, "cache"))
	t.Setenv(ort.LibEnv, "")
	program := ""
	want := func(lib, path, source string) {
		t.Helper()
		got, err := ort.Locate(lib, program, filepath.Dir(system))
		if want := (ort.Info{Path: path, Source: source}); err != nil || got != want {
			t.Errorf("Locate(%q) = %+v, %v; want %+v", lib, got, err, want)
		}
	}
	want("", system, "system")
	cached, err := ort.CachePath()
	if err != nil {
		t.Skip(err)
	}
	folder := must.Get(filepath.Rel(dir, filepath.Dir(cached)))(t)
	file(folder)
	want("", cached, "cache")
	beside := file("bin")
	program = filepath.Dir(beside)
	want("", beside, "program")
	t.Setenv(ort.LibEnv, named)
	want("", named, "CFQ_ORT_LIB")
	want(flag, flag, "--ort-lib")
}

func TestFindSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(ort.CacheEnv, dir)
	system := filepath.Join(dir, "lib") // in place of the real system's library path
	text := filepath.Join(dir, "text.so")
	must.Do(t, os.WriteFile(text, []byte("not a library"), 0o600))
	for _, c := range []struct {
		flag, env string
		want      []string
	}{
		{"", "", []string{
			"not found", "CFQ_ORT_LIB (not set)", "the program's folder (" + filepath.Join(dir, "bin"), "the cache (no " + dir,
			"the system's library path (no libonnxruntime", " in " + system + ")", "make ort",
		}},
		{filepath.Join(dir, "none.so"), text, []string{"--ort-lib names", "none.so", "no such file"}},
		{"", filepath.Join(dir, "none.so"), []string{"CFQ_ORT_LIB names", "none.so"}},
		{dir, "", []string{"is a directory", "libonnxruntime"}},
	} {
		t.Setenv(ort.LibEnv, c.env)
		_, err := ort.Locate(c.flag, filepath.Join(dir, "bin"), system)
		for _, w := range c.want {
			if !errors.Is(err, ort.ErrNotFound) || !strings.Contains(err.Error(), w) {
				t.Errorf("error %v does not say %q", err, w)
			}
		}
	}
}

func TestUnusableLibraries(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	must.Do(t, os.WriteFile(text, []byte("not a library"), 0o600))
	for name, c := range map[string]struct {
		lib  string
		want []string
	}{
		"too old": {library(t, apiCode), []string{"ONNX Runtime at", "--ort-lib", "too old", "1.24 or later", "make ort"}},
		"another": {library(t, "int nothing(void) { return 0; }"), []string{"loading ONNX Runtime from", "OrtGetApiBase"}},
		"text":    {text, []string{"loading ONNX Runtime from", "text.so"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := inNewProcess(t, c.lib)
			for _, w := range c.want {
				must.Has(t, out, w)
			}
		})
	}
}

func TestSecondLibraryIsRefused(t *testing.T) {
	o := orttest.Need(t)
	must.Do(t, ort.SelfTest(t.Context(), o))
	info := must.Get(ort.Find(""))(t)
	o.Lib = info.Path
	must.Do(t, ort.SelfTest(t.Context(), o))
	o.Lib = library(t, apiCode)
	must.Fail(t, ort.SelfTest(t.Context(), o), "already")
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

// apiCode passes for ONNX Runtime and knows no API.
const apiCode = `
struct base { const void *(*api)(unsigned); const char *(*version)(void); };
static const void *api(unsigned v) { return 0; }
static const char *version(void) { return "test"; }
static const struct base b = { api, version };
const struct base *OrtGetApiBase(void) { return &b; }
`

func library(t *testing.T, code string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("makes ELF libraries")
	}
	dir := t.TempDir()
	lib, source := filepath.Join(dir, "libonnxruntime.so.1"), filepath.Join(dir, "lib.c")
	must.Do(t, os.WriteFile(source, []byte(code), 0o600))
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", lib, source).CombinedOutput()
	if err != nil {
		t.Skipf("cc: %v\n%s", err, out)
	}
	return lib
}
