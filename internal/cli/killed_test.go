package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/internal/tempfile"
)

// writerOf is the folder in which a process of this test writes until it is killed.
const writerOf = "CFQ_TEST_WRITER"

// TestWriter is no test but the process that is killed: of two files one is whole, and the other is begun.
func TestWriter(t *testing.T) {
	dir := os.Getenv(writerOf)
	if dir == "" {
		t.Skip("runs in TestKilledRun")
	}
	text := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	slow := func(w io.Writer) error {
		if err := text(w); err != nil {
			return err
		}
		time.Sleep(time.Minute)
		return errors.New("nobody killed it")
	}
	err := WriteAll(File{filepath.Join(dir, "model.rows"), text}, File{filepath.Join(dir, "model"), slow})
	t.Fatal(err)
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".cfq-") && len(name) == len(".cfq-0123456789abcdef.tmp") {
			name = "*"
		}
		all = append(all, name)
	}
	return all
}

// A run that is killed replaces neither of two files; the next one removes what it left, and nothing else: no file of a
// run that still writes, and no foreign one.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := []string{".cfq-notes.tmp", "model", "model.rows"}
	for _, name := range old {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
	}
	run := exec.Command(os.Args[0], "-test.run=^TestWriter$") //nolint:gosec // this test
	run.Env = append(os.Environ(), writerOf+"="+dir)
	must.Do(t, run.Start())
	want := append([]string{"*", "*"}, old...)
	for range 600 { // until both are begun
		if slices.Equal(names(t, dir), want) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	tempfile.RemoveAbandoned(dir)
	must.Same(t, want, names(t, dir))
	must.Do(t, run.Process.Kill())
	_ = run.Wait()
	must.Same(t, want, names(t, dir))
	for _, name := range old {
		must.Same(t, "old", string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t)))
	}
	must.Do(t, Output(filepath.Join(dir, "report"), false))
	must.Same(t, old, names(t, dir))
}

func TestAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	text := func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }
	fails := func(io.Writer) error { return errors.New("no") }
	if err := WriteAll(File{a, text}, File{b, fails}); err == nil || len(names(t, dir)) > 0 {
		t.Errorf("%v, %q", err, names(t, dir))
	}
	if err := WriteAll(File{a, text}, File{b, text}); err != nil || !slices.Equal(names(t, dir), []string{"a", "b"}) {
		t.Errorf("%v, %q", err, names(t, dir))
	}
}
