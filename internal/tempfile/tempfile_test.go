package tempfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/must"
)

func TestPlace(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "folder")
	must.Do(t, os.Mkdir(to, 0o700))
	f := must.Get(New(dir))(t)
	must.Get(f.WriteString("text"))(t)
	must.Fail(t, Place(f, to), "")
	must.Do(t, Remove(f))
	if _, err := os.Stat(f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	f = must.Get(New(dir))(t)
	must.Get(f.WriteString("text"))(t)
	to = filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(to, []byte("old text"), 0o600))
	must.Do(t, Place(f, to))
	must.Same(t, "text", string(must.Get(os.ReadFile(to))(t)))
	must.Same(t, 2, len(must.Get(os.ReadDir(dir))(t)))
}
