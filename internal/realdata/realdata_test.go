package realdata_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
)

func TestFind(t *testing.T) {
	base := t.TempDir()
	deep := filepath.Join(base, "repo", "a", "b")
	model := filepath.Join(base, "shared", "models", "m.onnx")
	other := t.TempDir()
	for _, dir := range []string{deep, filepath.Dir(model), filepath.Join(other, "data")} {
		must.Do(t, os.MkdirAll(dir, 0o755))
	}
	for _, file := range []string{filepath.Join(base, "repo", "Makefile"), model} {
		must.Do(t, os.WriteFile(file, nil, 0o600))
	}
	find := func(want string, below ...string) {
		t.Helper()
		got, err := realdata.Find(below...)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "CFQ_SHARED") || !strings.Contains(err.Error(),
				filepath.Join(below...)) {
				t.Errorf("%q: %q, %v", below, got, err)
			}
			return
		}
		a, errA := os.Stat(got)
		b, errB := os.Stat(want)
		if err != nil || errA != nil || errB != nil || !os.SameFile(a, b) {
			t.Errorf("%q: %q, %v; want %q", below, got, err, want)
		}
	}
	t.Chdir(deep)
	t.Setenv(realdata.Env, "")
	find(filepath.Join(base, "shared"))
	find(model, "models", "m.onnx")
	find("", "data")
	t.Setenv(realdata.Env, other)
	find(other)
	find("", "models", "m.onnx")
	find(filepath.Join(other, "data"), "data")

	t.Run("missing", func(t *testing.T) {
		defer func() {
			if !t.Skipped() {
				t.Error("the test is not skipped")
			}
		}()
		realdata.Dir(t, "models")
	})
}
