package command

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

type workdir struct {
	testing.TB

	dir   string
	env   []string
	stdin []byte
}

func newWorkdir(t testing.TB, env ...string) *workdir {
	t.Helper()
	orttest.Need(t)
	return &workdir{TB: t, dir: t.TempDir(), env: env}
}

// loans is a file of the synthetic example.
func loans(name string) string {
	path, _ := filepath.Abs(filepath.Join(root, "testdata", "loans", name)) // the working directory is there
	return path
}

// firstLoans are the first people of a file of the synthetic example.
func firstLoans(t testing.TB, name string, n int) []byte {
	t.Helper()
	lines := bytes.SplitAfter(must.Get(os.ReadFile(loans(name)))(t), []byte("\n"))
	return bytes.Join(lines[:n+1], nil)
}

func (w *workdir) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workdir) put(name string, data []byte) {
	w.Helper()
	put(w, w.path(name), data)
}

func (w *workdir) read(name string) string { return string(must.Get(os.ReadFile(w.path(name)))(w)) }

func (w *workdir) model(name string, m *graph.Model) {
	w.Helper()
	w.put(name, must.Get(codec.Marshal(m))(w))
}

func (w *workdir) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(program, "cfq"), args...)
	c.Dir, c.Env, c.Stdin = w.dir, append(os.Environ(), w.env...), bytes.NewReader(w.stdin)
	return c
}

func (w *workdir) run(args ...string) (code int, out string) {
	c := w.command(args...)
	text, _ := c.CombinedOutput()
	return c.ProcessState.ExitCode(), string(text)
}

func (w *workdir) call(want int, args ...string) string {
	w.Helper()
	code, out := w.run(args...)
	if code != want {
		w.Fatalf("cfq %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, out)
	}
	return out
}

// tells runs a command that must end with an exit code and say something.
func (w *workdir) tells(code int, what string, args ...string) {
	w.Helper()
	must.Has(w, w.call(code, args...), what)
}

func (w *workdir) result(into any, args ...string) int {
	w.Helper()
	c := w.command(append(args, "--json")...)
	out, err := c.Output()
	code := c.ProcessState.ExitCode()
	if code > 1 {
		w.Fatalf("cfq %s: %v", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		w.Fatalf("cfq %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return code
}
