package tempfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// A folder of a process that was killed goes with the next one; one that is in use stays.
func TestNewFolder(t *testing.T) {
	const child = "CFQ_TEST_FOLDER"
	if os.Getenv(child) != "" {
		dir, _, err := NewFolder()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "begun"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	run := exec.Command(os.Args[0], "-test.run=^TestNewFolder$") //nolint:gosec // this test
	run.Env = append(os.Environ(), child+"=1")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	begun := func() int {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), ".cfq-*.tmp", "begun"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for range 600 {
		if begun() == 1 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	own, remove, err := NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	if n := begun(); n != 1 {
		t.Errorf("%d folders of a running process, want 1", n)
	}
	if err := run.Process.Kill(); err != nil { // SIGKILL: nothing is cleaned up
		t.Fatal(err)
	}
	_ = run.Wait()
	RemoveAbandoned(os.TempDir())
	if _, err := os.Stat(own); err != nil || begun() != 0 {
		t.Errorf("%d folders of a killed process, want 0; the own: %v", begun(), err)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// Many at once get folders of their own: one that is not locked yet may look abandoned to another.
func TestFoldersAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			for range 100 {
				dir, remove, err := NewFolder()
				if err != nil {
					return err
				}
				if _, err := os.Stat(dir); err != nil {
					return err
				}
				if err := remove(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
