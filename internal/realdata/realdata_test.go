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
	other := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(other, "data"), 0o755))
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
