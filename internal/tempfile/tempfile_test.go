package tempfile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"cfq/internal/must"
)

func TestNewFolder(t *testing.T) {
	const child = "CFQ_TEST_FOLDER"
	if os.Getenv(child) != "" {
		dir, _, err := NewFolder()
		must.Do(t, err)
		must.Do(t, os.WriteFile(filepath.Join(dir, "begun"), nil, 0o600))
		time.Sleep(time.Minute)
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	run := exec.Command(os.Args[0], "-test.run=^TestNewFolder$") //nolint:gosec // this test
	run.Env = append(os.Environ(), child+"=1")
	must.Do(t, run.Start())
	begun := func() int {
		found := must.Get(filepath.Glob(filepath.Join(os.TempDir(), ".cfq-*.tmp", "begun")))(t)
		return len(found)
	}
	for range 600 {
		if begun() == 1 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	own, remove, err := NewFolder()
	must.Do(t, err)
	must.Same(t, 1, begun())
	must.Do(t, run.Process.Kill())
	_ = run.Wait()
	RemoveAbandoned(os.TempDir())
	if _, err := os.Stat(own); err != nil || begun() != 0 {
		t.Errorf("%d folders of a killed process, want 0; the own: %v", begun(), err)
	}
	must.Do(t, remove())
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// Files and folders made by many at once, each of which looks for abandoned ones, get names of their own: one that is
// not locked yet may look abandoned to another.
func TestAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var g errgroup.Group
	for w := range 8 {
		g.Go(func() error {
			for i := range 50 {
				dir, remove, err := NewFolder()
				if err != nil {
					return err
				}
				_, err = os.Stat(dir)
				if err := errors.Join(err, remove()); err != nil {
					return err
				}
				f, err := New(os.TempDir())
				if err != nil {
					return err
				}
				if err := Place(f, filepath.Join(os.TempDir(), fmt.Sprintf("%d-%d", w, i))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must.Do(t, g.Wait())
	must.Same(t, 8*50, len(must.Get(os.ReadDir(os.TempDir()))(t)))
}

func TestPlaceFails(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "folder")
	must.Do(t, os.Mkdir(to, 0o700))
	f := must.Get(New(dir))(t)
	must.Fail(t, Place(f, to), "")
	must.Do(t, Remove(f))
	if _, err := os.Stat(f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
